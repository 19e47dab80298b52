//! Key freezes: how a condition is evaluated while no gateway writes the key (RFD 2, decision 18).
//!
//! ```text
//!   requester            home of the key            every member
//!      │── FreezeAsk ───────►│                            │
//!      │                     │── Freeze ─────────────────►│ stops dispatching, waits for its own outstanding write
//!      │◄───────────────────────────────── Frozen(newest)─│
//!   evaluates, then Conclude (phase 2, or without entry) ───►│ goes on; the home grants the next
//! ```
//!
//! A member may get the next holder's `Freeze` before the last holder's release, because they come from different gateways. It
//! answers one freeze at a time: the next only when the last is over *and* one ordinary write of its own, if any waits, has had its
//! turn in between. Otherwise gateways that keep freezing a key would keep the others from ever writing it, above all its home,
//! which grants the next freeze in the very step that ends the last.

use super::message::{FreezeId, Message};
use super::shard::{Active, Frozen, Output, Outputs, Shard, Stage, Waiting};
use super::write::NewerOf;
use crate::index::Located;
use format::record::WriteId;
use types::{GatewayId, KeyHash, Sequence};

impl<Op: Clone> Shard<Op> {
    /// The front of the queue wants the key for itself: asks the home.
    pub(super) fn begin_freeze(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let freeze = FreezeId(self.sequences.draw_question());
        let me = self.cell.me();
        let missing = self.cell.others().iter().copied().chain([me]).collect();
        let state = self.state(&hash);
        let op = state.queue.pop_front().expect("the caller looked at the front").op;
        // The write's own id is drawn when it is dispatched.
        let write = WriteId { gateway: me, sequence: Sequence(0) };
        state.active = Some(Active { op, write, exclusive: true, stage: Stage::Freezing { freeze, missing, newest: None } });
        self.ask_home(hash, freeze, out);
    }

    pub(super) fn ask_home(&mut self, hash: KeyHash, freeze: FreezeId, out: &mut Outputs<Op>) {
        let (me, home, view) = (self.cell.me(), self.cell.home(&hash), self.cell.number());
        if home == me {
            self.freeze_asked(me, hash, freeze, out);
        } else {
            out.push(Output::Send { to: home, message: Message::FreezeAsk { hash, freeze, view } });
        }
    }

    /// At the home: grants now, or when the present holder has released.
    pub(super) fn freeze_asked(&mut self, from: GatewayId, hash: KeyHash, freeze: FreezeId, out: &mut Outputs<Op>) {
        let peers = self.state(&hash).peers();
        peers.home_queue.push_back((from, freeze));
        self.grant_next(hash, out);
    }

    pub(super) fn grant_next(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        if !self.may_grant() {
            return;
        }
        let view = self.cell.number();
        let peers = self.state(&hash).peers();
        if peers.home_holder.is_some() {
            return;
        }
        let Some((holder, freeze)) = peers.home_queue.pop_front() else { return };
        peers.home_holder = Some((holder, freeze));
        for &to in self.cell.clone().others() {
            out.push(Output::Send { to, message: Message::Freeze { hash, holder, freeze, view } });
        }
        self.freeze(hash, holder, freeze, out);
    }

    /// At a member: stop, and tell the holder once our own outstanding write is done.
    pub(super) fn freeze(&mut self, hash: KeyHash, holder: GatewayId, freeze: FreezeId, out: &mut Outputs<Op>) {
        let me = self.cell.me();
        if holder == me {
            let newest = self.index.newest(&hash);
            self.frozen(me, hash, freeze, newest, out);
            return;
        }
        let granted = Frozen { holder, freeze, answered: false, view: self.cell.number() };
        let frozen = &mut self.state(&hash).peers().frozen;
        // Asked for anew in a new view, and answered in the old one: it is answered anew.
        match frozen.iter_mut().find(|known| (known.holder, known.freeze) == (holder, freeze)) {
            Some(known) => *known = granted,
            None => frozen.push(granted),
        }
        self.next_turn(hash, out);
        self.answer_freeze(hash, out);
    }

    /// Answers the freeze whose turn it is, if no write of ours is outstanding. A write of ours that itself waits for a freeze has
    /// appended nothing, so it is no obstacle.
    pub(super) fn answer_freeze(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        // Who has no maps yet knows nothing that another member does not: what was concluded meanwhile its writer tells too.
        let newest = if self.has_maps { self.index.newest(&hash) } else { None };
        let view = self.cell.number();
        let Some(state) = self.keys.get_mut(&hash) else { return };
        if state.active.as_ref().is_some_and(|active| active.stage.is_outstanding()) {
            return;
        }
        let Some(peers) = state.peers.as_mut() else { return };
        let Some(first) = peers.frozen.first_mut().filter(|first| !first.answered) else { return };
        first.answered = true;
        out.push(Output::Send { to: first.holder, message: Message::Frozen { hash, freeze: first.freeze, newest, view } });
    }

    /// At the holder: one more member has stopped. After the last, the write is dispatched.
    pub(super) fn frozen(
        &mut self,
        from: GatewayId,
        hash: KeyHash,
        of: FreezeId,
        told: Option<Located>,
        out: &mut Outputs<Op>,
    ) {
        let Some(state) = self.keys.get_mut(&hash) else { return };
        let Some(Active { stage: Stage::Freezing { freeze, missing, newest }, .. }) = &mut state.active else { return };
        if *freeze != of {
            return;
        }
        missing.retain(|member| *member != from);
        *newest = newest.max_by_order(told);
        self.dispatch_frozen(hash, out);
    }

    /// Dispatches the holder's write if every member has stopped, no removed gateway's write of the key is undecided, and no freeze is open
    /// that this gateway has answered: with nobody else left to wait for the holder of that one, it has to do so itself.
    pub(super) fn dispatch_frozen(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let Some(state) = self.keys.get(&hash) else { return };
        let Some(Active { stage: Stage::Freezing { freeze, missing, newest }, .. }) = &state.active else { return };
        if !missing.is_empty() || state.has_stopped() || self.must_wait(&hash) {
            return;
        }
        let (freeze, learned) = (*freeze, *newest);
        let op = self.state(&hash).active.take().expect("matched above").op;
        self.dispatch(hash, Waiting { op, exclusive: true }, Some(freeze), learned, out);
    }

    /// At a member and at the home: the freeze is over. The home grants the next one.
    pub(super) fn freeze_ended(&mut self, holder: GatewayId, hash: KeyHash, ended: FreezeId, out: &mut Outputs<Op>) {
        let Some(peers) = self.keys.get_mut(&hash).and_then(|state| state.peers.as_mut()) else { return };
        peers.frozen.retain(|frozen| (frozen.holder, frozen.freeze) != (holder, ended));
        if peers.home_holder == Some((holder, ended)) {
            peers.home_holder = None;
            self.grant_next(hash, out);
        }
    }
}
