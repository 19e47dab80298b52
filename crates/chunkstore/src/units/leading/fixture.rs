//! A unit for tests of what leaders look for.

use format::chunk_command::{ChunkCommand, ClientCall, PageRange, Registration};
use format::chunk_id::{ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::maintenance::{Answer, MaintenanceUnit};

pub const CHUNKS: u64 = 3;

/// On the only block that a device has.
pub fn place(device: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), 0).expect("a place")
}

pub fn registration(call: u32) -> Registration {
    registration_of(call, 1)
}

/// The same, with further copies on the next devices.
pub fn registration_of(call: u32, copies: u32) -> Registration {
    let places: Vec<BlockPlace> = (0..copies).map(|copy| place((call + copy) % 4)).collect();
    let places = ChunkPlaces::new(&places).expect("few");
    let call = ClientCall { session: 1, request: call };
    Registration { call, nonce: ChunkNonce(7), bytes: 100, places, wanted: copies as u8, deadline_ms: 1 }
}

/// A unit with a page for each of its chunks; all on device 0, 1, 2, and pages on 2, 3, 0.
pub fn unit() -> MaintenanceUnit {
    unit_of(1)
}

/// The same, with further copies on the next devices.
pub fn unit_of(copies: u32) -> MaintenanceUnit {
    let mut unit = MaintenanceUnit::new(ShardId(1), CHUNKS);
    (0..4).for_each(|device| _ = unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }));
    let page = |number| {
        let range = PageRange { first: ChunkNumber(number), last: ChunkNumber(number) };
        ChunkCommand::RegisterPage { registration: registration_of(10 + number as u32, copies), range }
    };
    let chunks = (0..CHUNKS as u32).map(|number| ChunkCommand::Register(registration_of(number, copies)));
    for command in chunks.chain((0..CHUNKS).map(page)) {
        let Ok(Answer::Registered { id, .. }) = unit.apply(&command).answer else { panic!("{command:?}") };
        unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    }
    unit
}
