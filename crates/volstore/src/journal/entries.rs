//! What the journal of a device has records of: where the bytes belong, and whether they are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::AlignedBuf;
use wal::Lsn;

use crate::limits::{JOURNALED_BYTES, PIECE_BYTES};

/// A part of the device's volume, and bytes from its start.
pub type Spot = (u16, u64);

/// Records that a start would carry out. No two of them overlap.
#[derive(Default)]
pub struct Entries {
    by_spot: BTreeMap<Spot, Entry>,
    pending_bytes: usize,
}

struct Entry {
    lsn: Lsn,
    len: u64,
    /// None: the bytes are in their place.
    bytes: Option<Arc<AlignedBuf>>,
}

/// Neighbours that go to their places by one write.
pub struct Run {
    pub spot: Spot,
    /// Of each record: its number and its bytes.
    pub records: Vec<(Lsn, Arc<AlignedBuf>)>,
}

impl Run {
    /// The bytes of all records.
    pub fn joined(&self) -> AlignedBuf {
        let mut joined = AlignedBuf::with_capacity(self.len());
        self.records.iter().for_each(|(_, bytes)| joined.extend_from_slice(bytes));
        joined
    }

    fn len(&self) -> usize {
        self.records.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn takes(&self, spot: Spot, len: usize) -> bool {
        let own = self.len();
        (self.spot.0, self.spot.1 + own as u64) == spot && own + len <= PIECE_BYTES
    }
}

impl Entries {
    /// Bytes that are not in their places.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.by_spot.is_empty()
    }

    /// Whether a record has any of these bytes.
    pub fn overlaps(&self, spot: Spot, len: u64) -> bool {
        self.within(spot, len).next().is_some()
    }

    /// Notes a record. It overlaps no other.
    pub fn insert(&mut self, spot: Spot, lsn: Lsn, bytes: AlignedBuf) {
        self.pending_bytes += bytes.len();
        let entry = Entry { lsn, len: bytes.len() as u64, bytes: Some(Arc::new(bytes)) };
        assert!(self.by_spot.insert(spot, entry).is_none(), "two records of the same blocks");
    }

    /// What of a range is not in its place: from where on, and the bytes.
    pub fn pending_in(&self, spot: Spot, len: u64) -> Vec<(u64, Arc<AlignedBuf>)> {
        self.within(spot, len).filter_map(|(at, entry)| Some((at, entry.bytes.clone()?))).collect()
    }

    /// What is to go to its place, of records that are durable.
    pub fn runs(&self, durable: Lsn) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (spot, entry) in self.by_spot.iter().filter(|(_, entry)| entry.lsn <= durable) {
            let Some(bytes) = &entry.bytes else { continue };
            let record = (entry.lsn, bytes.clone());
            match runs.last_mut().filter(|run| run.takes(*spot, bytes.len())) {
                Some(run) => run.records.push(record),
                None => runs.push(Run { spot: *spot, records: vec![record] }),
            }
        }
        runs
    }

    /// The bytes of a run are in their places.
    pub fn placed(&mut self, run: &Run) {
        let mut spot = run.spot;
        for (lsn, bytes) in &run.records {
            let entry = self.by_spot.get_mut(&spot).filter(|entry| entry.lsn == *lsn);
            entry.expect("a record stays until its bytes are in their place").bytes = None;
            self.pending_bytes -= bytes.len();
            spot.1 += bytes.len() as u64;
        }
    }

    /// The first record whose bytes are not in their place.
    pub fn first_pending(&self) -> Option<Lsn> {
        self.by_spot.values().filter(|entry| entry.bytes.is_some()).map(|entry| entry.lsn).min()
    }

    /// A start carries out no record before this one any more.
    pub fn forget_before(&mut self, lsn: Lsn) {
        self.by_spot.retain(|_, entry| entry.lsn >= lsn);
    }

    fn within(&self, (part, offset): Spot, len: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let from = offset.saturating_sub(JOURNALED_BYTES as u64 - 1);
        let near = self.by_spot.range((part, from)..(part, offset + len));
        near.map(|((_, at), entry)| (*at, entry)).filter(move |(at, entry)| at + entry.len > offset)
    }
}

#[cfg(test)]
mod tests {
    use disk::{AlignedBuf, BLOCK_BYTES};
    use wal::Lsn;

    use super::Entries;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    fn blocks(byte: u8, count: usize) -> AlignedBuf {
        AlignedBuf::copy_of(&vec![byte; count * BLOCK_BYTES])
    }

    #[test]
    fn what_overlaps_is_found_from_both_sides() {
        let mut entries = Entries::default();
        entries.insert((3, 4 * BLOCK), Lsn(1), blocks(1, 2));
        for (part, first, count, overlaps) in
            [(3, 0, 4, false), (3, 3, 2, true), (3, 5, 1, true), (3, 6, 9, false), (2, 4, 2, false), (3, 0, 100, true)]
        {
            assert_eq!(entries.overlaps((part, first * BLOCK), count * BLOCK), overlaps, "{count} from {first} of {part}");
        }
    }

    #[test]
    fn neighbours_go_together_and_what_is_not_durable_stays() {
        let mut entries = Entries::default();
        for (lsn, at) in [(1, 5), (2, 4), (3, 9), (4, 6)] {
            entries.insert((0, at * BLOCK), Lsn(lsn), blocks(lsn as u8, 1));
        }
        entries.insert((1, 7 * BLOCK), Lsn(5), blocks(5, 1));
        let runs = entries.runs(Lsn(3));
        let found: Vec<_> =
            runs.iter().map(|run| (run.spot, run.joined().iter().step_by(BLOCK_BYTES).copied().collect())).collect();
        assert_eq!(found, [((0, 4 * BLOCK), vec![2, 1]), ((0, 9 * BLOCK), vec![3])]);
        assert_eq!(entries.first_pending(), Some(Lsn(1)));
        runs.iter().for_each(|run| entries.placed(run));
        assert_eq!((entries.first_pending(), entries.pending_bytes()), (Some(Lsn(4)), 2 * BLOCK_BYTES));
        assert!(entries.overlaps((0, 4 * BLOCK), BLOCK), "a start may still carry it out");
        assert!(entries.pending_in((0, 4 * BLOCK), 2 * BLOCK).is_empty());
        entries.forget_before(Lsn(4));
        assert!(!entries.overlaps((0, 4 * BLOCK), 2 * BLOCK));
        assert_eq!(entries.pending_in((0, 0), 100 * BLOCK).len(), 1);
    }
}
