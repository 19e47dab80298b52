//! Names and numbers.

use std::fmt;

use types::ViewNumber;

/// A placement group: one replicated log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Largest opseq and largest view. No group gets there; so whatever is read and passes can be counted on from without an overflow.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;

/// Number of an entry in its group's log: 1 for the first, no gaps. 0 is "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpSeq(pub u64);

impl OpSeq {
    pub const ZERO: OpSeq = OpSeq(0);

    pub const fn next(self) -> OpSeq {
        OpSeq(self.0 + 1)
    }

    pub(crate) const fn previous(self) -> OpSeq {
        assert!(self.0 > 0);
        OpSeq(self.0 - 1)
    }
}

impl fmt::Display for OpSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where an entry stands: the view whose primary appended it, and its number. Logs are compared by their last positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub view: ViewNumber,
    pub opseq: OpSeq,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.view, self.opseq)
    }
}

/// One try of a member to be taken in by its primary. What is an answer to another try is no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportId {
    /// Of the member's start: never the same twice.
    pub session: u64,
    pub number: u64,
}

/// A dump that a primary gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DumpId(pub u64);
