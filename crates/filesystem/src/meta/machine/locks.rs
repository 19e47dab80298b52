//! Locks of files: which session has locked which ranges.
//!
//! Invariants:
//! - Two locks of one family whose ranges overlap have the same owner in the same session, or both are shared.
//! - The ranges of one owner don't overlap. Those that touch differ in kind.
//! - Locks go with their session, with their file, and when the session's lease is over.
//!
//! A lock that can't be granted is refused. What waits for it is the client's: it asks again.

use std::collections::BTreeMap;

use consensus::{MachineError, RowChange};
use serde::{Deserialize, Serialize};

use super::super::command::MetaSession;
use super::super::limits::{MAX_LOCKS_OF_SESSION, MAX_LOCKS_OF_VOLUME};
use super::super::lock::{Lock, LockOwner, LockRange};
use super::super::reply::{Done, MetaError, Reply};
use super::keeping::LOCKS;
use super::rowmap::RowMap;
use super::{At, Machine};
use crate::ids::Ino;

#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// No list is empty.
    files: RowMap<LOCKS, Ino, Vec<Held>>,
    /// How many ranges each session has. None has 0.
    counts: BTreeMap<MetaSession, usize>,
    total: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    session: MetaSession,
    lock: Lock,
}

impl Held {
    fn is_of(&self, session: MetaSession, owner: LockOwner) -> bool {
        (self.session, self.lock.owner) == (session, owner)
    }
}

impl Locks {
    /// A lock that is in the way of another one.
    fn in_the_way(&self, ino: Ino, session: MetaSession, wanted: &Lock) -> Option<&Held> {
        let is_in_the_way = |held: &&Held| {
            held.lock.owner.family == wanted.owner.family
                && !held.is_of(session, wanted.owner)
                && held.lock.range.overlaps(&wanted.range)
                && (held.lock.is_exclusive || wanted.is_exclusive)
        };
        self.files.get(&ino)?.iter().find(is_in_the_way)
    }

    fn take(&mut self, ino: Ino, session: MetaSession, wanted: &Lock) -> Result<(), MetaError> {
        if wanted.range.first > wanted.range.last {
            return Err(MetaError::Invalid);
        }
        if self.in_the_way(ino, session, wanted).is_some() {
            return Err(MetaError::Locked);
        }
        self.replace(ino, session, wanted.owner, wanted.range, Some(*wanted))
    }

    /// An owner has one lock for a range, or none, in place of what it has of it.
    fn replace(
        &mut self,
        ino: Ino,
        session: MetaSession,
        owner: LockOwner,
        range: LockRange,
        by: Option<Lock>,
    ) -> Result<(), MetaError> {
        let held = self.files.get(&ino).map_or(&[][..], Vec::as_slice);
        let (own, others): (Vec<Held>, Vec<Held>) = held.iter().partition(|held| held.is_of(session, owner));
        let mut locks: Vec<Lock> = own.iter().flat_map(|held| outside(&held.lock, &range)).chain(by).collect();
        locks.sort_unstable_by_key(|lock| lock.range.first);
        join(&mut locks);
        let grows_by = locks.len().saturating_sub(own.len());
        let count = self.counts.get(&session).copied().unwrap_or(0);
        if grows_by > 0 && (count + grows_by > MAX_LOCKS_OF_SESSION || self.total + grows_by > MAX_LOCKS_OF_VOLUME) {
            return Err(MetaError::TooManyLocks);
        }
        self.count(session, own.len(), locks.len());
        let list: Vec<Held> = others.into_iter().chain(locks.into_iter().map(|lock| Held { session, lock })).collect();
        match list.is_empty() {
            true => drop(self.files.remove(&ino)),
            false => drop(self.files.insert(ino, list)),
        }
        Ok(())
    }

    fn count(&mut self, session: MetaSession, before: usize, after: usize) {
        let count = self.counts.entry(session).or_default();
        *count = *count + after - before;
        self.total = self.total + after - before;
        if *count == 0 {
            self.counts.remove(&session);
        }
    }

    /// A session has none any more.
    pub fn end_session(&mut self, session: MetaSession) {
        let Some(count) = self.counts.remove(&session) else { return };
        self.total -= count;
        let is_of = |list: &[Held]| list.iter().any(|held| held.session == session);
        let locked: Vec<Ino> = self.files.iter().filter(|(_, list)| is_of(list)).map(|(ino, _)| ino).collect();
        for ino in locked {
            let list = self.files.get_mut(&ino).expect("it was found");
            list.retain(|held| held.session != session);
            if list.is_empty() {
                self.files.remove(&ino);
            }
        }
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.files.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.files.take_changes(rows);
    }

    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        let (_, list) = self.files.load(key, value)?;
        self.total += list.len();
        list.iter().for_each(|held| *self.counts.entry(held.session).or_default() += 1);
        Ok(())
    }

    /// A file is gone.
    pub fn end_file(&mut self, ino: Ino) {
        for held in self.files.remove(&ino).unwrap_or_default() {
            self.count(held.session, 1, 0);
        }
    }

    pub fn has_some(&self, session: MetaSession) -> bool {
        self.counts.contains_key(&session)
    }
}

/// What is left of a lock without a range.
fn outside(lock: &Lock, range: &LockRange) -> Vec<Lock> {
    if !lock.range.overlaps(range) {
        return vec![*lock];
    }
    let before = range.first.checked_sub(1).map(|last| LockRange { first: lock.range.first, last });
    let after = range.last.checked_add(1).map(|first| LockRange { first, last: lock.range.last });
    let is_left = |range: &LockRange| range.first <= range.last;
    before.into_iter().chain(after).filter(is_left).map(|range| Lock { range, ..*lock }).collect()
}

/// Joins ascending locks of one kind that touch. They belong to the process that locked last.
fn join(locks: &mut Vec<Lock>) {
    locks.dedup_by(|next, lock| {
        let joins = lock.is_exclusive == next.is_exclusive && lock.range.last.checked_add(1) == Some(next.range.first);
        if joins {
            (lock.range.last, lock.pid) = (next.range.last, next.pid);
        }
        joins
    });
}

impl Machine {
    /// The answer says what the file is now, and how often the session has lost its locks before this one.
    pub(super) fn lock(&mut self, at: At, ino: Ino, lock: &Lock) -> Reply {
        let attributes = self.attributes(ino)?;
        self.locks.take(ino, at.session, lock)?;
        Ok(Done::Locked { attributes, locks_lost: self.sessions.locks_lost(at.session) })
    }

    pub(super) fn unlock(&mut self, at: At, ino: Ino, owner: LockOwner, range: LockRange) -> Reply {
        if range.first > range.last {
            return Err(MetaError::Invalid);
        }
        self.locks.replace(ino, at.session, owner, range, None).map(|()| Done::Done)
    }

    /// What is in the way of a lock, and the session that has it. Processes of other clients have no number here.
    pub(super) fn lock_in_the_way(&self, ino: Ino, session: MetaSession, lock: &Lock) -> Option<(MetaSession, Lock)> {
        let held = self.locks.in_the_way(ino, session, lock)?;
        let pid = if held.session == session { held.lock.pid } else { 0 };
        Some((held.session, Lock { pid, ..held.lock }))
    }

    /// Whether another session has locked the end of a file for its appends.
    pub(super) fn is_end_locked(&self, ino: Ino, session: MetaSession) -> bool {
        self.locks.in_the_way(ino, session, &Lock::of_end(session)).is_some()
    }

    /// Whether a session has locked something.
    pub fn has_locks(&self, session: MetaSession) -> bool {
        self.locks.has_some(session)
    }
}

#[cfg(test)]
impl Locks {
    pub fn held(&self, ino: Ino) -> Vec<(MetaSession, Lock)> {
        self.files.get(&ino).into_iter().flatten().map(|held| (held.session, held.lock)).collect()
    }

    /// How many there are, as is counted in all and for each session.
    pub fn counted(&self) -> (usize, usize) {
        (self.total, self.counts.values().sum())
    }
}
