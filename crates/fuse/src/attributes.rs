//! What replies say about inodes.

use std::time::Duration;

use crate::abi::{StatxTime, WireAttr, WireStatx};
use crate::ids::NodeId;

/// Seconds since 1970 and nanoseconds within the second, below 1,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanos: u32,
}

impl Timestamp {
    pub const NANOS_PER_SECOND: u32 = 1_000_000_000;

    fn to_statx(self) -> StatxTime {
        StatxTime { seconds: self.seconds, nanos: self.nanos, padding: 0 }
    }
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// What `stat` shows as the inode's number.
    pub ino: u64,
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    /// Type and permissions. The type of an inode never changes.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// What a program should read and write at once.
    pub block_bytes: u32,
}

impl Attributes {
    pub(crate) fn to_wire(self) -> WireAttr {
        WireAttr {
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            atime: self.atime.seconds,
            mtime: self.mtime.seconds,
            ctime: self.ctime.seconds,
            atime_nanos: self.atime.nanos,
            mtime_nanos: self.mtime.nanos,
            ctime_nanos: self.ctime.nanos,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            block_bytes: self.block_bytes,
            flags: 0,
        }
    }
}

/// Attributes and for how long the kernel may use them without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributesFor {
    pub attributes: Attributes,
    pub valid: Duration,
}

/// What STATX adds to the attributes: when the inode was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatxAttributes {
    pub attributes: Attributes,
    pub created: Timestamp,
    pub valid: Duration,
}

impl StatxAttributes {
    /// `STATX_BASIC_STATS | STATX_BTIME`: all that is told.
    const MASK: u32 = 0x7ff | 0x800;

    pub(crate) fn to_wire(self) -> WireStatx {
        let attributes = self.attributes;
        WireStatx {
            mask: Self::MASK,
            block_bytes: attributes.block_bytes,
            nlink: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            mode: attributes.mode as u16,
            ino: attributes.ino,
            size: attributes.size,
            blocks: attributes.blocks,
            atime: attributes.atime.to_statx(),
            btime: self.created.to_statx(),
            ctime: attributes.ctime.to_statx(),
            mtime: attributes.mtime.to_statx(),
            // The kernel's encoding of a device in 32 bits: 12 bits of the major amid 20 of the minor.
            rdev_major: (attributes.rdev >> 8) & 0xfff,
            rdev_minor: (attributes.rdev & 0xff) | ((attributes.rdev >> 12) & 0xf_ff00),
            ..WireStatx::default()
        }
    }
}

/// An inode under a name: what LOOKUP and everything that creates answer. It gives the kernel one reference to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub node: NodeId,
    /// Tells inodes apart that have the same id one after the other.
    pub generation: u64,
    pub attributes: Attributes,
    /// For how long the name stays with the node, as far as the kernel is told.
    pub entry_valid: Duration,
    pub attributes_valid: Duration,
}

/// The state of a file system, for `df`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemState {
    /// In units of `fragment_bytes`.
    pub blocks: u64,
    pub blocks_free: u64,
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    pub block_bytes: u32,
    pub fragment_bytes: u32,
    pub name_bytes_max: u32,
}
