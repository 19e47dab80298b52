use std::collections::BTreeSet;

use format::chunk_command::{ChunkCommand, ClientCall, PageRange, Registration};
use format::chunk_id::{ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::Sweep;
use crate::maintenance::{Answer, MaintenanceUnit};

const CHUNKS: u64 = 3;

fn place(device: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), 0).expect("a place")
}

fn registration(call: u32) -> Registration {
    let places = ChunkPlaces::new(&[place(call % 4)]).expect("one");
    let call = ClientCall { session: 1, request: call };
    Registration { call, nonce: ChunkNonce(7), bytes: 100, places, deadline_ms: 1 }
}

/// A unit with a page for each of its chunks.
fn unit() -> MaintenanceUnit {
    let mut unit = MaintenanceUnit::new(ShardId(1), CHUNKS);
    (0..4).for_each(|device| _ = unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }));
    let page = |number| {
        let range = PageRange { first: ChunkNumber(number), last: ChunkNumber(number) };
        ChunkCommand::RegisterPage { registration: registration(10 + number as u32), range }
    };
    let chunks = (0..CHUNKS as u32).map(|number| ChunkCommand::Register(registration(number)));
    for command in chunks.chain((0..CHUNKS).map(page)) {
        let Ok(Answer::Registered { id, .. }) = unit.apply(&command).answer else { panic!("{command:?}") };
        unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    }
    unit
}

fn blocks(devices: impl IntoIterator<Item = u32>) -> BTreeSet<BlockPlace> {
    devices.into_iter().map(place).collect()
}

#[test]
fn all_pages_are_looked_at_once() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    assert_eq!(sweep.due(&unit), None, "nothing is looked for");
    sweep.look_for([DeviceId(1)].into(), blocks([2]));
    for number in 0..CHUNKS {
        assert!(!sweep.has_found(&unit, &blocks([2])));
        let page = sweep.due(&unit).expect("a page");
        assert_eq!(page.range.first, ChunkNumber(number));
        sweep.pass(page.id.number);
    }
    assert_eq!(sweep.due(&unit), None);
    assert!(sweep.has_found(&unit, &blocks([2])));
    assert!(!sweep.has_found(&unit, &blocks([3])), "nobody looked for that");
    sweep.look_for([].into(), blocks([2]));
    assert_eq!(sweep.due(&unit), None, "less is no news");
}

#[test]
fn with_more_to_look_for_it_begins_anew() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    let first = sweep.due(&unit).expect("a page");
    sweep.pass(first.id.number);
    let under_way = sweep.due(&unit).expect("the next page");
    sweep.look_for([].into(), blocks([2, 3]));
    // It was looked at for less.
    sweep.pass(under_way.id.number);
    assert_eq!(sweep.due(&unit), Some(first));
}

/// Else a block could be condemned with the last copy of a chunk whose row has just left.
#[test]
fn a_page_that_is_written_anew_is_looked_at_again() {
    let (mut unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    while let Some(page) = sweep.due(&unit) {
        sweep.pass(page.id.number);
    }
    assert!(sweep.has_found(&unit, &blocks([2])));
    let range = unit.pages().next().expect("a page").range;
    let again = ChunkCommand::RegisterPage { registration: registration(30), range };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&again).answer else { panic!("the range has a page") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    assert!(!sweep.has_found(&unit, &blocks([2])));
    assert_eq!(sweep.due(&unit).map(|page| page.id), Some(id));
}

#[test]
fn rows_are_wanted_by_device_or_block() {
    let mut sweep = Sweep::default();
    sweep.look_for([DeviceId(1)].into(), blocks([2]));
    let wants = |device| sweep.wants(&ChunkPlaces::new(&[place(device)]).expect("one"));
    assert_eq!([0, 1, 2, 3].map(wants), [false, true, true, false]);
}
