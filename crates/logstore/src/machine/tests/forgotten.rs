//! A delete that is forgotten while answers about its key are gathered: what was answered before it is older.

use super::super::{Cell, Message, Output, Outputs, SequenceSource, Shard};
use super::turns::entry;
use super::world::{gateway_id, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::entry::{Entry, EntryState};
use format::record::WriteId;
use std::sync::Arc;
use types::{Sequence, ViewNumber};

const DELETING: usize = 0;
const BEHIND: usize = 1;
const ME: usize = 2;
const VIEW: ViewNumber = ViewNumber(1);

/// A member that has an object, and what became of that at another one.
struct Member {
    shard: Shard<u32>,
    deleted: Entry,
    tombstone: Entry,
}

impl Member {
    fn new() -> Member {
        let cell = Arc::new(Cell::new(gateway_id(ME), view(VIEW.0, &[DELETING, BEHIND, ME])));
        let shard = Shard::new(cell, Arc::new(SequenceSource::starting_at(10)), ShardIndex::new(IndexForm::Full, 2));
        let write = |sequence: u64| WriteId { gateway: gateway_id(DELETING), sequence: Sequence(sequence) };
        let deleted = entry(write(1), 0, 7);
        let tombstone = Entry { state: EntryState::Tombstone, ..entry(write(2), 0, 9) };
        let mut member = Member { shard, deleted, tombstone };
        member.announce(deleted);
        member.conclude(deleted);
        member
    }

    fn receive(&mut self, from: usize, message: Message) -> Outputs<u32> {
        let mut out = Outputs::new();
        self.shard.receive(gateway_id(from), message, &mut out);
        out
    }

    fn announce(&mut self, Entry { hash, write, .. }: Entry) {
        self.receive(DELETING, Message::Announce { hash, write, view: VIEW });
    }

    fn conclude(&mut self, entry: Entry) {
        let conclude = Message::Conclude { hash: entry.hash, write: entry.write, entry: Some(entry), freeze: None };
        self.receive(DELETING, conclude);
    }

    /// The delete is concluded, checkpoints leave it behind, and it is forgotten.
    fn forgets(&mut self) {
        let tombstone = self.tombstone;
        self.conclude(tombstone);
        self.shard.index_mut().settle(&tombstone);
        self.shard.index_mut().forget_tombstone(&tombstone.hash, tombstone.order);
        assert_eq!(self.shard.index().newest(&tombstone.hash), None);
    }
}

/// Caught: a read that keeps what was newest when it began.
#[test]
fn a_read_that_began_before_a_delete_ended_does_not_outlive_it() {
    let mut member = Member::new();
    member.announce(member.tombstone);
    let hash = member.deleted.hash;
    let read = member.shard.read(hash, 77, &mut Outputs::new()).expect("a delete is in flight");
    member.forgets();
    let out = member.receive(DELETING, Message::Told { hash, read, newest: None });
    let newest = Some(Located::from(&member.tombstone));
    assert_eq!(out.as_slice(), [Output::Answer { op: 77, newest, view: VIEW }]);
}

/// Caught: a freeze that keeps what was newest when its first answer came.
#[test]
fn a_freeze_that_was_answered_before_a_delete_ended_does_not_outlive_it() {
    let mut member = Member::new();
    let hash = member.deleted.hash;
    let mut out = Outputs::new();
    member.shard.request(hash, 77, true, &mut out).unwrap();
    let (home, freeze) = out
        .iter()
        .find_map(|output| match output {
            Output::Send { to, message: Message::FreezeAsk { freeze, .. } } => Some((Some(*to), *freeze)),
            Output::Send { message: Message::Freeze { freeze, .. }, .. } => Some((None, *freeze)),
            _ => None,
        })
        .expect("a condition freezes its key");
    if let Some(home) = home {
        member.receive(home.0 as usize, Message::Freeze { hash, holder: gateway_id(ME), freeze, view: VIEW });
    }
    member.receive(BEHIND, Message::Frozen { hash, freeze, newest: Some(Located::from(&member.deleted)), view: VIEW });
    member.announce(member.tombstone);
    member.forgets();
    let out = member.receive(DELETING, Message::Frozen { hash, freeze, newest: None, view: VIEW });
    let found = out.iter().find_map(|output| match output {
        Output::Dispatch { op: 77, newest, .. } => Some(*newest),
        _ => None,
    });
    assert_eq!(found, Some(Some(Located::from(&member.tombstone))));
}
