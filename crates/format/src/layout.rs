//! Fixed layouts, written as byte maps.
//!
//! `fixed_layout!` declares a packed little-endian structure with every field's offset in front of it; the offsets and the
//! size are asserted at compile time, and the tests compare the same table with `docs/format.md`.

/// One row of a byte map.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) name: &'static str,
}

macro_rules! fixed_layout {
    (
        $(#[$doc:meta])*
        $visibility:vis struct $name:ident: $bytes:literal {
            $($(#[$field_doc:meta])* $offset:literal $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned,
        )]
        #[repr(C)]
        $visibility struct $name {
            $($(#[$field_doc])* $visibility $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == $bytes);
        $(const _: () = assert!(core::mem::offset_of!($name, $field) == $offset);)*

        #[cfg(test)]
        impl $name {
            /// The byte map that `docs/format.md` must show.
            pub(crate) const FIELDS: &[crate::layout::Field] = &[
                $(crate::layout::Field { offset: $offset, bytes: size_of::<$type>(), name: stringify!($field) },)*
            ];
        }
    };
}

pub(crate) use fixed_layout;
