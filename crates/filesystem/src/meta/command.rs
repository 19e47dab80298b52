//! What changes a tree.

use serde::{Deserialize, Serialize};

use super::attributes::{Kind, Time};
use super::lock::{Lock, LockOwner, LockRange};
use super::reply::Reply;
use super::transaction::{Part, Prepared, TransactionId, TransactionNumber};
use crate::ids::{ExtentKey, Ino, TreeIndex};

/// A client of a tree, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MetaSession(pub u64);

impl MetaSession {
    /// The leader's own: it is always open, and its replies are not remembered. What it asks for can be carried out twice.
    pub const LEADER: MetaSession = MetaSession(0);
}

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub session: MetaSession,
    /// Counts the commands of the session. One that is sent again has the same number and gets the first reply.
    pub sequence: u64,
    /// All commands of the session with lower numbers have been answered: their replies are forgotten.
    pub answered_below: u64,
    /// The client's clock.
    pub now: Time,
    /// How often the session has lost its locks, as far as the client knows. One that does not know of the last time changes no content.
    pub locks_lost: u64,
    pub command: Command,
}

impl Envelope {
    /// Whether only the leader may ask for it, and no client.
    pub fn is_of_leader(&self) -> bool {
        let is_leaders = matches!(
            self.command,
            Command::LoseLocks { .. }
                | Command::ConfirmFreed { .. }
                | Command::SetQuota { .. }
                | Command::SetElsewhere { .. }
                | Command::Reign
                | Command::Prepare { .. }
                | Command::Decide { .. }
                | Command::Remember { .. }
                | Command::Refuse { .. }
                | Command::Conclude { .. }
                | Command::Forget { .. }
                | Command::Passed { .. }
        );
        self.session == MetaSession::LEADER || is_leaders
    }
}

/// A change. One that is refused changes nothing, but for [`Command::Commit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The session begins. Every other command of it needs that. An exclusive one is refused while another lives, and keeps others out while it lives.
    OpenSession {
        is_exclusive: bool,
    },
    /// The session ends: it has nothing open.
    CloseSession,
    /// Makes an inode under a name.
    Make {
        parent: Ino,
        name: Vec<u8>,
        new: NewInode,
    },
    /// Makes a file without a name. It is an orphan that only this session has open.
    MakeUnnamed {
        parent: Ino,
        new: NewInode,
    },
    /// Another name of an inode, or the first one of a file that has none.
    Link {
        ino: Ino,
        parent: Ino,
        name: Vec<u8>,
    },
    Unlink {
        parent: Ino,
        name: Vec<u8>,
    },
    Rmdir {
        parent: Ino,
        name: Vec<u8>,
    },
    Rename {
        from: (Ino, Vec<u8>),
        to: (Ino, Vec<u8>),
        how: RenameHow,
    },
    SetAttributes {
        ino: Ino,
        change: AttributeChange,
    },
    SetXattr {
        ino: Ino,
        name: Vec<u8>,
        value: Vec<u8>,
        how: XattrHow,
        clears_set_gid: bool,
    },
    RemoveXattr {
        ino: Ino,
        name: Vec<u8>,
    },
    /// Contents were written: gives the file these keys, and makes it at least so long. Keys beyond the size are allocated space. It is refused with
    /// [`MetaError::Changed`](super::MetaError::Changed) where keys overlap what the file has, or the file is not what the client expects. Where it is
    /// refused the keys' ranges are freed.
    Commit {
        ino: Ino,
        keys: Vec<ExtentKey>,
        least_size: u64,
        kills_set_ids: bool,
        expects: Expected,
    },
    /// Makes a hole. The size stays. It is refused with [`MetaError::Changed`](super::MetaError::Changed) where the file is not what the client expects:
    /// the hole may go beyond what was asked for to the end of the last block, if the file ends before.
    Punch {
        ino: Ino,
        offset: u64,
        len: u64,
        expects: Expected,
    },
    /// This session does not have these orphans open.
    NotOpen {
        inos: Vec<Ino>,
    },
    /// Locks a range of a file, or changes the kind of a lock. Refused where another owner's lock is in the way.
    Lock {
        ino: Ino,
        lock: Lock,
    },
    /// Gives up what an owner has locked of a range.
    Unlock {
        ino: Ino,
        owner: LockOwner,
        range: LockRange,
    },
    /// The lease of a session is over: it has no locks any more.
    LoseLocks {
        session: MetaSession,
    },
    /// What was freed of a data partition up to this number is free.
    ConfirmFreed {
        partition: u32,
        up_to: u64,
    },
    /// A leader is about to begin transactions: answers with the number of its reign. Those of earlier reigns that are not noted never will be.
    Reign,
    /// Holds a part of a transaction ready in this tree. Refused, and not waited for, where something is in the way.
    Prepare {
        id: TransactionId,
        part: Part,
    },
    /// Carries out a client's command whose parts in other trees are prepared. From here on the transaction is done. It is in the client's session.
    Decide {
        id: TransactionId,
        command: Box<Command>,
        prepared: Vec<Prepared>,
    },
    /// The leader has found that a client's command has no effect: this is the reply. It is in the client's session.
    Remember {
        reply: Reply,
    },
    /// This transaction of the tree, and those before it, can't be decided any more, if they are not.
    Refuse {
        id: TransactionId,
    },
    /// What was prepared in this tree takes effect, or is dropped.
    Conclude {
        id: TransactionId,
        is_done: bool,
    },
    /// All trees know the outcome of these transactions of this one. Those below a number can't be decided any more, if they are not.
    Forget {
        ids: Vec<TransactionId>,
        below: TransactionNumber,
    },
    /// All transactions of another tree below a number are over: no more is heard of them.
    Passed {
        tree: TreeIndex,
        below: TransactionNumber,
    },
    /// What the volume may have: bytes of contents, and inodes.
    SetQuota {
        bytes: Option<u64>,
        inodes: Option<u64>,
    },
    /// What the other trees of the volume have of what the quota is about.
    SetElsewhere {
        bytes: u64,
        inodes: u64,
    },
    /// What a kernel that buffers writes says of times. It has them: they may go back. An inode that is gone is passed over.
    SetTimes {
        times: Vec<FileTimes>,
    },
}

/// The times of a file that a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTimes {
    pub ino: Ino,
    pub mtime: Time,
    pub ctime: Time,
}

impl Command {
    /// Whether it changes names and attributes, and no contents: what class `ordered` is about.
    pub fn is_of_names_or_attributes(&self) -> bool {
        self.is_of_names()
            || matches!(
                self,
                Command::MakeUnnamed { .. }
                    | Command::SetAttributes { .. }
                    | Command::SetXattr { .. }
                    | Command::RemoveXattr { .. }
            )
    }

    /// Whether it is about names: other trees may be concerned.
    pub fn is_of_names(&self) -> bool {
        matches!(
            self,
            Command::Make { .. }
                | Command::Link { .. }
                | Command::Unlink { .. }
                | Command::Rmdir { .. }
                | Command::Rename { .. }
        )
    }
}

/// What a client has seen of a file when it chose where its content goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// [`Attributes::cuts`](super::Attributes::cuts).
    pub cuts: u64,
    /// Of an append, and of a hole that goes beyond the end: the end of the file.
    pub size: Option<u64>,
}

/// An inode to be made. Its group and set-group-id bit follow a parent that has that bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewInode {
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes that it begins with.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a rename does with a name that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameHow {
    Replace,
    /// Refused.
    NoReplace,
    /// Both names must exist, and change places.
    Exchange,
}

/// Attributes to be changed; none: as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeChange>,
    pub mtime: Option<TimeChange>,
    /// Of a kernel that buffers writes, which has this time: it may go back.
    pub ctime: Option<Time>,
    /// Clears set-user-id, and set-group-id where the group may execute.
    pub kills_set_ids: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeChange {
    /// The time of the command.
    Now,
    At(Time),
}

/// What setting an extended attribute expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrHow {
    Any,
    Create,
    Replace,
}
