//! What a tree answers to commands.

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::transaction::PartAnswer;

/// The answer to a command.
pub type Reply = Result<Done, MetaError>;

/// What a command has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    Done,
    /// The inode as it is now.
    Inode(Attributes),
    /// An inode has lost a name. At no links it is an orphan.
    Unlinked(Attributes),
    /// A name was moved; the inode that lost its name there, if one did.
    Renamed(Option<Attributes>),
    /// A lock was granted. The file as it is now, and how often the session has lost its locks before.
    Locked {
        attributes: Attributes,
        locks_lost: u64,
    },
    /// A part of a transaction is prepared.
    Part(PartAnswer),
    /// The number of the leader's reign.
    Reign(u64),
    /// The session is open; whether others are as well.
    Opened {
        is_shared: bool,
    },
}

/// Why a command was refused, or a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MetaError {
    #[error("there is no such name")]
    NotFound,
    #[error("the inode does not exist any more")]
    Stale,
    #[error("the name exists")]
    Exists,
    #[error("it is no directory")]
    NotDirectory,
    #[error("it is a directory")]
    IsDirectory,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("a name has 1 to 255 bytes, without '/' and NUL")]
    NameLength,
    #[error("an inode has at most 65,000 names")]
    TooManyLinks,
    #[error("a directory can't be moved below itself")]
    Below,
    #[error("the inode is none that can have this")]
    Invalid,
    #[error("the file would be longer than a file can be")]
    FileTooLong,
    #[error("there is no such extended attribute")]
    NoXattr,
    #[error("the extended attribute exists")]
    XattrExists,
    #[error("the extended attributes of an inode have at most 64 KiB together, names with it")]
    XattrRoom,
    #[error("the volume's quota is used up")]
    Quota,
    #[error("a hard link to a directory is not allowed, and the root has no other name")]
    NotAllowed,
    #[error("another process holds a lock")]
    Locked,
    #[error("too many ranges are locked, by this client or on this volume")]
    TooManyLocks,
    #[error("the client was out of reach, and has lost its locks: close the files that it had locked, and open them anew")]
    LocksLost,
    #[error("the file has changed meanwhile")]
    Changed,
    #[error("the session has ended: mount the volume anew")]
    NoSession,
    #[error("too many sessions use the volume")]
    TooManySessions,
    #[error("the session has too many commands under way")]
    TooManyCommands,
    /// Not remembered: the same envelope is sent again.
    #[error("a transaction holds it")]
    Busy,
    /// Not remembered: the leader carries it out as a transaction.
    #[error("several trees have what it is about")]
    Across,
    /// Of a part: two names of one inode, where a move changes nothing.
    #[error("both are names of one inode")]
    SameInode,
    #[error("the file would have more than 1,000,000 pieces of content")]
    TooManyKeys,
    #[error(
        "other mounts use the volume, and an exclusive one must be the only one: end them with `trilith umount` (`trilith mount --ls` lists those of a \
         node), or mount without --exclusive. A machine that died counts as a mount for five minutes"
    )]
    InUse,
    #[error(
        "another mount has the volume for itself (--exclusive): end it with `trilith umount` first (`trilith mount --ls` lists those of a node). \
         A machine that died counts as a mount for five minutes"
    )]
    HeldAlone,
}
