use format::chunk_command::ChunkCommand;
use format::chunk_id::ShardId;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::Filling;
use crate::maintenance::MaintenanceUnit;

const DEVICE: DeviceId = DeviceId(1);
const BLOCKS: u32 = 3;
const BYTES: u32 = 1_000;

/// A relocation whose target's node refused it again and again got the same block each time, and its chunk answered nobody meanwhile.
#[test]
fn a_block_whose_node_refused_is_not_chosen_until_that_is_forgotten() {
    let mut unit = MaintenanceUnit::new(ShardId(1), 1);
    unit.apply(&ChunkCommand::Grant { device: DEVICE, first_block: 0, blocks: BLOCKS });
    let mut filling = Filling::default();
    let take = |filling: &mut Filling| filling.take(&unit, DEVICE, BYTES, &|_| true);
    let mut seen: Vec<BlockPlace> = Vec::new();
    while let Some(place) = take(&mut filling) {
        assert!(!seen.contains(&place), "it refused");
        filling.refuse(place);
        seen.push(place);
    }
    assert_eq!(seen.len(), BLOCKS as usize);
    filling.forget_refused();
    assert!(take(&mut filling).is_some());
}
