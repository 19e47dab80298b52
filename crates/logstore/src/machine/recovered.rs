//! What a removed gateway had under way is decided once for all members (RFD 5, rules 3 to 6).
//!
//! ```text
//!   leader: fence, drain, seal, walk, copy ── Recovered* ─ AllRecovered ──► every member holds the entries: in flight, not served
//!                                      ◄──────────────── RecoveredHeld ──── unless it writes one of their keys under a freeze
//!                                          ── Decided ──► publishes what it holds, forgets what else was announced
//! ```
//!
//! Served as it arrives, an entry would be seen at one member while another, which never heard its announcement, still answers with
//! the version before. And a conditional write that was evaluated before the entry arrived stands above it in the log: until it is concluded the
//! entry must not be seen, so the holder of a freeze answers after its conclusion.
//!
//! All of it may come again, and from two leaders: the next one repeats what a leader that died has begun.

use super::message::Message;
use super::shard::{Active, Output, Outputs, Shard};
use crate::index::Located;
use format::entry::Entry;
use types::{GatewayId, KeyHash, ViewNumber};

impl<Op: Clone> Shard<Op> {
    /// At the leader: a record that counts is durable with all its copies. Tells every member, and holds it here.
    pub fn recover(&mut self, entry: Entry, out: &mut Outputs<Op>) {
        for &to in self.cell.others() {
            out.push(Output::Send { to, message: Message::Recovered { entry } });
        }
        self.recovered(entry);
    }

    /// Whether this entry waits for its gateway to be decided.
    pub fn holds(&self, entry: &Entry) -> bool {
        let peers = self.keys.get(&entry.hash).and_then(|state| state.peers.as_ref());
        peers.is_some_and(|peers| peers.held.contains(entry))
    }

    /// At a member: `from` leads and has told an entry. Of one that has left the view it is a former leader's, late: who follows it has told of the
    /// same write, or will.
    pub(super) fn recovered_by(&mut self, from: GatewayId, entry: Entry, out: &mut Outputs<Op>) {
        if !self.cell.view().contains(from) {
            return;
        }
        if !self.recovered(entry) {
            self.stands_elsewhere(entry, out);
        }
    }

    /// Holds an entry until its gateway is decided; false if it is decided here. Of one write the last leader's counts: it has told all members, and the
    /// former one perhaps some, of copies that it made itself. What is published here, and stands where it is told to, is not held: reads have found it since its gateway told
    /// of it, and a write under a freeze may need to read it before it ends, or its key's next turn. The length that is told need not be the one that is known:
    /// it is one copy's, and with its order in its header a copy may be longer than another.
    fn recovered(&mut self, entry: Entry) -> bool {
        if !self.change.as_ref().is_some_and(|change| change.undecided.contains(&entry.write.gateway)) {
            return false;
        }
        let newest = self.index.newest(&entry.hash);
        let stands = |newest: Located| newest.order == entry.order && newest.places == entry.places;
        let is_known = newest.is_some_and(|newest| newest.order > entry.order || stands(newest));
        if is_known && !self.keys.contains_key(&entry.hash) {
            return true;
        }
        let held = &mut self.state(&entry.hash).peers().held;
        held.retain(|held| held.write != entry.write);
        if !is_known {
            held.push(entry);
        }
        true
    }

    /// Where a record stands that is published here: its gateway has told of it, or this member has decided by the word of a former leader that did not reach
    /// all. The present leader may have found, or made, other copies. All members must hold the same places, or later moves pass some of them by.
    fn stands_elsewhere(&mut self, entry: Entry, out: &mut Outputs<Op>) {
        let newest = self.index.newest(&entry.hash);
        if let Some(from) = newest.filter(|from| from.order == entry.order && from.places != entry.places) {
            self.index.relocate(&from.places, entry);
            out.push(Output::Moved { entry, from });
        }
    }

    /// The leader has told everything. The answer is [`Output::RecoveredHeld`]; at the leader too.
    pub(super) fn all_recovered(&mut self, view: ViewNumber, out: &mut Outputs<Op>) {
        if view < self.cell.number() {
            return;
        }
        self.change.get_or_insert_default().owes_held = true;
        self.answer_recovery(out);
    }

    pub(super) fn answer_recovery(&mut self, out: &mut Outputs<Op>) {
        let Some(change) = self.change.as_mut().filter(|change| change.owes_held) else { return };
        let is_held = |state: &super::shard::KeyState<Op>| state.peers.as_ref().is_some_and(|peers| !peers.held.is_empty());
        let decides = |active: &Active<Op>| active.exclusive && active.stage.is_outstanding();
        if self.keys.values().any(|state| is_held(state) && state.active.as_ref().is_some_and(decides)) {
            return;
        }
        change.owes_held = false;
        out.push(Output::RecoveredHeld);
        self.end_change();
    }

    /// What these gateways had under way is recovered or void. Their freezes end.
    pub(super) fn decided(&mut self, gateways: &[GatewayId], out: &mut Outputs<Op>) {
        let Some(change) = &mut self.change else { return };
        let before = change.undecided.len();
        change.undecided.retain(|gateway| !gateways.contains(gateway));
        if change.undecided.len() == before {
            return;
        }
        for hash in self.busy() {
            self.decide(hash, gateways, out);
            self.go_on(hash, out);
        }
        self.end_change();
    }

    fn decide(&mut self, hash: KeyHash, gateways: &[GatewayId], out: &mut Outputs<Op>) {
        let Some(peers) = self.keys.get_mut(&hash).and_then(|state| state.peers.as_mut()) else { return };
        let (announced, frozen) = (peers.announced.len(), peers.frozen.len());
        peers.announced.retain(|write| !gateways.contains(&write.gateway));
        peers.frozen.retain(|frozen| !gateways.contains(&frozen.holder));
        if peers.announced.len() < announced {
            env::mark("gateway: announced writes of a removed gateway decided");
        }
        if peers.frozen.len() < frozen {
            env::mark("gateway: a freeze of a removed gateway ended");
        }
        let recovered: Vec<Entry> = peers.held.extract_if(.., |entry| gateways.contains(&entry.write.gateway)).collect();
        for entry in recovered {
            match self.publish(entry) {
                Ok(replaced) => {
                    env::mark("gateway: a recovered entry published");
                    out.push(Output::Published { entry, replaced });
                }
                // Heard of before its gateway was removed.
                Err(_) => self.stands_elsewhere(entry, out),
            }
        }
        self.decide_reads(hash, gateways, out);
    }

    /// Nobody else will answer for these gateways. A write of theirs that another one has followed is not told (`roll_on`), and of that one this member may
    /// have the announcement alone: so reads that waited for the decision ask who writes now.
    fn decide_reads(&mut self, hash: KeyHash, gateways: &[GatewayId], out: &mut Outputs<Op>) {
        let view = self.cell.number();
        let Some(peers) = self.keys.get_mut(&hash).and_then(|state| state.peers.as_mut()) else { return };
        let mut waited = Vec::new();
        for read in &mut peers.reads {
            let asked = read.missing.len();
            read.missing.retain(|asked| !gateways.contains(asked));
            if read.missing.len() < asked {
                waited.push(read.read);
            }
        }
        if waited.is_empty() {
            return;
        }
        self.ask_writers(hash, &waited, out);
        let peers = self.state(&hash).peers();
        for done in peers.reads.extract_if(.., |read| read.missing.is_empty()) {
            out.push(Output::Answer { op: done.op, newest: done.newest, view });
        }
    }
}
