//! A snapshot of rows on its way in.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::aside;
use super::store::{RowStore, RowsError};
use super::stream::{RowLengthError, RowWriter};
use crate::record::SnapshotSummary;

/// A piece that is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Length(#[from] RowLengthError),
    #[error("the rows are not those that were sent; they must be sent again")]
    Checksum,
}

/// What a piece led to.
pub(crate) enum RowsReceived {
    /// The state has this snapshot, or a later one.
    NotNeeded,
    /// So many bytes are there; go on from here.
    Partly { bytes: u64 },
    /// All rows are there, as this generation. Nothing else comes in while the turn is held.
    Whole { generation: u64, turn: Turn },
}

pub(crate) type Turn = OwnedMutexGuard<Option<Coming>>;

/// What has come of one snapshot.
pub(crate) struct Coming {
    summary: SnapshotSummary,
    generation: u64,
    writer: RowWriter,
}

/// The way in for one group.
pub(crate) struct IncomingRows {
    store: Arc<RowStore>,
    coming: Arc<Mutex<Option<Coming>>>,
}

impl IncomingRows {
    pub(crate) fn new(store: Arc<RowStore>) -> Arc<IncomingRows> {
        Arc::new(IncomingRows { store, coming: Arc::default() })
    }

    /// Takes a piece. One that does not follow the last is not added; the answer says which one would. With the last piece comes the checksum of all.
    /// Must not be dropped before it ends: rows of one that was given up could come among those of the next.
    pub(crate) async fn take(
        &self,
        summary: SnapshotSummary,
        offset: u64,
        piece: &[u8],
        checksum: Option<u64>,
    ) -> Result<RowsReceived, IncomingError> {
        let mut turn = self.coming.clone().lock_owned().await;
        let held = self.store.snapshot()?.and_then(|held| held.summary.last);
        if held >= summary.last {
            *turn = None;
            return Ok(RowsReceived::NotNeeded);
        }
        // After an error nothing is left of it: it begins anew.
        let mut coming = match turn.take() {
            Some(coming) if coming.summary == summary => coming,
            // Another one takes its place.
            _ => {
                self.give_up_others().await?;
                Coming { summary, generation: self.store.generation() + 1, writer: RowWriter::new() }
            }
        };
        if offset != coming.writer.bytes() {
            let bytes = coming.writer.bytes();
            *turn = Some(coming);
            return Ok(RowsReceived::Partly { bytes });
        }
        let rows = coming.writer.take(piece)?;
        let (generation, bytes) = (coming.generation, coming.writer.bytes());
        if !rows.is_empty() {
            let store = self.store.clone();
            aside(store.waits(), move || store.put_next(generation, rows)).await??;
        }
        match checksum {
            None => {
                *turn = Some(coming);
                Ok(RowsReceived::Partly { bytes })
            }
            Some(checksum) if coming.writer.is_whole(checksum) => Ok(RowsReceived::Whole { generation, turn }),
            Some(_) => Err(IncomingError::Checksum),
        }
    }

    /// Gives up the rows that are not the state's. Nothing may be coming in.
    pub(crate) async fn give_up_others(&self) -> Result<(), RowsError> {
        let store = self.store.clone();
        aside(store.waits(), move || store.give_up_others()).await?
    }
}
