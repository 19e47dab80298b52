use format::chunk_block::BLOCK_DATA_BYTES;
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

/// Copies leave them; but no put is refused for that.
#[test]
fn a_spared_block_is_chosen_only_where_no_other_has_room() {
    let mut unit = MaintenanceUnit::new(ShardId(1), 1);
    unit.apply(&ChunkCommand::Grant { device: DEVICE, first_block: 0, blocks: BLOCKS });
    let mut filling = Filling::default();
    let places: Vec<BlockPlace> = (0..BLOCKS).map(|block| BlockPlace::new(DEVICE, block).expect("a place")).collect();
    filling.spare(places[..2].iter().copied().collect());
    let mut take = |bytes| filling.take(&unit, DEVICE, bytes, &|_| true);
    assert_eq!((take(BYTES), take(BYTES)), (Some(places[2]), Some(places[2])));
    assert!(take(BLOCK_DATA_BYTES).is_some_and(|place| places[..2].contains(&place)));
    filling.avoid(places.iter().copied().collect());
    assert_eq!(filling.take(&unit, DEVICE, BYTES, &|_| true), None, "those that are avoided get nothing");
    assert!(!filling.promise(&unit, places[2], BYTES));
}

#[test]
fn what_is_promised_is_not_promised_again() {
    let mut unit = MaintenanceUnit::new(ShardId(1), 1);
    unit.apply(&ChunkCommand::Grant { device: DEVICE, first_block: 0, blocks: 1 });
    let (mut filling, place) = (Filling::default(), BlockPlace::new(DEVICE, 0).expect("a place"));
    assert!(filling.promise(&unit, place, BLOCK_DATA_BYTES));
    assert!(!filling.promise(&unit, place, BYTES) && filling.take(&unit, DEVICE, BYTES, &|_| true).is_none());
    filling.settle(place, BLOCK_DATA_BYTES);
    assert!(filling.promise(&unit, place, BYTES));
}
