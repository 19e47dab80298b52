//! The frozen table of attribute tags. Numbers are never changed and never used again; 0 is never used.

macro_rules! tags {
    ($($(#[$doc:meta])* $number:literal $name:ident,)*) => {
        /// What a value means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Tag {
            $($(#[$doc])* $name = $number,)*
        }

        impl Tag {
            /// All tags, in the order of their numbers.
            pub const ALL: &[Tag] = &[$(Tag::$name,)*];

            /// `None` for a number of a later version.
            #[inline]
            pub fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Tag::$name),)*
                    _ => None,
                }
            }
        }
    };
}

tags! {
    1 ETag,
    2 ModifiedMs,
    3 ContentType,
    4 ContentEncoding,
    5 ContentDisposition,
    6 ContentLanguage,
    7 CacheControl,
    8 Expires,
    9 WebsiteRedirect,
    /// Repeated: name length (2 bytes), name, value.
    10 Metadata,
    11 Checksum,
    12 StorageClass,
    13 VersionId,
    /// Repeated, as metadata.
    14 Tagging,
    15 Retention,
    /// Present means on.
    16 LegalHold,
    17 SseKeyId,
    18 SseIv,
    19 Upload,
    20 Owner,
    21 Permissions,
    22 Expected,
    23 Piggyback,
    24 Overlapped,
    25 PartCount,
    26 UploadChecksum,
}
