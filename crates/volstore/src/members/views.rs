//! Views and leases, from the manager's records.

use std::sync::Arc;

use ::engine::EngineError;
use allack::{Appointment, Input};
use manager::PlacementRecord;
use types::Token;

use super::Members;
use crate::limits::{FORMER_LEASE, LEASE, RENEW_INTERVAL};

impl Members {
    /// Tells the machines of each view that is named, and that it is active.
    pub(super) async fn follow_views(self: &Arc<Self>) {
        let mut changes = self.manager.changes();
        loop {
            let state = self.manager.snapshot();
            for record in state.placements() {
                let is_mine = record.members().any(|node| node == self.me) || self.group(record.group).is_some();
                if is_mine && let Err(error) = self.hear_of(record).await {
                    self.stay_out(record, error);
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// This node can't be a member of a group. Told once for each view.
    fn stay_out(self: &Arc<Self>, record: &PlacementRecord, error: EngineError) {
        let known = self.obstacle(record.group).map(|known| known.to_string());
        if known != Some(error.to_string()) {
            tracing::error!(%error, group = record.group, "this node can't be a member of a placement group");
            self.note_obstacle(record.group, Some(error));
            self.ask_to_be_left_out(record.group);
        }
    }

    async fn hear_of(self: &Arc<Self>, record: &PlacementRecord) -> Result<(), EngineError> {
        let group = self.begin_group(record).await?;
        self.step(&group, Input::View(appointment_of(record)));
        if record.is_active {
            self.step(&group, Input::Recorded(record.view));
        }
        Ok(())
    }

    /// A primary may answer for a while after it has seen that no later view is named. What it sees was true at some moment after it had asked.
    pub(super) async fn renew_leases(self: &Arc<Self>) {
        loop {
            let asked_at = self.env.now();
            let leads = |record: &Arc<PlacementRecord>| record.is_active && record.primary == self.me;
            if self.manager.snapshot().placements().any(leads) && self.manager.fresh().await.is_ok() {
                let state = self.manager.snapshot();
                for record in state.placements().filter(|record| leads(record)) {
                    if let Some(group) = self.group(record.group) {
                        self.step(&group, Input::Lease { view: record.view, until: asked_at + LEASE });
                    }
                }
            }
            tokio::select! {
                () = self.env.sleep(RENEW_INTERVAL) => {}
                () = self.lease_wanted.notified() => {}
            }
        }
    }
}

/// A record as the machines know it.
fn appointment_of(record: &PlacementRecord) -> Appointment {
    let is_other = record.base.as_ref().is_some_and(|base| base.primary != record.primary);
    Appointment {
        view: record.view,
        token: Token(record.view.0),
        primary: record.primary,
        voters: record.voters.clone(),
        learners: record.learners.clone(),
        base: record.base.as_ref().map(|base| base.voters.clone()),
        former_lease: if is_other { FORMER_LEASE } else { std::time::Duration::ZERO },
    }
}
