//! Writing rows, and looking at those of one moment.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use kv::{Batch, CommitError, Kv, KvRead, PersistError, ReadError, Visit};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Row;
use crate::id::GroupId;
use crate::limits::{GIVEN_UP_ROWS, LOAD_ROWS};
use crate::machine::RowChange;
use crate::record::SnapshotSummary;

/// The newest layout of a header: the first one.
const HEADER_VERSION: u8 = 1;

/// Under this "generation" stands the header.
const HEADER: u64 = 0;

/// Rows can't be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowsError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Persist(#[from] PersistError),
    #[error("the header of group {group}'s rows: {reason}")]
    Header { group: GroupId, reason: String },
    #[error("the task that does it has ended")]
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    generation: u64,
    summary: SnapshotSummary,
}

/// The rows of one group.
pub(crate) struct RowStore {
    kv: Arc<dyn Kv>,
    group: GroupId,
    /// The generation of the state. Held while a batch is written that has the header.
    generation: Mutex<u64>,
}

fn key_of(group: GroupId, generation: u64, key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(2 * size_of::<u64>() + key.len());
    whole.extend_from_slice(&group.0.to_be_bytes());
    whole.extend_from_slice(&generation.to_be_bytes());
    whole.extend_from_slice(key);
    whole
}

fn header_in(kv: &dyn KvRead, group: GroupId) -> Result<Option<Header>, RowsError> {
    let Some(bytes) = kv.get(&key_of(group, HEADER, &[]))? else { return Ok(None) };
    let decoded = match bytes.split_first() {
        Some((&HEADER_VERSION, rest)) => postcard::from_bytes(rest).map_err(|error| error.to_string()),
        _ => Err(format!("it is of version {:?}; this program reads up to {HEADER_VERSION}", bytes.first())),
    };
    decoded.map(Some).map_err(|reason| RowsError::Header { group, reason })
}

impl RowStore {
    pub(crate) fn open(kv: &Arc<dyn Kv>, group: GroupId) -> Result<RowStore, RowsError> {
        let header = header_in(kv.as_ref(), group)?;
        let generation = header.map_or(HEADER + 1, |header| header.generation);
        Ok(RowStore { kv: Arc::clone(kv), group, generation: Mutex::new(generation) })
    }

    /// Whether writes wait for a device.
    pub(crate) fn waits(&self) -> bool {
        self.kv.persist_waits()
    }

    pub(crate) fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// The state as it is durable or about to be; none if no snapshot was ever made.
    pub(crate) fn snapshot(&self) -> Result<Option<RowSnapshot>, RowsError> {
        let view = self.kv.snapshot()?;
        let header = header_in(view.as_ref(), self.group)?;
        Ok(header.map(|header| RowSnapshot {
            view,
            prefix: key_of(self.group, header.generation, &[]),
            summary: header.summary,
        }))
    }

    /// Whether there is room for changes.
    pub(crate) fn has_room(&self, changes: &[RowChange]) -> bool {
        let bytes = changes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        self.kv.has_room(bytes.sum())
    }

    /// Writes a snapshot: what has changed since the last one. Durable when this returns. False if the generation, of which the changes are, is not
    /// the state's any more: then nothing is written.
    pub(crate) fn save(&self, generation: u64, summary: SnapshotSummary, changes: Vec<RowChange>) -> Result<bool, RowsError> {
        let current = self.generation.lock();
        if *current != generation {
            return Ok(false);
        }
        let mut batch = Batch::new();
        for (key, value) in changes {
            let key = key_of(self.group, generation, &key);
            match value {
                Some(value) => batch.put(key, value),
                None => batch.remove(key),
            }
        }
        self.put_header(&mut batch, Header { generation, summary });
        self.kv.commit(batch)?;
        self.kv.persist()?;
        Ok(true)
    }

    /// Rows of the next generation.
    pub(crate) fn put_next(&self, generation: u64, rows: Vec<Row>) -> Result<(), RowsError> {
        assert!(generation > self.generation(), "rows that come in are not the state's");
        let mut batch = Batch::new();
        for (key, value) in rows {
            batch.put(key_of(self.group, generation, &key), value);
        }
        Ok(self.kv.commit(batch)?)
    }

    /// From now on the state is this generation's. Durable when this returns.
    pub(crate) fn switch(&self, generation: u64, summary: SnapshotSummary) -> Result<(), RowsError> {
        let mut current = self.generation.lock();
        let mut batch = Batch::new();
        self.put_header(&mut batch, Header { generation, summary });
        self.kv.commit(batch)?;
        self.kv.persist()?;
        *current = generation;
        Ok(())
    }

    fn put_header(&self, batch: &mut Batch, header: Header) {
        let value = postcard::to_extend(&header, vec![HEADER_VERSION]).expect("a vector takes everything");
        batch.put(key_of(self.group, HEADER, &[]), value);
    }

    /// Gives up the rows of all generations but the state's.
    pub(crate) fn give_up_others(&self) -> Result<(), RowsError> {
        let current = self.generation();
        let first = key_of(self.group, HEADER + 1, &[]);
        self.give_up(first, key_of(self.group, current, &[]))?;
        let beyond = key_of(self.group, current + 1, &[]);
        self.give_up(beyond, key_of(GroupId(self.group.0 + 1), HEADER, &[]))
    }

    fn give_up(&self, first: Vec<u8>, end: Vec<u8>) -> Result<(), RowsError> {
        give_up(self.kv.as_ref(), first, &end)
    }
}

/// Gives up the rows between two keys.
fn give_up(kv: &dyn Kv, mut first: Vec<u8>, end: &[u8]) -> Result<(), RowsError> {
    loop {
        let (mut batch, from) = (Batch::new(), std::mem::take(&mut first));
        kv.scan(Bound::Included(&from), Bound::Excluded(end), &mut |key, _| {
            batch.remove(key);
            first = [key, &[0]].concat();
            if batch.len() < GIVEN_UP_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if batch.is_empty() {
            return Ok(());
        }
        kv.commit(batch)?;
    }
}

/// Gives up all rows of a group that has left the node.
pub(crate) fn forget(kv: &dyn Kv, group: GroupId) -> Result<(), RowsError> {
    give_up(kv, key_of(group, HEADER, &[]), &key_of(GroupId(group.0 + 1), HEADER, &[]))?;
    Ok(kv.persist()?)
}

/// The groups that have rows.
pub(crate) fn groups(kv: &dyn Kv) -> Result<Vec<GroupId>, RowsError> {
    let mut found: Vec<GroupId> = Vec::new();
    let mut first = Vec::new();
    loop {
        let mut next = None;
        kv.scan(Bound::Included(&first), Bound::Unbounded, &mut |key, _| {
            next = key.first_chunk().map(|group| GroupId(u64::from_be_bytes(*group)));
            ControlFlow::Break(())
        })?;
        let Some(group) = next else { return Ok(found) };
        found.push(group);
        first = key_of(GroupId(group.0 + 1), HEADER, &[]);
    }
}

/// The rows of one moment.
pub(crate) struct RowSnapshot {
    view: Box<dyn KvRead>,
    prefix: Vec<u8>,
    pub(crate) summary: SnapshotSummary,
}

impl RowSnapshot {
    /// Visits the rows behind a key, by their keys, until it breaks.
    pub(crate) fn scan(&self, after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError> {
        let prefix = &self.prefix;
        let strip = &mut |key: &[u8], value: &[u8]| {
            let row = key.strip_prefix(prefix.as_slice());
            row.map_or(ControlFlow::Break(()), |row| visit(row, value))
        };
        let first = [prefix, after.unwrap_or_default()].concat();
        match after {
            None => self.view.scan(Bound::Included(&first), Bound::Unbounded, strip),
            Some(_) => self.view.scan(Bound::Excluded(&first), Bound::Unbounded, strip),
        }
    }

    /// The rows in slices.
    pub(crate) fn slices(&self, take: &mut dyn FnMut(Vec<Row>) -> ControlFlow<()>) -> Result<(), ReadError> {
        let mut slice = Vec::with_capacity(LOAD_ROWS);
        let mut has_ended = false;
        self.scan(None, &mut |key, value| {
            slice.push((key.to_vec(), value.to_vec()));
            if slice.len() < LOAD_ROWS {
                return ControlFlow::Continue(());
            }
            let flow = take(std::mem::replace(&mut slice, Vec::with_capacity(LOAD_ROWS)));
            has_ended = flow.is_break();
            flow
        })?;
        if !has_ended && !slice.is_empty() {
            let _: ControlFlow<()> = take(slice);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
