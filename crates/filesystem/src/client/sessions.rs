//! The session of a client at the trees of its volume (docs/rfd/0031).
//!
//! ```text
//!   opened, in order of the trees ─► a while, if others use one ─► recorded ─► used
//! ```
//!
//! A tree may have ended the session of a client that was silent. It must not be opened there a second time: so it is opened at trees that the record does not
//! count, and they are counted before they are used.

use std::time::Duration;

use futures_util::future::join_all;

use super::commands::Commands;
use super::{Client, ClientError, OTHERS_LEARN};
use crate::ids::TreeIndex;
use crate::meta::{Command, Done, MetaError};

/// Between two looks for trees that the volume got. One that is used before is opened then.
const LOOK: Duration = Duration::from_secs(5);

impl Commands {
    /// Begins the session at all trees that are known here.
    pub(super) async fn open_all(&self) -> Result<(), ClientError> {
        self.open_below(self.count()).await
    }

    /// Before a tree is used.
    pub(super) async fn reach(&self, tree: TreeIndex) -> Result<(), ClientError> {
        if tree.0 < self.opened() { Ok(()) } else { self.open_below(tree.0 + 1).await }
    }

    async fn open_below(&self, count: u16) -> Result<(), ClientError> {
        let _alone = self.opening.lock().await;
        let mut is_shared = false;
        for tree in (self.opened()..count).map(TreeIndex) {
            match self.send_as(tree, 0, Command::OpenSession).await? {
                Done::Opened { is_shared: with_others } => is_shared |= with_others,
                other => return Err(ClientError::unexpected(&other)),
            }
        }
        if is_shared {
            self.env().sleep(OTHERS_LEARN).await;
        }
        if count > self.opened() { self.note_opened(count) } else { Ok(()) }
    }

    /// Ends the session at all trees. Closing again has no effect.
    pub async fn close(&self) -> Result<(), ClientError> {
        let closed = join_all(self.trees().map(|tree| self.send_as(tree, 0, Command::CloseSession))).await;
        closed.into_iter().try_for_each(|closed| match closed {
            Ok(_) | Err(ClientError::Meta(MetaError::NoSession)) => Ok(()),
            Err(error) => Err(error),
        })
    }
}

impl Client {
    /// As long as the session lives: begins it at trees that the volume gets.
    pub(super) async fn keep_open(&self) {
        loop {
            self.env().sleep(LOOK).await;
            if let Err(error) = self.commands.open_all().await {
                tracing::debug!(%error, "a tree of the volume is not used yet");
            }
        }
    }
}

#[cfg(test)]
mod tests;
