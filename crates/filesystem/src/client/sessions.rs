//! The session of a client at the trees of its volume (docs/rfd/0031).
//!
//! ```text
//!   opened, in order of the trees ─► a while, if others use one ─► recorded ─► used
//! ```
//!
//! An exclusive session is one that is opened at the first tree while no other is open there: all sessions are opened there first. One that is refused at a
//! later tree, by a session that is ended there a moment later, is tried again for a while, and then ended everywhere.
//!
//! A tree may have ended the session of a client that was silent. It must not be opened there a second time: so it is opened at trees that the record does not
//! count, and they are counted before they are used.

use std::time::Duration;

use futures_util::future::join_all;

use super::commands::Commands;
use super::{Client, ClientError, OTHERS_LEARN};
use crate::ids::TreeIndex;
use crate::meta::{Command, Done, MetaError};

/// How long a session that others are in the way of is tried again: a mount that was ended just now closes its own.
const REFUSED_PATIENCE: Duration = Duration::from_secs(2);
const REFUSED_LOOK: Duration = Duration::from_millis(50);

/// Between two looks for trees that the volume got. One that is used before is opened then.
const LOOK: Duration = Duration::from_secs(5);

impl Commands {
    /// Begins the session. One that is refused leaves nothing behind.
    pub(super) async fn begin(&self) -> Result<(), ClientError> {
        let until = self.env().now() + REFUSED_PATIENCE;
        loop {
            let refused = match self.open_all().await {
                Err(error @ ClientError::Meta(MetaError::InUse | MetaError::HeldAlone)) => error,
                begun => return begun,
            };
            if self.env().now() >= until {
                if let Err(error) = self.close_known().await {
                    tracing::debug!(%error, "a session that was refused stays at some trees for a while");
                }
                return Err(refused);
            }
            self.env().sleep(REFUSED_LOOK).await;
        }
    }

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
        let open = Command::OpenSession { is_exclusive: self.is_exclusive() };
        let mut is_shared = false;
        for tree in (self.opened()..count).map(TreeIndex) {
            match self.send_as(tree, 0, open.clone()).await? {
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
        self.close_below(self.opened()).await
    }

    /// As [`Commands::close`], also where it was not noted as begun.
    pub async fn close_known(&self) -> Result<(), ClientError> {
        self.close_below(self.count()).await
    }

    async fn close_below(&self, count: u16) -> Result<(), ClientError> {
        let trees = (0..count).map(TreeIndex);
        let closed = join_all(trees.map(|tree| self.send_as(tree, 0, Command::CloseSession))).await;
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
