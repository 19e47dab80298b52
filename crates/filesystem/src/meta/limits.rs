//! Named limits of trees.

use std::time::Duration;

/// Longest name of a dentry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest target of a symbolic link, in bytes.
pub const MAX_TARGET_BYTES: usize = 4095;
/// For how long the locks of a session stay whose client is not heard of.
pub const LOCK_LEASE: Duration = Duration::from_secs(30);
/// Most names of an inode.
pub const MAX_LINKS: u32 = 65_000;
/// Longest name of an extended attribute, in bytes.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Most bytes of an inode's extended attributes, names among them.
pub const MAX_XATTR_BYTES: usize = 64 * 1024;
/// Longest file: an offset has 63 bits.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Most keys of a file: an inode is one row, with all of its keys.
pub const MAX_KEYS: usize = 1_000_000;
/// Most sessions of a volume.
pub const MAX_SESSIONS: usize = 10_000;
/// Replies that are remembered for a session: more commands than a mount has under way.
pub const MAX_REMEMBERED: usize = 8192;
/// Most ranges that a session has locked.
pub const MAX_LOCKS_OF_SESSION: usize = 16_384;
/// Most ranges that all sessions of a volume have locked.
pub const MAX_LOCKS_OF_VOLUME: usize = 65_536;
/// A tree with more inodes gets no new directories of other trees, as long as another one has fewer.
pub const SOFT_INODES: u64 = 4_000_000;
/// Most entries, keys or ranges of one answer.
pub const MAX_ANSWER: usize = 4096;
