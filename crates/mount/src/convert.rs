//! Between the client's types and those of the wire.

use std::time::Duration;

use filesystem::client::{Allocation, ClientError, Entry, VolumeState};
use filesystem::ids::{BLOCK_BYTES, Ino};
use filesystem::meta::limits::MAX_NAME_BYTES;
use filesystem::meta::{Attributes, Kind, Time, TimeChange};
use fuse::request;
use fuse::{AttributesFor, FileSystemState, NodeId, StatxAttributes, Timestamp, abi};

/// For how long the kernel may use what it was told without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub names: Duration,
    pub attributes: Duration,
}

/// What a program should read and write at once.
const PREFERRED_BYTES: u32 = 4096;

/// The node id of a mount is the inode number.
pub fn ino(node: NodeId) -> Ino {
    Ino(node.0)
}

/// `S_IF*` of Linux.
const TYPE: u32 = 0o170_000;
const KINDS: [(Kind, u32); 7] = [
    (Kind::Fifo, 0o010_000),
    (Kind::CharDevice, 0o020_000),
    (Kind::Directory, 0o040_000),
    (Kind::BlockDevice, 0o060_000),
    (Kind::File, 0o100_000),
    (Kind::Symlink, 0o120_000),
    (Kind::Socket, 0o140_000),
];

/// The kind that the type bits of a mode say; a file where they say none, as mknod has it.
pub fn kind(mode: u32) -> Result<Kind, ClientError> {
    if mode & TYPE == 0 {
        return Ok(Kind::File);
    }
    let found = KINDS.iter().find(|(_, bits)| mode & TYPE == *bits);
    found.map(|(kind, _)| *kind).ok_or(ClientError::Invalid("an inode of an unknown type"))
}

/// The type bits of a mode.
pub fn type_bits(kind: Kind) -> u32 {
    KINDS.iter().find(|(other, _)| *other == kind).map_or(0, |(_, bits)| *bits)
}

pub fn time_change(change: request::TimeChange) -> TimeChange {
    match change {
        request::TimeChange::Now => TimeChange::Now,
        request::TimeChange::At(at) => TimeChange::At(time(at)),
    }
}

pub fn time(time: Timestamp) -> Time {
    Time { seconds: time.seconds, nanos: time.nanos }
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp { seconds: time.seconds, nanos: time.nanos }
}

fn attributes(inode: &Attributes) -> fuse::Attributes {
    fuse::Attributes {
        ino: inode.ino.0,
        size: inode.size,
        blocks: inode.blocks,
        atime: timestamp(inode.atime),
        mtime: timestamp(inode.mtime),
        ctime: timestamp(inode.ctime),
        mode: type_bits(inode.kind) | inode.mode,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        block_bytes: PREFERRED_BYTES,
    }
}

impl Validity {
    pub fn attributes(self, inode: &Attributes) -> AttributesFor {
        AttributesFor { attributes: attributes(inode), valid: self.attributes }
    }

    pub fn statx(self, inode: &Attributes) -> StatxAttributes {
        StatxAttributes { attributes: attributes(inode), created: timestamp(inode.btime), valid: self.attributes }
    }

    pub fn entry(self, entry: &Entry) -> fuse::Entry {
        fuse::Entry {
            node: NodeId(entry.0.ino.0),
            // Inode numbers are never used again.
            generation: 0,
            attributes: attributes(&entry.0),
            // Another mount may move or remove the name at any time.
            entry_valid: if entry.0.is_shared { Duration::ZERO } else { self.names },
            attributes_valid: self.attributes,
        }
    }
}

/// What `FALLOC_FL_*` ask for. Removing or inserting a range moves what follows, which extents can't.
pub fn allocation(mode: u32) -> Result<Allocation, ClientError> {
    match mode & !abi::FALLOCATE_KEEP_SIZE {
        0 => Ok(Allocation::Plain),
        abi::FALLOCATE_PUNCH_HOLE => Ok(Allocation::PunchHole),
        abi::FALLOCATE_ZERO_RANGE => Ok(Allocation::ZeroRange),
        _ => Err(ClientError::Unsupported("this kind of fallocate")),
    }
}

pub fn state(volume: &VolumeState) -> FileSystemState {
    let block_bytes = BLOCK_BYTES as u32;
    FileSystemState {
        blocks: volume.total_bytes / BLOCK_BYTES,
        blocks_free: volume.free_bytes / BLOCK_BYTES,
        blocks_available: volume.free_bytes / BLOCK_BYTES,
        files: volume.inodes,
        files_free: volume.free_inodes,
        block_bytes,
        fragment_bytes: block_bytes,
        name_bytes_max: MAX_NAME_BYTES as u32,
    }
}
