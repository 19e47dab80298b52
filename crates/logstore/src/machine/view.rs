//! A new view (RFD 5): what is asked for anew, what is kept, and the freezes that outlive their home.
//!
//! ```text
//!   shell                     machine
//!     │── install, each shard ──►│ own writes: announced again to every member; held freezes: Carry to every member
//!     │                          │ own freezes not granted: asked of the new home; freezes answered to others: kept
//!     │── Carried to each member, after what the shards put out
//!     │◄─ Carried of a member ───│ what was answered to it in older views and not carried is over
//! ```
//!
//! A freeze's holder knows best whether it holds it, so its word alone counts: the answers of the others may be older than a release that has
//! reached the home already. A holder that was removed says nothing; what was answered to it stays until it is decided.
//!
//! A home grants nothing before every member has said what it carries. A gateway that joins has answered no freeze and holds no notice from
//! before: it starts no write and answers no read until every member has carried, and until nothing is undecided. A gateway that
//! was removed in between can tell it neither what it froze nor what it acknowledged; the decision does.

use super::message::{FreezeId, Message};
use super::shard::{Active, Frozen, Output, Outputs, Shard, Stage};
use super::{Cell, SequenceSource};
use crate::index::ShardIndex;
use std::sync::Arc;
use types::{GatewayId, KeyHash, ViewNumber};

/// What a shard remembers from an installation until everybody has carried and everything is decided.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Removed gateways that are not decided.
    pub undecided: Vec<GatewayId>,
    /// Members that have not said which freezes they hold.
    pub uncarried: Vec<GatewayId>,
    /// This gateway joined, and has not heard everything that members who were there before know.
    pub joining: bool,
    /// The leader waits for "held".
    pub owes_held: bool,
}

impl Change {
    fn is_over(&self) -> bool {
        self.undecided.is_empty() && self.uncarried.is_empty() && !self.owes_held
    }
}

impl<Op: Clone> Shard<Op> {
    /// A shard of a gateway that joins a cell. Its index is filled from the members' maps before it answers reads. `undecided` are the gateways that are not decided
    /// in its first view: nobody joins beside one, but the view in which it joined may be over when it hears of it.
    pub fn joining(cell: Arc<Cell>, sequences: Arc<SequenceSource>, index: ShardIndex, undecided: &[GatewayId]) -> Self {
        let change =
            Change { undecided: undecided.to_vec(), uncarried: cell.others().to_vec(), joining: true, owes_held: false };
        let mut shard = Shard { has_maps: false, ..Shard::new(cell, sequences, index) };
        if !change.is_over() {
            shard.change = Some(Box::new(change));
        }
        shard
    }

    /// The index has the maps of all members.
    pub fn maps_are_complete(&mut self) {
        self.has_maps = true;
    }

    /// Whether this gateway knows what every member knows of freezes and of removed gateways: always, unless it joined a moment ago.
    /// Before that, and before it has every member's map, it must have no lease.
    pub fn has_joined(&self) -> bool {
        let hears = |change: &Change| change.joining && !(change.uncarried.is_empty() && change.undecided.is_empty());
        !self.change.as_deref().is_some_and(hears)
    }

    /// The installed view.
    pub fn view(&self) -> ViewNumber {
        self.cell.number()
    }

    /// Installs a newer view. `removed` are the gateways that are not decided: those that this view leaves out, and those of earlier views.
    /// Acknowledgements of writes and answers to freezes are void; both are asked for again (rule 2).
    pub fn install(&mut self, cell: Arc<Cell>, removed: &[GatewayId], out: &mut Outputs<Op>) {
        assert!(cell.number() > self.cell.number(), "views are installed in order");
        assert!(
            removed.iter().all(|gateway| !cell.view().contains(*gateway)),
            "who comes back joins after its removal is decided"
        );
        self.cell = cell;
        let change = self.change.get_or_insert_default();
        change.undecided.extend(removed);
        change.undecided.sort_unstable();
        change.undecided.dedup();
        (change.uncarried, change.owes_held) = (self.cell.others().to_vec(), false);
        let hashes = self.busy();
        for hash in &hashes {
            self.begin_view(*hash, out);
        }
        for hash in hashes {
            self.go_on(hash, out);
        }
        self.end_change();
    }

    /// Keys with something going on, in an order that runs repeat.
    pub(super) fn busy(&self) -> Vec<KeyHash> {
        let mut hashes: Vec<KeyHash> = self.keys.keys().copied().collect();
        hashes.sort_unstable();
        hashes
    }

    fn begin_view(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let cell = self.cell.clone();
        let state = self.keys.get_mut(&hash).expect("only busy keys are asked for");
        if let Some(peers) = &mut state.peers {
            peers.frozen.retain(|frozen| frozen.answered);
            peers.asks.retain(|(from, _)| cell.view().contains(*from));
            peers.home_holder = None;
            peers.home_queue.clear();
        }
        match &mut state.active {
            Some(Active { stage: Stage::Writing { .. }, .. }) => self.announce_again(hash, out),
            Some(Active { stage: Stage::Spreading { .. }, .. }) => self.spread_again(hash, out),
            Some(Active { stage: Stage::Freezing { freeze, missing, .. }, .. }) => {
                *missing = cell.view().members().to_vec();
                let freeze = *freeze;
                self.ask_home(hash, freeze, out);
            }
            None => {}
        }
    }

    /// A write whose appends are under way.
    fn announce_again(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let cell = self.cell.clone();
        let view = cell.number();
        let active = self.keys.get_mut(&hash).and_then(|state| state.active.as_mut());
        let Some(Active { write, exclusive, stage: Stage::Writing { freeze, unheard, .. }, .. }) = active else { return };
        if *exclusive && freeze.is_none() && !cell.others().is_empty() {
            // Alone, it needed none. Whoever joins must not write beside it.
            *freeze = Some(FreezeId(self.sequences.draw_question()));
        }
        *unheard = if cell.announces() { cell.others().to_vec() } else { Vec::new() };
        let (write, freeze, unheard) = (*write, *freeze, unheard.clone());
        if let Some(freeze) = freeze {
            self.carry_own(hash, freeze, out);
        }
        for to in unheard {
            out.push(Output::Send { to, message: Message::Announce { hash, write, view } });
        }
        self.unless_unheard(hash, out);
    }

    pub(super) fn carry_own(&mut self, hash: KeyHash, freeze: FreezeId, out: &mut Outputs<Op>) {
        let (me, view) = (self.cell.me(), self.cell.number());
        if self.cell.home(&hash) == me {
            self.state(&hash).peers().home_holder = Some((me, freeze));
        }
        for &to in self.cell.others() {
            out.push(Output::Send { to, message: Message::Carry { hash, freeze, view } });
        }
    }

    /// At a member: `holder` is writing under a freeze of an older view.
    pub(super) fn carry(&mut self, holder: GatewayId, hash: KeyHash, freeze: FreezeId) {
        let view = self.cell.number();
        let is_home = self.cell.home(&hash) == self.cell.me();
        let peers = self.state(&hash).peers();
        peers.frozen.retain(|frozen| (frozen.holder, frozen.freeze) != (holder, freeze));
        // It was granted before everything that this view grants.
        peers.frozen.insert(0, Frozen { holder, freeze, answered: true, view });
        if is_home {
            peers.home_holder = Some((holder, freeze));
        }
    }

    /// A member has told which freezes it holds: whatever else was answered to it in an older view is over.
    pub(super) fn carried(&mut self, from: GatewayId, view: ViewNumber, out: &mut Outputs<Op>) {
        if view < self.cell.number() {
            return;
        }
        let Some(change) = &mut self.change else { return };
        change.uncarried.retain(|member| *member != from);
        for hash in self.busy() {
            let state = self.keys.get_mut(&hash).expect("only busy keys are asked for");
            if let Some(peers) = &mut state.peers {
                peers.frozen.retain(|frozen| frozen.holder != from || frozen.view == view);
                self.grant_next(hash, out);
            }
            self.go_on(hash, out);
        }
        self.end_change();
    }

    /// Whether no write of this key may start: a removed gateway's write of it is undecided and may have been acknowledged (rule 3), or this
    /// gateway does not yet know what is frozen.
    pub(super) fn must_wait(&self, hash: &KeyHash) -> bool {
        let Some(change) = &self.change else { return false };
        if change.joining && !self.has_joined() {
            return true;
        }
        let peers = self.keys.get(hash).and_then(|state| state.peers.as_ref());
        peers.is_some_and(|peers| {
            !peers.held.is_empty() || peers.announced.iter().any(|write| change.undecided.contains(&write.gateway))
        })
    }

    /// Whether this gateway may grant freezes: it has heard which are held.
    pub(super) fn may_grant(&self) -> bool {
        self.change.as_ref().is_none_or(|change| change.uncarried.is_empty())
    }

    pub(super) fn end_change(&mut self) {
        if self.change.as_ref().is_some_and(|change| change.is_over()) {
            self.change = None;
        }
    }
}
