//! What hosts are sent.

use std::collections::BTreeSet;

use format::chunk_block::Era;
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, FormerCopy, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupChange, LookupUpdate};
use types::DeviceId;

use super::{Errand, Host, Leader, MoveStep, Order};
use crate::lookup::{LookupHost, Received};
use crate::maintenance::{Answer, MaintenanceUnit};
use crate::message::{NodeAnswer, NodeRefusal, NodeRequest, Resolved};
use crate::publisher::Begins;

const SHARD: ShardId = ShardId(1);
const HOST: Host = Host(3);
const NEEDS_SNAPSHOT: Received = Received::NeedsSnapshot(SHARD);

fn place(device: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), 0).expect("a small number")
}

/// A unit and its leader, which has one host.
fn leading() -> (MaintenanceUnit, Leader, Vec<Order>) {
    let mut unit = MaintenanceUnit::new(SHARD, 100);
    unit.apply(&ChunkCommand::Grant { device: DeviceId(0), first_block: 0, blocks: 1 }).answer.expect("granted");
    let (leader, orders) =
        Leader::begin(&unit, unit.index(), Begins::with(1), 1, &BTreeSet::from([HOST])).expect("a small table");
    (unit, leader, orders)
}

/// A chunk more, and what the hosts are told of it.
fn register(unit: &mut MaintenanceUnit, leader: &mut Leader, call: u32) -> Vec<Order> {
    let call = ClientCall { session: 1, request: call };
    let places = ChunkPlaces::new(&[place(0)]).expect("one");
    let registration = Registration { call, nonce: ChunkNonce(7), bytes: 100, places, wanted: 1, deadline_ms: 1 };
    let applied = unit.apply(&ChunkCommand::Register(registration));
    assert!(matches!(applied.answer, Ok(Answer::Registered { .. })));
    leader.applied(&applied).expect("the table follows")
}

fn update_of(order: &Order) -> Option<&LookupUpdate> {
    if let Order::Host { update, .. } = order { Some(update) } else { None }
}

fn updates(orders: &[Order]) -> Vec<&LookupUpdate> {
    orders.iter().filter_map(update_of).collect()
}

fn snapshots(orders: &[Order]) -> Vec<LookupUpdate> {
    let all = updates(orders).into_iter().filter(|update| matches!(update.change, LookupChange::Snapshot(_)));
    all.cloned().collect()
}

/// A host that was away says so to each update that waited for it, and of its own accord while the snapshot is on its way.
#[test]
fn a_host_is_sent_one_snapshot_however_often_it_asks() {
    let (mut unit, mut leader, orders) = leading();
    let first = snapshots(&orders);
    assert_eq!(first.len(), 1);
    leader.snapshot_over(HOST, (first[0].stream, first[0].number));
    let mut sent = Vec::new();
    for call in 0..50 {
        // The table may have been built anew.
        let anew = snapshots(&register(&mut unit, &mut leader, call));
        anew.iter().for_each(|update| leader.snapshot_over(HOST, (update.stream, update.number)));
    }
    for _ in 0..50 {
        sent.extend(leader.heard(HOST, NEEDS_SNAPSHOT));
        sent.extend(leader.reported(HOST, NEEDS_SNAPSHOT));
    }
    assert_eq!(snapshots(&sent).len(), 1);
}

#[test]
fn a_snapshot_that_was_lost_is_sent_again() {
    let (mut unit, mut leader, orders) = leading();
    register(&mut unit, &mut leader, 0);
    let first = snapshots(&orders).remove(0);
    leader.snapshot_over(HOST, (first.stream, first.number));
    let second = snapshots(&leader.heard(HOST, NEEDS_SNAPSHOT)).remove(0);
    assert!(snapshots(&leader.heard(HOST, NEEDS_SNAPSHOT)).is_empty());
    // An older one: the newer is still on its way.
    leader.snapshot_over(HOST, (first.stream, first.number));
    assert!(snapshots(&leader.heard(HOST, NEEDS_SNAPSHOT)).is_empty());
    leader.snapshot_over(HOST, (second.stream, second.number));
    assert_eq!(snapshots(&leader.heard(HOST, NEEDS_SNAPSHOT)), [second]);
}

#[test]
fn a_host_that_has_its_snapshot_and_loses_it_gets_another() {
    let (_, mut leader, orders) = leading();
    let mut host = LookupHost::new();
    let received = host.receive(updates(&orders)[0]).expect("sound");
    leader.heard(HOST, received);
    assert_eq!(snapshots(&leader.heard(HOST, NEEDS_SNAPSHOT)).len(), 1);
}

/// It reports twice the same, and something has been published since.
#[test]
fn a_host_that_stays_behind_gets_a_snapshot_once() {
    let (mut unit, mut leader, orders) = leading();
    let mut host = LookupHost::new();
    let behind = host.receive(updates(&orders)[0]).expect("sound");
    leader.heard(HOST, behind);
    register(&mut unit, &mut leader, 0);
    assert!(leader.reported(HOST, behind).is_empty());
    assert_eq!(snapshots(&leader.reported(HOST, behind)).len(), 1);
    assert!(leader.reported(HOST, behind).is_empty(), "it is on its way");
}

/// A mass deletion kept nodes' reports full with others, which waited for the relocation to end, and it waited for theirs: nothing of the shard was forgotten any more.
#[test]
fn what_a_relocation_finds_dead_has_ended() {
    let (mut unit, mut leader, _) = leading();
    register(&mut unit, &mut leader, 0);
    let id = unit.index().next().expect("registered").0;
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("pending");
    unit.apply(&ChunkCommand::Grant { device: DeviceId(1), first_block: 0, blocks: 1 }).answer.expect("granted");
    let relocation = Relocation { id, from: Some(place(0)), to: Some(place(1)), is_lost: false };
    unit.apply(&ChunkCommand::Relocate(relocation)).answer.expect("it is at rest");
    assert_eq!(unit.moves_under_way(), 1);
    for (step, at) in [(MoveStep::Depart, 0), (MoveStep::Take, 0), (MoveStep::Bring, 1)] {
        let errand = Errand::Move { relocation: 0, step };
        let orders = leader.answered(errand, id, place(at), &NodeAnswer::Dead { era: Era(1), is_settled: true });
        assert_eq!(orders, [Order::Propose(ChunkCommand::Freed(vec![id]))]);
    }
    unit.apply(&ChunkCommand::Freed(vec![id])).answer.expect("taken");
    assert_eq!(unit.moves_under_way(), 0);
}

/// The header with its end has rotted: it was asked to be forgotten ten times a second, for ever, and its space never came back.
#[test]
fn a_copy_that_is_live_again_departs_before_it_is_forgotten() {
    let (_, mut leader, _) = leading();
    let (era, resolved) = (Era(4), Resolved { puts: ChunkNumber(9), moves: 2 });
    let copy = CopyOf { id: ChunkId { shard: SHARD, number: ChunkNumber(3), nonce: ChunkNonce(1) }, place: place(0) };
    let mut answered = |errand, answer: NodeAnswer| leader.answered(errand, copy.id, copy.place, &answer);
    let asked = |orders: &[Order]| match orders {
        [Order::Node { errand, to }] => (*errand, to.request.clone()),
        other => panic!("{other:?}"),
    };
    let (forget, discard) = (Errand::Forget { era, resolved }, Errand::Discard { era, resolved });
    let orders = answered(forget, NodeAnswer::Refused(NodeRefusal::InUse));
    assert_eq!(asked(&orders), (discard, NodeRequest::Depart { era: era.just_after() }));
    let orders = answered(discard, NodeAnswer::Departed);
    assert_eq!(asked(&orders), (forget, NodeRequest::Forget { era, resolved }));
    let orders = answered(forget, NodeAnswer::Done(None));
    assert_eq!(orders, [Order::Propose(ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]))]);
}
