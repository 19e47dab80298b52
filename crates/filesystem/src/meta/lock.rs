//! Locks of byte ranges of files, as programs ask for them.

use serde::{Deserialize, Serialize};

use super::command::MetaSession;

/// Locks of one family are in each other's way. Those of the other family don't see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockFamily {
    /// Of byte ranges, by `fcntl`.
    Fcntl,
    /// Of whole files, by `flock`.
    Flock,
    /// Of the end of a file: a client's own, which appends often and loses to another that is faster.
    Append,
}

/// What holds a lock, within its session. Its own locks are not in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockOwner {
    pub family: LockFamily,
    /// The kernel's number for the process, or for the open file.
    pub number: u64,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRange {
    pub first: u64,
    /// Not below `first`.
    pub last: u64,
}

impl LockRange {
    /// The whole file, however long it becomes.
    pub const ALL: LockRange = LockRange { first: 0, last: u64::MAX };

    pub fn overlaps(&self, other: &LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A lock that is held, or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub owner: LockOwner,
    pub range: LockRange,
    /// Else it is shared: shared locks are not in each other's way.
    pub is_exclusive: bool,
    /// The process, for those who ask what is in their way. 0 where it is another client's.
    pub pid: u32,
}

impl Lock {
    /// Keeps other clients from appending to a file.
    pub fn of_end(session: MetaSession) -> Lock {
        let owner = LockOwner { family: LockFamily::Append, number: session.0 };
        Lock { owner, range: LockRange::ALL, is_exclusive: true, pid: 0 }
    }
}
