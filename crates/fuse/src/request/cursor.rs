//! Reading arguments one after the other.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::error::DecodeProblem;
use super::operation::Name;

pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    pub(super) fn record<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, DecodeProblem> {
        let (record, rest) = T::read_from_prefix(self.rest).map_err(|_| DecodeProblem::Truncated)?;
        self.rest = rest;
        Ok(record)
    }

    /// What is before the next NUL; it may be empty.
    pub(super) fn text(&mut self) -> Result<&'a [u8], DecodeProblem> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(DecodeProblem::Name)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(text)
    }

    pub(super) fn name(&mut self) -> Result<Name<'a>, DecodeProblem> {
        match self.text()? {
            [] => Err(DecodeProblem::Name),
            text => Ok(Name(text)),
        }
    }

    /// Exactly `size` bytes.
    pub(super) fn data(&mut self, size: u32) -> Result<&'a [u8], DecodeProblem> {
        let (data, rest) = self.rest.split_at_checked(size as usize).ok_or(DecodeProblem::Truncated)?;
        self.rest = rest;
        Ok(data)
    }

    pub(super) fn end(self) -> Result<(), DecodeProblem> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeProblem::Trailing { bytes }),
        }
    }
}
