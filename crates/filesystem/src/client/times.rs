//! Times of files whose bytes were written in place: the tree is told of them a moment later, once for many writes.
//!
//! Such a write changes nothing else that the tree has. So it is one round of the disk instead of two, where no other session uses the volume.
//!
//! | before | because |
//! |---|---|
//! | attributes are answered, or set | a program sees the time of its own write, and keeps the time that it sets |
//! | `close` and `fsync` are answered | from then on a version says that the file has changed |
//! | the session ends | |
//! | [`DELAY`] has passed | a crash of this process takes no more than that |
//!
//! `fdatasync` does not wait for times, as POSIX has it.

use std::collections::BTreeSet;
use std::time::Duration;

use env::Instant;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Client, ClientError, OTHERS_LEARN};
use crate::ids::Ino;
use crate::meta::{Attributes, MetaError};

/// How long a time waits at most.
const DELAY: Duration = Duration::from_millis(500);

/// Files that were written in place, and of which the tree does not know it yet.
#[derive(Default)]
pub(super) struct UntoldTimes {
    inos: Mutex<BTreeSet<Ino>>,
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
}

impl Client {
    /// Whether no other session does anything yet, by attributes that were asked for at `asked` or after it. Another one waits for [`OTHERS_LEARN`] first.
    pub(super) fn is_alone(&self, attributes: &Attributes, asked: Instant) -> bool {
        !attributes.is_shared && self.env().now().saturating_duration_since(asked) < OTHERS_LEARN / 2
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

    /// Attributes as they are once the tree knows of all writes here.
    pub(super) async fn with_times(&self, attributes: Attributes) -> Result<Attributes, ClientError> {
        if !self.untold.has(attributes.ino) {
            return Ok(attributes);
        }
        self.tell_times(attributes.ino).await?;
        self.commands.inode(attributes.ino).await
    }

    /// Tells the times of all files; the first failure, if there is one. Those are told later.
    pub async fn tell_all_times(&self) -> Result<(), ClientError> {
        let mut first = Ok(());
        for ino in self.untold.all() {
            let told = self.tell_times(ino).await;
            first = first.and(told);
        }
        first
    }

    pub(super) async fn keep_telling_times(&self) {
        loop {
            if self.untold.all().is_empty() {
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
