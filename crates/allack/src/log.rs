//! A group's log in memory.
//!
//! ```text
//!   given up │ base.opseq + 1 ........ last
//! ```
//!
//! Invariants
//! - Opseqs have no gaps, views never descend, neither from the base to the first entry.
//! - The base is a position of the same log: its entry was given up, or is covered by a loaded dump.

use std::collections::VecDeque;

use bytes::Bytes;
use types::ViewNumber;

use crate::id::{OpSeq, Position};
use crate::limits::{ENTRY_OVERHEAD_BYTES, LogLimits, MAX_BATCH_BYTES, MAX_BATCH_ENTRIES};

/// One mutation, opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub position: Position,
    pub payload: Bytes,
}

impl Entry {
    /// What it counts against limits.
    pub fn bytes(&self) -> usize {
        self.payload.len() + ENTRY_OVERHEAD_BYTES
    }
}

/// The entries that are not given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    base: Position,
    entries: VecDeque<Entry>,
    bytes: usize,
}

/// The views of a log without its entries: for each view the last opseq that it appended, ascending. The first row is the base.
pub type Views = Vec<Position>;

impl Log {
    /// A log that begins after `base`.
    pub fn after(base: Position) -> Log {
        Log { base, ..Log::default() }
    }

    pub fn base(&self) -> Position {
        self.base
    }

    pub fn last(&self) -> Position {
        self.entries.back().map_or(self.base, |entry| entry.position)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    fn index(&self, opseq: OpSeq) -> Option<usize> {
        let index = usize::try_from(opseq.0.checked_sub(self.base.opseq.0 + 1)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    pub fn entry(&self, opseq: OpSeq) -> Option<&Entry> {
        self.index(opseq).map(|index| &self.entries[index])
    }

    /// The view at an opseq that the log holds; the base counts.
    pub fn view_at(&self, opseq: OpSeq) -> Option<ViewNumber> {
        if opseq == self.base.opseq {
            return Some(self.base.view);
        }
        self.entry(opseq).map(|entry| entry.position.view)
    }

    /// Whether `count` more entries of `bytes` together fit.
    pub fn has_room(&self, count: usize, bytes: usize, limits: &LogLimits) -> bool {
        self.entries.len() + count <= limits.entries && self.bytes + bytes <= limits.bytes
    }

    /// Whether an entry may come next.
    pub fn continues(&self, position: Position) -> bool {
        let last = self.last();
        position.opseq == last.opseq.next() && position.view >= last.view
    }

    pub fn push(&mut self, entry: Entry) {
        let last = self.last();
        assert!(self.continues(entry.position), "entry {} after {last}", entry.position);
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// Gives up what follows `opseq`: the entries, the newest first.
    pub fn truncate_after(&mut self, opseq: OpSeq) -> Vec<Entry> {
        let mut removed = Vec::new();
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.position.opseq > opseq) {
            self.bytes -= entry.bytes();
            removed.push(entry);
        }
        removed
    }

    /// Gives up entries through `opseq`, which the log holds.
    pub fn trim(&mut self, opseq: OpSeq) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.position.opseq <= opseq) {
            self.bytes -= entry.bytes();
            self.base = entry.position;
        }
    }

    /// Entries after `opseq` for one message; none if the log does not reach back so far.
    pub fn batch_after(&self, opseq: OpSeq) -> Option<Vec<Entry>> {
        self.view_at(opseq)?;
        let mut batch = Vec::new();
        let mut bytes = 0;
        let first = (opseq.0 - self.base.opseq.0) as usize;
        for entry in self.entries.iter().skip(first) {
            bytes += entry.bytes();
            if batch.len() == MAX_BATCH_ENTRIES || !batch.is_empty() && bytes > MAX_BATCH_BYTES {
                break;
            }
            batch.push(entry.clone());
        }
        Some(batch)
    }

    pub fn views(&self) -> Views {
        let mut views = vec![self.base];
        for entry in &self.entries {
            let position = entry.position;
            if views.len() > 1 && views.last().is_some_and(|row| row.view == position.view) {
                views.pop();
            }
            views.push(position);
        }
        views
    }

    /// Through where another log, known by its views, is the same as this one: the highest opseq at which both name the same view. None if
    /// neither says so, because what they share is given up.
    pub fn shared_with(&self, views: &[Position]) -> Option<OpSeq> {
        let first = views.first()?.opseq.max(self.base.opseq);
        for (index, row) in views.iter().enumerate().rev() {
            let begins = if index == 0 { row.opseq } else { views[index - 1].opseq.next() };
            let mut opseq = row.opseq.min(self.last().opseq);
            while opseq >= begins.max(first) {
                if self.view_at(opseq) == Some(row.view) {
                    return Some(opseq);
                }
                if opseq == OpSeq::ZERO {
                    break;
                }
                opseq = opseq.previous();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
