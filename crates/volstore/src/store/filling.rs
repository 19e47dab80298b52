//! A learner's copy is filled: all that a group has is copied, while requests go on.
//!
//! What is written meanwhile goes to the learner like to the others. What is copied is held, so that its blocks are not used again before they are copied.

use ::engine::EngineError;
use bytes::Bytes;

use super::reading::blocks_of;
use super::{Inner, Store};
use crate::content::Content;
use crate::mirror::Mirror;
use crate::name::Opseq;
use crate::pg::Cursor;
#[cfg(test)]
use {crate::record::Mutation, futures_util::future::join_all};

impl Store {
    /// Copies what there is to the learners of a mirror. With the names, which are written after that, they have all.
    pub async fn copy_to(&self, mirror: &Mirror) -> Result<(), EngineError> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let (contents, next) = self.inner.state.lock().pg.contents(&from);
            for (_, content) in &contents {
                self.inner.fill_content(mirror, content).await?;
            }
            cursor = next;
        }
        Ok(())
    }

    /// Writes the names to all copies; the first entry of the log that is needed behind it.
    pub async fn write_names(&self) -> Result<Opseq, EngineError> {
        self.inner.dump().await
    }

    /// Pieces whose bytes are not the same in all copies.
    #[cfg(test)]
    pub(crate) async fn lacking_copies(&self) -> Result<usize, EngineError> {
        let (mut lacking, mut cursor) = (0, Some(Cursor::default()));
        while let Some(from) = cursor {
            let (contents, next) = self.inner.state.lock().pg.contents(&from);
            for piece in contents.iter().flat_map(|(_, content)| &content.pieces) {
                lacking += self.inner.medium.lacking_copies(piece).await?;
            }
            cursor = next;
        }
        Ok(lacking)
    }

    /// The fsck of a store in which nothing is under way: blocks by what has them, and the units with space.
    #[cfg(test)]
    pub(crate) fn account(&self) -> (crate::pg::Account, Vec<u32>) {
        let mut state = self.inner.state.lock();
        (state.pg.account(), state.pg.space().units().collect())
    }

    /// Fills the log with marks while no dump is made, and logs behind that what a start does.
    #[cfg(test)]
    pub(crate) async fn fill_log_and_revoke(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let _no_dump = inner.dumping.lock().await;
        let mark = || inner.commit(Mutation::Mark, Default::default(), None);
        let full = loop {
            let marks = join_all(std::iter::repeat_with(mark).take(256)).await;
            if let Some(error) = marks.into_iter().find_map(Result::err) {
                break error;
            }
        };
        assert!(matches!(full, EngineError::Busy { .. }), "{full}");
        inner.commit(Mutation::Revoke { revoked: Vec::new() }, Default::default(), None).await.map(drop)
    }

    /// Whether this node may answer from what it holds.
    pub fn may_answer(&self) -> bool {
        self.inner.seat.may_read()
    }

    /// Returns when nothing is written any more, and why.
    pub async fn failure(&self) -> String {
        loop {
            let changed = self.inner.changed.notified();
            if let Some(failure) = self.inner.state.lock().failure.clone() {
                return failure;
            }
            changed.await;
        }
    }

    /// Nothing is written any more, for a reason from elsewhere.
    pub fn stop_writing(&self, reason: &str) {
        self.inner.stop_writing(reason.to_owned());
    }

    /// Refuses what would write from now on. What was begun may go on.
    pub fn refuse_writes(&self) {
        self.inner.state.lock().is_closed = true;
        self.inner.changed.notify_waiters();
    }
}

impl Inner {
    async fn fill_content(&self, mirror: &Mirror, content: &Content) -> Result<(), EngineError> {
        for piece in &content.pieces {
            let Some(bytes) = self.medium.whole_piece(piece).await? else {
                tracing::error!(length = piece.length, "a piece of an object is damaged in all copies, and was not copied");
                continue;
            };
            for (extent, blocks) in blocks_of(piece, &bytes) {
                mirror.fill(extent.offset(), Bytes::copy_from_slice(&blocks)).await;
            }
        }
        Ok(())
    }
}
