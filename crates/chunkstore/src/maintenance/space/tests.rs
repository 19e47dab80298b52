use format::chunk_block::{BLOCK_DATA_BYTES, Era, MAX_BLOCK_ENTRIES};
use format::chunk_id::ChunkNonce;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::{FreeBlocks, Held, Refusal, Space};

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

/// Where something fits beside what is there, a large chunk need not fit: such blocks must not keep a unit from asking for more.
#[test]
fn empty_blocks_are_told_from_those_with_room() {
    const LARGE_BYTES: u32 = 3 << 20;
    let (device, other) = (DeviceId(1), DeviceId(2));
    let mut space = Space::default();
    space.grant(device, 0, 4).expect("granted");
    space.grant(other, 0, 1).expect("granted");
    let place = |block| BlockPlace::new(device, block).expect("a place");
    assert_eq!(space.free(device), FreeBlocks { empty: 4, with_room: 4 });
    (0..3).for_each(|block| space.take(place(block), LARGE_BYTES));
    assert_eq!(space.free(device), FreeBlocks { empty: 1, with_room: 4 });
    space.take(place(0), BLOCK_DATA_BYTES - LARGE_BYTES);
    assert_eq!(space.free(device), FreeBlocks { empty: 1, with_room: 3 });
    for block in [0, 1] {
        space.give_back(place(block), &held(LARGE_BYTES));
    }
    assert_eq!(space.free(device), FreeBlocks { empty: 2, with_room: 4 });
    assert_eq!(space.free(other), FreeBlocks { empty: 1, with_room: 1 });
    assert_eq!(space.free(DeviceId(3)), FreeBlocks::default());
}

/// A full list of entries leaves no room, whatever bytes there are.
#[test]
fn a_block_with_all_its_entries_has_no_room() {
    let device = DeviceId(1);
    let place = BlockPlace::new(device, 0).expect("a place");
    let mut space = Space::default();
    space.grant(device, 0, 1).expect("granted");
    (0..MAX_BLOCK_ENTRIES).for_each(|_| space.take(place, 1));
    assert_eq!(space.free(device), FreeBlocks::default());
}

#[test]
fn blocks_are_released_when_nothing_is_in_them() {
    let device = DeviceId(1);
    let place = |block| BlockPlace::new(device, block).expect("a place");
    let mut space = Space::default();
    space.grant(device, 0, 8).expect("granted");
    space.take(place(5), CHUNK_BYTES);
    for (first, blocks) in [(4, 4), (0, 9), (0, 0), (8, 1), (u32::MAX, 2)] {
        assert_eq!(space.release(device, first, blocks), Err(Refusal::Grant), "{blocks} from {first} on");
    }
    assert_eq!(space.release(DeviceId(2), 0, 4), Err(Refusal::Grant));
    space.release(device, 0, 4).expect("they are empty");
    assert_eq!(space.free(device), FreeBlocks { empty: 3, with_room: 4 });
    assert_eq!((space.room(place(0)), space.grants()), (None, vec![(device, 4, 4)]));
    assert!(space.released().iter().eq(&[(device, 0)]));
    assert!(space.devices().eq([device]));
    space.give_back(place(5), &held(CHUNK_BYTES));
    space.release(device, 4, 4).expect("they are empty now");
    space.forget_released(device, 0);
    assert!(space.released().iter().eq(&[(device, 4)]));
    assert_eq!(space.devices().count(), 0, "nothing is left there");
    space.grant(device, 0, 4).expect("it may be granted again");
    assert_eq!(space.free(device), FreeBlocks { empty: 4, with_room: 4 });
}
