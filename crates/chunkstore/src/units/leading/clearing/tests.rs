use std::collections::{BTreeMap, BTreeSet};

use env::Instant;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, FormerCopy, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::Manager;
use types::DeviceId;

use super::AskGaps;
use super::plan::{Fate, Spans, fit};
use crate::leader::Order;
use crate::limits::{CLEAR_BYTES, COMPACT_BYTES, NODE_SILENCE};
use crate::maintenance::{Answer, Duty, MaintenanceUnit};
use crate::protocol::{DeviceRoom, NodeReport};
use crate::units::leading::Leading;
use crate::units::leading::fixture::{leading, manager_of_four, report};

const SHARD: ShardId = ShardId(1);
/// Node 4 has it.
const DEVICE: DeviceId = DeviceId(3);
const BLOCKS: u32 = 240;
/// Of a zone of 8 MiB, which three blocks stand in.
const SPAN_BYTES: u64 = (8 << 20) - 8192;
const SPANS: Spans = Spans { device: DEVICE, span_bytes: SPAN_BYTES, block_count: BLOCKS };
/// More than any test has.
const MANY: usize = 1_000;

fn place(block: u32) -> BlockPlace {
    BlockPlace::new(DEVICE, block).expect("a place")
}

fn apply(unit: &mut MaintenanceUnit, command: ChunkCommand) -> Answer {
    unit.apply(&command).answer.unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"))
}

/// A unit on one device, so many of whose blocks have chunks of which `in_block` fill each.
fn filled(blocks: u32, in_block: u32) -> (MaintenanceUnit, Vec<(ChunkId, u32)>) {
    let mut unit = MaintenanceUnit::new(SHARD, u64::from(2 * BLOCKS * in_block));
    apply(&mut unit, ChunkCommand::Grant { device: DEVICE, first_block: 0, blocks: BLOCKS });
    let put = |number: u32| {
        let block = number / in_block;
        let call = ClientCall { session: 1, request: number };
        let places = ChunkPlaces::new(&[place(block)]).expect("one place");
        let (nonce, bytes) = (ChunkNonce(u64::from(number)), BLOCK_DATA_BYTES / in_block);
        let registration = Registration { call, nonce, bytes, places, wanted: 1, deadline_ms: 1 };
        let Answer::Registered { id, .. } = apply(&mut unit, ChunkCommand::Register(registration)) else { panic!("an id") };
        apply(&mut unit, ChunkCommand::Commit(id));
        (id, block)
    };
    let ids = (0..blocks * in_block).map(put).collect();
    (unit, ids)
}

/// A chunk ends, and its node has forgotten it.
fn remove(unit: &mut MaintenanceUnit, id: ChunkId, block: u32) {
    let (copy, era) = (CopyOf { id, place: place(block) }, unit.era_of(id).expect("it is there"));
    apply(unit, ChunkCommand::Freed(vec![id]));
    apply(unit, ChunkCommand::Erased(vec![copy]));
    apply(unit, ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]));
}

/// As good as at random: half of them.
fn is_removed(id: ChunkId) -> bool {
    id.nonce.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1
}

/// Half of what a unit has is removed. Bytes that were, and what is left.
fn halved(blocks: u32, in_block: u32) -> (MaintenanceUnit, u64, Vec<(ChunkId, u32)>) {
    let (mut unit, ids) = filled(blocks, in_block);
    let (gone, kept): (Vec<_>, Vec<_>) = ids.into_iter().partition(|(id, _)| is_removed(*id));
    gone.iter().for_each(|(id, block)| remove(&mut unit, *id, *block));
    (unit, gone.len() as u64 * u64::from(BLOCK_DATA_BYTES / in_block), kept)
}

/// What the node says: of chunks of one length any gap takes one at least. Blocks up to `lent` have space.
fn gaps(unit: &MaintenanceUnit, lent: u32, in_block: u32) -> Vec<(u32, u32)> {
    let gap = |block| (block, unit.room(place(block)).unwrap_or_default().min(BLOCK_DATA_BYTES / in_block));
    (0..lent).map(gap).collect()
}

fn by_block(unit: &MaintenanceUnit) -> BTreeMap<u32, BTreeSet<ChunkId>> {
    let mut copies: BTreeMap<u32, BTreeSet<ChunkId>> = BTreeMap::new();
    for (id, places) in unit.index() {
        places.iter().for_each(|place| _ = copies.entry(place.block()).or_default().insert(id));
    }
    copies
}

/// The copy that is moving has come to its place, and its source is forgotten.
fn relocated(unit: &mut MaintenanceUnit, id: ChunkId, from: BlockPlace, to: BlockPlace) {
    let era = unit.era_of(id).expect("it is there");
    apply(unit, ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false }));
    end_move(unit, id);
    apply(unit, ChunkCommand::Forgotten(vec![FormerCopy { copy: CopyOf { id, place: from }, era }]));
}

fn end_move(unit: &mut MaintenanceUnit, id: ChunkId) {
    let is_its = |duty: &Duty| matches!(duty, Duty::Move(asked) if asked.id == id);
    let Some(Duty::Move(asked)) = unit.duties().find(is_its) else { panic!("{id} is not moving") };
    apply(unit, ChunkCommand::Moved { id, relocation: asked.relocation });
}

/// Spans up to a block in which something is.
fn spans_in_use(unit: &MaintenanceUnit, lent: u32) -> usize {
    let last = u64::from(lent) * u64::from(BLOCK_DATA_BYTES) / SPAN_BYTES;
    let holds = |block: u32| unit.held_bytes(place(block)).is_some_and(|bytes| bytes > 0);
    (0..=last as u32).filter(|span| SPANS.blocks_of(*span).any(holds)).count()
}

fn moves(unit: &MaintenanceUnit) -> impl Fn(ChunkId, BlockPlace) -> Fate {
    |id, _| Fate::Moves { bytes: unit.bytes_of(id).expect("it is there") }
}

/// Plans are made until there is nothing to do. The spans that were won, and the bytes moved.
fn cleared(unit: &mut MaintenanceUnit, lent: u32, in_block: u32) -> (usize, u64) {
    let (before, mut moved) = (spans_in_use(unit, lent), 0);
    // A span that has nothing in it went back.
    let mut tried = BTreeSet::new();
    loop {
        let chosen = SPANS.sparse(unit, &tried, MANY);
        if chosen.is_empty() {
            return (before - spans_in_use(unit, lent), moved);
        }
        let (steps, failed) = fit(unit, SPANS, &chosen, &by_block(unit), &gaps(unit, lent, in_block), MANY, moves(unit));
        assert!(!steps.is_empty() || !failed.is_empty(), "a plan does something, or does not come again");
        let sum: u64 = steps.iter().map(|step| u64::from(step.bytes)).sum();
        assert!(sum < u64::from(CLEAR_BYTES) + SPAN_BYTES * 2, "{sum}");
        let emptied: BTreeSet<BlockPlace> = steps.iter().map(|step| step.from).collect();
        for step in steps {
            assert!(!emptied.contains(&step.to), "{step:?}: its target is to be emptied");
            moved += u64::from(step.bytes);
            relocated(unit, step.id, step.from, step.to);
        }
        tried.extend(failed);
    }
}

#[test]
fn most_of_what_is_removed_at_random_goes_back() {
    for (in_block, most_moved) in [(1, 600), (2, 800), (4, 1_000), (16, 1_000)] {
        let (mut unit, freed, kept) = halved(200, in_block);
        let (won, moved) = cleared(&mut unit, 200, in_block);
        let case = format!("{in_block} chunks in a block: {won} spans won of {freed} bytes, {moved} moved");
        assert!(won as u64 * SPAN_BYTES * 100 >= freed * 80, "{case}");
        assert!(moved * 1000 <= freed * most_moved, "{case}");
        assert!(kept.iter().all(|(id, _)| unit.is_at_rest(*id)), "{case}");
    }
}

#[test]
fn nothing_moves_that_wins_little() {
    let (unit, _) = filled(BLOCKS, 4);
    assert_eq!(SPANS.sparse(&unit, &BTreeSet::new(), MANY), [], "all are full");
    let (mut unit, ids) = filled(BLOCKS, 8);
    ids.iter().filter(|(id, _)| id.nonce.0 % 8 == 0).for_each(|(id, block)| remove(&mut unit, *id, *block));
    assert_eq!(SPANS.sparse(&unit, &BTreeSet::new(), MANY), [], "seven eighths are too much");
}

/// The last block of one and the first of the next may be the same.
#[test]
fn spans_with_least_in_them_come_first_and_what_they_share_counts_once() {
    let (mut unit, ids) = filled(BLOCKS, 4);
    // Blocks 60 to 69 are empty but for one chunk each.
    ids.iter()
        .filter(|(id, block)| (60..70).contains(block) && id.nonce.0 % 4 != 0)
        .for_each(|(id, block)| remove(&mut unit, *id, *block));
    let chosen = SPANS.sparse(&unit, &BTreeSet::new(), MANY);
    let is_within = |span: u32, blocks: std::ops::Range<u32>| SPANS.blocks_of(span).all(|block| blocks.contains(&block));
    assert!(chosen.len() >= 4 && chosen[..4].iter().all(|span| is_within(*span, 60..70)), "{chosen:?}");
    // One with a full block beside two that are emptied in any case, or nearly so, costs little.
    assert!(chosen.iter().all(|span| is_within(*span, 58..72)), "{chosen:?}");
    assert_eq!(SPANS.sparse(&unit, &BTreeSet::new(), 2), chosen[..2]);
    let further = SPANS.sparse(&unit, &chosen.iter().copied().collect(), MANY);
    assert!(chosen.iter().all(|span| !further.contains(span)), "{further:?}: those are left alone");
}

/// Bulks of others begin there; the device keeps fences, and headers that stand in two spans.
#[test]
fn what_would_not_go_back_is_not_emptied() {
    let (unit, ..) = halved(BLOCKS, 4);
    let chosen = SPANS.sparse(&unit, &BTreeSet::new(), MANY);
    assert!(!chosen.contains(&0), "the fences stand there");
    let last = SPANS.sparse(&unit, &BTreeSet::new(), MANY).into_iter().max().expect("some are chosen");
    assert!(SPANS.blocks_of(last).end <= BLOCKS);
    let others = Spans { block_count: BLOCKS + 8, ..SPANS };
    let is_whole = |span: u32| others.blocks_of(span).all(|block| block < BLOCKS);
    assert!(others.sparse(&unit, &BTreeSet::new(), MANY).into_iter().all(is_whole), "blocks from {BLOCKS} on are others'");
}

/// One chunk that can't move keeps its span, and those beside it in the span stay as well.
#[test]
fn a_span_is_emptied_wholly_or_not_at_all() {
    let (unit, _, kept) = halved(200, 4);
    let chosen = SPANS.sparse(&unit, &BTreeSet::new(), MANY);
    let gaps = gaps(&unit, 200, 4);
    let stays = |id: ChunkId, at: BlockPlace| if at.block().is_multiple_of(2) { Fate::Stays } else { moves(&unit)(id, at) };
    let (steps, failed) = fit(&unit, SPANS, &chosen, &by_block(&unit), &gaps, MANY, stays);
    let holds_even = |span: &u32| {
        let is_kept = |block: u32| block.is_multiple_of(2) && kept.iter().any(|(_, of)| *of == block);
        SPANS.blocks_of(*span).any(is_kept)
    };
    assert!(chosen.iter().filter(|span| holds_even(span)).count() > 20);
    assert!(failed.iter().all(holds_even) && steps.iter().all(|step| step.from.block() % 2 == 1), "{steps:?}");
    // Where no block takes anything none is begun.
    let none: Vec<(u32, u32)> = gaps.iter().map(|(block, _)| (*block, 0)).collect();
    let (steps, failed) = fit(&unit, SPANS, &chosen, &by_block(&unit), &none, MANY, moves(&unit));
    assert!(steps.is_empty() && failed == chosen);
}

/// Its spans may go back before the copy comes, and others take the zone.
#[test]
fn an_empty_block_is_a_target_only_where_its_space_stays() {
    let (mut unit, ids) = filled(30, 1);
    // Block 20 stands alone.
    let gone = |block: u32| (12..30).contains(&block) && block != 20;
    ids.iter().filter(|(_, block)| gone(*block)).for_each(|(id, block)| remove(&mut unit, *id, *block));
    let chosen = SPANS.sparse(&unit, &BTreeSet::new(), MANY);
    assert!(chosen.iter().any(|span| SPANS.blocks_of(*span).contains(&20)), "{chosen:?}");
    let far: Vec<(u32, u32)> = (16..19).chain(22..30).map(|block| (block, BLOCK_DATA_BYTES)).collect();
    let (steps, _) = fit(&unit, SPANS, &chosen, &by_block(&unit), &far, MANY, moves(&unit));
    assert!(steps.is_empty(), "{steps:?}");
}

/// What node 4 says: its device has space for so many blocks.
fn report_of_room(blocks: u32) -> NodeReport {
    let room = DeviceRoom { device: DEVICE, blocks, span_bytes: SPAN_BYTES };
    NodeReport { rooms: vec![room], ..report(4, Vec::new(), Vec::new()) }
}

/// One look, long enough after the one before: the copies that move, and what is asked.
fn look(leading: &mut Leading, manager: &Manager, unit: &MaintenanceUnit, now: Instant) -> (Vec<Relocation>, Vec<AskGaps>) {
    let state = manager.snapshot();
    leading.choose_spans(now, &state, unit);
    _ = leading.heal(now, &state, unit, &mut || 1);
    let (orders, questions) = leading.clear(now, &state, unit);
    let relocation = |order| match order {
        Order::Propose(ChunkCommand::Relocate(relocation)) => relocation,
        other => panic!("{other:?}"),
    };
    (orders.into_iter().map(relocation).collect(), questions)
}

/// A leader that has heard of this room, with a unit of which half was removed.
async fn leader_with_room(blocks: u32) -> (Manager, MaintenanceUnit, Leading, Instant) {
    let (manager, (unit, ..)) = (manager_of_four(BLOCKS).await, halved(200, 4));
    let mut leading = leading(&unit);
    let now = Instant::from_nanos(0) + NODE_SILENCE;
    leading.reported(now, report_of_room(blocks));
    leading.take_stock(now, &manager.snapshot(), &unit);
    (manager, unit, leading, now)
}

#[tokio::test(start_paused = true)]
async fn copies_of_an_open_shard_move_some_at_a_time_where_space_is_short() {
    let (manager, unit, mut leading, now) = leader_with_room(0).await;
    let (moved, asked) = look(&mut leading, &manager, &unit, now);
    let [AskGaps { device: DEVICE, blocks }] = &asked[..] else { panic!("{asked:?}") };
    assert!(moved.is_empty() && blocks.len() > 100);
    let spared = leading.clearing.spared();
    leading.clearing.hear_gaps(DEVICE, Some(gaps(&unit, 200, 4)));
    let (moved, asked) = look(&mut leading, &manager, &unit, now);
    assert_eq!((moved.len(), asked.len()), ((COMPACT_BYTES / (BLOCK_DATA_BYTES / 4)) as usize, 0));
    for Relocation { id, from, to, is_lost } in &moved {
        let (from, to) = (from.expect("it leaves"), to.expect("it goes"));
        assert!(unit.places_of(*id).expect("it is there").contains(from) && spared.contains(&from) && !*is_lost);
        assert!(to.device() == DEVICE && unit.room(to).expect("granted") >= BLOCK_DATA_BYTES / 4);
    }
    let (further, _) = look(&mut leading, &manager, &unit, now);
    assert!(further.iter().all(|one| moved.iter().all(|other| other.id != one.id)), "each once");
    // The pool has enough again: what is left of the plan is not begun.
    leading.reported(now, report_of_room(BLOCKS / 5));
    assert_eq!(look(&mut leading, &manager, &unit, now), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn nothing_moves_where_there_is_space() {
    let (manager, unit, mut leading, now) = leader_with_room(BLOCKS / 5).await;
    assert_eq!(look(&mut leading, &manager, &unit, now), (Vec::new(), Vec::new()));
    assert!(leading.clearing.spared().is_empty());
}

/// A node that is away would be waited for; and one that answers nothing is asked again in a new plan.
#[tokio::test(start_paused = true)]
async fn nothing_moves_where_a_node_is_away_or_has_not_answered() {
    let (manager, unit, mut leading, now) = leader_with_room(0).await;
    assert_eq!(look(&mut leading, &manager, &unit, now).1.len(), 1);
    assert_eq!(look(&mut leading, &manager, &unit, now), (Vec::new(), Vec::new()), "it is asked once");
    leading.clearing.hear_gaps(DEVICE, None);
    assert_eq!(look(&mut leading, &manager, &unit, now).1.len(), 1);
    leading.clearing.hear_gaps(DEVICE, Some(gaps(&unit, 200, 4)));
    assert_eq!(look(&mut leading, &manager, &unit, now + NODE_SILENCE).0, []);
}
