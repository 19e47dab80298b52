//! Which groups of a kind there are, and which nodes are their members. It acts where the manager is led, and all that it decides are records there.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::Env;
use manager::{GroupKey, GroupKind, Manager, Snapshot};
use subsystem::Silent;
use types::NodeId;

use crate::choice::{self, Founders, Heard, least_used};
use crate::limits::{ASSIGNER_TICK, HEARD_AGE};

/// The assigner of a kind, on one node.
pub struct Assigner {
    pub env: Env,
    pub manager: Arc<Manager>,
    pub kind: GroupKind,
    /// The groups that there are to be, by number.
    pub wanted: fn(&Snapshot) -> BTreeSet<u32>,
    /// Nodes that can be members.
    pub able: fn(&Snapshot) -> BTreeSet<NodeId>,
    /// Nodes that do not answer this one.
    pub silent: Silent,
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Found { number: u32, members: Vec<NodeId> },
    Members { number: u32, members: Vec<NodeId> },
    End { number: u32 },
}

impl Assigner {
    /// For as long as the node lives.
    pub async fn run(self) {
        let mut leads_since = None;
        loop {
            self.env.sleep(ASSIGNER_TICK).await;
            if !self.manager.is_leader() {
                leads_since = None;
                continue;
            }
            let since = *leads_since.get_or_insert(self.env.now());
            if self.manager.fresh().await.is_err() {
                continue;
            }
            let state = self.manager.snapshot();
            let is_all = self.env.now().saturating_duration_since(since) >= HEARD_AGE;
            for change in self.changes(&state, &Heard::of(&state, (self.silent)(), is_all)) {
                tracing::info!(kind = self.kind.0, ?change, "placed groups are to change");
                if let Err(error) = self.carry_out(change).await {
                    tracing::warn!(kind = self.kind.0, error, "a change of placed groups was not made");
                }
            }
        }
    }

    fn changes(&self, state: &Snapshot, heard: &Heard) -> Vec<Change> {
        let members_of_all = state.groups_of(self.kind).flat_map(|group| &group.members);
        let able = least_used((self.able)(state).into_iter().collect(), &heard.nodes, members_of_all);
        let wanted = (self.wanted)(state);
        let mut changes = Vec::new();
        for group in state.groups_of(self.kind) {
            let number = group.key.number;
            let members = choice::members(&group.members, &able, heard, state);
            if !wanted.contains(&number) {
                changes.push(Change::End { number });
            } else if members != group.members && !members.is_empty() {
                changes.push(Change::Members { number, members });
            }
        }
        // One at a time: the next one is founded where the least is by then.
        let is_lacking = |number: &&u32| state.group(GroupKey { kind: self.kind, number: **number }).is_none();
        let next = wanted.iter().find(is_lacking).copied().zip(choice::founders(&able, heard, state));
        changes.extend(next.map(|(number, Founders { members, .. })| Change::Found { number, members }));
        changes
    }

    async fn carry_out(&self, change: Change) -> Result<(), String> {
        let key = |number| GroupKey { kind: self.kind, number };
        let changed = match change {
            Change::Found { number, members } => self.manager.found_group(key(number), members).await.map(|_| ()),
            Change::Members { number, members } => self.manager.set_group_members(key(number), members).await.map(|_| ()),
            Change::End { number } => self.manager.end_group(key(number)).await,
        };
        changed.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
