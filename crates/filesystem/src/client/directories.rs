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
    /// None for "." and "..", and for what was removed meanwhile.
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
    /// Attributes come along, and give no reference: [`Client::remember`] does.
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

    /// The directory that a directory is in; the root is in itself.
    pub(super) async fn parent(&self, ino: Ino) -> Result<Attributes, ClientError> {
        self.commands.ask_for_inode(Query::Parent { ino }).await
    }
}
