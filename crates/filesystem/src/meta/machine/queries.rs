//! Questions.

use std::collections::BTreeSet;

use super::super::attributes::Kind;
use super::super::command::MetaSession;
use super::super::limits::MAX_ANSWER;
use super::super::query::{Answer, DirectoryEntry, Found, Query, Usage};
use super::super::reply::MetaError;
use super::Machine;
use crate::ids::{ExtentId, ExtentKey, Ino};

impl Machine {
    /// Answers a question about the tree as it is.
    pub fn query(&self, query: &Query) -> Answer {
        match query {
            Query::Lookup { parent, name } => {
                self.directory(*parent)?;
                let (_, ino) = self.tables.find(*parent, name).ok_or(MetaError::NotFound)?;
                self.attributes(ino).map(Found::Inode)
            }
            Query::Inode { ino } => self.attributes(*ino).map(Found::Inode),
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
                self.attributes(parent).map(Found::Inode)
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

    fn entries(&self, ino: Ino, after: u64, most: u32) -> Result<Vec<DirectoryEntry>, MetaError> {
        self.directory(ino)?;
        let entries = self.tables.entries(ino, after).take((most as usize).min(MAX_ANSWER));
        entries
            .map(|(cookie, dentry)| {
                let attributes = self.attributes(dentry.ino)?;
                Ok(DirectoryEntry { name: dentry.name.to_vec(), cookie, kind: attributes.kind, attributes })
            })
            .collect()
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
