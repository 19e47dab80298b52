//! Which tree of a volume has what a command or a question is about (docs/rfd/0031). Names of a directory are in its tree, and the tree of a name that is changed decides.

use crate::ids::TreeIndex;
use crate::meta::{Command, Query};

/// The tree that carries a command out. One about the session alone goes to the first, unless it is sent to each.
pub fn tree_of(command: &Command) -> TreeIndex {
    let about = match command {
        Command::Make { parent, .. }
        | Command::MakeUnnamed { parent, .. }
        | Command::Link { parent, .. }
        | Command::Unlink { parent, .. }
        | Command::Rmdir { parent, .. } => Some(*parent),
        Command::Rename { from, .. } => Some(from.0),
        Command::SetAttributes { ino, .. }
        | Command::SetXattr { ino, .. }
        | Command::RemoveXattr { ino, .. }
        | Command::Commit { ino, .. }
        | Command::Punch { ino, .. }
        | Command::Lock { ino, .. }
        | Command::Unlock { ino, .. } => Some(*ino),
        // All of one tree: the client sends one command for each.
        Command::NotOpen { inos } => inos.first().copied(),
        Command::SetTimes { times } => times.first().map(|times| times.ino),
        _ => None,
    };
    about.map_or_else(TreeIndex::default, |ino| ino.tree())
}

/// The tree that answers a question. One about the tree as a whole is asked of each.
pub fn tree_asked(query: &Query) -> TreeIndex {
    let about = match query {
        Query::Lookup { parent, .. } => Some(*parent),
        Query::Inode { ino }
        | Query::Ancestors { ino, .. }
        | Query::Directory { ino, .. }
        | Query::ReadLink { ino }
        | Query::Keys { ino, .. }
        | Query::Xattr { ino, .. }
        | Query::XattrNames { ino }
        | Query::Parent { ino }
        | Query::LockInTheWay { ino, .. } => Some(*ino),
        _ => None,
    };
    about.map_or_else(TreeIndex::default, |ino| ino.tree())
}
