use format::chunk_block::{BLOCK_DATA_BYTES, Era};
use format::chunk_id::ChunkNonce;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::{Held, Refusal, Space};

/// What a node needs for it is a whole number of its device's blocks: 20 KiB.
const CHUNK_BYTES: u32 = 20_000;
const ROOM_BYTES: u32 = 20_480;

fn held(bytes: u32) -> Held {
    Held { nonce: ChunkNonce(1), bytes, era: Era(0), after_move: 0, is_discarded: false }
}

#[test]
fn a_block_is_promised_to_as_many_chunks_as_its_node_can_place() {
    let mut space = Space::default();
    space.grant(DeviceId(1), 0, 1).expect("granted");
    let place = BlockPlace::new(DeviceId(1), 0).expect("a place");
    let fitting = BLOCK_DATA_BYTES / ROOM_BYTES;
    assert!(fitting < BLOCK_DATA_BYTES / CHUNK_BYTES, "by bytes alone more would fit");
    for number in 1..=fitting {
        space.check(place, CHUNK_BYTES).expect("there is room");
        space.take(place, CHUNK_BYTES);
        assert_eq!(space.held_bytes(place), Some(number * ROOM_BYTES));
    }
    assert_eq!(space.check(place, CHUNK_BYTES), Err(Refusal::NoRoom { place }));
    assert_eq!(space.room(place), Some(BLOCK_DATA_BYTES - fitting * ROOM_BYTES));
    for _ in 0..fitting {
        space.give_back(place, &held(CHUNK_BYTES));
    }
    assert_eq!(space.held_bytes(place), Some(0));
    space.check(place, BLOCK_DATA_BYTES).expect("the block is empty again");
}
