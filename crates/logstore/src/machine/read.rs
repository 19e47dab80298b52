//! Reads: from this gateway alone when the key is stable, else by asking those who announced writes of it.

use super::message::{Message, ReadId};
use super::shard::{Output, Outputs, PendingRead, Shard, Stage};
use super::write::NewerOf;
use crate::index::Located;
use types::{GatewayId, KeyHash};

/// What is known of a key without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// Nobody else is writing the key: this is its newest record. It may leave only while the shell's lease permits reads of
    /// [`Shard::view`], asked after this look.
    Newest(Option<Located>),
    /// A member has announced a write: use [`Shard::read`].
    InFlight,
}

impl<Op: Clone> Shard<Op> {
    /// The fast path: answers if the key is stable, changes nothing.
    pub fn stable(&self, hash: &KeyHash) -> Stable {
        let in_flight = |state: &super::shard::KeyState<Op>| {
            state.peers.as_ref().is_some_and(|peers| !peers.announced.is_empty() || !peers.held.is_empty())
        };
        // In a one-gateway cell nobody announces anything, so the key's state need not be looked up.
        let alone = self.cell.others().is_empty() && self.change.is_none();
        if !alone && self.keys.get(hash).is_some_and(in_flight) {
            return Stable::InFlight;
        }
        Stable::Newest(self.index.newest(hash))
    }

    /// Answers a read at once if the key is stable, else after asking every gateway that announced a write of it: then by this number.
    pub fn read(&mut self, hash: KeyHash, op: Op, out: &mut Outputs<Op>) -> Option<ReadId> {
        if let Stable::Newest(newest) = self.stable(&hash) {
            out.push(Output::Answer { op, newest, view: self.cell.number() });
            return None;
        }
        let read = ReadId(self.sequences.draw_question());
        let newest = self.index.newest(&hash);
        self.state(&hash).peers().reads.push(PendingRead { op, read, missing: Vec::new(), newest });
        self.ask_writers(hash, &[read], out);
        Some(read)
    }

    /// Asks for these reads everybody who writes their key at present, whoever was asked before.
    pub(super) fn ask_writers(&mut self, hash: KeyHash, reads: &[ReadId], out: &mut Outputs<Op>) {
        let cell = self.cell.clone();
        let peers = self.state(&hash).peers();
        let mut writers: Vec<GatewayId> = peers.announced.iter().map(|write| write.gateway).collect();
        writers.extend(peers.held.iter().map(|entry| entry.write.gateway));
        writers.sort_unstable();
        writers.dedup();
        for pending in peers.reads.iter_mut().filter(|pending| reads.contains(&pending.read)) {
            // For a removed gateway the decision answers.
            for &to in writers.iter().filter(|asked| cell.view().contains(**asked)) {
                out.push(Output::Send { to, message: Message::Ask { hash, read: pending.read } });
            }
            pending.missing.extend(&writers);
        }
    }

    /// Nobody waits for this read any more.
    pub fn forget_read(&mut self, hash: &KeyHash, read: ReadId) {
        if let Some(peers) = self.keys.get_mut(hash).and_then(|state| state.peers.as_mut()) {
            peers.reads.retain(|pending| pending.read != read);
            self.retire(hash);
        }
    }

    /// Reads of this key that wait for answers.
    #[cfg(test)]
    pub fn waiting_reads(&self, hash: &KeyHash) -> usize {
        self.keys.get(hash).and_then(|state| state.peers.as_ref()).map_or(0, |peers| peers.reads.len())
    }

    /// A member asks. The answer waits until every member holds our announcement: only then can an entry that we are about
    /// to publish not be missed by a later read elsewhere (paper section 3.2, monotonic reads).
    pub(super) fn asked(&mut self, from: GatewayId, hash: KeyHash, read: ReadId, out: &mut Outputs<Op>) {
        if !self.cell.view().contains(from) {
            return;
        }
        self.state(&hash).peers().asks.push((from, read));
        let unheard = self.keys[&hash]
            .active
            .as_ref()
            .is_some_and(|active| matches!(&active.stage, Stage::Writing { unheard, .. } if !unheard.is_empty()));
        if !unheard {
            self.answer_asks(hash, out);
            self.retire(&hash);
        }
    }

    pub(super) fn answer_asks(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let newest = self.index.newest(&hash);
        let Some(peers) = self.keys.get_mut(&hash).and_then(|state| state.peers.as_mut()) else { return };
        for (to, read) in peers.asks.drain(..) {
            out.push(Output::Send { to, message: Message::Told { hash, read, newest } });
        }
    }

    pub(super) fn told(&mut self, from: GatewayId, hash: KeyHash, read: ReadId, told: Option<Located>, out: &mut Outputs<Op>) {
        let view = self.cell.number();
        let Some(peers) = self.keys.get_mut(&hash).and_then(|state| state.peers.as_mut()) else { return };
        let Some(at) = peers.reads.iter().position(|pending| pending.read == read) else { return };
        let pending = &mut peers.reads[at];
        pending.newest = pending.newest.max_by_order(told);
        // One answer for each question, in their order: who was asked twice is waited for twice.
        if let Some(answered) = pending.missing.iter().position(|member| *member == from) {
            pending.missing.swap_remove(answered);
        }
        if pending.missing.is_empty() {
            let done = peers.reads.swap_remove(at);
            out.push(Output::Answer { op: done.op, newest: done.newest, view });
            self.retire(&hash);
        }
    }
}
