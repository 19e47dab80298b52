//! Errors of the operations on keys.

use std::fmt;

use crate::lookup::ValueTooWide;

/// Why a key was not inserted. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The key has another length than the structure's keys.
    KeyBytes { expected: usize, found: usize },
    /// The value does not fit.
    Value(ValueTooWide),
    /// The key is present.
    Present,
    /// There are as many keys as the structure is made for: rebuild it with a larger capacity.
    Full,
    /// Chance has it that this key does not fit under the present seeds (below capacity, with 100,000 keys and more, this is
    /// not seen in practice): rebuild with the same or a larger capacity, and insert again.
    NeedsRebuild,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyBytes { expected, found } => write!(f, "key of {found} bytes, not {expected}"),
            Self::Value(error) => write!(f, "value: {error}"),
            Self::Present => f.write_str("the key is present"),
            Self::Full => f.write_str("there are as many keys as the structure is made for"),
            Self::NeedsRebuild => f.write_str("the key does not fit under the present seeds"),
        }
    }
}

impl std::error::Error for InsertError {}

impl From<ValueTooWide> for InsertError {
    fn from(error: ValueTooWide) -> Self {
        Self::Value(error)
    }
}

/// Why a value was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The key is not present.
    Absent,
    /// The value does not fit.
    Value(ValueTooWide),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the key is not present"),
            Self::Value(error) => write!(f, "value: {error}"),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<ValueTooWide> for ChangeError {
    fn from(error: ValueTooWide) -> Self {
        Self::Value(error)
    }
}
