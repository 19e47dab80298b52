use env::Instant;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, FormerCopy, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{Bulk, BulkOwner, Manager};
use types::DeviceId;

use super::{Compaction, sparse_blocks};
use crate::leader::Order;
use crate::limits::{COMPACT_BYTES, MAX_COMPACTING};
use crate::maintenance::{Answer, Duty, MaintenanceUnit};
use crate::units::leading::Leading;
use crate::units::leading::fixture::{leading, manager_of_four, report};

const SHARD: ShardId = ShardId(1);
const DEVICE: DeviceId = DeviceId(3);
/// Blocks of each of two bulks.
const BLOCKS: u32 = 16;
/// Four fill a block.
const CHUNK_BYTES: u32 = BLOCK_DATA_BYTES / 4;

fn bulks() -> Vec<Bulk> {
    [0, BLOCKS].map(|first_block| Bulk { owner: BulkOwner::Shard(SHARD.0), first_block, blocks: BLOCKS }).to_vec()
}

fn place(block: u32) -> BlockPlace {
    BlockPlace::new(DEVICE, block).expect("a place")
}

fn apply(unit: &mut MaintenanceUnit, command: ChunkCommand) -> Answer {
    unit.apply(&command).answer.unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"))
}

/// A unit on one device, both of whose bulks are full: which chunk is in which block.
fn full() -> (MaintenanceUnit, Vec<(ChunkId, u32)>) {
    let chunks = 2 * BLOCKS * 4;
    let mut unit = MaintenanceUnit::new(SHARD, u64::from(chunks));
    bulks().iter().for_each(|bulk| {
        apply(&mut unit, ChunkCommand::Grant { device: DEVICE, first_block: bulk.first_block, blocks: bulk.blocks });
    });
    let mut put = |number: u32| {
        let call = ClientCall { session: 1, request: number };
        let places = ChunkPlaces::new(&[place(number / 4)]).expect("one place");
        let nonce = ChunkNonce(u64::from(number));
        let registration = Registration { call, nonce, bytes: CHUNK_BYTES, places, wanted: 1, deadline_ms: 1 };
        let Answer::Registered { id, .. } = apply(&mut unit, ChunkCommand::Register(registration)) else { panic!("an id") };
        apply(&mut unit, ChunkCommand::Commit(id));
        (id, number / 4)
    };
    let ids = (0..chunks).map(&mut put).collect();
    (unit, ids)
}

/// A chunk ends, and its node has forgotten it.
fn remove(unit: &mut MaintenanceUnit, id: ChunkId, block: u32) {
    let copy = CopyOf { id, place: place(block) };
    let era = unit.era_of(id).expect("it is there");
    apply(unit, ChunkCommand::Freed(vec![id]));
    apply(unit, ChunkCommand::Erased(vec![copy]));
    apply(unit, ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]));
}

/// The copy that is moving has come to its place.
fn end_move(unit: &mut MaintenanceUnit, id: ChunkId) {
    let is_its = |duty: &Duty| matches!(duty, Duty::Move(asked) if asked.id == id);
    let Some(Duty::Move(asked)) = unit.duties().find(is_its) else { panic!("{id} is not moving") };
    apply(unit, ChunkCommand::Moved { id, relocation: asked.relocation });
}

fn chosen(unit: &MaintenanceUnit) -> Option<u32> {
    sparse_blocks(unit, DEVICE, &bulks()).map(|places| places[0].block())
}

#[test]
fn a_bulk_is_emptied_when_little_is_in_it_and_the_others_have_room() {
    let (mut unit, ids) = full();
    assert_eq!(chosen(&unit), None, "both are full");
    for (number, (id, block)) in ids.iter().enumerate() {
        if *block >= BLOCKS && number % 4 != 0 {
            remove(&mut unit, *id, *block);
        }
    }
    assert_eq!(chosen(&unit), None, "a quarter is left of the second, and the first one is full");
    ids.iter().filter(|(_, block)| *block < 8).for_each(|(id, block)| remove(&mut unit, *id, *block));
    assert_eq!(chosen(&unit), Some(BLOCKS), "it has least");
    let lone = Bulk { first_block: BLOCKS, ..bulks()[0] };
    assert_eq!(sparse_blocks(&unit, DEVICE, &[lone]), None, "there is no other one");
    ids.iter().filter(|(_, block)| *block >= BLOCKS).for_each(|(id, block)| {
        if unit.is_at_rest(*id) {
            remove(&mut unit, *id, *block);
        }
    });
    assert_eq!(chosen(&unit), None, "the second is empty, and goes back; the first has no other beside it");
}

/// Step by step, until the bulk can be released.
#[test]
fn its_copies_move_some_at_a_time_until_it_is_empty() {
    let (mut unit, ids) = full();
    for (number, (id, block)) in ids.iter().enumerate() {
        if number % 4 != 0 {
            remove(&mut unit, *id, *block);
        }
    }
    let mut compaction = Compaction::default();
    compaction.choose(&unit, [(DEVICE, bulks())].into_iter());
    assert_eq!(compaction.emptied().len(), BLOCKS as usize);
    assert!(compaction.emptied().iter().all(|place| place.block() < BLOCKS), "both have as much: the first");
    let mut rounds = 0;
    loop {
        let taken = compaction.take(&unit, unit.moves_under_way(), |_, _| true);
        if taken.is_empty() {
            break;
        }
        rounds += 1;
        let bytes: u64 = taken.iter().map(|(.., bytes)| u64::from(*bytes)).sum();
        assert!(bytes < u64::from(COMPACT_BYTES + CHUNK_BYTES) && taken.len() <= MAX_COMPACTING);
        for (id, from, _) in taken {
            let to = place(from.block() + BLOCKS);
            apply(&mut unit, ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false }));
            assert!(!unit.is_at_rest(id));
            let era = unit.era_of(id).expect("it is there");
            end_move(&mut unit, id);
            let copy = CopyOf { id, place: from };
            apply(&mut unit, ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]));
        }
    }
    assert!(rounds > 0);
    assert!(unit.is_unused(DEVICE, 0, BLOCKS));
    apply(&mut unit, ChunkCommand::Release { device: DEVICE, first_block: 0, blocks: BLOCKS });
    assert_eq!(unit.chunks(), u64::from(BLOCKS) * 2);
}

#[test]
fn what_has_changed_since_it_was_chosen_is_left_alone() {
    let (mut unit, ids) = full();
    ids.iter().filter(|(id, _)| id.nonce.0 % 4 != 0).for_each(|(id, block)| remove(&mut unit, *id, *block));
    let mut compaction = Compaction::default();
    compaction.choose(&unit, [(DEVICE, bulks())].into_iter());
    let rest: Vec<(ChunkId, u32)> = ids.into_iter().filter(|(id, block)| id.nonce.0 % 4 == 0 && *block < BLOCKS).collect();
    let (gone, moved, under_way) = (rest[0], rest[1], rest[2]);
    remove(&mut unit, gone.0, gone.1);
    for (id, block) in [moved, under_way] {
        let (from, to) = (place(block), place(block + BLOCKS));
        apply(&mut unit, ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false }));
        if id == moved.0 {
            end_move(&mut unit, id);
        }
    }
    let taken: Vec<ChunkId> =
        compaction.take(&unit, unit.moves_under_way(), |_, _| true).into_iter().map(|(id, ..)| id).collect();
    assert!(!taken.is_empty() && taken.iter().all(|id| rest[3..].iter().any(|(other, _)| other == id)), "{taken:?}");
    // What was asked for is asked for again until it is so, and what is under way waits.
    end_move(&mut unit, under_way.0);
    let mut all = taken;
    (0..rest.len())
        .for_each(|_| all.extend(compaction.take(&unit, unit.moves_under_way(), |_, _| true).into_iter().map(|(id, ..)| id)));
    let all: std::collections::BTreeSet<ChunkId> = all.into_iter().collect();
    assert_eq!(all, rest[3..].iter().map(|(id, _)| *id).collect());
}

/// Copies that it moves now. Node 4 has the device.
fn moved(leading: &mut Leading, manager: &Manager, unit: &MaintenanceUnit) -> Vec<ChunkId> {
    let id = |order| match order {
        Order::Propose(ChunkCommand::Relocate(Relocation { id, .. })) => Some(id),
        _ => None,
    };
    leading.compact(Instant::from_nanos(0), &manager.snapshot(), unit).into_iter().filter_map(id).collect()
}

/// Its relocation would have nothing to bring: it would never end, and what is freed after it began would not be forgotten.
#[tokio::test(start_paused = true)]
async fn a_copy_that_cannot_be_read_is_not_moved() {
    let (manager, (mut unit, ids)) = (manager_of_four(2 * BLOCKS).await, full());
    ids.iter().filter(|(id, _)| id.nonce.0 % 4 != 0).for_each(|(id, block)| remove(&mut unit, *id, *block));
    let mut leading = leading(&unit);
    leading.compaction.choose(&unit, [(DEVICE, bulks())].into_iter());
    let here: Vec<(ChunkId, u32)> = ids.into_iter().filter(|(id, block)| id.nonce.0 % 4 == 0 && *block < BLOCKS).collect();
    let (rotten, block) = here[0];
    leading.reported(Instant::from_nanos(0), report(4, vec![CopyOf { id: rotten, place: place(block) }], Vec::new()));
    assert!(leading.leader.lose_block(place(here[1].1)));
    let sound: Vec<ChunkId> = here[2..].iter().map(|(id, _)| *id).collect();
    assert_eq!(moved(&mut leading, &manager, &unit), sound);
    leading.reported(Instant::from_nanos(0), report(4, Vec::new(), Vec::new()));
    assert!(moved(&mut leading, &manager, &unit).contains(&rotten), "it was written again");
}

/// It would wait for it, and there is no hurry.
#[tokio::test(start_paused = true)]
async fn nothing_is_moved_while_a_node_with_a_copy_is_away() {
    let (manager, (mut unit, ids)) = (manager_of_four(2 * BLOCKS).await, full());
    ids.iter().filter(|(id, _)| id.nonce.0 % 4 != 0).for_each(|(id, block)| remove(&mut unit, *id, *block));
    let mut leading = leading(&unit);
    leading.compaction.choose(&unit, [(DEVICE, bulks())].into_iter());
    assert_eq!(moved(&mut leading, &manager, &unit), []);
    leading.reported(Instant::from_nanos(0), report(4, Vec::new(), Vec::new()));
    assert_eq!(moved(&mut leading, &manager, &unit).len(), BLOCKS as usize);
}
