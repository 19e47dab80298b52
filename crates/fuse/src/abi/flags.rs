//! Bits of the records' flag fields.

/// Capabilities that INIT negotiates (`FUSE_*`, bits 0 to 63: the upper half travels as `flags2`).
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const HAS_INODE_DAX: u64 = 1 << 33;
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const HAS_RESEND: u64 = 1 << 39;
    pub const REQUEST_TIMEOUT: u64 = 1 << 42;
}

/// Which fields of a SETATTR are meant (`FATTR_*`).
pub mod setattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const LOCKOWNER: u32 = 1 << 9;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// How the kernel is to treat an open file (`FOPEN_*`).
pub mod open_reply {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NONSEEKABLE: u32 = 1 << 2;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const STREAM: u32 = 1 << 4;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

pub const RELEASE_FLUSH: u32 = 1 << 0;
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
pub const GETATTR_HANDLE: u32 = 1 << 0;
pub const LOCK_FLOCK: u32 = 1 << 0;
pub const WRITE_CACHE: u32 = 1 << 0;
pub const WRITE_LOCKOWNER: u32 = 1 << 1;
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
pub const READ_LOCKOWNER: u32 = 1 << 1;
pub const FSYNC_DATA_ONLY: u32 = 1 << 0;
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// An extension with the groups of a caller (`FUSE_EXT_GROUPS`).
pub const EXTENSION_GROUPS: u32 = 32;

/// Values that are the system calls' own, of which the wire carries the numbers of Linux.
pub const RENAME_NOREPLACE: u32 = 1 << 0;
pub const RENAME_EXCHANGE: u32 = 1 << 1;
pub const RENAME_WHITEOUT: u32 = 1 << 2;
pub const XATTR_CREATE: u32 = 1 << 0;
pub const XATTR_REPLACE: u32 = 1 << 1;
pub const FALLOCATE_KEEP_SIZE: u32 = 1 << 0;
pub const FALLOCATE_PUNCH_HOLE: u32 = 1 << 1;
pub const FALLOCATE_COLLAPSE_RANGE: u32 = 1 << 3;
pub const FALLOCATE_ZERO_RANGE: u32 = 1 << 4;
pub const FALLOCATE_INSERT_RANGE: u32 = 1 << 5;
pub const FALLOCATE_UNSHARE_RANGE: u32 = 1 << 6;
pub const SEEK_DATA: u32 = 3;
pub const SEEK_HOLE: u32 = 4;
pub const LOCK_READ: u32 = 0;
pub const LOCK_WRITE: u32 = 1;
pub const LOCK_UNLOCK: u32 = 2;
