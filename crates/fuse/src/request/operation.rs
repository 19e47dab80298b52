//! What requests ask for, in types of our own.

use std::fmt;

use zerocopy::FromBytes;

use crate::abi::{self, ForgetOne};
use crate::attributes::Timestamp;
use crate::ids::{FileHandle, LockOwner, NodeId, RequestId};
use crate::init::Init;
use crate::lock::Lock;

/// A name in a directory, or of an extended attribute: at least one byte, no NUL. Its length is for the file system to judge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(pub(super) &'a [u8]);

impl<'a> Name<'a> {
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// All requests that the kernel sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    Init(Init),
    Destroy,
    Interrupt(RequestId),
    Lookup(Lookup<'a>),
    /// FORGET and BATCH_FORGET. There is no reply.
    Forget(Forgets<'a>),
    Getattr(GetAttributes),
    Statx(Statx),
    Setattr(SetAttributes),
    Readlink(ReadLink),
    Symlink(Symlink<'a>),
    Mknod(MakeNode<'a>),
    Mkdir(MakeDirectory<'a>),
    Unlink(Remove<'a>),
    Rmdir(Remove<'a>),
    /// RENAME and RENAME2.
    Rename(Rename<'a>),
    Link(Link<'a>),
    Open(Open),
    Create(Create<'a>),
    Tmpfile(TemporaryFile),
    Read(Read),
    Write(Write<'a>),
    Flush(Flush),
    Release(Release),
    Fsync(Fsync),
    Opendir(Open),
    Readdir(ReadDirectory),
    Readdirplus(ReadDirectory),
    Releasedir(Release),
    Fsyncdir(Fsync),
    Statfs(Statfs),
    Setxattr(SetExtendedAttribute<'a>),
    Getxattr(GetExtendedAttribute<'a>),
    Listxattr(ListExtendedAttributes),
    Removexattr(RemoveExtendedAttribute<'a>),
    Getlk(GetLock),
    /// SETLK and SETLKW.
    Setlk(SetLock),
    Access(Access),
    Bmap(BlockMap),
    Ioctl(Ioctl<'a>),
    Poll(Poll),
    Fallocate(Fallocate),
    Lseek(Seek),
    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    CopyFileRange(CopyFileRange),
    Syncfs(SyncFileSystem),
    NotifyReply(Retrieved<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
}

/// The kernel drops `lookups` of the references that replies gave it. A node without references is not asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    pub node: NodeId,
    pub lookups: u64,
}

/// One FORGET, or those of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgets<'a> {
    One(Forget),
    /// Whole records of the wire.
    Batch(&'a [u8]),
}

impl Forgets<'_> {
    pub fn iter(&self) -> impl Iterator<Item = Forget> + '_ {
        let (one, batch): (Option<Forget>, &[u8]) = match self {
            Forgets::One(forget) => (Some(*forget), &[]),
            Forgets::Batch(records) => (None, records),
        };
        let records = batch.chunks_exact(size_of::<ForgetOne>()).filter_map(|record| ForgetOne::read_from_bytes(record).ok());
        one.into_iter().chain(records.map(|one| Forget { node: NodeId(one.node), lookups: one.lookups }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetAttributes {
    pub node: NodeId,
    /// Of the file that fstat was called with.
    pub handle: Option<FileHandle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statx {
    pub node: NodeId,
    pub handle: Option<FileHandle>,
    /// `AT_STATX_*`.
    pub flags: u32,
    /// `STATX_*`: what the caller wants to know.
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The file system's clock.
    Now,
    At(Timestamp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAttributes {
    pub node: NodeId,
    pub handle: Option<FileHandle>,
    /// Of a truncation: locks of others are in its way (mandatory locks; Linux has none any more).
    pub lock_owner: Option<LockOwner>,
    /// The permission bits with the file's type.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeChange>,
    pub mtime: Option<TimeChange>,
    /// Only from kernels that cache writes.
    pub ctime: Option<Timestamp>,
    /// Clears set-user-id, and set-group-id where the group may execute.
    pub kill_suidgid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLink {
    pub node: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symlink<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
    pub target: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeNode<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
    /// Type and permissions, before the umask.
    pub mode: u32,
    pub umask: u32,
    /// The device's number, in the kernel's new encoding.
    pub rdev: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeDirectory<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
    /// Permissions, before the umask.
    pub mode: u32,
    pub umask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
    pub new_parent: NodeId,
    pub new_name: Name<'a>,
    /// The new name must not be there.
    pub no_replace: bool,
    /// Both names are there and change places.
    pub exchange: bool,
    /// A device 0:0 stays under the old name.
    pub whiteout: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub node: NodeId,
    pub new_parent: NodeId,
    pub new_name: Name<'a>,
}

/// OPEN and OPENDIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub node: NodeId,
    /// `O_*`, without those that the kernel handles (`O_CREAT`, `O_EXCL`, `O_NOCTTY`).
    pub flags: u32,
    /// Of an open that truncates: clears set-user-id, and set-group-id where the group may execute.
    pub kill_suidgid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    pub parent: NodeId,
    pub name: Name<'a>,
    pub flags: u32,
    pub mode: u32,
    pub umask: u32,
    pub kill_suidgid: bool,
}

/// TMPFILE: a file without a name, which a link may give one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryFile {
    pub parent: NodeId,
    pub flags: u32,
    pub mode: u32,
    pub umask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub node: NodeId,
    pub handle: FileHandle,
    pub offset: u64,
    pub size: u32,
    /// `O_*` of the open file.
    pub flags: u32,
    pub lock_owner: Option<LockOwner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    pub node: NodeId,
    pub handle: FileHandle,
    pub offset: u64,
    pub data: &'a [u8],
    pub flags: u32,
    pub lock_owner: Option<LockOwner>,
    /// The page cache writes, at some time after the call: handle and caller are guessed.
    pub from_cache: bool,
    /// Clears set-user-id, and set-group-id where the group may execute, before the write.
    pub kill_suidgid: bool,
}

/// One for each close of a descriptor of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    pub node: NodeId,
    pub handle: FileHandle,
    pub lock_owner: LockOwner,
}

/// RELEASE and RELEASEDIR: the last descriptor is closed. No call waits for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub node: NodeId,
    pub handle: FileHandle,
    pub flags: u32,
    pub flush: bool,
    /// The owner whose flock ends with the open file.
    pub flock_owner: Option<LockOwner>,
}

/// FSYNC and FSYNCDIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fsync {
    pub node: NodeId,
    pub handle: FileHandle,
    /// fdatasync: only what is needed to read the data again.
    pub data_only: bool,
}

/// READDIR and READDIRPLUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDirectory {
    pub node: NodeId,
    pub handle: FileHandle,
    /// 0, or the cookie of the last entry that was read.
    pub cookie: u64,
    /// The longest reply.
    pub size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    pub node: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetExtendedAttribute<'a> {
    pub node: NodeId,
    pub name: Name<'a>,
    pub value: &'a [u8],
    /// The attribute must not be there.
    pub create: bool,
    /// The attribute must be there.
    pub replace: bool,
    /// Of an access ACL: clears set-group-id.
    pub kill_sgid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetExtendedAttribute<'a> {
    pub node: NodeId,
    pub name: Name<'a>,
    /// 0 asks for the value's size.
    pub size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListExtendedAttributes {
    pub node: NodeId,
    /// 0 asks for the list's size.
    pub size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveExtendedAttribute<'a> {
    pub node: NodeId,
    pub name: Name<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLock {
    pub node: NodeId,
    pub handle: FileHandle,
    pub owner: LockOwner,
    pub lock: Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLock {
    pub node: NodeId,
    pub handle: FileHandle,
    pub owner: LockOwner,
    pub lock: Lock,
    /// flock, not fcntl: these two kinds don't see each other.
    pub flock: bool,
    /// The caller waits until the lock is granted.
    pub wait: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub node: NodeId,
    /// `R_OK`, `W_OK`, `X_OK`.
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMap {
    pub node: NodeId,
    pub block: u64,
    pub block_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ioctl<'a> {
    pub node: NodeId,
    pub handle: FileHandle,
    /// `FUSE_IOCTL_*`.
    pub flags: u32,
    pub command: u32,
    pub argument: u64,
    pub input: &'a [u8],
    pub output_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    pub node: NodeId,
    pub handle: FileHandle,
    pub kernel_handle: u64,
    pub flags: u32,
    /// `POLL*` that the caller waits for.
    pub events: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallocate {
    pub node: NodeId,
    pub handle: FileHandle,
    pub offset: u64,
    pub length: u64,
    /// `FALLOC_FL_*`, as [`abi`] names them.
    pub mode: u32,
}

impl Fallocate {
    pub fn keeps_size(&self) -> bool {
        self.mode & abi::FALLOCATE_KEEP_SIZE != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    pub node: NodeId,
    pub handle: FileHandle,
    pub offset: u64,
    /// SEEK_DATA, not SEEK_HOLE. The kernel does the other kinds itself.
    pub data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFileRange {
    pub node: NodeId,
    pub handle: FileHandle,
    pub offset: u64,
    pub target: NodeId,
    pub target_handle: FileHandle,
    pub target_offset: u64,
    pub length: u64,
    pub flags: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFileSystem {
    pub node: NodeId,
}

/// What the page cache holds, asked for by a RETRIEVE notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieved<'a> {
    /// The number that the notification gave.
    pub number: u64,
    pub node: NodeId,
    pub offset: u64,
    pub data: &'a [u8],
}
