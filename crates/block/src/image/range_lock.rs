//! Locks on ranges of the parts of an image.
//!
//! A request waits while an earlier one that it conflicts with is under way or waits itself: two conflict if they overlap and one
//! of them is exclusive. So requests that conflict run in the order of arrival, and none starves. Requests that do not conflict run at the same time.
//!
//! A request holds one range at a time: there is no deadlock. Nothing here has a task; [`super::MAX_REQUESTS`] bounds the entries.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Whether others may have the same range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// The locks of one image.
#[derive(Default)]
pub(crate) struct RangeLocks {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Of each part in which something is locked, in the order of arrival.
    parts: HashMap<u32, Vec<Entry>>,
    last_id: u64,
}

struct Entry {
    id: u64,
    range: Range<u32>,
    mode: Mode,
    state: EntryState,
}

enum EntryState {
    Waits(Waker),
    Granted,
}

impl Entry {
    fn conflicts(&self, range: &Range<u32>, mode: Mode) -> bool {
        let overlaps = self.range.start < range.end && range.start < self.range.end;
        overlaps && (self.mode == Mode::Exclusive || mode == Mode::Exclusive)
    }
}

impl RangeLocks {
    /// Locks a range of a part. It takes its place in the order when the future is first polled.
    pub(crate) fn acquire(&self, index: u32, range: Range<u32>, mode: Mode) -> Acquire<'_> {
        Acquire { locks: self, index, range, mode, id: None }
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.table.lock().parts.values().map(Vec::len).sum()
    }

    fn release(&self, index: u32, id: u64) {
        let mut table = self.table.lock();
        let entries = table.parts.get_mut(&index).expect("an entry was there");
        let at = entries.iter().position(|entry| entry.id == id).expect("the entry was there");
        entries.remove(at);
        if entries.is_empty() {
            table.parts.remove(&index);
        } else {
            grant(entries, at);
        }
    }
}

/// Grants what does not conflict with anything earlier. Entries before `from` have nothing new.
fn grant(entries: &mut [Entry], from: usize) {
    for at in from..entries.len() {
        let (earlier, rest) = entries.split_at_mut(at);
        let entry = &mut rest[0];
        if matches!(entry.state, EntryState::Granted) || earlier.iter().any(|other| other.conflicts(&entry.range, entry.mode)) {
            continue;
        }
        if let EntryState::Waits(waker) = std::mem::replace(&mut entry.state, EntryState::Granted) {
            waker.wake();
        }
    }
}

/// A lock to come.
pub(crate) struct Acquire<'a> {
    locks: &'a RangeLocks,
    index: u32,
    range: Range<u32>,
    mode: Mode,
    /// None: not yet polled, or the guard has it.
    id: Option<u64>,
}

impl<'a> Future for Acquire<'a> {
    type Output = RangeGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RangeGuard<'a>> {
        let this = &mut *self;
        let mut table = this.locks.table.lock();
        let id = match this.id {
            Some(id) => {
                let entries = table.parts.get_mut(&this.index).expect("an entry is there");
                let entry = entries.iter_mut().find(|entry| entry.id == id).expect("the entry is there");
                if let EntryState::Waits(waker) = &mut entry.state {
                    waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                id
            }
            None => {
                table.last_id += 1;
                let id = table.last_id;
                let entries = table.parts.entry(this.index).or_default();
                let waits = entries.iter().any(|other| other.conflicts(&this.range, this.mode));
                let state = if waits { EntryState::Waits(context.waker().clone()) } else { EntryState::Granted };
                entries.push(Entry { id, range: this.range.clone(), mode: this.mode, state });
                if waits {
                    this.id = Some(id);
                    return Poll::Pending;
                }
                id
            }
        };
        this.id = None;
        Poll::Ready(RangeGuard { locks: this.locks, index: this.index, range: this.range.clone(), id })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.locks.release(self.index, id);
        }
    }
}

/// A locked range.
pub(crate) struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    index: u32,
    range: Range<u32>,
    id: u64,
}

impl RangeGuard<'_> {
    pub(crate) fn covers(&self, range: &Range<u32>) -> bool {
        range.is_empty() || (self.range.start <= range.start && range.end <= self.range.end)
    }

    /// Gives up what lies outside of `range`.
    pub(crate) fn narrow(&mut self, range: Range<u32>) {
        assert!(self.covers(&range), "a lock can only become narrower");
        let range = if range.is_empty() { 0..0 } else { range };
        if self.range == range {
            return;
        }
        self.range = range.clone();
        let mut table = self.locks.table.lock();
        let entries = table.parts.get_mut(&self.index).expect("an entry is there");
        let at = entries.iter().position(|entry| entry.id == self.id).expect("the entry is there");
        entries[at].range = range;
        grant(entries, at + 1);
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.locks.release(self.index, self.id);
    }
}

#[cfg(test)]
mod tests;
