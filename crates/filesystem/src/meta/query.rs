//! What is asked of a tree without changing it.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Kind};
use super::command::MetaSession;
use super::lock::Lock;
use super::reply::MetaError;
use super::transaction::{TransactionId, TransactionNumber};
use crate::ids::{ExtentId, ExtentKey, Ino};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    Lookup {
        parent: Ino,
        name: Vec<u8>,
    },
    /// Which of these transactions of this tree are noted as done.
    Decided {
        ids: Vec<TransactionId>,
    },
    Inode {
        ino: Ino,
    },
    /// Each that this tree has.
    Inodes {
        inos: Vec<Ino>,
    },
    /// A directory's parent, the parent of that, and so on: up to the root, or to the first that another tree has. What the transaction `by` has locked is
    /// shown as it is.
    Ancestors {
        ino: Ino,
        by: TransactionId,
    },
    /// Entries behind a cookie, in the order of cookies; 0: from the first.
    Directory {
        ino: Ino,
        after: u64,
        most: u32,
    },
    ReadLink {
        ino: Ino,
    },
    /// The keys that overlap a range, ascending.
    Keys {
        ino: Ino,
        offset: u64,
        len: u64,
    },
    Xattr {
        ino: Ino,
        name: Vec<u8>,
    },
    XattrNames {
        ino: Ino,
    },
    /// The parent of a directory.
    Parent {
        ino: Ino,
    },
    Usage,
    /// Orphans that this session has not said to be closed.
    Orphans {
        session: MetaSession,
    },
    /// The session lives: it keeps its locks for another lease.
    Lease {
        session: MetaSession,
    },
    /// What is in the way of a lock.
    LockInTheWay {
        ino: Ino,
        session: MetaSession,
        lock: Lock,
    },
    /// The first ranges that are to be given back to a data partition, of those behind a number.
    Freed {
        partition: u32,
        after: u64,
        most: u32,
    },
    /// Which of these no file has.
    Unreferenced {
        extents: Vec<ExtentId>,
    },
}

/// The answer to a question.
pub type Answer = Result<Found, MetaError>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    Inode(Attributes),
    /// Those that are noted. Of those below a number none is under way, nor will one be noted.
    Decided {
        ids: Vec<TransactionId>,
        over_below: TransactionNumber,
    },
    /// Another tree has the inode. Whether several sessions use this tree, where the name is.
    Elsewhere {
        ino: Ino,
        is_shared: bool,
    },
    Inodes(Vec<Attributes>),
    Entries(Vec<DirectoryEntry>),
    Target(Vec<u8>),
    Keys(Vec<ExtentKey>),
    Value(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Usage(Usage),
    Inos(Vec<Ino>),
    /// How often the session has lost its locks, and whether it has some.
    Lease {
        locks_lost: u64,
        has_locks: bool,
    },
    /// With the session that has it.
    Lock(Option<(MetaSession, Lock)>),
    Freed(Vec<Freed>),
    Extents(Vec<ExtentId>),
}

/// A name in a directory, with its inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    pub name: Vec<u8>,
    /// Names that come behind this one have greater cookies. Not 0.
    pub cookie: u64,
    pub ino: Ino,
    pub kind: Kind,
    /// None where another tree has the inode.
    pub attributes: Option<Attributes>,
}

/// What a volume has and may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub bytes: u64,
    pub inodes: u64,
    pub quota_bytes: Option<u64>,
    pub quota_inodes: Option<u64>,
}

impl Usage {
    /// Of a volume's trees together. All have the quota of the volume.
    pub fn total(trees: &[Usage]) -> Usage {
        let mut total = trees.first().copied().unwrap_or_default();
        for usage in trees.iter().skip(1) {
            total.bytes += usage.bytes;
            total.inodes += usage.inodes;
        }
        total
    }
}

/// What is to be given back to a data partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// Ascends in the list of a partition.
    pub number: u64,
    pub what: FreedPiece,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreedPiece {
    /// All of it: the file that had it is gone.
    Extent(ExtentId),
    /// A range in bytes.
    Range { extent: ExtentId, offset: u64, len: u64 },
}

impl FreedPiece {
    pub fn extent(&self) -> ExtentId {
        match self {
            FreedPiece::Extent(extent) | FreedPiece::Range { extent, .. } => *extent,
        }
    }
}
