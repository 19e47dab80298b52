//! Questions.

use std::collections::BTreeSet;

use super::super::attributes::{Attributes, Kind};
use super::super::command::MetaSession;
use super::super::limits::MAX_ANSWER;
use super::super::query::{Answer, DirectoryEntry, Found, Query, Usage};
use super::super::reply::{MetaError, Reply};
use super::super::transaction::{TransactionId, TransactionNumber};
use super::Machine;
use crate::ids::{ExtentId, ExtentKey, Ino, TreeIndex};

impl Machine {
    /// Answers a question about the tree as it is.
    pub fn query(&self, query: &Query) -> Answer {
        match query {
            Query::Lookup { parent, name } => {
                let place = self.find(*parent, name)?;
                self.attributes_or_place(place.ino)
            }
            Query::Inode { ino } => self.attributes(*ino).map(Found::Inode),
            Query::Decided { ids } => {
                let ids = ids.iter().copied().filter(|id| self.is_decided(*id)).collect();
                Ok(Found::Decided { ids, over_below: self.transactions.over_below() })
            }
            Query::Inodes { inos } => self.inodes(inos).map(Found::Inodes),
            Query::Ancestors { ino, by } => {
                self.directories_above(*ino, |ino| self.transactions.is_inode_locked_by(ino, *by)).map(Found::Inos)
            }
            Query::Directory { ino, after, most } => self.entries(*ino, *after, *most).map(Found::Entries),
            Query::ReadLink { ino } => {
                let inode = self.inode(*ino)?;
                let target = inode.rare.as_ref().filter(|_| inode.kind == Kind::Symlink).ok_or(MetaError::Invalid)?;
                Ok(Found::Target(target.target.to_vec()))
            }
            Query::Keys { ino, offset, len } => self.keys(*ino, *offset, *len).map(Found::Keys),
            Query::Xattr { ino, name } => {
                let rare = self.inode(*ino)?.rare.as_ref().ok_or(MetaError::NoXattr)?;
                let found = rare.xattrs.iter().find(|(other, _)| **other == **name).ok_or(MetaError::NoXattr)?;
                Ok(Found::Value(found.1.to_vec()))
            }
            Query::XattrNames { ino } => {
                let xattrs = self.inode(*ino)?.rare.iter().flat_map(|rare| &rare.xattrs);
                Ok(Found::Names(xattrs.map(|(name, _)| name.to_vec()).collect()))
            }
            Query::Parent { ino } => {
                let parent = self.directory(*ino)?.parent;
                self.attributes_or_place(parent)
            }
            Query::Usage => Ok(Found::Usage(self.usage())),
            Query::Orphans { session } => Ok(Found::Inos(self.sessions.orphans_of(*session).take(MAX_ANSWER).collect())),
            Query::Lease { session } if !self.sessions.is_live(*session) => Err(MetaError::NoSession),
            Query::Lease { session } => {
                Ok(Found::Lease { locks_lost: self.sessions.locks_lost(*session), has_locks: self.has_locks(*session) })
            }
            Query::LockInTheWay { ino, session, lock } => {
                self.inode(*ino)?;
                Ok(Found::Lock(self.lock_in_the_way(*ino, *session, lock)))
            }
            Query::Freed { partition, after, most } => {
                Ok(Found::Freed(self.freed.behind(*partition, *after, (*most as usize).min(MAX_ANSWER))))
            }
            Query::Unreferenced { extents } => Ok(Found::Extents(self.unreferenced(extents))),
        }
    }

    /// The sessions that have not ended.
    pub fn sessions(&self) -> impl Iterator<Item = MetaSession> {
        self.sessions.live()
    }

    /// The data partitions to which something is to be given back.
    pub fn freed_partitions(&self) -> Vec<u32> {
        self.freed.partitions()
    }

    /// What the tree has and may have.
    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.tables.bytes,
            inodes: self.tables.inode_count(),
            quota_bytes: self.quota.bytes,
            quota_inodes: self.quota.inodes,
        }
    }

    /// Bytes and inodes of the volume's other trees, as far as this one was told.
    pub fn used_elsewhere(&self) -> (u64, u64) {
        (self.quota.bytes_elsewhere, self.quota.inodes_elsewhere)
    }

    fn entries(&self, ino: Ino, after: u64, most: u32) -> Result<Vec<DirectoryEntry>, MetaError> {
        self.directory(ino)?;
        let entries = self.tables.entries(ino, after).take((most as usize).min(MAX_ANSWER));
        let entries: Result<Vec<DirectoryEntry>, MetaError> = entries
            .map(|(cookie, dentry)| {
                let is_here = dentry.ino.tree() == self.tree();
                let attributes = if is_here { Some(self.attributes(dentry.ino)?) } else { None };
                Ok(DirectoryEntry { name: dentry.name.to_vec(), cookie, ino: dentry.ino, kind: dentry.kind, attributes })
            })
            .collect();
        let entries = entries?;
        let is_end = entries.len() < (most as usize).min(MAX_ANSWER);
        let last = entries.last().filter(|_| !is_end).map_or(u64::MAX, |entry| entry.cookie);
        if self.transactions.are_names_locked(ino, after, last) { Err(MetaError::Busy) } else { Ok(entries) }
    }

    fn attributes_or_place(&self, ino: Ino) -> Answer {
        match self.attributes(ino) {
            Err(MetaError::Across) => Ok(self.elsewhere_at(ino)),
            found => found.map(Found::Inode),
        }
    }

    fn elsewhere_at(&self, ino: Ino) -> Found {
        Found::Elsewhere { ino, is_shared: self.sessions.are_several() }
    }

    fn inodes(&self, inos: &[Ino]) -> Result<Vec<Attributes>, MetaError> {
        let mut found = Vec::new();
        for ino in inos.iter().take(MAX_ANSWER) {
            match self.attributes(*ino) {
                Err(MetaError::Stale) => {}
                attributes => found.push(attributes?),
            }
        }
        Ok(found)
    }

    /// A directory and those above it in this tree, then the first that another tree has. `may_see`: of what is locked.
    pub(super) fn directories_above(&self, ino: Ino, may_see: impl Fn(Ino) -> bool) -> Result<Vec<Ino>, MetaError> {
        let mut chain = vec![ino];
        let mut at = ino;
        while at != Ino::ROOT && at.tree() == self.tree() {
            let found = if may_see(at) { self.tables.inode(at).ok_or(MetaError::Stale)? } else { self.inode(at)? };
            at = found.parent;
            chain.push(at);
        }
        Ok(chain)
    }

    /// Transactions that this tree holds parts ready for, or has done so; whether those have taken effect.
    pub fn prepared(&self) -> Vec<(TransactionId, bool)> {
        self.transactions.prepared().collect()
    }

    /// Transactions of this tree below it that are not noted never will be.
    pub fn least_transaction(&self) -> TransactionNumber {
        self.transactions.least()
    }

    /// Transactions of this tree that are done, with the trees that may not know it.
    pub fn decided(&self) -> Vec<(TransactionId, Vec<TreeIndex>)> {
        self.transactions.decided(self.tree()).map(|(id, trees)| (id, trees.to_vec())).collect()
    }

    /// Whether a transaction of this tree is noted as done.
    pub fn is_decided(&self, id: TransactionId) -> bool {
        self.transactions.is_decided(id)
    }

    /// The reply that a command got before.
    pub fn earlier_reply(&self, session: MetaSession, sequence: u64) -> Option<Reply> {
        self.sessions.earlier_reply(session, sequence)
    }

    fn keys(&self, ino: Ino, offset: u64, len: u64) -> Result<Vec<ExtentKey>, MetaError> {
        let keys = &self.inode(ino)?.keys;
        let end = offset.saturating_add(len);
        let first = keys.partition_point(|key| key.file_offset + key.len <= offset);
        Ok(keys[first..].iter().take_while(|key| key.file_offset < end).take(MAX_ANSWER).copied().collect())
    }

    /// All extents that files have, each as often as keys name it.
    pub fn extents(&self) -> impl Iterator<Item = ExtentId> {
        self.tables.inodes().flat_map(|(_, inode)| &inode.keys).map(|key| key.extent)
    }

    fn unreferenced(&self, extents: &[ExtentId]) -> Vec<ExtentId> {
        let used: BTreeSet<ExtentId> = self.tables.inodes().flat_map(|(_, inode)| &inode.keys).map(|key| key.extent).collect();
        extents.iter().copied().filter(|extent| !used.contains(extent) && !self.freed.names(*extent)).collect()
    }
}
