//! Byte ranges of a read (RFC 9110, section 14.1.2).

use std::ops::Range;

use crate::error::ObjectError;

/// One range, ends included, as clients write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// `a-b`, with `a` at most `b`.
    Between(u64, u64),
    /// `a-`
    From(u64),
    /// `-n`
    Last(u64),
}

impl ByteRange {
    /// The bytes of an object of this length that are meant: cut to its end. They are none only for the last ones of an empty object, which
    /// are all that it has.
    pub fn resolve(self, length: u64) -> Result<Range<u64>, ObjectError> {
        let range = match self {
            ByteRange::Last(1..) if length == 0 => return Ok(0..0),
            ByteRange::Between(first, last) => first..last.saturating_add(1).min(length),
            ByteRange::From(first) => first..length,
            ByteRange::Last(count) => length.saturating_sub(count)..length,
        };
        if range.is_empty() {
            return Err(ObjectError::InvalidRange { length });
        }
        Ok(range)
    }

    /// As [`ByteRange::resolve`], but a range that reaches beyond the end is an error too: the source of a part is not cut.
    pub fn resolve_exactly(self, length: u64) -> Result<Range<u64>, ObjectError> {
        match self {
            ByteRange::Between(_, last) if last >= length => Err(ObjectError::InvalidRange { length }),
            ByteRange::Last(count) if count > length => Err(ObjectError::InvalidRange { length }),
            range => range.resolve(length),
        }
    }
}

#[cfg(test)]
mod tests;
