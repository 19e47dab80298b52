//! Several gateways, step by step: each test is one story of the protocol.

use super::super::{Cell, Consistency, Message, Output, Outputs, SequenceSource, Shard, Stable};
use super::turns::entry;
use super::world::{gateway_id, key_hash, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::record::WriteId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Three gateways and the messages between them; key 0 has gateway 0 as its home. Messages wait until a test delivers them.
struct Trio {
    shards: Vec<Shard<u32>>,
    wires: BTreeMap<(usize, usize), VecDeque<Message>>,
    /// What happened, in words: "dispatch 5", "acknowledge 5", "answer 5: 7" (offset of the record) or "answer 5: nothing".
    seen: Vec<String>,
    /// Dispatched writes by operation: at which gateway, and their ids.
    writes: BTreeMap<u32, (usize, WriteId)>,
}

const KEY: usize = 0;

impl Trio {
    fn new() -> Self {
        Trio::writing([Consistency::Linearizable; 3])
    }

    fn writing(consistency: [Consistency; 3]) -> Self {
        let view = view(1, &[0, 1, 2]);
        let shard = |me: &types::GatewayId| {
            let cell = Arc::new(Cell::new(*me, view.clone()).writing(consistency[me.0 as usize]));
            Shard::new(cell, Arc::new(SequenceSource::starting_at(1)), ShardIndex::new(IndexForm::Full, 1))
        };
        Trio {
            shards: view.members().iter().map(shard).collect(),
            wires: BTreeMap::new(),
            seen: Vec::new(),
            writes: BTreeMap::new(),
        }
    }

    fn put(&mut self, gateway: usize, op: u32) {
        let mut out = Outputs::new();
        self.shards[gateway].request(key_hash(KEY), op, false, &mut out).unwrap();
        self.note(gateway, out);
    }

    fn put_if(&mut self, gateway: usize, op: u32) {
        let mut out = Outputs::new();
        self.shards[gateway].request(key_hash(KEY), op, true, &mut out).unwrap();
        self.note(gateway, out);
    }

    fn get(&mut self, gateway: usize, op: u32) {
        let mut out = Outputs::new();
        self.shards[gateway].read(key_hash(KEY), op, &mut out);
        self.note(gateway, out);
    }

    /// The write's record stands at this offset, durable.
    fn durable(&mut self, op: u32, offset: u32) {
        let (gateway, write) = self.writes[&op];
        let mut out = Outputs::new();
        self.shards[gateway].appended(entry(write, KEY, offset), &mut out);
        self.note(gateway, out);
    }

    fn withdraw(&mut self, op: u32) {
        let (gateway, _) = self.writes[&op];
        let mut out = Outputs::new();
        self.shards[gateway].withdraw(key_hash(KEY), &mut out);
        self.note(gateway, out);
    }

    /// Delivers the next message of one wire.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(message) = self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return false };
        let mut out = Outputs::new();
        self.shards[to].receive(gateway_id(from), message, &mut out);
        self.note(to, out);
        true
    }

    /// Delivers everything on the wires, except those that are held up.
    fn settle_without(&mut self, held: &[(usize, usize)]) {
        loop {
            let open = self.wires.iter().find(|(wire, waiting)| !waiting.is_empty() && !held.contains(wire));
            let Some((&(from, to), _)) = open else { return };
            self.deliver(from, to);
        }
    }

    fn settle(&mut self) {
        self.settle_without(&[]);
    }

    fn note(&mut self, gateway: usize, out: Outputs<u32>) {
        for output in out {
            match output {
                Output::Dispatch { op, write, .. } => {
                    self.writes.insert(op, (gateway, write));
                    self.seen.push(format!("dispatch {op}"));
                }
                Output::Acknowledge { op, .. } | Output::AcknowledgeOwn { op, .. } => {
                    self.seen.push(format!("acknowledge {op}"))
                }
                Output::Answer { op, newest, .. } => self.seen.push(format!("answer {op}: {}", offset_of(newest))),
                Output::Spread { entry, to, view, .. } => {
                    let message = Message::Publish { entry, view };
                    self.wires.entry((gateway, to.0 as usize)).or_default().push_back(message);
                }
                Output::PublishOwn { .. } | Output::Published { .. } | Output::Moved { .. } | Output::RecoveredHeld => {}
                Output::Send { to, message } => {
                    self.wires.entry((gateway, to.0 as usize)).or_default().push_back(message);
                }
            }
        }
    }

    /// What happened since the last look.
    fn seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    fn newest(&self, gateway: usize) -> String {
        offset_of(self.shards[gateway].index().newest(&key_hash(KEY)))
    }

    fn assert_idle(&self) {
        assert!(self.shards.iter().all(|shard| shard.keys.is_empty()));
    }
}

fn offset_of(newest: Option<Located>) -> String {
    newest.map_or("nothing".to_owned(), |newest| newest.order.offset.0.to_string())
}

#[test]
fn a_write_waits_for_every_member_to_hear() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.durable(1, 5);
    trio.settle_without(&[(0, 2)]);
    assert_eq!(trio.seen(), ["dispatch 1"], "gateway 2 has not heard");
    assert_eq!(trio.newest(0), "nothing", "and so it is not published, not even to its writer");
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 1"]);
    assert_eq!([trio.newest(0), trio.newest(1), trio.newest(2)], ["5", "5", "5"]);
    trio.assert_idle();
}

#[test]
fn a_write_waits_for_its_copies() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1"]);
    trio.durable(1, 5);
    assert_eq!(trio.seen(), ["acknowledge 1"]);
}

#[test]
fn a_read_beside_an_announced_write_asks_its_writer() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.settle();
    assert_eq!(trio.shards[1].stable(&key_hash(KEY)), Stable::InFlight);
    trio.get(1, 100);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1", "answer 100: nothing"]);
    trio.durable(1, 5);
    // Acknowledged, but the conclusion has not reached gateway 1: its own index is old.
    trio.get(1, 101);
    trio.settle_without(&[(0, 2)]);
    assert_eq!(trio.seen(), ["acknowledge 1", "answer 101: 5"]);
}

#[test]
fn an_answer_waits_until_every_member_has_heard() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.deliver(0, 1);
    trio.get(1, 100);
    trio.settle_without(&[(0, 2)]);
    assert_eq!(trio.seen(), ["dispatch 1"], "gateway 2 could still miss the write");
    trio.settle();
    assert_eq!(trio.seen(), ["answer 100: nothing"]);
}

#[test]
fn a_reader_asks_every_gateway_that_announced_and_takes_the_newest() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.put(1, 2);
    trio.settle();
    trio.durable(2, 6);
    trio.durable(1, 5);
    trio.get(2, 100);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1", "dispatch 2", "acknowledge 2", "acknowledge 1", "answer 100: 6"]);
    assert_eq!([trio.newest(0), trio.newest(1), trio.newest(2)], ["6", "6", "6"]);
    trio.assert_idle();
}

#[test]
fn a_conclusion_that_is_older_than_what_is_known_changes_nothing() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.put(1, 2);
    trio.settle();
    trio.durable(2, 6);
    trio.settle();
    trio.durable(1, 5);
    trio.settle();
    assert_eq!([trio.newest(0), trio.newest(1), trio.newest(2)], ["6", "6", "6"]);
}

#[test]
fn a_withdrawn_write_is_forgotten_everywhere() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.settle();
    trio.get(2, 100);
    trio.withdraw(1);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1", "answer 100: nothing"]);
    trio.assert_idle();
}

#[test]
fn a_freeze_waits_for_a_members_write_and_sees_it() {
    let mut trio = Trio::new();
    trio.put(2, 1);
    trio.settle();
    trio.put_if(1, 2);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1"], "gateway 2 is still writing");
    trio.durable(1, 5);
    // The conclusion itself is held up: the freeze must learn of the write from the member's answer.
    trio.wires.get_mut(&(2, 1)).unwrap().retain(|message| !matches!(message, Message::Conclude { .. }));
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 1", "dispatch 2"]);
    assert_eq!(trio.newest(1), "nothing");
}

#[test]
fn writes_wait_while_a_freeze_is_held_and_go_on_after_it() {
    let mut trio = Trio::new();
    trio.put_if(1, 1);
    trio.settle();
    trio.put(0, 2);
    trio.put(2, 3);
    trio.put(1, 4);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1"]);
    trio.durable(1, 5);
    trio.settle();
    let mut seen = trio.seen();
    assert_eq!(seen.remove(0), "acknowledge 1");
    seen.sort();
    assert_eq!(seen, ["dispatch 2", "dispatch 3", "dispatch 4"]);
}

#[test]
fn a_false_condition_releases_its_freeze() {
    let mut trio = Trio::new();
    trio.put_if(1, 1);
    trio.settle();
    trio.put(2, 2);
    assert_eq!(trio.seen(), ["dispatch 1"]);
    trio.withdraw(1);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 2"]);
    trio.durable(2, 5);
    trio.settle();
    trio.assert_idle();
}

#[test]
fn freezes_are_granted_in_the_order_in_which_the_home_was_asked() {
    let mut trio = Trio::new();
    trio.put_if(2, 1);
    trio.deliver(2, 0);
    trio.put_if(1, 2);
    trio.deliver(1, 0);
    trio.put_if(0, 3);
    for (op, offset) in [(1, 5), (2, 6), (3, 7)] {
        trio.settle();
        assert_eq!(trio.seen(), [format!("dispatch {op}")]);
        trio.durable(op, offset);
        assert_eq!(trio.seen(), [format!("acknowledge {op}")]);
    }
    trio.settle();
    trio.assert_idle();
}

/// The release comes from the holder and the next grant from the home: the grant may overtake the release.
#[test]
fn a_grant_that_overtakes_the_last_release_lets_no_write_slip_in() {
    let mut trio = Trio::new();
    trio.put_if(1, 1);
    trio.settle();
    trio.put_if(0, 2);
    trio.settle();
    trio.put(2, 3);
    trio.durable(1, 5);
    trio.settle_without(&[(1, 2)]);
    assert_eq!(trio.seen(), ["dispatch 1", "acknowledge 1"], "gateway 2 has not heard of the release");
    trio.settle();
    // Gateway 2 goes first: it waited through one freeze already.
    assert_eq!(trio.seen(), ["dispatch 3"]);
    trio.durable(3, 6);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 3", "dispatch 2"]);
}

/// Two gateways that keep freezing a key do not keep the third from writing it. The home is the hard case: it grants the next freeze in the
/// step that ends the last.
#[test]
fn freezes_that_never_stop_do_not_starve_a_write() {
    for (writer, holders) in [(0, [1, 2]), (1, [0, 2]), (2, [1, 0])] {
        let mut trio = Trio::new();
        let mut next = 10;
        for holder in [holders[0], holders[1], holders[0], holders[1]] {
            trio.put_if(holder, next);
            next += 1;
        }
        trio.settle();
        trio.put(writer, 1);
        let mut freezes = 0;
        let mut offset = 1;
        while !trio.writes.contains_key(&1) {
            assert!(freezes < 3, "gateway {writer} waits while others freeze the key again and again");
            let running =
                trio.seen().iter().rev().find_map(|line| line.strip_prefix("dispatch ").map(|op| op.parse().unwrap()));
            trio.durable(running.expect("a freeze is held"), offset);
            trio.put_if(holders[freezes % 2], next);
            trio.settle();
            (freezes, offset, next) = (freezes + 1, offset + 1, next + 1);
        }
    }
}

/// The end of an ordinary write and the freeze of the same gateway cross on their way.
#[test]
fn the_end_of_an_ordinary_write_releases_no_freeze() {
    let mut trio = Trio::new();
    trio.put(1, 1);
    trio.settle();
    trio.put_if(1, 2);
    trio.durable(1, 5);
    // Gateway 2 hears of the freeze before it hears that write 1 is over.
    trio.deliver(1, 0);
    trio.settle_without(&[(1, 2)]);
    trio.put(2, 3);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1", "acknowledge 1", "dispatch 2"], "write 3 waits for the freeze");
    trio.durable(2, 6);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 2", "dispatch 3"]);
}

#[test]
fn two_freezes_and_a_blind_write() {
    let mut trio = Trio::new();
    trio.put_if(1, 1);
    trio.put_if(2, 2);
    trio.put(0, 3);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 3"], "the home's own write was there first");
    trio.durable(3, 5);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 3", "dispatch 1"]);
    trio.put(0, 4);
    trio.durable(1, 6);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 1", "dispatch 4"]);
    trio.durable(4, 7);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 4", "dispatch 2"]);
    trio.durable(2, 8);
    trio.settle();
    trio.assert_idle();
    assert_eq!([trio.newest(0), trio.newest(1), trio.newest(2)], ["8", "8", "8"]);
}

/// A checkpoint's watermark is the end of a run without holes (decision 11).
#[test]
fn reads_and_freezes_leave_no_holes_in_the_sequence_of_writes() {
    let mut trio = Trio::new();
    trio.put(0, 1);
    trio.settle();
    trio.get(1, 100);
    trio.durable(1, 5);
    trio.settle();
    trio.put_if(1, 2);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1", "acknowledge 1", "answer 100: 5", "dispatch 2"]);
    assert_eq!(trio.writes[&2].1.sequence.0, 1, "the first write of gateway 1, after a slow read and a freeze");
}

const WEAKER: [Consistency; 3] = [Consistency::ReadAfterWrite; 3];

#[test]
fn in_read_after_write_mode_a_write_waits_for_every_member_to_publish_and_no_read_asks() {
    let mut trio = Trio::writing(WEAKER);
    trio.put(0, 1);
    assert!(trio.wires.values().all(VecDeque::is_empty), "nothing is announced");
    trio.durable(1, 10);
    assert_eq!((trio.newest(0), trio.newest(1)), ("10".to_owned(), "nothing".to_owned()));
    trio.deliver(0, 1);
    trio.get(1, 2);
    trio.get(2, 3);
    // What the mode gives up: the new version, then at another gateway the old one.
    assert_eq!(trio.seen(), ["dispatch 1", "answer 2: 10", "answer 3: nothing"]);
    trio.deliver(1, 0);
    assert!(trio.seen().is_empty(), "one member has not published");
    trio.deliver(0, 2);
    trio.deliver(2, 0);
    assert_eq!(trio.seen(), ["acknowledge 1"]);
    trio.get(2, 4);
    assert_eq!(trio.seen(), ["answer 4: 10"]);
    trio.settle();
    trio.assert_idle();
}

#[test]
fn in_read_after_write_mode_a_freeze_waits_until_a_write_is_with_everybody() {
    let mut trio = Trio::writing(WEAKER);
    trio.put(0, 1);
    trio.durable(1, 10);
    trio.put_if(1, 2);
    trio.settle_without(&[(2, 0)]);
    assert_eq!(trio.seen(), ["dispatch 1"], "gateway 0's write is not over");
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 1", "dispatch 2"]);
    trio.put(0, 3);
    assert!(trio.seen().is_empty(), "the key is frozen");
    trio.durable(2, 11);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 2", "dispatch 3"]);
    trio.durable(3, 12);
    trio.settle();
    assert_eq!((trio.seen(), trio.newest(1)), (vec!["acknowledge 3".to_owned()], "12".to_owned()));
    trio.assert_idle();
}

#[test]
fn a_withdrawn_write_of_read_after_write_mode_releases_its_freeze() {
    let mut trio = Trio::writing(WEAKER);
    trio.put_if(1, 1);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 1"]);
    trio.withdraw(1);
    trio.put(0, 2);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 2"]);
    trio.durable(2, 10);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 2"]);
    trio.assert_idle();
}

/// What a linearizable gateway writes is announced, so that readers in read-after-write gateways ask about it.
#[test]
fn gateways_of_both_modes_keep_their_own_promises() {
    let mut trio = Trio::writing([Consistency::Linearizable, Consistency::ReadAfterWrite, Consistency::ReadAfterWrite]);
    trio.put(0, 1);
    trio.settle();
    trio.get(1, 2);
    assert_eq!(trio.seen(), ["dispatch 1"], "a read of a key in flight asks");
    trio.durable(1, 10);
    trio.settle();
    assert_eq!(trio.seen(), ["acknowledge 1", "answer 2: 10"]);
    trio.put(1, 3);
    trio.get(0, 4);
    trio.durable(3, 11);
    trio.get(0, 5);
    trio.settle();
    assert_eq!(trio.seen(), ["dispatch 3", "answer 4: 10", "answer 5: 10", "acknowledge 3"]);
    trio.assert_idle();
}
