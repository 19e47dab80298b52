//! The store over `wal`, in a region of a device or a folder.
//!
//! Group commit is the wal's: what queues up while a write is on its way, of all groups, goes into the next one.
//!
//! Room: a group that is quiet holds the segment in which it wrote last. [`WalStore::tidy`] says again, at the log's end, what groups hold in the
//! oldest segment. It returns from where on the log is needed; the owner keeps that durably, and then calls [`WalStore::give_up_before`]: the log
//! is truncated one persist behind. With more than [`WalStore::is_crowded`] the owner is to call it. Groups together hold at most
//! [`WalStore::max_groups`] times their bounds, which is half of the log.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::wal::{Lsn, OpenOptions, Pending, SegmentStore, Wal};
use bytes::Bytes;
use env::Env;
use tokio::sync::Mutex;

use super::{Replayed, StoreError};
use crate::id::{GroupId, OpSeq};
use crate::limits::LogLimits;
use crate::record::{Change, ENTRY_HEAD_BYTES, Record};
use crate::saved::{Replay, Saved};

/// Bytes of a group's records besides its entries, at most: a promise, a base, and the heads of records.
const GROUP_OVERHEAD_BYTES: u64 = 4096;

/// The records of all groups of a meta server.
pub struct WalStore {
    wal: Wal,
    /// Segments that the log may have.
    segments: usize,
    max_groups: usize,
    /// Held while records are queued, so that callers keep their order.
    groups: Mutex<BTreeMap<GroupId, Kept>>,
}

/// A group as the queued records say it.
#[derive(Default)]
struct Kept {
    replay: Replay,
    /// The first record that says something that still holds.
    from: Option<Lsn>,
}

/// Completes when the records are durable. Dropping it takes nothing back.
pub struct Durable(Option<Pending>);

impl Future for Durable {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            None => Poll::Ready(Ok(())),
            Some(pending) => Pin::new(pending).poll(context).map(|outcome| outcome.map(drop).map_err(StoreError::from)),
        }
    }
}

impl WalStore {
    /// Opens the log, or begins it: with what each group has. `keep_from` is what the owner kept of [`WalStore::tidy`]. The log takes
    /// at most `segments` segments.
    pub async fn open(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        segments: usize,
        keep_from: Lsn,
        limits: &LogLimits,
    ) -> Result<(WalStore, BTreeMap<GroupId, Saved>), StoreError> {
        let most_entries = (limits.bytes + limits.entries * ENTRY_HEAD_BYTES) as u64;
        let half = store.segment_bytes() * segments as u64 / 2;
        let max_groups = (half / (most_entries + GROUP_OVERHEAD_BYTES)) as usize;
        let mut replayed = Replayed::default();
        let mut from = BTreeMap::new();
        let mut wrong = None;
        let mut take = |lsn: Lsn, payload: &[u8]| match Record::decode(&Bytes::copy_from_slice(payload)) {
            Ok(record) => {
                from.entry(record.group).or_insert(lsn);
                replayed.apply(&record);
            }
            Err(error) => wrong = wrong.take().or(Some(error)),
        };
        let options = OpenOptions { keep_from, ..OpenOptions::default() };
        let wal = Wal::open(env, store, options, &mut take).await?;
        if let Some(error) = wrong {
            return Err(error.into());
        }
        let saved = replayed.finish()?;
        let kept = |(group, saved): (&GroupId, &Saved)| {
            (*group, Kept { replay: Replay::from(saved.clone()), from: from.get(group).copied() })
        };
        let groups = Mutex::new(saved.iter().map(kept).collect());
        Ok((WalStore { wal, segments, max_groups, groups }, saved))
    }

    /// Groups that the log has room for.
    pub fn max_groups(&self) -> usize {
        self.max_groups
    }

    /// Queues records in this order, behind those of earlier calls. It waits for room in the queue, not for the medium.
    pub async fn queue(&self, records: &[Record]) -> Result<Durable, StoreError> {
        let mut groups = self.groups.lock().await;
        let mut last = None;
        for record in records {
            if !groups.contains_key(&record.group) && groups.len() >= self.max_groups {
                return Err(StoreError::TooManyGroups { most: self.max_groups });
            }
            let pending = self.append(record).await?;
            last = Some(take_in(&mut groups, record, pending));
        }
        Ok(Durable(last))
    }

    /// The same without waiting; none if that can't be: nothing is queued then.
    pub fn try_queue(&self, records: &[Record]) -> Result<Option<Durable>, StoreError> {
        let Ok(mut groups) = self.groups.try_lock() else { return Ok(None) };
        let is_new = |record: &Record| !groups.contains_key(&record.group);
        if groups.len() >= self.max_groups && records.iter().any(is_new) {
            return Err(StoreError::TooManyGroups { most: self.max_groups });
        }
        let mut ready = Vec::with_capacity(records.len());
        for record in records {
            let bytes = record.encode();
            let Some(room) = self.wal.try_reserve(bytes.len())? else { return Ok(None) };
            ready.push((room, bytes));
        }
        let mut last = None;
        for (record, (room, bytes)) in records.iter().zip(ready) {
            last = Some(take_in(&mut groups, record, room.append(bytes)?));
        }
        Ok(Some(Durable(last)))
    }

    async fn append(&self, record: &Record) -> Result<Pending, StoreError> {
        let bytes = record.encode();
        Ok(self.wal.reserve(bytes.len()).await?.append(bytes)?)
    }

    /// Whether more than half of the log's segments are in use.
    pub fn is_crowded(&self) -> bool {
        self.wal.live_segment_count() * 2 > self.segments
    }

    /// Says again what groups hold in the oldest segment. Returns, when that is durable, from where on the log is needed; none if nothing
    /// can be given up.
    pub async fn tidy(&self) -> Result<Option<Lsn>, StoreError> {
        let mut groups = self.groups.lock().await;
        let Some(end) = self.wal.second_segment_lsn() else { return Ok(None) };
        let mut last = None;
        for (group, kept) in groups.iter_mut().filter(|(_, kept)| kept.from.is_some_and(|from| from < end)) {
            let mut first = None;
            for change in said_again(kept.replay.saved()) {
                let pending = self.append(&Record { group: *group, change }).await?;
                first = first.or(Some(pending.lsn()));
                last = Some(pending);
            }
            kept.from = first;
        }
        let from = groups.values().filter_map(|kept| kept.from).min();
        drop(groups);
        Durable(last).await?;
        Ok(from)
    }

    /// Gives up the records before this one, which the owner keeps durably as the first that it needs.
    pub fn give_up_before(&self, lsn: Lsn) {
        self.wal.truncate_before(lsn);
    }
}

/// A record was queued.
fn take_in(groups: &mut BTreeMap<GroupId, Kept>, record: &Record, pending: Pending) -> Pending {
    let kept = groups.entry(record.group).or_default();
    kept.from.get_or_insert(pending.lsn());
    kept.replay.apply(&record.change);
    pending
}

/// Records that say what a group has.
fn said_again(saved: &Saved) -> Vec<Change> {
    let mut changes = vec![Change::Promise(saved.promised)];
    if saved.loading {
        changes.push(Change::Reset);
        return changes;
    }
    changes.push(Change::Base(saved.log.base()));
    let mut after: OpSeq = saved.log.base().opseq;
    while let Some(batch) = saved.log.batch_after(after).filter(|batch| !batch.is_empty()) {
        after = batch.last().map_or(after, |entry| entry.position.opseq);
        changes.push(Change::Entries(batch));
    }
    changes
}

#[cfg(test)]
mod tests;
