//! Commands that concern several trees of a volume (docs/rfd/0031).
//!
//! ```text
//!                 leader of the tree of the (source) directory            other trees
//!   command ──►   which parts are needed?  ───── Prepare(part) ─────►     held ready, locked
//!                 Decide: own part, reply, the transaction is noted
//!                                          ───── Conclude(done) ────►     takes effect, unlocked
//!                 Forget; all lower ones are over    ───── Passed ────────────►     its traces go
//! ```
//!
//! Invariants:
//! - A transaction is done when its tree has noted it, by one command together with the reply. It is not before, and never will be once it was refused.
//! - A tree that holds a part ready drops it only if the transaction's tree says that it is not noted and can't be any more.
//! - What a part is about is locked as long as it is held ready: other commands and questions about it are refused as busy.
//! - A tree that has heard that all transactions of another one below a number are over holds no part of them ready any more.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Kind};
use super::command::{NewInode, RenameHow};
use crate::ids::{Ino, TreeIndex};

/// A transaction. Those of one tree ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The tree that decides.
    pub tree: TreeIndex,
    /// Counts the leaders of the tree that began transactions, in its log.
    pub reign: u64,
    /// Counts within the reign.
    pub number: u64,
}

/// Reign and number of a transaction in its tree.
pub type TransactionNumber = (u64, u64);

impl TransactionId {
    pub fn number(self) -> TransactionNumber {
        (self.reign, self.number)
    }

    pub fn of(tree: TreeIndex, (reign, number): TransactionNumber) -> TransactionId {
        TransactionId { tree, reign, number }
    }
}

/// What one tree does in a transaction of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A directory is made whose name is in the other tree.
    NewDirectory { tree: TreeIndex, parent: Ino, new: NewInode },
    /// An inode that is no directory gets a name more.
    GainName { ino: Ino },
    /// An inode loses a name. A directory is empty then.
    LoseName { ino: Ino },
    /// The name of an inode has come to another directory, or to another name of the same.
    Moved { ino: Ino, parent: Ino },
    /// A name comes to mean an inode of the other tree.
    PutName { parent: Ino, name: Vec<u8>, ino: Ino, kind: Kind, how: RenameHow },
    /// These directories come to other parents, and no other one meanwhile in the whole volume.
    MoveLock { moves: Vec<Move> },
}

/// A directory comes to another parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub directory: Ino,
    pub to: Ino,
}

impl Part {
    /// The tree that does it.
    pub fn tree(&self) -> TreeIndex {
        match self {
            Part::NewDirectory { tree, .. } => *tree,
            Part::GainName { ino } | Part::LoseName { ino } | Part::Moved { ino, .. } => ino.tree(),
            Part::PutName { parent, .. } => parent.tree(),
            Part::MoveLock { .. } => Ino::ROOT.tree(),
        }
    }
}

/// What a tree says of a part that it holds ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartAnswer {
    Ready,
    /// The inode as it will be.
    Inode(Attributes),
    /// What the name means until then.
    Target(Option<(Ino, Kind)>),
}

/// A part that is held ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    pub part: Part,
    pub answer: PartAnswer,
}
