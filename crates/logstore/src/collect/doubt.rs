//! Whether something that is staged may stand, damaged, in a zone.
//!
//! A chunk is named by nothing until the record over it is published. Whole, it tells which write it belongs to. Damaged, it can't be told from what a
//! crash tore: the zone must stay until whatever was staged when it took appends has been named, or given up. Writes are numbered, so one number
//! for each gateway tells that:
//!
//! ```text
//!   zone finished ─► first look ─► epoch N begins everywhere ─► EpochBegun(N, next) ─► … ─► EpochBegun(M, from >= next)
//!                                                     no chunk in the zone has a number from `next` on      all below it are named, or never will be
//! ```
//!
//! `EpochBegun` travels behind the conclusions of what its sender has named, so that the index has the owners then. It counts in one view of the
//! cell, and only after this gateway has had all members begin its epoch: what is begun after the first look was begun by this leader.
//! A gateway that leaves the view is decided before anything is collected; one that joins later has nothing in a finished zone.

use super::Victim;
use crate::gateway::Member;
use crate::store::Inner;
use env::Instant;
use format::record::WriteId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Activation, DeviceId, Epoch, GatewayId, Sequence, ViewNumber, ZoneIndex};

/// Pause before members are asked again what they have staged, if nobody writes.
const ASK_PAUSE: Duration = Duration::from_secs(10);

/// Zones with damage that were looked at.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<State>);

#[derive(Default)]
struct State {
    by_zone: BTreeMap<(DeviceId, ZoneIndex), Doubt>,
    asked: Option<Instant>,
}

/// What is known of one zone since the first look at it.
struct Doubt {
    activation: Activation,
    view: ViewNumber,
    since: Epoch,
    /// No chunk in the zone has these numbers or higher ones: of this gateway, and of others as far as they have told.
    own: Sequence,
    others: BTreeMap<GatewayId, Sequence>,
}

impl Doubts {
    /// The zone was reset.
    pub fn forget(&self, zone: (DeviceId, ZoneIndex)) {
        self.0.lock().by_zone.remove(&zone);
    }
}

impl Inner {
    /// Whether a damaged frame in a finished zone may be a chunk that somebody is about to name. `staged` is what this gateway had staged before
    /// the zone was looked at.
    pub(super) fn may_hold_staged(&self, victim: &Victim, staged: &BTreeSet<WriteId>) -> bool {
        let view = self.member.as_ref().map(|member| member.view().number()).unwrap_or_default();
        if !self.is_in_step() {
            return true;
        }
        let mut state = self.doubts.0.lock();
        let is_known = |doubt: &Doubt| doubt.activation == victim.activation && doubt.view == view;
        if !state.by_zone.get(&victim.at()).is_some_and(is_known) {
            let (since, own) = (self.epochs.present(), Sequence(self.sequences.draw()));
            let doubt = Doubt { activation: victim.activation, view, since, own, others: BTreeMap::new() };
            state.by_zone.insert(victim.at(), doubt);
        }
        let doubt = state.by_zone.get_mut(&victim.at()).expect("it is there");
        let is_own = staged.iter().any(|put| put.sequence < doubt.own);
        let is_others = self.member.as_ref().is_some_and(|member| doubt.may_be_staged_by_others(member));
        if is_others && state.asked.is_none_or(|asked| self.env.now() - asked >= ASK_PAUSE) {
            // They tell when the next epoch begins.
            state.asked = Some(self.env.now());
            self.background.want_checkpoint();
        }
        is_own || is_others
    }
}

impl Doubt {
    fn may_be_staged_by_others(&mut self, member: &Member) -> bool {
        let heard = member.heard.lock();
        let mut may_be = false;
        for other in member.view().others() {
            let told = heard.begun.get(other);
            if let Some((epoch, staged)) = told
                && *epoch > self.since
            {
                self.others.entry(*other).or_insert(staged.next);
            }
            may_be |= match (told, self.others.get(other)) {
                (Some((_, staged)), Some(bound)) => staged.from < *bound,
                _ => true,
            };
        }
        may_be
    }
}
