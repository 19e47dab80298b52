//! Locks of byte ranges, and of whole files, as the wire carries them.

use crate::abi::{self, WireLock};

/// What a lock keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
    /// Gives up what is held of the range.
    Unlock,
}

/// A range and what is asked of it. A flock covers the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    pub start: u64,
    /// The last byte, inclusive. [`Lock::TO_THE_END`] is beyond every file.
    pub end: u64,
    pub kind: LockKind,
    /// The process that holds the lock, or asks for it.
    pub pid: u32,
}

impl Lock {
    /// The kernel's largest offset (`OFFSET_MAX`).
    pub const TO_THE_END: u64 = i64::MAX as u64;

    /// None where the kind is none, or the range ends before its start.
    pub(crate) fn from_wire(wire: WireLock) -> Option<Self> {
        let kind = match wire.kind {
            abi::LOCK_READ => LockKind::Shared,
            abi::LOCK_WRITE => LockKind::Exclusive,
            abi::LOCK_UNLOCK => LockKind::Unlock,
            _ => return None,
        };
        (wire.start <= wire.end).then_some(Lock { start: wire.start, end: wire.end, kind, pid: wire.pid })
    }

    pub(crate) fn to_wire(self) -> WireLock {
        let kind = match self.kind {
            LockKind::Shared => abi::LOCK_READ,
            LockKind::Exclusive => abi::LOCK_WRITE,
            LockKind::Unlock => abi::LOCK_UNLOCK,
        };
        WireLock { start: self.start, end: self.end, kind, pid: self.pid }
    }
}
