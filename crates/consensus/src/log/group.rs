//! One group's part of the shared log: what its Raft reads and writes.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use wal::{AppendError, Failure, Lsn, Pending, Reservation};

use super::state::GroupState;
use super::{Claim, LONGEST_RECORD_BYTES, Purpose, SharedLog, Snapshot, snapshot_checksum};
use crate::id::{GroupId, LogIndex, LogPosition, NodeId};
use crate::limits::{MAX_BATCH_BYTES, SNAPSHOT_PIECE_BYTES};
use crate::record::{Blob, Change, Content, Entry, RECORD_OVERHEAD_BYTES, Record, Vote};

/// A snapshot was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error("the node is shut down")]
    Closed,
}

/// The log of one group. Clones share it.
#[derive(Clone)]
pub(crate) struct GroupLog {
    log: SharedLog,
    group: GroupId,
    state: Arc<Mutex<GroupState>>,
}

impl GroupLog {
    pub(super) fn new(log: SharedLog, group: GroupId, state: Arc<Mutex<GroupState>>) -> Self {
        GroupLog { log, group, state }
    }

    pub(crate) fn id(&self) -> GroupId {
        self.group
    }

    pub(super) fn log(&self) -> &SharedLog {
        &self.log
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock()
    }

    /// How many entries make a snapshot worth its while.
    pub(crate) fn snapshot_after(&self) -> u64 {
        self.log.inner.snapshot_after
    }

    /// The vote; durable when this returns.
    pub(crate) async fn save_vote(&self, vote: Vote) -> Result<(), AppendError> {
        let pending = self.write(Change::Vote(vote), |state, lsn| state.set_vote(vote, lsn)).await?;
        pending.await.map(drop)
    }

    /// Room for entries of so many bytes; none if the log is nearly full.
    pub(crate) fn claim(&self, bytes: usize, purpose: Purpose) -> Option<Claim> {
        self.log.claim_for_entries(self, bytes, purpose)
    }

    /// As [`GroupLog::save_snapshot`], as soon as there is room.
    pub(crate) async fn save_snapshot_in_time(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let Some(_claim) = self.log.wait_for_snapshot_room(snapshot.bytes.len()).await else {
            return Err(SnapshotError::Closed);
        };
        Ok(self.save_snapshot(snapshot).await?)
    }

    /// Waits for room in the row store; false if the node is shut down.
    pub(crate) async fn wait_until(&self, has_room: impl Fn() -> bool) -> bool {
        if !has_room() {
            tracing::warn!(group = %self.group, "the file system of the rows is nearly full: no snapshot is made until there is room, and the log gets longer");
        }
        self.log.wait_until(has_room).await
    }

    /// Has entries count as written when they outlive the process, if the group has no other member than this one. Whether they do.
    pub(crate) fn begin_order(&self, node: NodeId) -> bool {
        let mut state = self.state.lock();
        let is_ordered = state.is_ordered() || state.is_sole(node);
        let is_kept = is_ordered && self.log.inner.wal.begin_keeping();
        state.set_ordered(is_kept);
        is_kept
    }

    /// Entries count as written when they are durable; when this returns all are.
    pub(crate) async fn end_order(&self) -> Result<(), AppendError> {
        let was_ordered = {
            let mut state = self.state.lock();
            let was_ordered = state.is_ordered();
            state.set_ordered(false);
            was_ordered
        };
        if was_ordered { self.log.settle().await } else { Ok(()) }
    }

    /// Waits until all entries that count as written are durable.
    pub(crate) async fn settle(&self) -> Result<(), AppendError> {
        self.log.settle().await
    }

    /// Puts entries after the last one. They can be read at once; they are durable when the record that is returned is.
    pub(crate) async fn append(&self, entries: Vec<Entry>) -> Result<Option<Pending>, AppendError> {
        let mut last = None;
        if entries.iter().any(|entry| matches!(entry.content, Content::Membership(_))) {
            self.state.lock().set_ordered(false);
        }
        for batch in batches(entries) {
            let committed = self.state.lock().committed();
            let change = Change::Entries { committed, entries: batch.clone() };
            let note = |state: &mut GroupState, lsn| {
                for entry in batch {
                    state.put(entry, lsn);
                }
            };
            let bytes = Record { group: self.group, change }.encode();
            let room = self.log.inner.wal.reserve(bytes.len()).await?;
            let mut state = self.state.lock();
            let may_wait = state.is_ordered();
            last = Some(self.queue(room, &mut state, bytes, may_wait, note)?);
        }
        Ok(last)
    }

    /// Drops entries after `last`. Later records cannot become durable before this.
    pub(crate) async fn truncate(&self, last: Option<LogPosition>) -> Result<(), AppendError> {
        self.write(Change::Truncate { last }, |state, _| state.truncate(last)).await.map(drop)
    }

    /// Drops entries through `last`. Later records cannot become durable before this.
    pub(crate) async fn purge(&self, last: LogPosition) -> Result<(), AppendError> {
        self.write(Change::Purge { last }, |state, lsn| state.purge(last, lsn)).await?;
        self.log.inner.untidy.notify_one();
        Ok(())
    }

    /// Keeps a snapshot; durable when this returns. Its room is claimed.
    pub(crate) async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), AppendError> {
        {
            let _turn = self.log.inner.writing_snapshot.lock().await;
            self.write_snapshot(snapshot).await?;
        }
        self.log.inner.untidy.notify_one();
        Ok(())
    }

    /// Writes a snapshot. One at a time does: if several lay across each other, all would have to be said again before a segment got free.
    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), AppendError> {
        let number = self.state.lock().number_snapshot();
        let unfinished = Unfinished { state: &self.state, number };
        let (bytes, checksum) = (snapshot.bytes.len() as u64, snapshot_checksum(&snapshot.bytes));
        let begin = Change::SnapshotBegin { number, summary: snapshot.summary.clone(), bytes, checksum };
        self.write(begin, |state, lsn| state.begin_snapshot(number, lsn)).await?;
        let mut offset = 0;
        while offset < snapshot.bytes.len() {
            let end = (offset + SNAPSHOT_PIECE_BYTES).min(snapshot.bytes.len());
            let piece = Blob(snapshot.bytes.slice(offset..end));
            // Waiting for each piece leaves room between them for other groups.
            self.write(Change::SnapshotPiece { number, offset: offset as u64, piece }, |_, _| {}).await?.await?;
            offset = end;
        }
        self.write(Change::SnapshotEnd { number }, |_, _| {}).await?.await?;
        self.state.lock().end_snapshot(number, snapshot);
        drop(unfinished);
        Ok(())
    }

    /// Says again, at the log's end, what the group needs of the records before `before`. Durable when a later record is.
    pub(super) async fn say_again(&self, before: Lsn) -> Result<(), AppendError> {
        {
            let _turn = self.log.inner.writing_snapshot.lock().await;
            let snapshot = self.state.lock().snapshot_before(before).cloned();
            if let Some(snapshot) = snapshot {
                self.write_snapshot(snapshot).await?;
            }
        }
        let mut next = Some(0);
        while let Some(index) = next {
            let room = self.log.inner.wal.reserve(LONGEST_RECORD_BYTES).await?;
            next = self.say_entries_again(room, index, before)?;
        }
        let room = self.log.inner.wal.reserve(2 * RECORD_OVERHEAD_BYTES).await?;
        {
            let mut state = self.state.lock();
            if let Some(last) = state.purge_before(before) {
                self.write_now(room, &mut state, Change::Purge { last }, |state, lsn| state.moved_purge(lsn))?;
            }
        }
        let room = self.log.inner.wal.reserve(2 * RECORD_OVERHEAD_BYTES).await?;
        let mut state = self.state.lock();
        if let Some(vote) = state.vote_before(before) {
            self.write_now(room, &mut state, Change::Vote(vote), |state, lsn| state.set_vote(vote, lsn))?;
        }
        Ok(())
    }

    /// Writes the entries from `index` on that stand before `before` and fit one record, as they are at this moment. Returns where to go on.
    fn say_entries_again(&self, room: Reservation, index: u64, before: Lsn) -> Result<Option<u64>, AppendError> {
        let mut state = self.state.lock();
        let Some(old) = state.entries_before(index, before) else { return Ok(None) };
        let first = old.start;
        let entries = state.entries(old, MAX_BATCH_BYTES);
        let end = first + entries.len() as u64;
        let range = Range { start: LogIndex(first), end: LogIndex(end) };
        let change = Change::Entries { committed: state.committed(), entries };
        self.write_now(room, &mut state, change, |state, lsn| state.moved(range, lsn))?;
        Ok(Some(end))
    }

    /// Queues a record and notes it in memory, as one step.
    async fn write(&self, change: Change, note: impl FnOnce(&mut GroupState, Lsn)) -> Result<Pending, AppendError> {
        let bytes = Record { group: self.group, change }.encode();
        let room = self.log.inner.wal.reserve(bytes.len()).await?;
        self.queue(room, &mut self.state.lock(), bytes, false, note)
    }

    fn write_now(
        &self,
        room: Reservation,
        state: &mut GroupState,
        change: Change,
        note: impl FnOnce(&mut GroupState, Lsn),
    ) -> Result<Pending, AppendError> {
        self.queue(room, state, Record { group: self.group, change }.encode(), false, note)
    }

    fn queue(
        &self,
        room: Reservation,
        state: &mut GroupState,
        bytes: Vec<u8>,
        may_wait: bool,
        note: impl FnOnce(&mut GroupState, Lsn),
    ) -> Result<Pending, AppendError> {
        if state.is_removed() {
            env::mark("consensus: a removed group writes no more");
            let reason = format!("group {} was removed", self.group);
            return Err(AppendError::Poisoned(Arc::new(Failure::Owner { reason })));
        }
        let pending = if may_wait { room.append_kept(bytes)? } else { room.append(bytes)? };
        note(state, pending.lsn());
        Ok(pending)
    }
}

/// A snapshot whose writing ends early holds no record back.
struct Unfinished<'a> {
    state: &'a Mutex<GroupState>,
    number: u64,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.state.lock().abandon_snapshot(self.number);
    }
}

/// Splits entries so that each part fits a record.
fn batches(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut parts: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        bytes += entry.bytes();
        match parts.last_mut() {
            Some(part) if bytes <= MAX_BATCH_BYTES => part.push(entry),
            _ => {
                bytes = entry.bytes();
                parts.push(vec![entry]);
            }
        }
    }
    parts
}
