//! The one way of a change: its record to the journal and its content to fresh blocks at once; then the table has it.

use std::sync::Arc;

use disk::AlignedBuf;
use futures_util::future::{join, join_all};
use wal::Wal;

use super::layout::{Span, blocks_of};
use super::limits::{CHECKPOINT_AT_SEGMENTS, HOLD_AT_SEGMENTS};
use super::page::Mapped;
use super::record::{Change, Record, Write};
use super::{Inner, State, segments};
use crate::data::DataError;

impl State {
    /// Records below this number are durable, and their content is written.
    pub fn done_below(&self) -> u64 {
        self.flight.first().copied().unwrap_or(self.next_record)
    }

    /// Refuses what writes, if nothing is written any more.
    pub fn check_writable(&self) -> Result<(), DataError> {
        match &self.failure {
            Some(failure) => Err(DataError::Unavailable(failure.clone())),
            None if self.is_closed => Err(DataError::Unavailable("it is being closed and takes no writes".to_owned())),
            None => Ok(()),
        }
    }

    /// The journal has a record.
    fn handed_over(&mut self, number: u64, record: &Record) {
        self.flight.insert(number);
        self.next_record = number + 1;
        self.told_settled = record.settled_below;
        if matches!(record.change, Change::Write(_)) {
            self.last_write = number;
        }
    }

    /// Whether a start now would look at content that is settled.
    pub fn owes_settled(&self, settled_below: u64) -> bool {
        self.told_settled <= self.last_write && self.last_write < settled_below
    }

    /// A record is durable, and its content.
    fn apply(&mut self, record: u64, change: &Change) {
        let former = match change {
            Change::Create(extent) => {
                self.table.create(*extent);
                Vec::new()
            }
            Change::Write(write) => {
                if write.makes_extent {
                    self.table.create(write.extent);
                }
                let former = self.table.put(write.extent, write.first_block, write.len, &mapped(write));
                self.promised_blocks -= write.block_count();
                former.expect("an extent that is latched is not removed")
            }
            Change::Punch { extent, first_block, count } => self.table.punch(*extent, *first_block..first_block + count),
            Change::Remove(extent) => self.table.remove(*extent),
            Change::Cut { extent, len } => self.table.cut(*extent, *len),
            Change::Settled => Vec::new(),
        };
        if matches!(change, Change::Punch { .. } | Change::Remove(_) | Change::Cut { .. }) {
            self.freed_blocks += former.len() as u64;
        }
        self.space.free_later(record, &former);
    }
}

/// The blocks of a write.
pub fn mapped(write: &Write) -> Vec<Option<Mapped>> {
    blocks_of(&write.places).zip(&write.sums).map(|(place, sum)| Some(Mapped { place, sum: *sum })).collect()
}

impl Inner {
    pub(super) fn journal(&self) -> &Wal {
        self.journal.get().expect("a store that has an extent has a journal")
    }

    /// Makes a change durable. The caller has a latch on what it changes.
    pub(super) async fn commit(self: &Arc<Self>, change: Change, content: Vec<(Span, AlignedBuf)>) -> Result<(), DataError> {
        let journal = self.journal();
        // The number is written in as many bytes as it needs.
        let longest = Record { settled_below: u64::MAX, change };
        let room = journal.reserve(longest.encode().len()).await.map_err(|error| self.fail(&error))?;
        let (record, pending) = {
            let mut state = self.state.lock();
            state.check_writable()?;
            let record = Record { settled_below: self.settling.settled_below(), change: longest.change };
            let pending = match room.append(record.encode()) {
                Ok(pending) => pending,
                Err(error) => {
                    drop(state);
                    return Err(self.fail(&error));
                }
            };
            state.handed_over(pending.lsn().0, &record);
            self.settling.note_done(state.done_below());
            (record, pending)
        };
        let number = pending.lsn().0;
        let bytes: usize = content.iter().map(|(span, _)| span.bytes()).sum();
        let writing = content.into_iter().map(|(span, buf)| self.volume.write(span.offset(), buf));
        let (written, journaled) = join(join_all(writing), pending).await;
        written.into_iter().collect::<Result<(), _>>().map_err(|error| self.fail(&error))?;
        journaled.map_err(|error| self.fail(&error))?;
        {
            let mut state = self.state.lock();
            state.apply(number, &record.change);
            state.flight.remove(&number);
            self.settling.note_done(state.done_below());
            state.space.release(self.settling.settled_below());
        }
        self.counters.journal_records.add(1);
        if bytes > 0 {
            self.counters.writes.add(1);
            self.counters.written_bytes.add(bytes as u64);
        }
        self.changed.notify_waiters();
        if journal.live_segment_count() >= CHECKPOINT_AT_SEGMENTS {
            self.begin_checkpoint();
        }
        Ok(())
    }

    /// Ends all writing: what the medium holds is known again after the next start.
    pub(super) fn fail(&self, error: &(dyn std::error::Error + 'static)) -> DataError {
        let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
        let reason = causes.collect::<Vec<_>>().join(": ");
        let failure = {
            let mut state = self.state.lock();
            if state.failure.is_none() {
                tracing::error!(device = self.volume.device().0, reason, "the files of a device are only read from now on");
            }
            state.failure.get_or_insert(reason).clone()
        };
        self.changed.notify_waiters();
        DataError::Unavailable(failure)
    }

    /// Waits while the journal is nearly full. What gives space back does not wait.
    pub(super) async fn journal_turn(self: &Arc<Self>) -> Result<(), DataError> {
        loop {
            let changed = self.changed.notified();
            self.state.lock().check_writable()?;
            if self.journal().live_segment_count() < HOLD_AT_SEGMENTS {
                return Ok(());
            }
            self.begin_checkpoint();
            changed.await;
        }
    }

    /// Has all that is done be settled, so that blocks which it gave up can be used again.
    pub(super) async fn settle(&self) -> Result<(), DataError> {
        segments::flush(&self.volume, &self.settling).await.map_err(|error| super::refusal(&error))?;
        self.state.lock().space.release(self.settling.settled_below());
        Ok(())
    }
}
