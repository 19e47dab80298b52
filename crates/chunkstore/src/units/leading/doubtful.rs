//! Copies against which something is known where nothing is known for another one.
//!
//! Most of them their nodes merely doubt: a header was torn or has rotted, and the one before it counts. After a power cut of all nodes that may be so with all
//! copies of a chunk; and a chunk may have one copy only. The newest of all that there are is then as good as any could be, and becomes what all have.

use env::Instant;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::Snapshot;

use super::Leading;
use super::ailing::Found;
use super::healing::Mend;
use crate::maintenance::MaintenanceUnit;
use crate::placement::Random;

impl Leading {
    /// The copies of a chunk but for those of which nothing is to be had; none while a node is silent, which may have the newest.
    pub(super) fn readable_copies(
        &self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        id: ChunkId,
    ) -> Vec<BlockPlace> {
        let is_left = |place: &BlockPlace| !self.leader.lost().holds(*place) && !found.blocks.contains_key(place);
        let left = unit.places_of(id).map_or(Vec::new(), |places| places.iter().filter(is_left).collect());
        match left.iter().all(|place| self.is_node_heard(now, state, id.shard, *place)) {
            true => left,
            false => Vec::new(),
        }
    }
}

/// These are tried for as long as it takes. Each time with others first: those that can't be helped hide none.
pub(super) fn doubtful_mends(
    mut copies: Vec<(ChunkId, BlockPlace)>,
    readable: impl Fn(ChunkId) -> Vec<BlockPlace>,
    random: &mut Random<'_>,
) -> impl Iterator<Item = Mend> {
    if !copies.is_empty() {
        let first = random() as usize % copies.len();
        copies.rotate_left(first);
    }
    let mends = copies.into_iter().map(move |(id, rotten)| Mend { id, rotten, others: readable(id), is_doubtful: true });
    mends.filter(|mend| !mend.others.is_empty())
}
