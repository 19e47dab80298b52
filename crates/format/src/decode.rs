//! How every decoder of this crate reads, and how it refuses.
//!
//! Bytes come from disks and peers, so none are trusted: a [`Reader`] never reads past its end, and a [`DecodeError`] names
//! the record, the field, the byte at which it begins and what was wrong there. A decoder allocates for a counted list only
//! after [`Reader::check_count`] has seen that the bytes for it exist.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes that are not the record they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{record}: field {field} at byte {offset}: {fault}")]
pub struct DecodeError {
    /// The kind of record that was expected.
    pub record: &'static str,
    pub field: &'static str,
    /// Where the field begins, counted from the first byte given to the decoder.
    pub offset: usize,
    pub fault: Fault,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("needs {needed} bytes, {available} are left")]
    Truncated { needed: usize, available: usize },
    #[error("{bytes} bytes follow the end")]
    Trailing { bytes: usize },
    #[error("value {found} has no meaning")]
    Unknown { found: u64 },
    #[error("expected at least {least} and at most {most}, found {found}")]
    OutOfRange { least: u64, most: u64, found: u64 },
    #[error("version {found} is newer than the newest known, {newest}")]
    Version { newest: u8, found: u8 },
    #[error("expected checksum {expected:#010x}, found {found:#010x}")]
    Checksum { expected: u32, found: u32 },
    #[error("does not sort after its predecessor")]
    Unordered,
}

/// A cursor over untrusted bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    record: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(record: &'static str, bytes: &'a [u8]) -> Self {
        Reader { record, bytes, at: 0 }
    }

    /// Begins at `at`, which lies within `bytes`: offsets in errors still count from the first byte.
    pub(crate) fn starting_at(record: &'static str, bytes: &'a [u8], at: usize) -> Self {
        assert!(at <= bytes.len());
        Reader { record, bytes, at }
    }

    pub fn offset(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error about a field that begins at `offset`.
    pub fn error_at(&self, offset: usize, field: &'static str, fault: Fault) -> DecodeError {
        DecodeError { record: self.record, field, offset, fault }
    }

    #[inline]
    pub fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.bytes[self.at..].split_at_checked(count) {
            Some((taken, _)) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(self.truncated(count, field)),
        }
    }

    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.truncated(N, field)),
        }
    }

    /// A fixed layout, borrowed in place.
    #[inline]
    pub fn fixed<T>(&mut self, field: &'static str) -> Result<&'a T, DecodeError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let taken = self.take(size_of::<T>(), field)?;
        Ok(T::ref_from_bytes(taken).expect("exactly its size, and any alignment will do"))
    }

    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(field)?[0])
    }

    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// Judges a version byte that stands at `at`.
    pub fn check_version(&self, at: usize, found: u8, newest: u8) -> Result<(), DecodeError> {
        match found {
            0 => Err(self.error_at(at, "version", Fault::Unknown { found: 0 })),
            found if found > newest => Err(self.error_at(at, "version", Fault::Version { newest, found })),
            _ => Ok(()),
        }
    }

    /// The same of a record of which versions before `oldest` were never released, and are not read.
    pub fn check_versions(&self, at: usize, found: u8, oldest: u8, newest: u8) -> Result<(), DecodeError> {
        self.check_version(at, found, newest)?;
        if found < oldest { Err(self.error_at(at, "version", Fault::Unknown { found: u64::from(found) })) } else { Ok(()) }
    }

    /// Judges a count, which stands at `at`, of items of at least `item_bytes` each: it is refused unless the bytes left could
    /// hold them all, and a list may be reserved by it.
    pub fn check_count(&self, at: usize, count: usize, item_bytes: usize, field: &'static str) -> Result<(), DecodeError> {
        let most = self.remaining() / item_bytes;
        if count > most {
            return Err(self.error_at(at, field, Fault::OutOfRange { least: 0, most: most as u64, found: count as u64 }));
        }
        Ok(())
    }

    /// Every byte must have been read.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(self.error_at(self.at, "end", Fault::Trailing { bytes })),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize, field: &'static str) -> DecodeError {
        self.error_at(self.at, field, Fault::Truncated { needed, available: self.remaining() })
    }
}
