//! Inodes that another tree has than the directory that names them (docs/rfd/0031).

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::ClientError;
use super::commands::Commands;
use crate::ids::{Ino, TreeIndex};
use crate::meta::{Attributes, Found, MetaError, Query};

/// How often a name is asked for again whose inode was gone when its tree was asked: each time the name has come to mean another one, or is gone.
const MAX_FOLLOWED: usize = 16;

impl Commands {
    /// As [`Commands::ask`], for a question that an inode answers, in whichever tree it is.
    pub async fn ask_for_inode(&self, query: Query) -> Result<Attributes, ClientError> {
        let (ino, is_shared) = match self.ask(query.clone()).await? {
            Found::Inode(attributes) => return Ok(attributes),
            Found::Elsewhere { ino, is_shared } => (ino, is_shared),
            other => return Err(ClientError::unexpected(&other)),
        };
        self.follow(query, ino, is_shared).await
    }

    /// The inode that a question has led to. What was asked and what is there are two answers: where they don't fit, it is asked again.
    async fn follow(&self, query: Query, mut ino: Ino, mut is_shared: bool) -> Result<Attributes, ClientError> {
        // A removed directory keeps its parent, which may be removed as well.
        let is_name = matches!(query, Query::Lookup { .. });
        for _ in 0..MAX_FOLLOWED {
            match self.ask(Query::Inode { ino }).await {
                Ok(Found::Inode(found)) if found.nlink > 0 || !is_name => {
                    return Ok(Attributes { is_shared: found.is_shared || is_shared, ..found });
                }
                Ok(Found::Inode(_)) => {}
                Err(ClientError::Meta(MetaError::Stale)) if is_name => {}
                Ok(other) => return Err(ClientError::unexpected(&other)),
                Err(error) => return Err(error),
            }
            env::mark("files: a name whose inode elsewhere was gone");
            (ino, is_shared) = match self.ask(query.clone()).await? {
                Found::Inode(attributes) => return Ok(attributes),
                Found::Elsewhere { ino, is_shared } => (ino, is_shared),
                other => return Err(ClientError::unexpected(&other)),
            };
        }
        Err(MetaError::Stale.into())
    }

    /// The attributes of inodes, by one question to each tree. Those that are gone are left out.
    pub async fn inodes(&self, inos: impl Iterator<Item = Ino>) -> Result<BTreeMap<Ino, Attributes>, ClientError> {
        let asked = by_tree(inos).into_iter().map(|(tree, inos)| self.ask_at(tree, Query::Inodes { inos }));
        let mut all = BTreeMap::new();
        for found in try_join_all(asked).await? {
            match found {
                Found::Inodes(found) => all.extend(found.into_iter().map(|attributes| (attributes.ino, attributes))),
                other => return Err(ClientError::unexpected(&other)),
            }
        }
        Ok(all)
    }
}

/// Inodes by their trees.
pub fn by_tree(inos: impl IntoIterator<Item = Ino>) -> BTreeMap<TreeIndex, Vec<Ino>> {
    let mut trees: BTreeMap<TreeIndex, Vec<Ino>> = BTreeMap::new();
    for ino in inos {
        trees.entry(ino.tree()).or_default().push(ino);
    }
    trees
}
