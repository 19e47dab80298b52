//! Recoveries of one write by two leaders, at a member of both views.

use super::super::{Cell, CellMessage, Message, Output, Outputs, SequenceSource, Shard};
use super::turns::entry;
use super::world::{gateway_id, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::entry::{Entry, Places};
use format::record::WriteId;
use std::sync::Arc;
use types::{DeviceId, Epoch, Place, Sequence, ViewNumber, ZoneIndex, ZoneOffset};

const REMOVED: usize = 0;
const FORMER: usize = 1;
const LEADER: usize = 2;
const ME: usize = 3;

fn member_of(number: u64, members: &[usize]) -> Arc<Cell> {
    Arc::new(Cell::new(gateway_id(ME), view(number, members)))
}

/// A member of the first view.
fn member() -> Shard<u32> {
    let sequences = Arc::new(SequenceSource::starting_at(10));
    Shard::new(member_of(1, &[REMOVED, FORMER, LEADER, ME]), sequences, ShardIndex::new(IndexForm::Full, 2))
}

/// The removed gateway's write, as who found these copies of it tells.
fn found(devices: &[u32], epoch: u64) -> Entry {
    let write = WriteId { gateway: gateway_id(REMOVED), sequence: Sequence(1) };
    let place = |device: &u32| Place { device: DeviceId(*device), zone: ZoneIndex(1), offset: ZoneOffset(7) };
    let places: Vec<Place> = devices.iter().map(place).collect();
    Entry { places: Places::new(&places).unwrap(), epoch: Epoch(epoch), ..entry(write, 0, 7) }
}

fn tell(shard: &mut Shard<u32>, from: usize, entry: Entry) {
    shard.receive(gateway_id(from), Message::Recovered { entry }, &mut Outputs::new());
}

/// A leader dies before it has decided, and the next one finds other copies. Caught: `recovered` that keeps what it holds. The index had the former
/// leader's places then, and the lists the next one's; and members that had heard of one of them alone did not agree.
#[test]
fn what_the_last_leader_tells_of_a_write_counts() {
    let (first, second) = (found(&[1, 2], 4), found(&[2, 3], 5));
    let mut shard = member();
    let removed = [REMOVED, FORMER].map(gateway_id);
    shard.install(member_of(2, &[FORMER, LEADER, ME]), &removed[..1], &mut Outputs::new());
    tell(&mut shard, FORMER, first);
    shard.install(member_of(3, &[LEADER, ME]), &removed, &mut Outputs::new());
    tell(&mut shard, LEADER, second);
    // On its way since the former leader was removed.
    tell(&mut shard, FORMER, first);
    let mut out = Outputs::new();
    shard.receive_for_all(gateway_id(LEADER), &CellMessage::Decided { gateways: removed.to_vec() }, &mut out);
    let published: Vec<&Entry> = out
        .iter()
        .filter_map(|output| match output {
            Output::Published { entry, .. } => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(published, [&second]);
    assert_eq!(shard.index().newest(&second.hash), Some(Located::from(&second)));
}

/// A leader has decided, this member alone has heard of it, and the next leader finds other copies. Caught: a member that passes over what is told of a
/// gateway that it has decided. It kept the former leader's places, and all others had the next one's.
#[test]
fn who_has_decided_takes_over_where_a_record_stands_for_the_others() {
    let (first, second) = (found(&[1, 2], 4), found(&[2, 3], 5));
    let mut shard = member();
    shard.install(member_of(2, &[FORMER, LEADER, ME]), &[gateway_id(REMOVED)], &mut Outputs::new());
    tell(&mut shard, FORMER, first);
    let decided = CellMessage::Decided { gateways: vec![gateway_id(REMOVED)] };
    shard.receive_for_all(gateway_id(FORMER), &decided, &mut Outputs::new());
    assert_eq!(shard.index().newest(&first.hash), Some(Located::from(&first)));
    shard.install(member_of(3, &[LEADER, ME]), &[gateway_id(FORMER)], &mut Outputs::new());
    let mut out = Outputs::new();
    shard.receive(gateway_id(LEADER), Message::Recovered { entry: second }, &mut out);
    // On its way since the former leader was removed.
    tell(&mut shard, FORMER, first);
    assert!(matches!(&out[..], [Output::Moved { entry, from }] if *entry == second && *from == Located::from(&first)));
    assert_eq!(shard.index().newest(&second.hash), Some(Located::from(&second)));
    // It was overwritten.
    let newer = Entry { order: entry(second.write, 0, 8).order, ..second };
    shard.index_mut().publish(newer).unwrap();
    tell(&mut shard, LEADER, first);
    assert_eq!(shard.index().newest(&second.hash), Some(Located::from(&newer)));
}

/// A copy with its order in its header may be longer than another: what is published here was held as if it were another record, and whoever read it waited
/// for the decision, which may wait for him.
#[test]
fn what_is_published_here_is_not_held_for_the_length_of_another_copy() {
    let told = found(&[1, 2], 4);
    let known = Entry { frame_bytes: told.frame_bytes + 64, ..told };
    let mut shard = member();
    shard.index_mut().publish(known).unwrap();
    shard.install(member_of(2, &[FORMER, LEADER, ME]), &[gateway_id(REMOVED)], &mut Outputs::new());
    let held = |shard: &Shard<u32>| {
        shard.keys.values().filter_map(|key| key.peers.as_ref()).map(|peers| peers.held.len()).sum::<usize>()
    };
    tell(&mut shard, FORMER, told);
    assert_eq!(held(&shard), 0);
    assert_eq!(shard.index().newest(&told.hash), Some(Located::from(&known)));
    tell(&mut shard, FORMER, found(&[2, 3], 4));
    assert_eq!(held(&shard), 1, "other copies are held");
}

/// A delete of a removed gateway was acknowledged, and another write followed it that the leader has heard of: so nobody is told of the delete. This member
/// has only the announcement of that write, and a read that waited for the decision answered with the version before both.
#[test]
fn a_read_that_waited_for_a_decision_asks_who_writes_now() {
    for was_asked in [false, true] {
        let mut shard = member();
        let write = |gateway: usize, sequence: u64| WriteId { gateway: gateway_id(gateway), sequence: Sequence(sequence) };
        let before = entry(write(FORMER, 1), 0, 7);
        let (deleted, follows) = (write(REMOVED, 2), entry(write(FORMER, 3), 0, 9));
        let hash = before.hash;
        let receive = |shard: &mut Shard<u32>, from: usize, message: Message| {
            let mut out = Outputs::new();
            shard.receive(gateway_id(from), message, &mut out);
            out
        };
        let announce = |write: WriteId| Message::Announce { hash, write, view: ViewNumber(1) };
        let conclude = |entry: Entry| Message::Conclude { hash, write: entry.write, entry: Some(entry), freeze: None };
        receive(&mut shard, FORMER, announce(before.write));
        receive(&mut shard, FORMER, conclude(before));
        receive(&mut shard, REMOVED, announce(deleted));
        if was_asked {
            receive(&mut shard, FORMER, announce(follows.write));
        }
        let mut out = Outputs::new();
        let read = shard.read(hash, 77, &mut out).expect("a write is in flight");
        if !was_asked {
            receive(&mut shard, FORMER, announce(follows.write));
        }
        shard.install(member_of(2, &[FORMER, LEADER, ME]), &[gateway_id(REMOVED)], &mut out);
        let mut out = Outputs::new();
        let decided = CellMessage::Decided { gateways: vec![gateway_id(REMOVED)] };
        shard.receive_for_all(gateway_id(LEADER), &decided, &mut out);
        assert_eq!(out.as_slice(), [Output::Send { to: gateway_id(FORMER), message: Message::Ask { hash, read } }]);
        let told = |newest: &Entry| Message::Told { hash, read, newest: Some(Located::from(newest)) };
        if was_asked {
            // On its way since before the write was concluded.
            assert!(receive(&mut shard, FORMER, told(&before)).is_empty());
        }
        receive(&mut shard, FORMER, conclude(follows));
        let answer = Output::Answer { op: 77, newest: Some(Located::from(&follows)), view: ViewNumber(2) };
        assert_eq!(receive(&mut shard, FORMER, told(&follows)).as_slice(), [answer]);
        assert_eq!(shard.waiting_reads(&hash), 0);
    }
}
