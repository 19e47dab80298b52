//! Times of files: the tree is told of them a moment later, once for many writes.
//!
//! A write in place changes nothing else that the tree has. So it is one round of the disk instead of two, where no other session uses the volume. The
//! kernel of an exclusive client has the times of files, and says what they are when it has written a file back.
//!
//! | before | because |
//! |---|---|
//! | attributes are answered, or set | a program sees the time of its own write, and keeps the time that it sets |
//! | `close` and `fsync` are answered | from then on a version says that the file has changed |
//! | the session ends | |
//! | [`DELAY`] has passed | a crash of this process takes no more than that |
//!
//! `fdatasync` does not wait for times, as POSIX has it. What a kernel says is put into answers before the tree has it, and `close` does not wait for it: no other
//! session sees the file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::Instant;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Client, ClientError, OTHERS_LEARN};
use crate::ids::{Ino, TreeIndex};
use crate::meta::{Attributes, Command, FileTimes, MetaError};

/// How long a time waits at most.
const DELAY: Duration = Duration::from_millis(500);
/// Most files whose times one command tells.
const MAX_TOLD: usize = 1_024;

/// What the tree does not know yet.
#[derive(Default)]
pub(super) struct UntoldTimes {
    /// Files that were written in place.
    inos: Mutex<BTreeSet<Ino>>,
    /// What the kernel of an exclusive client has said.
    noted: Mutex<BTreeMap<Ino, FileTimes>>,
    added: Notify,
}

impl UntoldTimes {
    pub fn add(&self, ino: Ino) {
        if self.inos.lock().insert(ino) {
            self.added.notify_one();
        }
    }

    fn has(&self, ino: Ino) -> bool {
        self.inos.lock().contains(&ino)
    }

    fn remove(&self, ino: Ino) {
        self.inos.lock().remove(&ino);
    }

    fn all(&self) -> Vec<Ino> {
        self.inos.lock().iter().copied().collect()
    }

    pub fn note(&self, times: FileTimes) {
        self.noted.lock().insert(times.ino, times);
        self.added.notify_one();
    }

    pub fn noted(&self, ino: Ino) -> Option<FileTimes> {
        self.noted.lock().get(&ino).copied()
    }

    /// The tree has them. What was noted since stays.
    pub fn told(&self, times: &[FileTimes]) {
        let mut noted = self.noted.lock();
        for told in times {
            if noted.get(&told.ino) == Some(told) {
                noted.remove(&told.ino);
            }
        }
    }

    fn all_noted(&self) -> Vec<FileTimes> {
        self.noted.lock().values().copied().collect()
    }

    fn is_empty(&self) -> bool {
        self.inos.lock().is_empty() && self.noted.lock().is_empty()
    }
}

impl Client {
    /// Whether no other session does anything yet, by attributes that were asked for at `asked` or after it. Another one waits for [`OTHERS_LEARN`] first.
    pub(super) fn is_alone(&self, attributes: &Attributes, asked: Instant) -> bool {
        let is_recent = || self.env().now().saturating_duration_since(asked) < OTHERS_LEARN / 2;
        self.is_exclusive() || !attributes.is_shared && is_recent()
    }

    /// Tells the tree that a file was written, if it does not know yet. If it is given up half-way, the time is still to be told.
    pub(super) async fn tell_times(&self, ino: Ino) -> Result<(), ClientError> {
        if !self.untold.has(ino) {
            return Ok(());
        }
        let state = self.files.state(ino);
        // Behind the write that is under way.
        let _alone = state.content.write().await;
        if !self.untold.has(ino) {
            return Ok(());
        }
        let told = loop {
            let inode = match self.commands.inode(ino).await {
                Ok(inode) => inode,
                Err(error) => break Err(error),
            };
            match self.commit(&inode, Vec::new(), 0, None, &mut None).await {
                Err(ClientError::Meta(MetaError::Changed)) => {}
                told => break told.map(drop),
            }
        };
        match told {
            // The second: it was removed.
            Ok(()) | Err(ClientError::Meta(MetaError::Stale)) => {
                self.untold.remove(ino);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Tells the tree what the kernel has said of files, if it does not know yet.
    async fn tell_noted(&self, times: &[FileTimes]) -> Result<(), ClientError> {
        let mut of_trees: BTreeMap<TreeIndex, Vec<FileTimes>> = BTreeMap::new();
        for times in times {
            of_trees.entry(times.ino.tree()).or_default().push(*times);
        }
        for times in of_trees.values().flat_map(|times| times.chunks(MAX_TOLD)) {
            self.commands.send(Command::SetTimes { times: times.to_vec() }).await?;
            self.untold.told(times);
        }
        Ok(())
    }

    /// At fsync: the tree has all times of a file.
    pub(super) async fn settle_times(&self, ino: Ino) -> Result<(), ClientError> {
        self.tell_times(ino).await?;
        match self.untold.noted(ino) {
            Some(times) => self.tell_noted(&[times]).await,
            None => Ok(()),
        }
    }

    /// Attributes as they are once the tree knows of all writes here.
    pub(super) async fn with_times(&self, attributes: Attributes) -> Result<Attributes, ClientError> {
        if !self.untold.has(attributes.ino) {
            return Ok(self.with_kernel_times(attributes));
        }
        self.tell_times(attributes.ino).await?;
        self.commands.inode(attributes.ino).await
    }

    /// Attributes with the times that the kernel has said.
    pub(super) fn with_kernel_times(&self, attributes: Attributes) -> Attributes {
        match self.untold.noted(attributes.ino) {
            Some(FileTimes { mtime, ctime, .. }) => Attributes { mtime, ctime, ..attributes },
            None => attributes,
        }
    }

    /// Tells the times of all files; the first failure, if there is one. Those are told later.
    pub async fn tell_all_times(&self) -> Result<(), ClientError> {
        let mut first = self.tell_noted(&self.untold.all_noted()).await;
        for ino in self.untold.all() {
            let told = self.tell_times(ino).await;
            first = first.and(told);
        }
        first
    }

    pub(super) async fn keep_telling_times(&self) {
        loop {
            if self.untold.is_empty() {
                self.untold.added.notified().await;
            }
            self.env().sleep(DELAY).await;
            if let Err(error) = self.tell_all_times().await {
                tracing::debug!(%error, "times of writes are told later");
            }
        }
    }
}

#[cfg(test)]
mod tests;
