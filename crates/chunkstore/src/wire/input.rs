//! Bytes that are read as a message.

use bytes::Bytes;
use format::decode::{Fault, Reader};

use super::WireError;

/// A cursor over a message that nobody vouches for. Content is taken as a part of it.
pub struct Input<'a> {
    bytes: &'a Bytes,
    reader: Reader<'a>,
}

impl<'a> Input<'a> {
    pub(super) fn new(message: &'static str, bytes: &'a Bytes) -> Self {
        Input { bytes, reader: Reader::new(message, bytes) }
    }

    pub(super) fn version(&mut self, newest: u8) -> Result<(), WireError> {
        let found = self.u8("version")?;
        self.reader.check_version(0, found, newest)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.reader.u8(field)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.reader.u16(field)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.reader.u32(field)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.reader.u64(field)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        self.reader.array(field)
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(self.unknown(field, found)),
        }
    }

    /// Something that may not be there.
    pub(super) fn option<T>(
        &mut self,
        field: &'static str,
        take: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flag(field)? { take(self).map(Some) } else { Ok(None) }
    }

    /// A list's count: believed only if there may be so many items, and bytes for them.
    pub(super) fn count(&mut self, field: &'static str, item_bytes: usize, most: usize) -> Result<usize, WireError> {
        let at = self.reader.offset();
        let count = self.u32(field)? as usize;
        self.check(at, field, count, most)?;
        self.reader.check_count(at, count, item_bytes, field)?;
        Ok(count)
    }

    /// A list behind its count.
    pub(super) fn list<T>(
        &mut self,
        field: &'static str,
        (item_bytes, most): (usize, usize),
        take: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.count(field, item_bytes, most)?;
        (0..count).map(|_| take(self)).collect()
    }

    /// Bytes behind their length, without a copy of them.
    pub(super) fn part(&mut self, field: &'static str, most: usize) -> Result<Bytes, WireError> {
        let length = self.count(field, 1, most)?;
        let part = self.reader.take(length, field)?;
        Ok(self.bytes.slice_ref(part))
    }

    /// A text behind its length.
    pub(super) fn text(&mut self, field: &'static str, most: usize) -> Result<String, WireError> {
        let at = self.reader.offset();
        let length = usize::from(self.reader.u16(field)?);
        self.check(at, field, length, most)?;
        let bytes = self.reader.take(length, field)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let wrong = error.valid_up_to();
                let found = u64::from(bytes[wrong]);
                Err(self.reader.error_at(at + size_of::<u16>() + wrong, field, Fault::Unknown { found }))
            }
        }
    }

    /// For what was just read with the format's own decoder, from `at` on.
    pub(super) fn check(&self, at: usize, field: &'static str, found: usize, most: usize) -> Result<(), WireError> {
        if found <= most {
            return Ok(());
        }
        let fault = Fault::OutOfRange { least: 0, most: most as u64, found: found as u64 };
        Err(self.reader.error_at(at, field, fault))
    }

    pub(super) fn offset(&self) -> usize {
        self.reader.offset()
    }

    pub(super) fn reader(&mut self) -> &mut Reader<'a> {
        &mut self.reader
    }

    /// The byte that was read last has no meaning.
    pub(super) fn unknown(&self, field: &'static str, found: u8) -> WireError {
        self.reader.error_at(self.reader.offset() - 1, field, Fault::Unknown { found: u64::from(found) })
    }

    pub(super) fn finish(self) -> Result<(), WireError> {
        self.reader.finish()
    }
}
