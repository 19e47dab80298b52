//! The bytes that cross `/dev/fuse`: records, operation codes and flags of the kernel's FUSE interface, major 7.
//!
//! All numbers are in the machine's own byte order. Each record is padded to 8 bytes by named fields, so that no byte is undefined;
//! a const assertion pins each size. Names are ours; the kernel's name stands in each record's comment.

mod flags;
mod opcode;
mod records;

pub use flags::{
    EXTENSION_GROUPS, FALLOCATE_COLLAPSE_RANGE, FALLOCATE_INSERT_RANGE, FALLOCATE_KEEP_SIZE, FALLOCATE_PUNCH_HOLE,
    FALLOCATE_UNSHARE_RANGE, FALLOCATE_ZERO_RANGE, FSYNC_DATA_ONLY, GETATTR_HANDLE, LOCK_FLOCK, LOCK_READ, LOCK_UNLOCK,
    LOCK_WRITE, OPEN_KILL_SUIDGID, READ_LOCKOWNER, RELEASE_FLOCK_UNLOCK, RELEASE_FLUSH, RENAME_EXCHANGE, RENAME_NOREPLACE,
    RENAME_WHITEOUT, SEEK_DATA, SEEK_HOLE, SETXATTR_ACL_KILL_SGID, WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER,
    XATTR_CREATE, XATTR_REPLACE, init, open_reply, setattr,
};
pub use opcode::{NotifyCode, Opcode};
pub use records::{
    AccessIn, AttrOut, BatchForgetIn, BmapIn, BmapOut, CopyFileRangeIn, CopyFileRangeOut, CreateIn, Dirent, EntryOut,
    ExtensionHeader, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn, GetattrIn, GetxattrIn, GetxattrOut, InHeader, InitIn,
    InitOut, InterruptIn, IoctlIn, IoctlOut, LinkIn, LkIn, LkOut, LseekIn, LseekOut, MkdirIn, MknodIn, NotifyDeleteOut,
    NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyRetrieveIn, NotifyRetrieveOut, NotifyStoreOut, OpenIn, OpenOut, OutHeader,
    PollIn, PollOut, ReadIn, ReleaseIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, StatfsOut, StatxIn, StatxOut, StatxTime,
    SupplementaryGroups, WireAttr, WireLock, WireStatx, WriteIn, WriteOut,
};

/// The protocol's major version, since 2005.
pub const MAJOR: u32 = 7;

/// The newest minor that this crate speaks.
pub const MINOR: u32 = 45;

/// The oldest minor that it accepts: the one with `HANDLE_KILLPRIV_V2` and the long form of SETXATTR (Linux 5.11).
pub const MINOR_MIN: u32 = 33;

/// In a request's `unique`: the kernel sends it a second time.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// In a request's `unique`: it interrupts the request with the same number without this bit.
pub const UNIQUE_INTERRUPT: u64 = 1;

/// Variable records of a directory listing begin at multiples of this.
pub const RECORD_ALIGNMENT: usize = 8;

/// Bytes of a request's header, before its arguments.
pub const IN_HEADER_BYTES: usize = size_of::<InHeader>();

/// Bytes of a reply's header.
pub const OUT_HEADER_BYTES: usize = size_of::<OutHeader>();
