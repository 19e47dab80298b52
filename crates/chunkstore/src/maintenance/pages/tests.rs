//! A unit with pages, beside one without: whatever happens, both know the same.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, FormerCopy, PageRange, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_page::ChunkPage;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use proptest::prelude::*;
use types::DeviceId;

use super::{DuePage, PageRef};
use crate::maintenance::{Answer, Duty, MaintenanceUnit, Refusal, Sought};
use crate::message::Found;

const DEVICES: u32 = 4;
const BLOCKS: u32 = 4;
const CHUNKS: u64 = 8;
const CHUNK_BYTES: u32 = 100_000;
/// Of a page.
const ROWS: usize = 3;

fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device % DEVICES), block % BLOCKS).expect("a place")
}

fn registration(call: u32, bytes: u32) -> Registration {
    let places = [place(call, call), place(call + 1, call), place(call + 2, call)];
    // Some chunks, and no pages, lack a copy.
    let is_short = u64::from(call) < CHUNKS && call.is_multiple_of(3);
    let places = ChunkPlaces::new(&places[usize::from(is_short)..]).expect("different devices");
    let call = ClientCall { session: 1, request: call };
    Registration { call, nonce: ChunkNonce(u64::from(call.request) * 7), bytes, places, wanted: 3, deadline_ms: 1_000 }
}

fn full_unit() -> (MaintenanceUnit, Vec<ChunkId>) {
    full_unit_with(|_| true)
}

/// One whose registrations are committed where this says so.
fn full_unit_with(is_committed: impl Fn(u32) -> bool) -> (MaintenanceUnit, Vec<ChunkId>) {
    let mut unit = MaintenanceUnit::new(ShardId(1), CHUNKS);
    for device in 0..DEVICES {
        unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: BLOCKS });
    }
    let register = |call| match unit.apply(&ChunkCommand::Register(registration(call, CHUNK_BYTES))).answer {
        Ok(Answer::Registered { id, .. }) => {
            if is_committed(call) {
                unit.apply(&ChunkCommand::Commit(id));
            }
            id
        }
        other => panic!("{other:?}"),
    };
    let ids = (0..CHUNKS as u32).map(register).collect();
    (unit, ids)
}

struct Twins {
    paged: MaintenanceUnit,
    plain: MaintenanceUnit,
    ids: Vec<ChunkId>,
    /// What was written to pages, by their numbers.
    contents: BTreeMap<ChunkNumber, ChunkPage>,
    calls: u32,
    /// Commands about pages: they may come again, late.
    told: Vec<ChunkCommand>,
}

impl Twins {
    fn new() -> Twins {
        let (paged, ids) = full_unit();
        let (contents, told) = (BTreeMap::new(), Vec::new());
        Twins { plain: paged.clone(), paged, ids, contents, calls: 1_000, told }
    }

    /// Both are told, after the row was brought; they answer the same.
    fn tell(&mut self, id: ChunkId, command: &ChunkCommand) {
        if let Some(at) = self.paged.page_of(id) {
            assert!(
                matches!(command, ChunkCommand::Freed(_)) || self.paged.clone().apply(command).answer == Err(Refusal::Archived)
            );
            let row = self.contents[&at.id.number].row(id.number).copied();
            let touched = self.tell_paged(ChunkCommand::Touch { page: at.id.number, rows: row.into_iter().collect() });
            touched.expect("the page is the current one");
        }
        let (paged, plain) = (self.paged.apply(command), self.plain.apply(command));
        // Of an id whose chunk has ended the one may say that its page must be read, which then has no row.
        if self.paged.page_of(id).is_none() {
            assert_eq!((paged.answer, &paged.changes), (plain.answer, &plain.changes), "{command:?}");
        }
    }

    fn tell_paged(&mut self, command: ChunkCommand) -> Result<Answer, Refusal> {
        let applied = self.paged.apply(&command);
        assert_eq!(applied.changes, [], "lookup structures know nothing of pages");
        self.told.push(command);
        applied.answer
    }

    fn relocate(&mut self, id: ChunkId, to: BlockPlace, ends: bool) {
        let Some(places) = self.plain.places_of(id) else { return };
        let from = places.iter().find(|from| from.device() == to.device()).unwrap_or(places.as_slice()[0]);
        self.tell(id, &ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false }));
        if ends {
            self.end_moves();
        }
    }

    /// A copy more, a lost one less, or a growth given up; which may be refused.
    fn change(&mut self, id: ChunkId, to: Option<BlockPlace>, is_lost: bool) {
        let Some(places) = self.plain.places_of(id) else { return };
        let from = is_lost.then_some(places.as_slice()[0]);
        self.tell(id, &ChunkCommand::Relocate(Relocation { id, from, to, is_lost }));
    }

    fn end_moves(&mut self) {
        let moves: Vec<Duty> = self.plain.duties().filter(|duty| matches!(duty, Duty::Move(_))).collect();
        for duty in moves {
            let Duty::Move(asked) = duty else { continue };
            self.tell(asked.id, &ChunkCommand::Moved { id: asked.id, relocation: asked.relocation });
        }
    }

    /// Everything ends that is ending.
    fn settle(&mut self) {
        for unit in [&mut self.paged, &mut self.plain] {
            settle(unit);
        }
    }

    fn begin_page(&mut self) {
        let Some(DuePage { range, bytes, .. }) = self.paged.due_page(ROWS, &BTreeSet::new(), |_| false) else { return };
        self.calls += 1;
        let registration = registration(self.calls, bytes);
        self.tell_paged(ChunkCommand::RegisterPage { registration, range }).expect("what is due can be had");
    }

    fn write_page(&mut self) {
        let Some(id) = self.paged.draft() else { return };
        let range = self.paged.pages.draft.as_ref().expect("there is one").range;
        let former = self.paged.pages().find(|page| page.range == range);
        let former = former.map(|page| self.contents[&page.id.number].clone());
        let content = self.paged.content_of_draft(id, former.as_ref()).expect("a draft has content");
        assert!(content.encode().len() <= self.paged.bytes_of(id).expect("registered") as usize);
        self.contents.entry(id.number).or_insert(content);
    }

    fn commit_page(&mut self) {
        let Some(id) = self.paged.draft().filter(|id| self.contents.contains_key(&id.number)) else { return };
        self.tell_paged(ChunkCommand::Commit(id)).expect("a draft can be committed");
    }

    fn step(&mut self, kind: u8, about: u32) {
        let id = self.ids[about as usize % self.ids.len()];
        match kind % 13 {
            0 => self.relocate(id, place(about / 8, about / 32), true),
            1 => self.relocate(id, place(about / 8, about / 32), false),
            2 => self.end_moves(),
            3 => self.tell(id, &ChunkCommand::Freed(vec![id])),
            4 => self.settle(),
            5 => self.begin_page(),
            6 => self.write_page(),
            7 => self.commit_page(),
            8 => {
                if let Some(id) = self.paged.draft() {
                    self.tell_paged(ChunkCommand::Revoke(id)).expect("a draft can be given up");
                }
            }
            10 => self.change(id, Some(place(about / 8, about / 32)), false),
            11 => self.change(id, None, true),
            12 => self.change(id, None, false),
            _ => {
                if !self.told.is_empty() {
                    let again = self.told[about as usize % self.told.len()].clone();
                    // Nobody commits what he has not written.
                    _ = self.tell_paged(again);
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        for id in &self.ids {
            let page = self.paged.page_of(*id).map(|at| &self.contents[&at.id.number]);
            let (paged, plain) = (self.paged.seek(*id, page), self.plain.seek(*id, None));
            assert_eq!(paged, plain, "{id}");
            let alien = ChunkId { nonce: ChunkNonce(id.nonce.0 + 1), ..*id };
            assert_eq!(self.paged.seek(alien, page), Sought::Found(Found::Unknown));
        }
        assert_eq!(self.paged.chunks(), self.plain.chunks());
        assert_eq!(self.paged.short_chunks(), self.plain.short_chunks(), "{:?}", self.paged);
        assert_eq!(MaintenanceUnit::from_image(&self.paged.to_image()).as_ref(), Ok(&self.paged));
    }
}

/// Carries out what there is to do but relocations.
fn settle(unit: &mut MaintenanceUnit) {
    loop {
        let commands = unit.duties().filter_map(|duty| match duty {
            Duty::Erase { copy, .. } => Some(ChunkCommand::Erased(vec![copy])),
            Duty::Forget { copy, era, .. } | Duty::Discard { copy, era, .. } => {
                Some(ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]))
            }
            Duty::Move(_) => None,
        });
        let commands: Vec<ChunkCommand> = commands.collect();
        if commands.is_empty() {
            return;
        }
        commands.iter().for_each(|command| _ = unit.apply(command));
    }
}

/// All rows of a unit in pages.
fn archived() -> Twins {
    let mut twins = Twins::new();
    while twins.paged.due_page(ROWS, &BTreeSet::new(), |_| false).is_some() {
        [5, 6, 7].into_iter().for_each(|kind| twins.step(kind, 0));
    }
    twins
}

proptest! {
    #[test]
    fn a_unit_with_pages_knows_what_one_without_knows(steps in prop::collection::vec((any::<u8>(), 0_u32..512), 0..80)) {
        let mut twins = Twins::new();
        steps.into_iter().for_each(|(kind, about)| twins.step(kind, about));
        // When all chunks have ended nothing is held: no page is left behind.
        twins.end_moves();
        for id in twins.ids.clone() {
            twins.tell(id, &ChunkCommand::Freed(vec![id]));
        }
        twins.settle();
        if let Some(id) = twins.paged.draft() {
            twins.tell_paged(ChunkCommand::Revoke(id)).expect("a draft can be given up");
        }
        twins.settle();
        for device in 0..DEVICES {
            prop_assert!(twins.paged.is_unused(DeviceId(device), 0, BLOCKS), "{:?}", twins.paged);
        }
    }
}

#[test]
fn rows_leave_the_state_and_come_back() {
    let mut twins = archived();
    let pages: Vec<PageRef> = twins.paged.pages().collect();
    assert_eq!(pages.iter().map(|page| (page.range.first.0, page.range.last.0)).collect::<Vec<_>>(), [(0, 2), (3, 5), (6, 7)]);
    assert_eq!(twins.paged.rows_here(), pages.len(), "only the pages' own rows are left");
    assert_eq!(twins.paged.chunks(), CHUNKS);
    assert!(twins.paged.to_image().len() < twins.plain.to_image().len() + 200);
    twins.step(0, 3 + 8 + 32);
    assert_eq!(twins.paged.rows_here(), pages.len() + 1);
    let due = twins.paged.due_page(ROWS, &BTreeSet::new(), |_| false).expect("one row of three is many");
    assert_eq!(due.former, Some(pages[1]));
    assert_eq!(twins.paged.due_page(ROWS, &BTreeSet::new(), |_| true), None, "it is needed");
}

/// So that nobody reads all pages to find them.
#[test]
fn pages_say_how_many_of_their_chunks_lack_copies() {
    let mut twins = archived();
    let short = |twins: &Twins| twins.paged.short_pages().map(|page| page.range.first.0).collect::<Vec<_>>();
    assert_eq!((short(&twins), twins.paged.short_chunks(), twins.paged.short_here()), (vec![0, 3, 6], 3, 0));
    // The chunk with number 3 has copies on 0 and 1, and gets one on 2.
    twins.step(10, 3 + 8 * 2);
    assert_eq!((short(&twins), twins.paged.short_here()), (vec![0, 6], 1), "its row is here, and it still lacks one");
    twins.step(2, 0);
    assert_eq!((twins.paged.short_chunks(), twins.paged.short_here()), (2, 0));
    // Another one loses one of three, and its row goes back to a page.
    twins.step(11, 4);
    twins.step(2, 0);
    assert_eq!(twins.paged.short_here(), 1);
    [5, 6, 7].into_iter().for_each(|kind| twins.step(kind, 0));
    assert_eq!((short(&twins), twins.paged.short_here()), (vec![0, 3, 6], 0));
}

#[test]
fn a_late_touch_of_a_former_page_is_refused() {
    let mut twins = archived();
    let former = twins.paged.pages().next().expect("a page");
    let row = twins.contents[&former.id.number].rows()[0];
    twins.step(0, 8 + 32);
    [5, 6, 7].into_iter().for_each(|kind| twins.step(kind, 0));
    let late = ChunkCommand::Touch { page: former.id.number, rows: vec![row] };
    assert_eq!(twins.tell_paged(late), Err(Refusal::Archived));
    twins.check();
}

#[test]
fn the_last_chunk_of_a_page_takes_it_along() {
    let mut twins = archived();
    for number in 0..3 {
        twins.step(3, number);
        twins.step(4, 0);
    }
    assert_eq!(twins.paged.pages().count(), 2);
    assert!(twins.paged.pages.gone.is_empty());
}

#[test]
fn what_ends_while_its_page_is_written_does_not_come_back() {
    let mut twins = Twins::new();
    twins.step(5, 0);
    twins.step(6, 0);
    twins.step(3, 1);
    twins.step(4, 0);
    twins.step(7, 0);
    assert_eq!(twins.paged.pages().count(), 1);
    assert_eq!(twins.paged.seek(twins.ids[1], None), Sought::Found(Found::Unknown));
}

#[test]
fn a_page_all_of_whose_chunks_ended_while_it_was_written_is_none() {
    let mut twins = Twins::new();
    twins.step(5, 0);
    twins.step(6, 0);
    for number in 0..ROWS as u32 {
        twins.step(3, number);
    }
    twins.step(4, 0);
    twins.step(7, 0);
    twins.step(4, 0);
    assert_eq!(twins.paged.pages().count(), 0);
    assert!(twins.paged.pages.gone.is_empty());
    assert_eq!(twins.paged.rows_here() as u64, CHUNKS - ROWS as u64);
}

#[test]
fn a_page_that_nobody_commits_ends_and_another_can_be_had() {
    let mut twins = Twins::new();
    twins.step(5, 0);
    assert_eq!(twins.paged.due_page(ROWS, &BTreeSet::new(), |_| false), None, "one at a time");
    twins.paged.apply(&ChunkCommand::Expire { now_ms: 1_000 });
    assert!(twins.paged.draft().is_none());
    twins.check();
    assert!(twins.paged.due_page(ROWS, &BTreeSet::new(), |_| false).is_some());
}

/// It was due again and again, and refused, and no other rows got a page.
#[test]
fn a_range_with_a_pending_registration_is_passed_by() {
    let (unit, _) = full_unit_with(|call| call != 1);
    let due = unit.due_page(ROWS, &BTreeSet::new(), |_| false).expect("the others are committed");
    assert_eq!(due.range.first, ChunkNumber(ROWS as u64));
}

#[test]
fn pages_of_other_ranges_and_of_open_shards_are_refused() {
    let mut twins = archived();
    let range = |first, last| PageRange { first: ChunkNumber(first), last: ChunkNumber(last) };
    for (first, last) in [(0, 1), (1, 2), (2, 3), (5, 4), (6, 8)] {
        let refused = ChunkCommand::RegisterPage { registration: registration(77, 100), range: range(first, last) };
        assert_eq!(twins.tell_paged(refused), Err(Refusal::Page), "{first} to {last}");
    }
    let mut open = MaintenanceUnit::new(ShardId(1), CHUNKS);
    let refused = ChunkCommand::RegisterPage { registration: registration(77, 100), range: range(0, 1) };
    assert_eq!(open.apply(&refused).answer, Err(Refusal::Page));
}

#[test]
fn nobody_ends_a_page_as_a_chunk() {
    let mut twins = archived();
    let page = twins.paged.pages().next().expect("a page");
    twins.tell_paged(ChunkCommand::Freed(vec![page.id])).expect("nothing is wrong with that");
    assert!(twins.paged.duties().next().is_none());
    let copies: Vec<CopyOf> = page.places.iter().map(|place| CopyOf { id: page.id, place }).collect();
    twins.tell_paged(ChunkCommand::Erased(copies)).expect("nothing is wrong with that");
    twins.check();
}
