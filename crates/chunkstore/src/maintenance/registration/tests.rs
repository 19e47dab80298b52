use format::chunk_command::{ChunkCommand, ClientCall, PageRange, Registration};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::maintenance::{Answer, MaintenanceUnit, Refusal};

const CAPACITY: u64 = 100;
const DEVICES: u32 = 2;
const NO_CHUNK_HERE: DeviceId = DeviceId(1);

/// On the only block of device 0.
fn registration(call: u32) -> Registration {
    let places = ChunkPlaces::new(&[BlockPlace::new(DeviceId(0), 0).expect("a place")]).expect("one");
    let call = ClientCall { session: 1, request: call };
    Registration { call, nonce: ChunkNonce(7), bytes: 100, places, wanted: 1, deadline_ms: 1_000 }
}

fn open_unit() -> MaintenanceUnit {
    let mut unit = MaintenanceUnit::new(ShardId(1), CAPACITY);
    for device in 0..DEVICES {
        unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 });
    }
    unit
}

fn registered(unit: &mut MaintenanceUnit, call: u32) -> ChunkId {
    match unit.apply(&ChunkCommand::Register(registration(call))).answer {
        Ok(Answer::Registered { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

/// With any number of chunks, and no less than before: one is committed, and one pending.
#[test]
fn a_unit_that_is_sealed_before_it_is_full_is_as_one_that_is_full() {
    let mut unit = open_unit();
    let (committed, pending) = (registered(&mut unit, 0), registered(&mut unit, 1));
    unit.apply(&ChunkCommand::Commit(committed)).answer.expect("it is pending");
    let release = ChunkCommand::Release { device: NO_CHUNK_HERE, first_block: 0, blocks: 1 };
    let page = |call, first, last| {
        let range = PageRange { first: ChunkNumber(first), last: ChunkNumber(last) };
        ChunkCommand::RegisterPage { registration: registration(call), range }
    };
    assert_eq!(unit.apply(&release).answer, Err(Refusal::Grant));
    assert_eq!(unit.apply(&page(10, 0, 0)).answer, Err(Refusal::Page));
    let applied = unit.apply(&ChunkCommand::Seal);
    assert_eq!((applied.answer, applied.is_sealed, applied.changes), (Ok(Answer::Done), true, Vec::new()));
    assert_eq!(unit.apply(&ChunkCommand::Register(registration(2))).answer, Err(Refusal::Sealed));
    assert_eq!(registered(&mut unit, 1), pending, "the call is repeated");
    assert_eq!(unit.apply(&release).answer, Ok(Answer::Done));
    assert_eq!(unit.apply(&page(10, 0, 1)).answer, Err(Refusal::Page), "something of it is pending");
    unit.apply(&ChunkCommand::Commit(pending)).answer.expect("it is pending");
    let Ok(Answer::Registered { id, .. }) = unit.apply(&page(10, 0, 1)).answer else { panic!("no page") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    assert_eq!((unit.chunks(), unit.rows_here()), (2, 1));
    // Another leader says so again.
    let sealed = unit.clone();
    unit.apply(&ChunkCommand::Seal);
    assert_eq!(unit, sealed);
    assert_eq!(MaintenanceUnit::from_image(&unit.to_image()), Ok(unit));
}

#[test]
fn a_unit_without_chunks_can_be_sealed() {
    let mut unit = open_unit();
    assert!(unit.apply(&ChunkCommand::Seal).is_sealed);
    assert_eq!(unit.apply(&ChunkCommand::Register(registration(0))).answer, Err(Refusal::Sealed));
    assert_eq!(MaintenanceUnit::from_image(&unit.to_image()), Ok(unit));
}
