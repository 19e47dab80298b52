//! A state machine, as Raft sees it: in memory, rebuilt from the newest snapshot and the entries after it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use env::watch;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::Mutex;

use super::types::{RaftLogId, RaftSnapshot, SnapshotMeta, StoredMembership, Types, own_summary, position, raft_meta};
use crate::id::LogIndex;
use crate::limits::MAX_SNAPSHOT_BYTES;
use crate::log::{GroupLog, Snapshot};
use crate::machine::{ErasedMachine, FrozenState, Reply};

/// The state machine of one group, with what Raft wants to know about it.
pub(crate) struct Machine {
    log: GroupLog,
    machine: Arc<dyn ErasedMachine>,
    applied: Option<RaftLogId>,
    membership: StoredMembership,
    /// Tells readers how far it is.
    progress: watch::Sender<Option<LogIndex>>,
}

impl Machine {
    pub(crate) fn new(log: GroupLog, machine: Arc<dyn ErasedMachine>, progress: watch::Sender<Option<LogIndex>>) -> Self {
        Machine { log, machine, applied: None, membership: StoredMembership::default(), progress }
    }

    fn note_applied(&mut self, applied: Option<RaftLogId>) {
        self.applied = applied;
        self.progress.send_replace(applied.map(|id| position(id).index));
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
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
        Builder {
            log: self.log.clone(),
            frozen: Mutex::new(Some(self.machine.snapshot())),
            meta: SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() },
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        let summary = own_summary(meta);
        // At a start Raft hands over the one that the log holds.
        let is_known = self.log.state().snapshot().is_some_and(|known| known.summary == summary && known.bytes == snapshot);
        if !is_known {
            self.log.save_snapshot(Snapshot { summary, bytes: snapshot.clone() }).await.map_err(io::Error::other)?;
        }
        self.machine.restore(&snapshot).map_err(io::Error::other)?;
        env::mark("consensus: a state restored from a snapshot");
        self.membership = meta.last_membership.clone();
        self.note_applied(meta.last_log_id);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, io::Error> {
        let current = self.log.state().snapshot().cloned();
        let Some(Snapshot { summary, bytes }) = current else { return Ok(None) };
        Ok(Some(RaftSnapshot { meta: raft_meta(summary).map_err(io::Error::other)?, snapshot: bytes }))
    }
}

/// A snapshot in the making.
pub(crate) struct Builder {
    log: GroupLog,
    frozen: Mutex<Option<FrozenState>>,
    meta: SnapshotMeta,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, io::Error> {
        let frozen = self.frozen.get_mut().take().ok_or_else(|| io::Error::other("a frozen state makes one snapshot"))?;
        let bytes = Bytes::from(frozen());
        if bytes.len() > MAX_SNAPSHOT_BYTES {
            let reason = format!("a snapshot of {} bytes; at most {MAX_SNAPSHOT_BYTES} are allowed", bytes.len());
            return Err(io::Error::other(reason));
        }
        let snapshot = Snapshot { summary: own_summary(&self.meta), bytes: bytes.clone() };
        self.log.save_snapshot_in_time(snapshot).await.map_err(io::Error::other)?;
        Ok(RaftSnapshot { meta: self.meta.clone(), snapshot: bytes })
    }
}
