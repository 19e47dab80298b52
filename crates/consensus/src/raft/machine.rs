//! A state machine, as Raft sees it: in memory, rebuilt from the newest snapshot and the entries after it.

mod builder;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use env::watch;
use futures_util::{Stream, TryStreamExt};
use kv::Kv;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};

use super::types::{
    RaftLogId, RaftSnapshot, SnapshotData, SnapshotMeta, StoredMembership, Types, own_summary, position, raft_meta,
};
use crate::id::LogIndex;
use crate::log::{GroupLog, Snapshot};
use crate::machine::{ErasedMachine, Frozen, Reply};
use crate::record::SnapshotSummary;
use crate::rows::{RowSnapshot, RowStore, aside, load};
use builder::{Builder, Making};

/// The state machine of one group, with what Raft wants to know about it.
pub(crate) struct Machine {
    log: GroupLog,
    machine: Arc<dyn ErasedMachine>,
    /// Of a machine that is kept as rows.
    rows: Option<Arc<RowStore>>,
    applied: Option<RaftLogId>,
    membership: StoredMembership,
    /// Tells readers how far it is.
    progress: watch::Sender<Option<LogIndex>>,
}

impl Machine {
    /// One that is kept as rows is brought to where they are.
    pub(crate) async fn open(
        log: GroupLog,
        machine: Arc<dyn ErasedMachine>,
        kv: &Arc<dyn Kv>,
        progress: watch::Sender<Option<LogIndex>>,
    ) -> Result<Self, io::Error> {
        let rows = match machine.keeps_rows() {
            true => Some(Arc::new(RowStore::open(kv, log.id()).map_err(io::Error::other)?)),
            false => None,
        };
        let mut machine = Machine { log, machine, rows, applied: None, membership: StoredMembership::default(), progress };
        machine.start_from_rows().await?;
        Ok(machine)
    }

    pub(crate) fn rows(&self) -> Option<Arc<RowStore>> {
        self.rows.clone()
    }

    async fn start_from_rows(&mut self) -> Result<(), io::Error> {
        let Some(store) = self.rows.clone() else { return Ok(()) };
        let rows = store.snapshot().map_err(io::Error::other)?;
        let in_log = self.log.state().snapshot().and_then(|snapshot| snapshot.summary.last);
        let in_rows = rows.as_ref().and_then(|rows| rows.summary.last);
        if in_rows < in_log {
            let reason =
                format!("the log counts on rows through {in_log:?}, and there are some through {in_rows:?}: rows were lost");
            return Err(io::Error::other(reason));
        }
        let Some(rows) = rows else { return Ok(()) };
        let summary = rows.summary.clone();
        if in_rows > in_log {
            // The node ended after it had made the snapshot and before the log said so.
            env::mark("consensus: a snapshot of rows that the log did not know");
            self.note_in_log(summary.clone()).await?;
        }
        self.load(rows, summary).await?;
        let store = store.clone();
        aside(store.waits(), move || store.give_up_others()).await.map_err(io::Error::other)?.map_err(io::Error::other)
    }

    /// The machine becomes what rows say.
    async fn load(&mut self, rows: RowSnapshot, summary: SnapshotSummary) -> Result<(), io::Error> {
        let (machine, waits) = (self.machine.clone(), self.rows.as_ref().is_some_and(|store| store.waits()));
        let loaded = aside(waits, move || load(&rows, machine.as_ref(), waits)).await.map_err(io::Error::other)?;
        loaded.map_err(io::Error::other)?;
        let meta = raft_meta(summary).map_err(io::Error::other)?;
        self.membership = meta.last_membership;
        self.note_applied(meta.last_log_id);
        Ok(())
    }

    /// The log says that rows cover entries.
    async fn note_in_log(&self, summary: SnapshotSummary) -> Result<(), io::Error> {
        let noted = Snapshot { summary, bytes: Bytes::new() };
        self.log.save_snapshot_in_time(noted).await.map_err(io::Error::other)
    }

    fn note_applied(&mut self, applied: Option<RaftLogId>) {
        self.applied = applied;
        self.progress.send_replace(applied.map(|id| position(id).index));
    }

    async fn install_whole(&mut self, meta: &SnapshotMeta, bytes: Bytes) -> Result<(), io::Error> {
        let summary = own_summary(meta);
        // At a start Raft hands over the one that the log holds.
        let is_known = self.log.state().snapshot().is_some_and(|known| known.summary == summary && known.bytes == bytes);
        if !is_known {
            self.log.save_snapshot(Snapshot { summary, bytes: bytes.clone() }).await.map_err(io::Error::other)?;
        }
        self.machine.restore(&bytes).map_err(io::Error::other)?;
        env::mark("consensus: a state restored from a snapshot");
        self.membership = meta.last_membership.clone();
        self.note_applied(meta.last_log_id);
        Ok(())
    }

    /// Rows of this generation become the state: first in the store, then in the log, then here.
    async fn install_rows(&mut self, meta: &SnapshotMeta, generation: u64) -> Result<(), io::Error> {
        let store = self.row_store()?;
        let (summary, switched) = (own_summary(meta), store.clone());
        let switch = {
            let summary = summary.clone();
            move || switched.switch(generation, summary)
        };
        aside(store.waits(), switch).await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.note_in_log(summary).await?;
        let rows = store.snapshot().map_err(io::Error::other)?.ok_or_else(|| io::Error::other("rows without a header"))?;
        let summary = rows.summary.clone();
        self.load(rows, summary).await?;
        env::mark("consensus: a state loaded from rows of a leader");
        Ok(())
    }

    fn row_store(&self) -> Result<Arc<RowStore>, io::Error> {
        self.rows.clone().ok_or_else(|| io::Error::other("rows for a machine that is kept as a whole"))
    }

    /// Copies rows into the next generation.
    fn copy_rows(&self, rows: &RowSnapshot) -> Result<u64, io::Error> {
        let store = self.row_store()?;
        store.give_up_others().map_err(io::Error::other)?;
        let generation = store.generation() + 1;
        let mut copied = Ok(());
        let read = rows.slices(&mut |slice| {
            copied = store.put_next(generation, slice);
            if copied.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(io::Error::other)?;
        copied.map_err(io::Error::other).map(|()| generation)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let reply = match entry.payload {
                EntryPayload::Blank => Reply::none(),
                EntryPayload::Normal(command) => {
                    self.machine.apply(LogIndex(entry.log_id.index()), &command.0).map_err(io::Error::other)?
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Reply::none()
                }
            };
            self.note_applied(Some(entry.log_id));
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() };
        let making = match (self.machine.freeze(), &self.rows) {
            (Frozen::Whole(frozen), _) => Making::Whole(frozen),
            (Frozen::Changes(changes), Some(store)) => {
                Making::Rows { store: store.clone(), generation: store.generation(), changes }
            }
            (Frozen::Changes(_), None) => unreachable!("a machine of rows has a row store"),
        };
        Builder::new(self.log.clone(), making, meta)
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> Result<(), io::Error> {
        match snapshot {
            SnapshotData::Whole(bytes) => self.install_whole(meta, bytes).await,
            SnapshotData::Received(generation) => self.install_rows(meta, generation).await,
            SnapshotData::Rows(rows) => {
                let generation = self.copy_rows(&rows)?;
                self.install_rows(meta, generation).await
            }
        }
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, io::Error> {
        if let Some(store) = &self.rows {
            let Some(rows) = store.snapshot().map_err(io::Error::other)? else { return Ok(None) };
            let meta = raft_meta(rows.summary.clone()).map_err(io::Error::other)?;
            return Ok(Some(RaftSnapshot { meta, snapshot: SnapshotData::Rows(Arc::new(rows)) }));
        }
        let current = self.log.state().snapshot().cloned();
        let Some(Snapshot { summary, bytes }) = current else { return Ok(None) };
        Ok(Some(RaftSnapshot { meta: raft_meta(summary).map_err(io::Error::other)?, snapshot: SnapshotData::Whole(bytes) }))
    }
}
