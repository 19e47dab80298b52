//! Reading the data of options.

use crate::limits::MAX_STRING_BYTES;

/// The rest of an option's data.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn u16(&mut self) -> Option<u16> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*head))
    }

    pub fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    /// A string behind its length.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        let (head, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        text(head)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A string of the protocol: UTF-8 without NUL, not too long.
pub fn text(bytes: &[u8]) -> Option<&str> {
    let is_sound = bytes.len() <= MAX_STRING_BYTES && !bytes.contains(&0);
    std::str::from_utf8(bytes).ok().filter(|_| is_sound)
}
