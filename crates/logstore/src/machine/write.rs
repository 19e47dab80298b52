//! Writes: turns, announcements, acknowledgement.

use super::message::{FreezeId, Message};
use super::shard::{Active, MAX_QUEUED_WRITES_PER_KEY, Output, Outputs, Shard, Stage, Waiting};
use format::entry::Entry;
use format::record::WriteId;
use types::{GatewayId, KeyHash, Sequence};

/// Too many writes of one key wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_QUEUED_WRITES_PER_KEY} writes of this key wait already")]
pub struct QueueFull;

impl<Op: Clone> Shard<Op> {
    /// Asks for a turn to write a key. An exclusive turn (for a condition) also keeps the other gateways from writing it.
    pub fn request(&mut self, hash: KeyHash, op: Op, exclusive: bool, out: &mut Outputs<Op>) -> Result<(), QueueFull> {
        let state = self.state(&hash);
        if state.queue.len() >= MAX_QUEUED_WRITES_PER_KEY {
            return Err(QueueFull);
        }
        state.queue.push_back(Waiting { op, exclusive });
        self.next_turn(hash, out);
        Ok(())
    }

    /// The record of the active write is durable on all its targets. Acknowledges now, or when the last member has heard.
    pub fn appended(&mut self, entry: Entry, out: &mut Outputs<Op>) {
        let hash = entry.hash;
        let active = self.active(&hash);
        assert!(active.write == entry.write, "an append of a write whose turn it is not");
        match &mut active.stage {
            Stage::Writing { durable, .. } => *durable = Some(entry),
            Stage::Freezing { .. } | Stage::Spreading { .. } => panic!("an append before its dispatch, or a second one"),
        }
        self.acknowledge_if_complete(hash, out);
    }

    /// The active write ends without a record: its condition is false, or its appends failed and none stands on the primary.
    pub fn withdraw(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let active = self.state(&hash).active.take().expect("only an active write can be withdrawn");
        if let Stage::Writing { .. } = active.stage {
            self.conclude(hash, active, None, out);
        } else {
            panic!("a withdrawal before its dispatch, or of what is published");
        }
    }

    /// Drops a write that still waits in the queue; false if its turn has come meanwhile.
    pub fn cancel(&mut self, hash: KeyHash, is_it: impl Fn(&Op) -> bool) -> bool {
        let Some(state) = self.keys.get_mut(&hash) else { return false };
        let before = state.queue.len();
        state.queue.retain(|waiting| !is_it(&waiting.op));
        let dropped = state.queue.len() < before;
        self.retire(&hash);
        dropped
    }

    /// Starts the next queued write if no write is active and, for a blind one, we have not told another gateway that we stopped and no
    /// removed gateway's write is undecided.
    pub(super) fn next_turn(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let alone = self.cell.others().is_empty();
        let must_wait = self.must_wait(&hash);
        let state = self.state(&hash);
        if state.active.is_some() {
            return;
        }
        let Some(next) = state.queue.front() else {
            return self.retire(&hash);
        };
        if next.exclusive && !alone {
            return self.begin_freeze(hash, out);
        }
        if must_wait || state.has_stopped() {
            return;
        }
        let next = state.queue.pop_front().expect("looked at above");
        self.dispatch(hash, next, None, None, out);
    }

    /// Announces a write and hands it to the shell. `learned` is the newest entry that a freeze gathered.
    pub(super) fn dispatch(
        &mut self,
        hash: KeyHash,
        Waiting { op, exclusive }: Waiting<Op>,
        freeze: Option<FreezeId>,
        learned: Option<crate::index::Located>,
        out: &mut Outputs<Op>,
    ) {
        let write = WriteId { gateway: self.cell.me(), sequence: Sequence(self.sequences.draw()) };
        let newest = self.index.newest(&hash).max_by_order(learned);
        // Of a write that is not announced nobody has to hear before it is durable.
        let unheard = if self.cell.announces() { self.cell.others().to_vec() } else { Vec::new() };
        let view = self.cell.number();
        for &to in &unheard {
            out.push(Output::Send { to, message: Message::Announce { hash, write, view } });
        }
        let stage = Stage::Writing { freeze, unheard, durable: None };
        self.state(&hash).active = Some(Active { op: op.clone(), write, exclusive, stage });
        out.push(Output::Dispatch { op, write, newest });
    }

    pub(super) fn announced_by_peer(&mut self, from: GatewayId, hash: KeyHash, write: WriteId, out: &mut Outputs<Op>) {
        let view = self.cell.number();
        let peers = self.state(&hash).peers();
        if !peers.announced.contains(&write) {
            peers.announced.push(write);
        }
        out.push(Output::Send { to: from, message: Message::Announced { hash, write, view } });
    }

    pub(super) fn announcement_held(&mut self, from: GatewayId, hash: KeyHash, held: WriteId, out: &mut Outputs<Op>) {
        let Some(active) = self.keys.get_mut(&hash).and_then(|state| state.active.as_mut()) else { return };
        if active.write != held {
            return;
        }
        if let Stage::Writing { unheard, .. } = &mut active.stage {
            unheard.retain(|member| *member != from);
            self.unless_unheard(hash, out);
        }
    }

    /// If every member has heard of the active write, nothing waits for that any more.
    pub(super) fn unless_unheard(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let active = self.keys.get(&hash).and_then(|state| state.active.as_ref());
        if active.is_some_and(|active| matches!(&active.stage, Stage::Writing { unheard, .. } if unheard.is_empty())) {
            self.answer_asks(hash, out);
            self.acknowledge_if_complete(hash, out);
        }
    }

    pub(super) fn concluded_by_peer(&mut self, hash: KeyHash, write: WriteId, entry: Option<Entry>, out: &mut Outputs<Op>) {
        self.state(&hash).peers().announced.retain(|announced| *announced != write);
        if let Some(entry) = entry
            && let Ok(replaced) = self.publish(entry)
        {
            out.push(Output::Published { entry, replaced });
        }
    }

    fn acknowledge_if_complete(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let state = self.state(&hash);
        let complete = state.active.as_ref().and_then(|active| match &active.stage {
            Stage::Writing { unheard, durable: Some(entry), .. } if unheard.is_empty() => Some(*entry),
            _ => None,
        });
        if let Some(entry) = complete {
            let active = state.active.take().expect("matched above");
            match self.cell.announces() || self.cell.others().is_empty() {
                true => self.conclude(hash, active, Some(entry), out),
                false => self.spread(hash, active, entry, out),
            }
        }
    }

    /// Publishes, acknowledges, tells the members, and lets the next write and waiting freezes go on.
    fn conclude(&mut self, hash: KeyHash, active: Active<Op>, entry: Option<Entry>, out: &mut Outputs<Op>) {
        if let Some(entry) = entry {
            let replaced = self.publish_own(entry);
            out.push(Output::Acknowledge { op: active.op, entry, replaced });
        }
        let freeze = match active.stage {
            Stage::Writing { freeze, .. } => freeze,
            Stage::Freezing { .. } | Stage::Spreading { .. } => None,
        };
        // A write that was not announced and leaves nothing has nothing to conclude.
        if self.cell.announces() || freeze.is_some() {
            for &to in self.cell.others() {
                out.push(Output::Send { to, message: Message::Conclude { hash, write: active.write, entry, freeze } });
            }
        }
        self.ended(hash, freeze, active.exclusive, out);
    }

    /// Enters a write of this gateway into the index; what is garbage now. Stale only when a member's later write was published
    /// meanwhile: then the write happened before it and is garbage itself.
    pub(super) fn publish_own(&mut self, entry: Entry) -> Option<crate::index::Located> {
        match self.publish(entry) {
            Ok(replaced) => replaced,
            Err(_) => Some(crate::index::Located::from(&entry)),
        }
    }

    /// A write of this gateway is over: what waited for that goes on.
    pub(super) fn ended(&mut self, hash: KeyHash, freeze: Option<FreezeId>, exclusive: bool, out: &mut Outputs<Op>) {
        self.answer_asks(hash, out);
        if let Some(freeze) = freeze {
            self.freeze_ended(self.cell.me(), hash, freeze, out);
        }
        if exclusive {
            self.answer_recovery(out);
        }
        self.answer_freeze(hash, out);
        self.next_turn(hash, out);
    }

    fn active(&mut self, hash: &KeyHash) -> &mut Active<Op> {
        self.keys.get_mut(hash).and_then(|state| state.active.as_mut()).expect("the key has an active write")
    }
}

/// Chooses the newer of two records.
pub(super) trait NewerOf {
    fn max_by_order(self, other: Self) -> Self;
}

impl NewerOf for Option<crate::index::Located> {
    fn max_by_order(self, other: Self) -> Self {
        match (self, other) {
            (Some(a), Some(b)) => Some(if a.order >= b.order { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}
