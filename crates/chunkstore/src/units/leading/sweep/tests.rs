use std::collections::BTreeSet;

use format::chunk_block::Era;
use format::chunk_command::{ChunkCommand, PageRange, Registration};
use format::chunk_id::{ChunkNumber, ShardId};
use format::chunk_page::ChunkRow;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::Sweep;
use crate::limits::{MAX_GRANT_BLOCKS, MAX_SWEPT};
use crate::maintenance::{Answer, MaintenanceUnit, PageRef};
use crate::units::leading::fixture::{CHUNKS, place, registration, unit};

fn blocks(devices: impl IntoIterator<Item = u32>) -> BTreeSet<BlockPlace> {
    devices.into_iter().map(place).collect()
}

#[test]
fn all_pages_are_looked_at_once() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None, "nothing is looked for");
    sweep.look_for([DeviceId(1)].into(), blocks([2]));
    for number in 0..CHUNKS {
        assert!(!sweep.has_found(&unit, &blocks([2])));
        let page = sweep.due(&unit, &BTreeSet::new()).expect("a page");
        assert_eq!(page.range.first, ChunkNumber(number));
        sweep.pass(page.id.number, 0);
    }
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None);
    assert!(sweep.has_found(&unit, &blocks([2])));
    assert!(!sweep.has_found(&unit, &blocks([3])), "nobody looked for that");
    sweep.look_for([].into(), blocks([2]));
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None, "less is no news");
}

#[test]
fn with_more_to_look_for_it_begins_anew() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    let first = sweep.due(&unit, &BTreeSet::new()).expect("a page");
    sweep.pass(first.id.number, 0);
    let under_way = sweep.due(&unit, &BTreeSet::new()).expect("the next page");
    sweep.look_for([].into(), blocks([2, 3]));
    // It was looked at for less.
    sweep.pass(under_way.id.number, 0);
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), Some(first));
}

/// Else a block could be condemned with the last copy of a chunk whose row has just left.
#[test]
fn a_page_that_is_written_anew_is_looked_at_again() {
    let (mut unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    while let Some(page) = sweep.due(&unit, &BTreeSet::new()) {
        sweep.pass(page.id.number, 0);
    }
    assert!(sweep.has_found(&unit, &blocks([2])));
    let range = unit.pages().next().expect("a page").range;
    let again = ChunkCommand::RegisterPage { registration: registration(30), range };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&again).answer else { panic!("the range has a page") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    assert!(!sweep.has_found(&unit, &blocks([2])));
    assert_eq!(sweep.due(&unit, &BTreeSet::new()).map(|page| page.id), Some(id));
}

#[test]
fn rows_are_wanted_by_device_or_block() {
    let mut sweep = Sweep::default();
    sweep.look_for([DeviceId(1)].into(), blocks([2]));
    let wants = |device| sweep.wants(&ChunkPlaces::new(&[place(device), place(4)]).expect("two"));
    assert_eq!([0, 1, 2, 3].map(wants), [false, true, true, false]);
}

/// There were so many of them that those about which there is something to do found no room.
#[test]
fn rows_without_a_copy_stay_in_their_pages() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([DeviceId(1), DeviceId(2)].into(), blocks([3]));
    let places = |devices: &[u32]| {
        let places: Vec<BlockPlace> = devices.iter().copied().map(place).collect();
        ChunkPlaces::new(&places).expect("few")
    };
    for (devices, is_gone) in [(&[1][..], true), (&[1, 2], true), (&[1, 2, 3], false), (&[3], false)] {
        assert_eq!((sweep.wants(&places(devices)), sweep.is_gone(&places(devices))), (!is_gone, is_gone), "{devices:?}");
    }
    for gone in [2, 3] {
        let page = sweep.due(&unit, &BTreeSet::new()).expect("a page");
        sweep.pass(page.id.number, gone);
    }
    assert_eq!(sweep.gone(), 5);
    sweep.look_for([DeviceId(1), DeviceId(2), DeviceId(3)].into(), blocks([]));
    assert_eq!(sweep.gone(), 0, "it begins anew");
}

#[test]
fn a_page_that_cannot_be_read_holds_no_others_up() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    let unread: BTreeSet<ChunkNumber> = unit.pages().take(1).map(|page| page.id.number).collect();
    let mut passed = Vec::new();
    while let Some(page) = sweep.due(&unit, &unread) {
        passed.push(page.range.first.0);
        sweep.pass(page.id.number, 0);
    }
    assert_eq!(passed, [1, 2]);
    assert!(!sweep.has_found(&unit, &blocks([2])), "one has not been looked at");
    let last = sweep.due(&unit, &BTreeSet::new()).expect("it can be read again");
    sweep.pass(last.id.number, 0);
    assert!(sweep.has_found(&unit, &blocks([2])));
}

/// Three of them took longer than a page rests, and were tried in turn for ever.
#[test]
fn pages_that_cannot_be_read_are_not_tried_again_before_others() {
    let (unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    let pages: Vec<PageRef> = unit.pages().collect();
    let mut tried = Vec::new();
    // Each rests for as long as it takes to find out that one other can't be read.
    let mut rests = BTreeSet::new();
    for _ in 0..4 {
        let page = sweep.due(&unit, &rests).expect("a page");
        tried.push(page);
        rests = [page.id.number].into();
    }
    assert_eq!(tried, [pages[0], pages[1], pages[2], pages[0]]);
}

/// Pages of chunks that have all their copies are not read for that.
#[test]
fn pages_are_looked_at_for_chunks_that_can_grow_after_all_others() {
    let (mut unit, mut sweep) = (unit(), Sweep::default());
    sweep.look_for([].into(), blocks([2]));
    sweep.look_for_growth(&[1, 2, 3].into());
    while let Some(page) = sweep.due(&unit, &BTreeSet::new()) {
        assert!(!sweep.is_for_growth());
        sweep.pass(page.id.number, 0);
    }
    let range = unit.pages().next().expect("a page").range;
    let page_of = |unit: &mut MaintenanceUnit, call: u32| {
        let again = ChunkCommand::RegisterPage { registration: registration(call), range };
        let Ok(Answer::Registered { id, .. }) = unit.apply(&again).answer else { panic!("the range has a page") };
        unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    };
    // A row of a chunk that is to have three copies comes, and leaves with the next page.
    let page = unit.pages().next().expect("a page").id.number;
    let Registration { nonce, bytes, places, .. } = registration(0);
    let row = ChunkRow { number: range.first, nonce, places, bytes, wanted: 3, era: Era::first(1) };
    unit.apply(&ChunkCommand::Touch { page, rows: vec![row] }).answer.expect("the page is the current one");
    page_of(&mut unit, 30);
    let found = sweep.due(&unit, &BTreeSet::new()).expect("another page");
    assert!(!sweep.is_for_growth(), "what is lost comes first");
    sweep.pass(found.id.number, 0);
    let again = sweep.due(&unit, &BTreeSet::new()).expect("the same page");
    assert!(again.id == found.id && sweep.is_for_growth());
    // It was looked at for chunks that grow on the former hosts.
    sweep.look_for_growth(&[2, 3].into());
    sweep.pass(again.id.number, 0);
    assert_eq!(sweep.due(&unit, &BTreeSet::new()).map(|page| page.id), Some(found.id));
    sweep.pass(again.id.number, 0);
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None);
    sweep.look_for_growth(&[1, 2].into());
    assert_eq!(sweep.due(&unit, &BTreeSet::new()).map(|page| page.id), Some(found.id), "there are other hosts");
    sweep.look_for_growth(&[].into());
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None);
}

/// While no page could be placed they took the room of what was lost: the rest of it was never looked for.
#[test]
fn rows_that_no_page_has_had_yet_take_no_room() {
    let count = MAX_SWEPT as u64 + 2;
    let mut unit = MaintenanceUnit::new(ShardId(1), count);
    for first_block in [0, MAX_GRANT_BLOCKS] {
        unit.apply(&ChunkCommand::Grant { device: DeviceId(1), first_block, blocks: MAX_GRANT_BLOCKS }).answer.expect("new");
    }
    let put = |unit: &mut MaintenanceUnit, number: u64, range: Option<PageRange>| {
        let block = BlockPlace::new(DeviceId(1), (number / 200) as u32).expect("few");
        let places = ChunkPlaces::new(&[block]).expect("one");
        let registration = Registration { places, ..registration(number as u32) };
        let register = match range {
            None => ChunkCommand::Register(registration),
            Some(range) => ChunkCommand::RegisterPage { registration, range },
        };
        let Ok(Answer::Registered { id, .. }) = unit.apply(&register).answer else { panic!("there is room") };
        unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    };
    (0..count).for_each(|number| put(&mut unit, number, None));
    let first = PageRange { first: ChunkNumber(0), last: ChunkNumber(0) };
    put(&mut unit, count, Some(first));
    let mut sweep = Sweep::default();
    sweep.look_for([DeviceId(2)].into(), blocks([1]));
    assert_eq!(sweep.due(&unit, &BTreeSet::new()).map(|page| page.range), Some(first));
    // They have come from a page: the next one waits.
    let rest = PageRange { first: ChunkNumber(1), last: ChunkNumber(count - 1) };
    let Registration { nonce, bytes, .. } = registration(0);
    let rows: Vec<ChunkRow> = unit
        .index()
        .map(|(id, places)| (id.number, places))
        .filter(|(number, _)| rest.contains(*number))
        .map(|(number, places)| ChunkRow { number, nonce, places, bytes, wanted: 1, era: Era::first(1) })
        .collect();
    put(&mut unit, count + 1, Some(rest));
    let short_page =
        |unit: &MaintenanceUnit| unit.due_short_page(&BTreeSet::new(), |_| false).map(|(page, least)| (page.range, least));
    assert_eq!(short_page(&unit), None, "they have their copies");
    let page = unit.pages().nth(1).expect("both").id.number;
    unit.apply(&ChunkCommand::Touch { page, rows }).answer.expect("the page is the current one");
    assert_eq!(sweep.due(&unit, &BTreeSet::new()), None);
    assert_eq!(short_page(&unit), Some((rest, 1)));
}
