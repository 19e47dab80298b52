//! What a member of a group has on its medium: what a replay of records builds, and what a machine begins with.

use types::ViewNumber;

use crate::id::Position;
use crate::log::{Entry, Log};
use crate::record::Change;

/// A member's durable state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    pub promised: ViewNumber,
    pub log: Log,
    /// A dump was being loaded: log and state are void.
    pub loading: bool,
}

/// Records that can't follow each other. The wal is sound, so its writer was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {found} after {last}: the group's log has a gap; remove this member, and let an empty one join")]
pub struct ReplayError {
    last: Position,
    found: Position,
}

/// Builds the state of one group from records.
///
/// The wal may begin in the middle of what a group wrote: older segments are gone, and what counts of them is said again later. So a gap is
/// judged at the end. A `Base` that is said again begins the log anew.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    saved: Saved,
    gap: Option<ReplayError>,
}

impl From<Saved> for Replay {
    fn from(saved: Saved) -> Replay {
        Replay { saved, gap: None }
    }
}

impl Replay {
    /// Takes the next record in.
    pub fn apply(&mut self, change: &Change) {
        let saved = &mut self.saved;
        match change {
            Change::Promise(view) => saved.promised = saved.promised.max(*view),
            Change::Entries(entries) => entries.iter().for_each(|entry| self.put(entry)),
            Change::Truncate(opseq) => drop(saved.log.truncate_after(*opseq)),
            Change::Base(position) => self.rebase(*position),
            Change::Reset => {
                (saved.log, saved.loading) = (Log::default(), true);
                self.gap = None;
            }
        }
    }

    /// What the records say so far.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// What the records say.
    pub fn finish(self) -> Result<Saved, ReplayError> {
        self.gap.map_or(Ok(self.saved), Err)
    }

    fn put(&mut self, entry: &Entry) {
        let log = &mut self.saved.log;
        let is_known = entry.position.opseq <= log.base().opseq || log.entry(entry.position.opseq) == Some(entry);
        if is_known || self.gap.is_some() {
            return;
        }
        if log.continues(entry.position) {
            log.push(entry.clone());
        } else {
            self.gap = Some(ReplayError { last: log.last(), found: entry.position });
        }
    }

    /// A base of the log at hand trims it. Another one begins it: after a dump, or where the records before are given up.
    fn rebase(&mut self, position: Position) {
        let Saved { log, loading, .. } = &mut self.saved;
        *loading = false;
        if self.gap.take().is_none() && log.view_at(position.opseq) == Some(position.view) {
            log.trim(position.opseq);
        } else if position.opseq >= log.base().opseq {
            *log = Log::after(position);
        }
    }
}

#[cfg(test)]
mod tests;
