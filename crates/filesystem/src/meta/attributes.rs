//! What an inode is, as `stat` shows it.

use serde::{Deserialize, Serialize};

use crate::ids::Ino;

/// A moment: seconds since 1970, and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    pub seconds: i64,
    /// Below 1,000,000,000.
    pub nanos: u32,
}

impl Time {
    const NANOS_PER_SECOND: u32 = 1_000_000_000;

    /// One nanosecond later; the last moment stays.
    pub fn next(self) -> Time {
        match (self.nanos.saturating_add(1), self.seconds.checked_add(1)) {
            (Self::NANOS_PER_SECOND.., Some(seconds)) => Time { seconds, nanos: 0 },
            (Self::NANOS_PER_SECOND.., None) => self,
            (nanos, _) => Time { nanos, ..self },
        }
    }

    /// Whether it is a moment: its nanoseconds are less than a second.
    pub fn is_moment(self) -> bool {
        self.nanos < Self::NANOS_PER_SECOND
    }

    /// Milliseconds since 1970.
    pub fn of_ms(ms: u64) -> Time {
        Time { seconds: (ms / 1000) as i64, nanos: (ms % 1000) as u32 * 1_000_000 }
    }
}

/// What kind of inode it is. That never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// Permission bits with set-user-id, set-group-id and sticky.
pub const MODE_BITS: u32 = 0o7777;
pub const SET_UID: u32 = 0o4000;
pub const SET_GID: u32 = 0o2000;
pub const GROUP_EXECUTES: u32 = 0o010;

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    pub ino: Ino,
    pub kind: Kind,
    /// Within [`MODE_BITS`].
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// Of a device file, in the kernel's encoding.
    pub rdev: u32,
    /// Of a file its length, of a symbolic link its target's.
    pub size: u64,
    /// Space that its content has, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// When it was made.
    pub btime: Time,
    /// Counts the changes of its content.
    pub version: u64,
    /// Counts how often keys were cut: by a smaller size, or a hole.
    pub cuts: u64,
    /// Several sessions use the volume now: names may change without this one.
    pub is_shared: bool,
}
