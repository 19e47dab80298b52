//! What must be so when a run is over.

use std::collections::BTreeMap;

use format::chunk_block::{CopyState, room_of};
use format::chunk_place::ChunkPlaces;

use super::world::{BLOCKS, DEVICES, SHARD, World, place};
use crate::message::{Found, Located};

impl World {
    pub fn judge(&mut self) {
        for (id, history) in &self.workload.histories {
            if let Err(violation) = history.check(None) {
                panic!("chunk {id}: {violation}");
            }
        }
        assert!(self.is_replica_equal(), "members that applied the same differ");
        self.judge_copies();
        self.judge_space();
        self.judge_hosts();
        assert!(self.workload.outcomes.get("content").is_some_and(|count| *count > 0), "nothing was ever read");
    }

    /// Every chunk has a live copy at each of its places, as many as are wanted, of the era that the unit says, and no node has more.
    fn judge_copies(&self) {
        let mut copies = 0;
        for (at, entry) in self.entries() {
            let found = self.found(entry.id);
            assert!(matches!(found, Found::Known { places, .. } if places.contains(at)), "{:?} at {at:?} is {found:?}", entry);
            assert!(matches!(entry.state, CopyState::Live | CopyState::Overwriting), "{entry:?} at {at:?}");
            assert_eq!(Some(entry.era), self.unit.era_of(entry.id), "{entry:?} at {at:?}");
            copies += 1;
        }
        let expected: usize = self.unit.index().map(|(_, places)| places.as_slice().len()).sum();
        assert_eq!(copies, expected, "copies of all chunks");
        let is_whole = |(id, places): (_, ChunkPlaces)| matches!(self.found(id), Found::Known { wanted, .. } if usize::from(wanted) == places.as_slice().len());
        assert!(self.unit.index().all(is_whole), "all have the copies that are wanted");
        assert!(self.unit.index().all(|(_, places)| places.iter().all(|place| !self.is_lost(place))), "all are repaired");
    }

    /// What a unit holds in a block is what its chunks may take there.
    fn judge_space(&self) {
        let mut sums = BTreeMap::new();
        for (at, entry) in self.entries() {
            *sums.entry(at).or_insert(0) += room_of(entry.capacity).expect("it fits a block");
        }
        let places = (0..DEVICES).flat_map(|device| (0..BLOCKS).map(move |block| place(device, block)));
        for at in places {
            let expected = sums.get(&at).copied().unwrap_or(0);
            assert_eq!(self.unit.held_bytes(at), Some(expected), "space held at {at:?}");
        }
    }

    fn judge_hosts(&mut self) {
        let chunks: Vec<_> = self.unit.index().collect();
        for host in &mut self.hosts {
            assert_eq!(host.progress(SHARD).map(|known| known.horizon), Some(self.unit.next()));
            for (id, places) in &chunks {
                assert_eq!(host.locate(*id), Located::At(*places));
            }
        }
    }
}
