//! The manager, by the rules of RFD 27: one record of truth, never down.

use std::time::Duration;

use env::Instant;
use model::choice::{Choose, Seeded};
use types::{NodeId, Token, ViewNumber};

use crate::appointment::Appointment;

/// How long a lease lasts.
pub(super) const LEASE: Duration = Duration::from_millis(400);

pub(super) struct Manager {
    /// The newest one.
    pub(super) view: ViewNumber,
    token: Token,
    pub(super) primary: NodeId,
    pub(super) voters: Vec<NodeId>,
    learners: Vec<NodeId>,
    base: Option<Vec<NodeId>>,
    pub(super) is_recorded: bool,
    /// Until when another primary may answer reads, fixed when the view was named.
    former_lease_until: Instant,
    /// Until when the present one may.
    lease_until: Instant,
    /// The primary has restarted, or can't lead for another reason.
    pub(super) wants_view: bool,
}

impl Manager {
    pub(super) fn new(primary: NodeId, voters: Vec<NodeId>, learners: Vec<NodeId>, now: Instant) -> Manager {
        Manager {
            view: ViewNumber(1),
            token: Token(1),
            primary,
            voters,
            learners,
            base: None,
            is_recorded: false,
            former_lease_until: now,
            lease_until: now,
            wants_view: false,
        }
    }

    /// The last active membership, as far as there is one.
    pub(super) fn base(&self) -> &[NodeId] {
        match &self.base {
            _ if self.is_recorded => &self.voters,
            Some(base) => base,
            None => &self.voters,
        }
    }

    /// Names the next view. `primary` is of the base.
    pub(super) fn name_view(&mut self, primary: NodeId, voters: Vec<NodeId>, learners: Vec<NodeId>) {
        let base = if self.is_recorded { Some(self.voters.clone()) } else { self.base.clone() };
        self.view = ViewNumber(self.view.0 + 1);
        if primary != self.primary || self.wants_view {
            self.token = Token(self.view.0);
            // One who restarted does not serve: its lease is worth nothing.
            self.former_lease_until = self.former_lease_until.max(self.lease_until);
        }
        (self.primary, self.voters, self.learners, self.base) = (primary, voters, learners, base);
        (self.is_recorded, self.wants_view) = (false, false);
    }

    /// Any view that the rules allow, of these nodes.
    pub(super) fn name_any_view(&mut self, rng: &mut Seeded, up: &[NodeId]) {
        let fit: Vec<NodeId> = self.base().iter().copied().filter(|node| up.contains(node)).collect();
        if fit.is_empty() {
            return;
        }
        let primary = fit[rng.below(fit.len())];
        let (mut voters, mut learners) = (vec![primary], Vec::new());
        for node in up.iter().copied().filter(|node| *node != primary) {
            match rng.below(6) {
                0..=2 => voters.push(node),
                3..=4 => learners.push(node),
                _ => {}
            }
        }
        self.name_view(primary, voters, learners);
    }

    pub(super) fn appointment(&self, now: Instant) -> Appointment {
        Appointment {
            view: self.view,
            token: self.token,
            primary: self.primary,
            voters: self.voters.clone(),
            learners: self.learners.clone(),
            base: self.base.clone(),
            former_lease: self.former_lease_until.saturating_duration_since(now),
        }
    }

    /// The primary asks that its view be recorded as active: whether it is.
    pub(super) fn record(&mut self, view: ViewNumber) -> bool {
        self.is_recorded |= view == self.view;
        view == self.view
    }

    /// A request for a lease, received now: whether it is granted.
    pub(super) fn grant(&mut self, from: NodeId, view: ViewNumber, now: Instant) -> bool {
        let is_granted = self.is_recorded && (from, view) == (self.primary, self.view);
        if is_granted {
            self.lease_until = self.lease_until.max(now + LEASE);
        }
        is_granted
    }
}
