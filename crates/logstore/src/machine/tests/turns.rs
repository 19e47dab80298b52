//! One gateway alone: turns, and what is published when.

use super::super::shard::MAX_QUEUED_WRITES_PER_KEY;
use super::super::{Cell, Output, Outputs, QueueFull, SequenceSource, Shard, Stable};
use super::world::{gateway_id, key_hash, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::entry::{Entry, EntryState, Places};
use format::record::WriteId;
use std::sync::Arc;
use types::{Activation, DeviceId, Epoch, Generation, Order, Place, Sequence, ZoneIndex, ZoneOffset};

fn alone() -> Shard<u32> {
    let cell = Arc::new(Cell::new(gateway_id(0), view(1, &[0])));
    Shard::new(cell, Arc::new(SequenceSource::starting_at(10)), ShardIndex::new(IndexForm::Full, 1))
}

/// The entry of a write that landed at `offset` of the primary.
pub(super) fn entry(write: WriteId, key: usize, offset: u32) -> Entry {
    let offset = ZoneOffset(offset);
    Entry {
        hash: key_hash(key),
        write,
        epoch: Epoch(1),
        order: Order { generation: Generation(1), activation: Activation(1), offset },
        places: Places::one(Place { device: DeviceId(1), zone: ZoneIndex(1), offset }),
        frame_bytes: 64,
        length: 1,
        state: EntryState::Live,
        large: false,
    }
}

/// The writes that were dispatched, and what each was told is newest.
fn dispatched(out: &Outputs<u32>) -> Vec<(u32, WriteId, Option<Located>)> {
    let dispatches = out.iter().filter_map(|output| match output {
        Output::Dispatch { op, write, newest } => Some((*op, *write, *newest)),
        _ => None,
    });
    dispatches.collect()
}

fn request(shard: &mut Shard<u32>, key: usize, op: u32, exclusive: bool) -> Vec<(u32, WriteId, Option<Located>)> {
    let mut out = Outputs::new();
    shard.request(key_hash(key), op, exclusive, &mut out).unwrap();
    dispatched(&out)
}

#[test]
fn writes_of_one_key_take_turns_and_other_keys_do_not_wait() {
    let mut shard = alone();
    let first = request(&mut shard, 0, 1, false);
    assert_eq!(first.len(), 1);
    assert!(request(&mut shard, 0, 2, false).is_empty());
    assert!(request(&mut shard, 0, 3, false).is_empty());
    assert_eq!(request(&mut shard, 1, 4, false)[0].0, 4);

    let mut out = Outputs::new();
    shard.appended(entry(first[0].1, 0, 7), &mut out);
    assert!(matches!(&out[0], Output::Acknowledge { op: 1, replaced: None, .. }), "{out:?}");
    assert_eq!(dispatched(&out)[0].0, 2);
    assert_eq!(out.len(), 2);
}

#[test]
fn a_write_is_published_when_it_is_durable_and_not_before() {
    let mut shard = alone();
    let turn = request(&mut shard, 0, 1, false);
    assert_eq!(shard.stable(&key_hash(0)), Stable::Newest(None));
    let durable = entry(turn[0].1, 0, 7);
    shard.appended(durable, &mut Outputs::new());
    assert_eq!(shard.stable(&key_hash(0)), Stable::Newest(Some(Located::from(&durable))));
    assert!(shard.keys.is_empty(), "an idle key keeps no state");
}

#[test]
fn the_acknowledgement_says_what_was_replaced() {
    let mut shard = alone();
    let first = entry(request(&mut shard, 0, 1, false)[0].1, 0, 7);
    shard.appended(first, &mut Outputs::new());
    let second = entry(request(&mut shard, 0, 2, false)[0].1, 0, 9);
    let mut out = Outputs::new();
    shard.appended(second, &mut out);
    assert_eq!(out[0], Output::Acknowledge { op: 2, entry: second, replaced: Some(Located::from(&first)) });
}

#[test]
fn a_condition_is_told_the_newest_record_of_its_turn_not_of_its_request() {
    let mut shard = alone();
    let first = request(&mut shard, 0, 1, false);
    assert!(request(&mut shard, 0, 2, true).is_empty());
    let durable = entry(first[0].1, 0, 7);
    let mut out = Outputs::new();
    shard.appended(durable, &mut out);
    let turn = dispatched(&out);
    assert_eq!((turn[0].0, turn[0].2), (2, Some(Located::from(&durable))));
}

#[test]
fn a_withdrawn_write_leaves_nothing_and_lets_the_next_one_go() {
    let mut shard = alone();
    request(&mut shard, 0, 1, true);
    assert!(request(&mut shard, 0, 2, false).is_empty());
    let mut out = Outputs::new();
    shard.withdraw(key_hash(0), &mut out);
    assert_eq!(dispatched(&out)[0].0, 2);
    assert_eq!(out.len(), 1, "nothing is acknowledged");
    assert_eq!(shard.stable(&key_hash(0)), Stable::Newest(None));
}

#[test]
fn a_cancelled_write_is_never_dispatched_but_its_turn_can_not_be_cancelled() {
    let mut shard = alone();
    let first = request(&mut shard, 0, 1, false);
    request(&mut shard, 0, 2, false);
    request(&mut shard, 0, 3, false);
    assert!(!shard.cancel(key_hash(0), |op| *op == 1), "it is being written");
    assert!(shard.cancel(key_hash(0), |op| *op == 2));
    assert!(!shard.cancel(key_hash(0), |op| *op == 2), "it is gone");
    let mut out = Outputs::new();
    shard.appended(entry(first[0].1, 0, 7), &mut out);
    assert_eq!(dispatched(&out)[0].0, 3);
}

#[test]
fn a_stale_publication_is_acknowledged_as_its_own_garbage() {
    let mut shard = alone();
    let turn = request(&mut shard, 0, 1, false);
    // Something newer entered the index while the write was under way: in a cell of one gateway only recovery does that.
    let newer = entry(WriteId { gateway: gateway_id(0), sequence: Sequence(1) }, 0, 50);
    shard.index_mut().publish(newer).unwrap();
    let stale = entry(turn[0].1, 0, 7);
    let mut out = Outputs::new();
    shard.appended(stale, &mut out);
    assert_eq!(out[0], Output::Acknowledge { op: 1, entry: stale, replaced: Some(Located::from(&stale)) });
    assert_eq!(shard.stable(&key_hash(0)), Stable::Newest(Some(Located::from(&newer))));
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    let mut shard = alone();
    let mut turn = request(&mut shard, 0, 0, false)[0].1;
    for op in 1..=MAX_QUEUED_WRITES_PER_KEY as u32 {
        request(&mut shard, 0, op, false);
    }
    let mut out = Outputs::new();
    assert_eq!(shard.request(key_hash(0), 9999, false, &mut out), Err(QueueFull));
    assert!(out.is_empty());
    for op in 0..=MAX_QUEUED_WRITES_PER_KEY as u32 {
        let mut out = Outputs::new();
        shard.appended(entry(turn, 0, op + 1), &mut out);
        if let Some((next, write, _)) = dispatched(&out).first() {
            assert_eq!(*next, op + 1, "turns are in order of arrival");
            turn = *write;
        }
    }
    assert!(shard.keys.is_empty());
}

#[test]
fn every_write_has_a_sequence_of_its_own_in_ascending_order() {
    let mut shard = alone();
    let sequences: Vec<u64> = (0..5).map(|key| request(&mut shard, key, 1, key % 2 == 0)[0].1.sequence.0).collect();
    assert_eq!(sequences, [10, 11, 12, 13, 14]);
}

#[test]
#[should_panic(expected = "whose turn it is not")]
fn an_append_of_another_write_is_a_bug() {
    let mut shard = alone();
    request(&mut shard, 0, 1, false);
    shard.appended(entry(WriteId { gateway: gateway_id(0), sequence: Sequence(3) }, 0, 7), &mut Outputs::new());
}
