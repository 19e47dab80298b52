//! What is to be given back to the data partitions: a list for each, in the order in which it was freed. One that is away holds up its own list alone.

use std::ops::Bound;

use consensus::{MachineError, RowChange};

use super::super::command::MetaSession;
use super::super::query::{Freed, FreedPiece};
use super::super::reply::Done;
use super::Machine;
use super::keeping::FREED;
use super::rowmap::RowMap;
use crate::ids::{ExtentId, ExtentKey, Ino};

#[derive(Clone, Debug, Default)]
pub struct FreedList {
    /// By partition and number.
    pieces: RowMap<FREED, (u64, u64), FreedPiece>,
    next: u64,
}

impl FreedList {
    pub fn range(&mut self, extent: ExtentId, offset: u64, len: u64) {
        self.add(FreedPiece::Range { extent, offset, len });
    }

    pub fn extent(&mut self, extent: ExtentId) {
        self.add(FreedPiece::Extent(extent));
    }

    fn add(&mut self, what: FreedPiece) {
        self.next += 1;
        self.pieces.insert((what.extent().partition.into(), self.next), what);
    }

    pub fn confirm(&mut self, partition: u32, up_to: u64) {
        let list = (partition.into(), 0)..=(partition.into(), up_to);
        let confirmed: Vec<(u64, u64)> = self.pieces.range(list).map(|(key, _)| key).collect();
        for key in confirmed {
            self.pieces.remove(&key);
        }
    }

    /// The partitions to which something is to be given back.
    pub fn partitions(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut next = 0;
        while let Some(((partition, _), piece)) = self.pieces.range((next, 0)..).next() {
            found.push(piece.extent().partition);
            next = partition + 1;
        }
        found
    }

    /// The highest number that was ever given out.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.pieces.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.pieces.take_changes(rows);
    }

    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        self.pieces.load(key, value).map(drop)
    }

    pub fn behind(&self, partition: u32, after: u64, most: usize) -> Vec<Freed> {
        let partition = partition.into();
        let pieces = self.pieces.range((Bound::Excluded((partition, after)), Bound::Included((partition, u64::MAX))));
        pieces.take(most).map(|((_, number), what)| Freed { number, what: *what }).collect()
    }

    /// Whether something of an extent is to be freed.
    pub fn names(&self, extent: ExtentId) -> bool {
        let partition = extent.partition.into();
        self.pieces.range((partition, 0)..=(partition, u64::MAX)).any(|(_, piece)| piece.extent() == extent)
    }
}

/// Cuts a range out of ascending keys; what was cut out.
pub fn cut_keys(keys: &mut Vec<ExtentKey>, offset: u64, len: u64) -> Vec<ExtentKey> {
    let end = offset + len;
    let first = keys.partition_point(|key| key.file_offset + key.len <= offset);
    let last = first + keys[first..].partition_point(|key| key.file_offset < end);
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    for key in &keys[first..last] {
        let part = |from: u64, to: u64| ExtentKey {
            file_offset: from,
            extent_offset: key.extent_offset + (from - key.file_offset),
            len: to - from,
            extent: key.extent,
        };
        let key_end = key.file_offset + key.len;
        let (from, to) = (key.file_offset.max(offset), key_end.min(end));
        if key.file_offset < from {
            kept.push(part(key.file_offset, from));
        }
        removed.push(part(from, to));
        if to < key_end {
            kept.push(part(to, key_end));
        }
    }
    keys.splice(first..last, kept);
    removed
}

impl Machine {
    /// A session does not have an inode open. An orphan that no session has open is freed.
    pub(super) fn not_open(&mut self, ino: Ino, session: MetaSession) {
        if self.sessions.not_open(ino, session) {
            self.free_inode(ino);
        }
    }

    pub(super) fn close_session(&mut self, session: MetaSession) -> Done {
        self.locks.end_session(session);
        for ino in self.sessions.close(session) {
            self.free_inode(ino);
        }
        Done::Done
    }

    /// An extent belongs to one file: it goes with it.
    pub(super) fn free_inode(&mut self, ino: Ino) {
        let Some(inode) = self.tables.remove(ino) else { return };
        self.tables.bytes -= inode.content_bytes();
        self.locks.end_file(ino);
        let mut extents: Vec<ExtentId> = inode.keys.iter().map(|key| key.extent).collect();
        extents.sort_unstable();
        extents.dedup();
        extents.into_iter().for_each(|extent| self.freed.extent(extent));
    }
}
