//! The machine: sessions and their replies, inodes, dentries, orphans, and what is to be freed.
//!
//! Invariants:
//! - Each dentry has an inode. An inode without a name is an orphan.
//! - An inode number is never used twice, and so is none of the freed list.
//! - A command with the session and sequence of an earlier one changes nothing, and gets the earlier one's reply.
//! - Keys of a file are ascending and don't overlap. What lies beyond its size is allocated space, and reads as zeros when the file grows.
//! - The time of an inode's last change never goes back.

mod across;
mod content;
mod freeing;
mod inode;
mod keeping;
mod locks;
mod names;
mod pages;
mod queries;
mod replicated;
mod rowmap;
mod sessions;
mod tables;
mod transactions;
mod xattrs;

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Kind, Time};
use super::command::{Command, Envelope, MetaSession, NewInode};
use super::reply::{Done, MetaError, Reply};
use crate::ids::{Ino, TreeIndex};
use freeing::FreedList;
use inode::Inode;
use locks::Locks;
use sessions::Sessions;
use tables::Tables;
use transactions::Transactions;

/// The tree of a volume.
#[derive(Clone, Debug)]
pub struct Machine {
    tables: Tables,
    sessions: Sessions,
    locks: Locks,
    freed: FreedList,
    transactions: Transactions,
    quota: Quota,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Quota {
    bytes: Option<u64>,
    inodes: Option<u64>,
    /// Of the other trees of the volume, as far as this one was told.
    bytes_elsewhere: u64,
    inodes_elsewhere: u64,
}

/// Of one command: which session, and when.
#[derive(Clone, Copy)]
struct At {
    session: MetaSession,
    now: Time,
}

impl Default for Machine {
    /// An empty root that belongs to the user root.
    fn default() -> Machine {
        let new =
            NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: Vec::new(), xattrs: Vec::new() };
        let mut root = Inode::new(&new, Time::default());
        (root.nlink, root.parent) = (2, Ino::ROOT);
        Machine { tables: Tables::with_root(root), ..Machine::empty() }
    }
}

impl Machine {
    /// An empty tree of a volume. The first has the root.
    pub fn of_tree(tree: TreeIndex) -> Machine {
        match tree.0 {
            0 => Machine::default(),
            _ => Machine { tables: Tables::of(tree), ..Machine::empty() },
        }
    }

    /// One without a root, for rows that follow.
    fn empty() -> Machine {
        Machine {
            tables: Tables::default(),
            sessions: Sessions::default(),
            locks: Locks::default(),
            freed: FreedList::default(),
            transactions: Transactions::default(),
            quota: Quota::default(),
        }
    }

    /// Carries a command out, or finds the reply that it got before.
    pub fn carry_out(&mut self, envelope: &Envelope) -> Reply {
        // These can be carried out twice.
        let is_remembered = !matches!(envelope.command, Command::OpenSession { .. } | Command::CloseSession);
        if envelope.session == MetaSession::LEADER || !is_remembered {
            return self.apply_command(envelope);
        }
        if let Some(known) = self.sessions.remembered(envelope)? {
            env::mark("files: a command answered from memory");
            return known;
        }
        let reply = self.apply_command(envelope);
        if matches!(reply, Err(MetaError::Busy | MetaError::Across)) {
            return reply;
        }
        self.sessions.remember(envelope, reply);
        reply
    }

    fn apply_command(&mut self, envelope: &Envelope) -> Reply {
        let at = At { session: envelope.session, now: envelope.now };
        if !envelope.now.is_moment() {
            return Err(MetaError::Invalid);
        }
        // What was locked may be another client's by now.
        if changes_content(&envelope.command) && envelope.locks_lost != self.sessions.locks_lost(at.session) {
            if let Command::Commit { ino, keys, .. } = &envelope.command {
                self.free_unnamed(*ino, keys);
            }
            return Err(MetaError::LocksLost);
        }
        match &envelope.command {
            Command::OpenSession { is_exclusive } => {
                self.sessions.open(at.session, *is_exclusive).map(|is_shared| Done::Opened { is_shared })
            }
            Command::CloseSession => Ok(self.close_session(at.session)),
            Command::Make { parent, name, new } => self.make(at, *parent, name, new),
            Command::MakeUnnamed { parent, new } => self.make_unnamed(at, *parent, new),
            Command::Link { ino, parent, name } => self.link(at, *ino, *parent, name),
            Command::Unlink { parent, name } => self.unlink(at, *parent, name),
            Command::Rmdir { parent, name } => self.rmdir(at, *parent, name),
            Command::Rename { from, to, how } => self.rename(at, (from.0, &from.1), (to.0, &to.1), *how),
            Command::SetAttributes { ino, change } => self.set_attributes(at, *ino, change),
            Command::SetXattr { ino, name, value, how, clears_set_gid } => {
                self.set_xattr(at, *ino, (name, value), *how, *clears_set_gid)
            }
            Command::RemoveXattr { ino, name } => self.remove_xattr(at, *ino, name),
            Command::Commit { ino, keys, least_size, kills_set_ids, expects } => {
                let done = self.commit(at, *ino, keys, *least_size, *kills_set_ids, expects);
                // One that is busy is sent again, and one of another tree's is not this one's to free.
                if done.is_err_and(|error| !matches!(error, MetaError::Busy | MetaError::Across)) {
                    self.free_unnamed(*ino, keys);
                }
                done
            }
            Command::Punch { ino, offset, len, expects } => self.punch(at, *ino, *offset, *len, expects),
            // It may become an orphan: the client does not say it again.
            Command::NotOpen { inos } if inos.iter().any(|ino| self.transactions.is_inode_locked(*ino)) => Err(MetaError::Busy),
            Command::NotOpen { inos } => {
                inos.iter().for_each(|ino| self.not_open(*ino, at.session));
                Ok(Done::Done)
            }
            Command::Lock { ino, lock } => self.lock(at, *ino, lock),
            Command::Unlock { ino, owner, range } => self.unlock(at, *ino, *owner, *range),
            Command::LoseLocks { session } => {
                self.locks.end_session(*session);
                self.sessions.lose_locks(*session);
                Ok(Done::Done)
            }
            Command::ConfirmFreed { partition, up_to } => {
                self.freed.confirm(*partition, *up_to);
                Ok(Done::Done)
            }
            Command::SetQuota { bytes, inodes } => {
                (self.quota.bytes, self.quota.inodes) = (*bytes, *inodes);
                Ok(Done::Done)
            }
            Command::SetElsewhere { bytes, inodes } => {
                (self.quota.bytes_elsewhere, self.quota.inodes_elsewhere) = (*bytes, *inodes);
                Ok(Done::Done)
            }
            Command::SetTimes { times } => self.set_times(times),
            command => self.apply_order(at, command),
        }
    }

    /// Refused where another tree has it, or a transaction.
    fn check_ours(&self, ino: Ino) -> Result<(), MetaError> {
        if ino.tree() != self.tree() {
            return Err(MetaError::Across);
        }
        if self.transactions.is_inode_locked(ino) { Err(MetaError::Busy) } else { Ok(()) }
    }

    fn inode(&self, ino: Ino) -> Result<&Inode, MetaError> {
        self.check_ours(ino)?;
        self.tables.inode(ino).ok_or(MetaError::Stale)
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, MetaError> {
        self.check_ours(ino)?;
        self.tables.inode_mut(ino).ok_or(MetaError::Stale)
    }

    fn attributes(&self, ino: Ino) -> Result<Attributes, MetaError> {
        Ok(self.inode(ino)?.attributes(ino, self.sessions.are_several()))
    }

    /// What a command answers that has changed an inode.
    fn answer(&self, ino: Ino) -> Reply {
        self.attributes(ino).map(Done::Inode)
    }

    fn directory(&self, ino: Ino) -> Result<&Inode, MetaError> {
        let inode = self.inode(ino)?;
        if inode.kind == Kind::Directory { Ok(inode) } else { Err(MetaError::NotDirectory) }
    }

    fn check_inode_quota(&self) -> Result<(), MetaError> {
        match self.quota.inodes {
            Some(most) if self.tables.inode_count().saturating_add(self.quota.inodes_elsewhere) >= most => {
                Err(MetaError::Quota)
            }
            _ => Ok(()),
        }
    }
}

fn changes_content(command: &Command) -> bool {
    match command {
        Command::Commit { .. } | Command::Punch { .. } => true,
        Command::SetAttributes { change, .. } => change.size.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
