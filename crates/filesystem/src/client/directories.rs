//! Listings of directories.

use super::{Client, ClientError};
use crate::ids::Ino;
use crate::meta::limits::MAX_ANSWER;
use crate::meta::{Attributes, DirectoryEntry, Found, Kind, Query};

/// Cookies of "." and "..". Those of names are greater.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// A name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: Kind,
    /// Where a listing goes on after this entry.
    pub cookie: u64,
    /// None for "." and "..", for what another tree has than the directory, and for what was removed meanwhile.
    pub attributes: Option<Attributes>,
}

impl ListedEntry {
    fn dots(name: &str, ino: Ino, cookie: u64) -> Self {
        ListedEntry { name: name.as_bytes().to_vec(), ino, kind: Kind::Directory, cookie, attributes: None }
    }
}

impl Client {
    /// Entries after a cookie, at most `most` names and the two dots; 0 is before all. None: the directory ends.
    ///
    /// Attributes of what the directory's tree has come along, and give no reference: [`Client::remember`] does.
    pub async fn readdir(&self, ino: Ino, after: u64, most: usize) -> Result<Vec<ListedEntry>, ClientError> {
        let mut listed = Vec::new();
        if after < DOT {
            listed.push(ListedEntry::dots(".", ino, DOT));
        }
        if after < DOT_DOT {
            listed.push(ListedEntry::dots("..", self.parent(ino).await?.ino, DOT_DOT));
        }
        let most = most.clamp(1, MAX_ANSWER) as u32;
        let entries = match self.commands.ask(Query::Directory { ino, after: after.max(DOT_DOT), most }).await? {
            Found::Entries(entries) => entries,
            other => return Err(ClientError::unexpected(&other)),
        };
        for entry in entries {
            let DirectoryEntry { name, cookie, ino, kind, attributes } = entry;
            let attributes = match attributes {
                Some(attributes) => Some(self.with_times(attributes).await?),
                None => None,
            };
            listed.push(ListedEntry { name, ino, kind, cookie, attributes });
        }
        Ok(listed)
    }

    /// As [`Client::readdir`], with the attributes of what other trees have.
    pub async fn readdir_plus(&self, ino: Ino, after: u64, most: usize) -> Result<Vec<ListedEntry>, ClientError> {
        let mut listed = self.readdir(ino, after, most).await?;
        let is_elsewhere = |entry: &&mut ListedEntry| entry.cookie > DOT_DOT && entry.ino.tree() != ino.tree();
        let inos: Vec<Ino> = listed.iter_mut().filter(is_elsewhere).map(|entry| entry.ino).collect();
        if inos.is_empty() {
            return Ok(listed);
        }
        let mut found = self.commands.inodes(inos.into_iter()).await?;
        // Whether others use the tree of the names is what one of its inodes says.
        let is_shared = listed.iter().find_map(|entry| entry.attributes).is_none_or(|attributes| attributes.is_shared);
        for entry in listed.iter_mut().filter(is_elsewhere) {
            let Some(attributes) = found.remove(&entry.ino) else { continue };
            let attributes = Attributes { is_shared: attributes.is_shared || is_shared, ..attributes };
            entry.attributes = Some(self.with_times(attributes).await?);
        }
        Ok(listed)
    }

    /// The directory that a directory is in; the root is in itself.
    pub(super) async fn parent(&self, ino: Ino) -> Result<Attributes, ClientError> {
        self.commands.ask_for_inode(Query::Parent { ino }).await
    }
}
