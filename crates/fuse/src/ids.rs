//! Ids that cross the wire, each with a type of its own.

/// An inode as the kernel names it. The file system chooses it; it is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root of every mount.
    pub const ROOT: NodeId = NodeId(1);
}

/// What the file system gave for an open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub u64);

/// The kernel's name for what holds a lock: a process's table of open files for fcntl, an open file for flock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u64);

/// A request: the kernel's `unique` without the mark of a second sending, so that both sendings have the same id.
///
/// Ids are unique in one mount, for as long as it lives, whatever processes serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The mount that a request comes from; its owner chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);
