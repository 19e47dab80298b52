use format::chunk_block::{Era, MAX_BLOCK_ENTRIES};
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, FormerCopy, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::limits::{MAX_GIVEN_UP, MAX_MOVING};
use crate::maintenance::{Answer, Duty, GivenUp, IndexChange, MaintenanceUnit, Move, Refusal};

const BLOCKS: u32 = 8;

/// A place of the chunk with this number on a device.
fn place(device: u32, number: usize) -> BlockPlace {
    BlockPlace::new(DeviceId(device), (number / MAX_BLOCK_ENTRIES) as u32).expect("a small number")
}

fn put(unit: &mut MaintenanceUnit, number: usize) -> ChunkId {
    let call = ClientCall { session: 1, request: number as u32 };
    let places = ChunkPlaces::new(&[place(0, number)]).expect("one");
    let registration = Registration { call, nonce: ChunkNonce(1), bytes: 100, places, wanted: 1, deadline_ms: 1 };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&ChunkCommand::Register(registration)).answer else { panic!("an id") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    id
}

fn relocate(unit: &mut MaintenanceUnit, (number, id): (usize, ChunkId), device: u32) -> Result<Answer, Refusal> {
    let (from, to) = (place(0, number), place(device, number));
    unit.apply(&ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false })).answer
}

/// A unit with a chunk that has copies on the first devices and is to have three; there are four.
fn unit_of(copies: u32) -> (MaintenanceUnit, ChunkId) {
    let mut unit = MaintenanceUnit::new(ShardId(1), 1 << 12);
    (0..4).for_each(|device| _ = unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: BLOCKS }));
    let places: Vec<BlockPlace> = (0..copies).map(|device| place(device, 0)).collect();
    let places = ChunkPlaces::new(&places).expect("few");
    let call = ClientCall { session: 1, request: 1 };
    let registration = Registration { call, nonce: ChunkNonce(1), bytes: 100, places, wanted: 3, deadline_ms: 1 };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&ChunkCommand::Register(registration)).answer else { panic!("an id") };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    (unit, id)
}

fn change(
    unit: &mut MaintenanceUnit,
    id: ChunkId,
    from: Option<u32>,
    to: Option<u32>,
    is_lost: bool,
) -> Result<Answer, Refusal> {
    let (from, to) = (from.map(|device| place(device, 0)), to.map(|device| place(device, 0)));
    unit.apply(&ChunkCommand::Relocate(Relocation { id, from, to, is_lost })).answer
}

fn under_way(unit: &MaintenanceUnit) -> Move {
    let mut moves = unit.duties().filter_map(|duty| if let Duty::Move(asked) = duty { Some(asked) } else { None });
    moves.next().expect("a move is under way")
}

/// The relocation that is under way is over.
fn end(unit: &mut MaintenanceUnit, id: ChunkId) -> Vec<IndexChange> {
    let relocation = under_way(unit).relocation;
    let applied = unit.apply(&ChunkCommand::Moved { id, relocation });
    applied.answer.expect("it is under way");
    applied.changes
}

fn devices(unit: &MaintenanceUnit, id: ChunkId) -> Vec<u32> {
    unit.places_of(id).expect("it is there").iter().map(|place| place.device().0).collect()
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

#[test]
fn a_chunk_grows_to_as_many_copies_as_are_wanted() {
    let (mut unit, id) = unit_of(2);
    assert_eq!((unit.short_chunks(), unit.era_of(id)), (1, Some(Era::first(2))));
    assert_eq!(change(&mut unit, id, None, Some(1), false), Err(Refusal::Places), "another copy is on the device");
    change(&mut unit, id, None, Some(3), false).expect("one is lacking");
    let asked = under_way(&unit);
    assert_eq!((asked.from, asked.to, asked.era), (None, Some(place(3, 0)), Era::first(2).next(3)));
    assert_eq!(change(&mut unit, id, Some(0), Some(2), false), Err(Refusal::UnderWay));
    let places = |devices: &[u32]| {
        let places: Vec<BlockPlace> = devices.iter().map(|device| place(*device, 0)).collect();
        ChunkPlaces::new(&places).expect("few")
    };
    let changed = IndexChange::Changed { id, from: places(&[0, 1]), to: places(&[0, 1, 3]) };
    assert_eq!(end(&mut unit, id), [changed]);
    assert_eq!((devices(&unit, id), unit.short_chunks(), unit.era_of(id)), (vec![0, 1, 3], 0, Some(Era::first(2).next(3))));
    assert_eq!(change(&mut unit, id, None, Some(2), false), Err(Refusal::Places), "three are enough");
    assert!(unit.duties().next().is_none());
}

/// Its node may come back and answer those who know the former places.
#[test]
fn only_a_lost_place_is_given_up_and_not_the_last_one() {
    let (mut unit, id) = unit_of(3);
    assert_eq!(change(&mut unit, id, Some(0), None, false), Err(Refusal::Places));
    for (lost, left) in [(0, vec![1, 2]), (1, vec![2])] {
        change(&mut unit, id, Some(lost), None, true).expect("it is lost");
        assert_eq!(under_way(&unit).era.copies(), left.len());
        end(&mut unit, id);
        assert_eq!(devices(&unit, id), left);
    }
    assert_eq!(change(&mut unit, id, Some(2), None, true), Err(Refusal::Places), "the last one");
    assert_eq!((unit.short_chunks(), unit.duties().count()), (1, 2), "what was at the lost places is to be forgotten");
}

/// The copies that stay may have the era of the growth, which counts a place more: without another one nobody could write to them any more.
#[test]
fn a_growth_that_is_given_up_has_an_era_of_its_own() {
    let (mut unit, id) = unit_of(2);
    assert_eq!(change(&mut unit, id, None, None, false), Err(Refusal::Places), "nothing is under way");
    change(&mut unit, id, None, Some(3), false).expect("one is lacking");
    let grown = under_way(&unit);
    change(&mut unit, id, None, None, false).expect("a growth is under way");
    let given_up = under_way(&unit);
    assert!(given_up.era > grown.era && given_up.era.copies() == 2, "{given_up:?}");
    let discarded =
        |duty: &Duty| matches!(duty, Duty::Discard { copy, era, .. } if copy.place == place(3, 0) && *era == grown.era);
    assert!(unit.duties().any(|duty| discarded(&duty)), "what may have been brought there departs");
    let late = unit.apply(&ChunkCommand::Moved { id, relocation: grown.relocation });
    assert_eq!((late.answer, late.changes), (Ok(Answer::Done), Vec::new()), "it came too late");
    assert_eq!(end(&mut unit, id), [], "readers find it where it was");
    assert_eq!((devices(&unit, id), unit.era_of(id)), (vec![0, 1], Some(given_up.era)));
    assert_eq!(change(&mut unit, id, None, Some(3), false), Err(Refusal::UnderWay), "the former copy there is not forgotten");
    change(&mut unit, id, None, Some(2), false).expect("elsewhere");
}

/// A copy that had come to a place again, and had to go again, was taken for forgotten, and stayed at its node for ever.
#[test]
fn a_late_word_about_a_former_copy_says_nothing_of_the_next_one_there() {
    let (mut unit, id) = unit_of(2);
    let forgotten = |era| {
        let copy = CopyOf { id, place: place(3, 0) };
        ChunkCommand::Forgotten(vec![FormerCopy { copy, era }])
    };
    let attempt = |unit: &mut MaintenanceUnit| {
        change(unit, id, None, Some(3), false).expect("one is lacking");
        let era = under_way(unit).era;
        change(unit, id, None, None, false).expect("a growth is under way");
        end(unit, id);
        era
    };
    let first = attempt(&mut unit);
    unit.apply(&forgotten(first));
    assert!(unit.duties().next().is_none());
    let second = attempt(&mut unit);
    unit.apply(&forgotten(first));
    assert_eq!(unit.duties().count(), 1, "the second one is to be forgotten as well");
    unit.apply(&forgotten(second));
    assert!(unit.duties().next().is_none());
}

#[test]
fn a_chunk_that_ends_while_it_grows_ends_at_the_target_as_well() {
    let (mut unit, id) = unit_of(2);
    change(&mut unit, id, None, Some(3), false).expect("one is lacking");
    let era = under_way(&unit).era;
    unit.apply(&ChunkCommand::Freed(vec![id]));
    let mut erased = Vec::new();
    for duty in unit.duties() {
        let Duty::Erase { copy, era: of, .. } = duty else { panic!("{duty:?}") };
        assert_eq!(of, era, "they may have been raised");
        erased.push(copy.place.device().0);
    }
    erased.sort_unstable();
    assert_eq!(erased, [0, 1, 3]);
}

/// A relocation that has lost its target as well as its source.
#[test]
fn a_relocation_of_a_lost_copy_can_be_given_up_with_its_place() {
    let (mut unit, id) = unit_of(3);
    change(&mut unit, id, Some(0), Some(3), false).expect("it is there");
    assert_eq!(change(&mut unit, id, Some(0), None, false), Err(Refusal::Places), "the source has departed, and is not lost");
    change(&mut unit, id, Some(0), None, true).expect("now it is");
    end(&mut unit, id);
    assert_eq!(devices(&unit, id), [1, 2]);
}

fn forget(unit: &mut MaintenanceUnit, id: ChunkId, device: u32, era: Era) {
    let copy = CopyOf { id, place: place(device, 0) };
    unit.apply(&ChunkCommand::Forgotten(vec![FormerCopy { copy, era }])).answer.expect("told");
}

/// A chunk on devices 1, 2 and 3 that stood on device 0 as well, and is moved there again and then to device 4 in that one's stead: the number and the era of the
/// relocation that was given up.
fn returned() -> (MaintenanceUnit, ChunkId, u64, Era) {
    let (mut unit, id) = unit_of(3);
    unit.apply(&ChunkCommand::Grant { device: DeviceId(4), first_block: 0, blocks: BLOCKS }).answer.expect("new");
    change(&mut unit, id, Some(0), Some(3), false).expect("it is there");
    end(&mut unit, id);
    forget(&mut unit, id, 0, Era::first(3));
    change(&mut unit, id, Some(1), Some(0), false).expect("it was forgotten there");
    let Move { relocation, era, .. } = under_way(&unit);
    change(&mut unit, id, Some(1), Some(4), false).expect("another target");
    (unit, id, relocation, era)
}

#[test]
fn a_target_that_was_given_up_is_left_behind_until_it_is_forgotten_or_the_relocation_is_over() {
    let (mut unit, id, relocation, era) = returned();
    let left = [GivenUp { place: place(0, 0), era, moves: relocation + 1 }];
    assert_eq!(unit.left_behind(id), left);
    let read = MaintenanceUnit::from_image(&unit.to_image()).expect("an image of one's own");
    assert_eq!((read.left_behind(id), read == unit), (left.to_vec(), true));
    let mut ended = unit.clone();
    end(&mut ended, id);
    assert_eq!(ended.left_behind(id), [], "it has departed by then");
    forget(&mut unit, id, 0, era);
    assert_eq!(unit.left_behind(id), []);
}

/// Its relocations wait for no target that is away.
#[test]
fn nobody_is_led_to_a_target_of_a_chunk_that_has_never_moved() {
    let (mut unit, id) = unit_of(2);
    change(&mut unit, id, None, Some(3), false).expect("one is lacking");
    change(&mut unit, id, None, None, false).expect("a growth is under way");
    assert_eq!(unit.left_behind(id), []);
}

/// It outlived its chunk: who was led there read what had been deleted.
#[test]
fn a_chunk_ends_at_targets_that_were_given_up_as_well() {
    let (mut unit, id, _, era) = returned();
    unit.apply(&ChunkCommand::Freed(vec![id]));
    let erased = |unit: &MaintenanceUnit| {
        let copies = unit.duties().filter_map(|duty| if let Duty::Erase { copy, .. } = duty { Some(copy) } else { None });
        let mut copies: Vec<CopyOf> = copies.collect();
        copies.sort_unstable_by_key(|copy| copy.place);
        copies
    };
    let copies = erased(&unit);
    let devices: Vec<u32> = copies.iter().map(|copy| copy.place.device().0).collect();
    assert_eq!(devices, [0, 1, 2, 3, 4]);
    unit.apply(&ChunkCommand::Erased(copies[1..].to_vec()));
    assert!(unit.is_ending(id) && erased(&unit) == copies[..1], "not without the one at device 0");
    assert!(unit.apply(&ChunkCommand::Erased(copies)).changes.contains(&IndexChange::Removed(id)));
    forget(&mut unit, id, 0, era);
    assert_eq!(unit.duties().count(), 5, "that it was forgotten before says nothing of the mark that its end left there");
    assert_eq!(MaintenanceUnit::from_image(&unit.to_image()), Ok(unit));
}

#[test]
fn a_target_is_replaced_so_many_times_and_then_waits_for_those_before() {
    let (mut unit, id) = unit_of(2);
    let target = |unit: &mut MaintenanceUnit, block: u32| {
        let to = BlockPlace::new(DeviceId(3), block);
        unit.apply(&ChunkCommand::Relocate(Relocation { id, from: None, to, is_lost: false })).answer
    };
    unit.apply(&ChunkCommand::Grant { device: DeviceId(3), first_block: BLOCKS, blocks: 100 }).answer.expect("new");
    for block in 0..=MAX_GIVEN_UP as u32 {
        target(&mut unit, block).expect("another target");
    }
    let next = MAX_GIVEN_UP as u32 + 1;
    assert_eq!(target(&mut unit, next), Err(Refusal::Busy));
    let mut ended = unit.clone();
    change(&mut ended, id, None, None, false).expect("without a target it ends");
    assert_eq!(MaintenanceUnit::from_image(&ended.to_image()), Ok(ended));
    forget(&mut unit, id, 3, Era::first(2).next(3));
    target(&mut unit, next).expect("one is forgotten");
}
