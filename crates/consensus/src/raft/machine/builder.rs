//! A snapshot in the making.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::RaftSnapshotBuilder;
use parking_lot::Mutex;

use crate::limits::MAX_SNAPSHOT_BYTES;
use crate::log::{GroupLog, Snapshot};
use crate::machine::{FrozenState, RowChange};
use crate::raft::types::{RaftSnapshot, SnapshotData, SnapshotMeta, Types, own_summary};
use crate::rows::{RowStore, aside};

/// What it is made of.
pub(crate) enum Making {
    Whole(FrozenState),
    /// What has changed since the last one, of rows of this generation.
    Rows {
        store: Arc<RowStore>,
        generation: u64,
        changes: Vec<RowChange>,
    },
}

pub(crate) struct Builder {
    log: GroupLog,
    making: Mutex<Option<Making>>,
    meta: SnapshotMeta,
}

impl Builder {
    pub(super) fn new(log: GroupLog, making: Making, meta: SnapshotMeta) -> Builder {
        Builder { log, making: Mutex::new(Some(making)), meta }
    }

    async fn make_whole(&self, frozen: FrozenState) -> Result<SnapshotData, io::Error> {
        let bytes = Bytes::from(frozen());
        if bytes.len() > MAX_SNAPSHOT_BYTES {
            let reason = format!("a snapshot of {} bytes; at most {MAX_SNAPSHOT_BYTES} are allowed", bytes.len());
            return Err(io::Error::other(reason));
        }
        self.note_in_log(bytes.clone()).await?;
        Ok(SnapshotData::Whole(bytes))
    }

    /// First the rows, durably, then the log says so: it gives up what they cover.
    async fn make_rows(
        &self,
        store: Arc<RowStore>,
        generation: u64,
        changes: Vec<RowChange>,
    ) -> Result<SnapshotData, io::Error> {
        if !self.log.wait_until(|| store.has_room(&changes)).await {
            return Err(io::Error::other("the node is shut down"));
        }
        // Rows must not be ahead of the log.
        self.log.settle().await.map_err(io::Error::other)?;
        let (summary, saving) = (own_summary(&self.meta), store.clone());
        let saved = aside(store.waits(), move || saving.save(generation, summary, changes)).await.map_err(io::Error::other)?;
        if saved.map_err(io::Error::other)? {
            self.note_in_log(Bytes::new()).await?;
        } else {
            env::mark("consensus: changes of rows that a leader's snapshot has replaced");
        }
        let rows = store.snapshot().map_err(io::Error::other)?.ok_or_else(|| io::Error::other("rows without a header"))?;
        Ok(SnapshotData::Rows(Arc::new(rows)))
    }

    async fn note_in_log(&self, bytes: Bytes) -> Result<(), io::Error> {
        let snapshot = Snapshot { summary: own_summary(&self.meta), bytes };
        self.log.save_snapshot_in_time(snapshot).await.map_err(io::Error::other)
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, io::Error> {
        let making = self.making.get_mut().take().ok_or_else(|| io::Error::other("a frozen state makes one snapshot"))?;
        let snapshot = match making {
            Making::Whole(frozen) => self.make_whole(frozen).await?,
            Making::Rows { store, generation, changes } => self.make_rows(store, generation, changes).await?,
        };
        Ok(RaftSnapshot { meta: self.meta.clone(), snapshot })
    }
}
