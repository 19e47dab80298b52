//! Inodes without names that this session does not have open are told, so that the meta partition frees them.
//!
//! Most are told when they lose their last name, or soon after the kernel dropped them. The rest is found by asking: what other sessions have removed, and what could not be told.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::elsewhere::by_tree;
use super::{Client, ClientError};
use crate::ids::{Ino, TreeIndex};
use crate::meta::{Command, Found, Query};

/// Between two questions for orphans. Longer than any call takes: a file that is just being made without a name is in use before it is asked for twice.
const ASK_INTERVAL: Duration = Duration::from_secs(60);

/// How long inodes that the kernel dropped are gathered. A command for each would be a write of the tree's log, behind which the next removal waits.
const GATHER_INTERVAL: Duration = Duration::from_millis(5);
/// Most inodes that one command tells.
const MAX_TOLD: usize = 1_024;

/// Inodes without names that the kernel dropped, and that are still to be told.
#[derive(Default)]
pub(super) struct Dropped {
    inos: Mutex<Vec<Ino>>,
    added: Notify,
}

impl Dropped {
    fn take(&self) -> Vec<Ino> {
        let mut inos = self.inos.lock();
        let count = inos.len().min(MAX_TOLD);
        inos.drain(..count).collect()
    }
}

impl Client {
    /// Tells that inodes without names are not open here.
    pub async fn not_open(&self, inos: Vec<Ino>) {
        for inos in by_tree(inos).into_values() {
            if let Err(error) = self.commands.send(Command::NotOpen { inos }).await {
                tracing::warn!(%error, "inodes without names stay until they are told again, or the session ends");
            }
        }
    }

    /// That an inode without names is not open here is told in a moment, with others.
    pub fn tell_dropped(&self, ino: Ino) {
        self.dropped.inos.lock().push(ino);
        self.dropped.added.notify_one();
    }

    /// For as long as the session lives: tells what has not been told yet, and that it lives.
    pub async fn keep_telling(&self) {
        tokio::join!(
            self.keep_lease(),
            self.keep_open(),
            self.keep_telling_orphans(),
            self.keep_telling_dropped(),
            self.keep_telling_times()
        );
    }

    async fn keep_telling_dropped(&self) {
        loop {
            self.dropped.added.notified().await;
            self.commands.env().sleep(GATHER_INTERVAL).await;
            loop {
                let inos = self.dropped.take();
                if inos.is_empty() {
                    break;
                }
                self.not_open(inos).await;
            }
        }
    }

    async fn keep_telling_orphans(&self) {
        let mut unused_before = BTreeSet::new();
        // What was removed before a takeover is known as such before the kernel drops it.
        let mut rest = if self.files.is_taken_over() { Duration::ZERO } else { ASK_INTERVAL };
        loop {
            self.commands.env().sleep(std::mem::replace(&mut rest, ASK_INTERVAL)).await;
            match self.tell_orphans(&unused_before).await {
                Ok(unused) => unused_before = unused,
                Err(error) => tracing::warn!(%error, "which inodes without names are to be freed is not known"),
            }
        }
    }

    /// Whether an inode without names is in use. One that is leaves the table when the kernel drops it.
    fn is_in_use(&self, ino: Ino) -> bool {
        match self.files.is_taken_over() {
            true => self.kernel_refers(ino) && self.files.lost_its_names(ino),
            false => self.files.lost_its_names(ino),
        }
    }

    /// The orphans that each tree has for this session, and those trees that do not answer.
    async fn ask_for_orphans(&self) -> Result<(Vec<Ino>, BTreeSet<TreeIndex>), ClientError> {
        let query = Query::Orphans { session: self.session() };
        let asked = self.commands.trees().map(async |tree| (tree, self.commands.ask_at(tree, query.clone()).await));
        let (mut orphans, mut silent) = (Vec::new(), BTreeSet::new());
        for (tree, answer) in join_all(asked).await {
            match answer {
                Ok(Found::Inos(inos)) => orphans.extend(inos),
                Ok(other) => return Err(ClientError::unexpected(&other)),
                Err(ClientError::MetaCall(error)) => {
                    tracing::warn!(%error, "which inodes without names are to be freed is not known");
                    silent.insert(tree);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((orphans, silent))
    }

    /// Tells the orphans that are not in use and were not in use when it was asked before. Returns those that are not in use now and were not told.
    pub(super) async fn tell_orphans(&self, unused_before: &BTreeSet<Ino>) -> Result<BTreeSet<Ino>, ClientError> {
        let (orphans, silent) = self.ask_for_orphans().await?;
        let unused: BTreeSet<Ino> = orphans.into_iter().filter(|ino| !self.is_in_use(*ino)).collect();
        let told: Vec<Ino> = unused.intersection(unused_before).copied().collect();
        if !told.is_empty() {
            self.not_open(told).await;
        }
        let still_asked = unused_before.iter().filter(|ino| silent.contains(&ino.tree()));
        Ok(unused.difference(unused_before).chain(still_asked).copied().collect())
    }
}

#[cfg(test)]
mod tests;
