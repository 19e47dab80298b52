//! Epochs of a cell: begun by every member, so that what is in an epoch is known to all when it has ended (decision 11).
//!
//! ```text
//!   leader: where each log may grow next ─► BeginEpoch(N) ─► every member: advance to N, drain, EpochBegun(N) to all members
//! ```
//!
//! `EpochBegun` travels behind the conclusions of every write that its sender began before epoch N. So who has it from all members has
//! all entries of the epochs before N, and what is not among them stands behind the positions that the leader read first. A leader
//! that follows another goes beyond every epoch that any member has begun: the former leader's positions are not known to it.

use super::member::Member;
use crate::epochs::InEpoch;
use crate::peers::{Item, Staged};
use crate::store::Inner;
use engine::EngineError;
use format::record::WriteId;
use std::sync::Arc;
use types::{Epoch, Sequence, ViewNumber};

impl Inner {
    /// Ends every epoch up to the present one, at every member; the last one that ended. Positions of the logs are read before.
    pub(crate) async fn end_epochs(self: &Arc<Self>) -> Result<Epoch, EngineError> {
        let Some(member) = &self.member else {
            let ended = self.epochs.present();
            self.advance_towards(Epoch(ended.0 + 1));
            self.epochs.drained(ended).await;
            return Ok(ended);
        };
        // In this order: a view that came in between would have this gateway lead it, and nobody decided there is missed.
        let view = member.view().number();
        self.check_leads()?;
        let next = {
            let mut heard = member.heard.lock();
            // No copy begins to move in the epoch that only this gateway has begun.
            heard.in_step = None;
            let told = heard.hello.values().map(|(epoch, _)| *epoch).chain(heard.begun.values().map(|(epoch, _)| *epoch));
            // A gateway that is gone may have told an entry of an epoch that nobody else has begun.
            let own = self.epochs.present().max(self.names.newest_epoch());
            Epoch(told.fold(own, Epoch::max).0 + 1)
        };
        // First here: what this gateway has told of the epochs that end, moves above all, is on every stream before the announcement then.
        // A checkpoint that covers a move is installed only when all have been told of it, or nobody would tell it again.
        self.begin_epoch(view, next).await;
        member.push_to_all(&Item::BeginEpoch { view, epoch: next });
        self.heard_all_of(Epoch(next.0 - 1), view).await?;
        member.heard.lock().in_step = Some(view);
        Ok(Epoch(next.0 - 1))
    }

    /// Stays in the present epoch to move copies in it: every member has begun it. A member that lagged behind could delete a record under an
    /// older epoch than that of the record's move; the delete would be forgotten first, and the record come back (decision 13).
    pub(crate) async fn stay_in_step(self: &Arc<Self>) -> Result<InEpoch<'_>, EngineError> {
        loop {
            if let Some(stay) = self.try_stay_in_step() {
                return Ok(stay);
            }
            self.get_in_step().await?;
        }
    }

    fn try_stay_in_step(&self) -> Option<InEpoch<'_>> {
        let Some(member) = &self.member else { return Some(self.epochs.stay()) };
        let view = member.view().number();
        // Under the lock: else an epoch could begin here in between, a recovery's checkpoint for one.
        let heard = member.heard.lock();
        (heard.in_step == Some(view)).then(|| self.epochs.stay())
    }

    /// Has every member begun the epoch in which copies are moved, unless that is so.
    pub(crate) async fn get_in_step(self: &Arc<Self>) -> Result<(), EngineError> {
        if self.is_in_step() {
            return Ok(());
        }
        // One that writes nothing down: a full device must not keep collection from making room.
        let _no_checkpoint = self.checkpoints.lock().await;
        // Whoever had the lock may have seen to it.
        match self.is_in_step() {
            true => Ok(()),
            false => self.end_epochs().await.map(|_| ()),
        }
    }

    /// Whether every member has begun this leader's epoch, in this view.
    pub(crate) fn is_in_step(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.heard.lock().in_step == Some(member.view().number()))
    }

    /// Waits until this gateway has all entries that the members of a view made in an epoch that has ended. Fails if the view changes.
    async fn heard_all_of(&self, ended: Epoch, view: ViewNumber) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        // Of that view and no later one: who is removed may not have told what it concluded in the epoch.
        let others = {
            let cell = member.view();
            if cell.number() != view {
                return Err(EngineError::Unavailable { reason: "the cell's view has changed".to_owned() });
            }
            cell.others().to_vec()
        };
        let has_begun = |heard: &super::member::Heard| {
            others.iter().all(|other| heard.begun.get(other).is_some_and(|(epoch, _)| *epoch > ended))
        };
        let all_have_begun = async {
            member.until(has_begun).await;
            Ok(())
        };
        member.while_in(view, all_have_begun).await
    }

    /// As [`Inner::end_epochs`] leaves it, at any member and however the view changes meanwhile; false if this gateway has left, or a gateway
    /// that is removed and not decided has left it without word of what it concluded in those epochs.
    pub(super) async fn wait_for_end_of(&self, ended: Epoch) -> bool {
        let Some(member) = &self.member else { return true };
        loop {
            if member.heard.lock().lacks_words_of_removed(ended) {
                return false;
            }
            let view = member.view().number();
            match self.heard_all_of(ended, view).await {
                Ok(()) => return true,
                Err(_) if member.is_deposed() => return false,
                Err(_) => {}
            }
        }
    }

    /// Begins an epoch here and tells the others when every write of the ones before has ended. Not further than what was begun when a newer
    /// view was installed: the members of that one were told how far this gateway was, and its leader counts from there.
    pub(crate) async fn begin_epoch(self: &Arc<Self>, view: ViewNumber, epoch: Epoch) {
        let Some(member) = &self.member else { return };
        let begun = {
            let _one_at_a_time = member.advancing.lock().await;
            while let Some(ended) = self.advance_in(member, view, epoch) {
                self.epochs.drained(ended).await;
            }
            // Still alone: whoever is next may begin another epoch, and what is told must have drained.
            self.epochs.present()
        };
        self.tell_begun(member, view, begun);
        member.moved();
    }

    /// Tells the others that what this gateway began before this epoch is concluded, and how far it has heard them.
    pub(super) fn tell_begun(&self, member: &Member, view: ViewNumber, epoch: Epoch) {
        let staged = self.staged_now();
        let heard = member.heard.lock().heard_of(member.view().others());
        member.push_to_all(&Item::EpochBegun { view, epoch, staged, heard });
    }

    /// Goes a step on the way to this epoch; the epoch that ended. None if it has begun, or the view is over.
    fn advance_in(&self, member: &Member, view: ViewNumber, epoch: Epoch) -> Option<Epoch> {
        let _no_installation = member.changing.lock();
        let goes_on = self.epochs.present() < epoch && member.view().number() == view;
        goes_on.then(|| self.advance_towards(epoch))
    }

    /// One at a time: under `changing`, where there are other gateways. Epochs between are begun by nobody: one that joins an old cell would have to
    /// begin a million of them.
    pub(super) fn advance_towards(&self, epoch: Epoch) -> Epoch {
        let next = self.epochs.step_towards(epoch);
        self.names.begin_epoch(next);
        self.epochs.advance_to(next)
    }

    /// Whether another member may still be about to name this chunk.
    pub(crate) fn may_be_staged_elsewhere(&self, put: &WriteId) -> bool {
        let Some(member) = &self.member else { return false };
        if put.gateway == self.me || !member.view().view().contains(put.gateway) {
            return false;
        }
        let heard = member.heard.lock();
        heard.begun.get(&put.gateway).is_none_or(|(_, staged)| put.sequence >= staged.from)
    }

    /// What this gateway has staged. Stagings are numbered under the same lock.
    fn staged_now(&self) -> Staged {
        let staging = self.staging.lock();
        let next = Sequence(self.sequences.next());
        Staged { from: staging.first().map_or(next, |put| put.sequence), next }
    }
}
