use format::chunk_block::MAX_BLOCK_ENTRIES;
use format::chunk_command::{ChunkCommand, ClientCall, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::limits::MAX_MOVING;
use crate::maintenance::{Answer, MaintenanceUnit, Refusal};

const BLOCKS: u32 = 8;

/// A place of the chunk with this number on a device.
fn place(device: u32, number: usize) -> BlockPlace {
    BlockPlace::new(DeviceId(device), (number / MAX_BLOCK_ENTRIES) as u32).expect("a small number")
}

fn put(unit: &mut MaintenanceUnit, number: usize) -> ChunkId {
    let call = ClientCall { session: 1, request: number as u32 };
    let places = ChunkPlaces::new(&[place(0, number)]).expect("one");
    let registration = Registration { call, nonce: ChunkNonce(1), bytes: 100, places, deadline_ms: 1 };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&ChunkCommand::Register(registration)).answer else { panic!("an id") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    id
}

fn relocate(unit: &mut MaintenanceUnit, (number, id): (usize, ChunkId), device: u32) -> Result<Answer, Refusal> {
    let (from, to) = (place(0, number), place(device, number));
    unit.apply(&ChunkCommand::Relocate(Relocation { id, from, to, is_lost: false })).answer
}

/// What needs another target needs it most when all others wait for theirs.
#[test]
fn a_target_is_replaced_also_where_no_relocation_more_is_begun() {
    let mut unit = MaintenanceUnit::new(ShardId(1), 1 << 12);
    (0..3).for_each(|device| _ = unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: BLOCKS }));
    let chunks: Vec<(usize, ChunkId)> = (0..=MAX_MOVING).map(|number| (number, put(&mut unit, number))).collect();
    for chunk in &chunks[..MAX_MOVING] {
        relocate(&mut unit, *chunk, 1).expect("begun");
    }
    assert_eq!(relocate(&mut unit, chunks[MAX_MOVING], 1), Err(Refusal::Busy));
    for chunk in &chunks[..MAX_MOVING] {
        relocate(&mut unit, *chunk, 2).expect("another target");
    }
    assert_eq!(unit.moves_under_way(), MAX_MOVING);
}
