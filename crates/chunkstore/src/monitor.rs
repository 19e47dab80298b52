//! The monitor: which shards there are, and which nodes keep and host them (paper, section 4.1; docs/rfd/0012).
//!
//! It runs where the manager is led, and all that it decides are records there. Bulks are granted by the manager when a unit's leader asks.
//! Nodes tell it what they are asked for, and it has hot copies moved ([`balance`]).

pub mod balance;
pub mod loads;
pub mod opening;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use groups::choice::{self, Founders, Heard, fill, least_used};
use manager::modules::chunks::unit_key;
use manager::{GroupKind, Manager, ShardRecord, Snapshot};
use types::NodeId;

use crate::limits::{HEARD_AGE, LOAD_AGE, MONITOR_TICK, SHARD_HOSTS};
use loads::Loads;

/// The monitor of a node; it acts while that leads the manager.
pub struct Monitor {
    pub env: Env,
    pub me: NodeId,
    pub manager: Arc<Manager>,
    /// Who was heard of lately.
    pub loads: Arc<Loads>,
    /// Of shards that it opens.
    pub shard_chunks: u64,
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Open { expected_next: u32, members: Vec<NodeId>, hosts: Vec<NodeId> },
    Members { shard: u32, members: Vec<NodeId> },
    Hosts { shard: u32, hosts: Vec<NodeId> },
}

impl Monitor {
    /// For as long as the node lives.
    pub async fn run(self) {
        let mut leads_since = None;
        loop {
            self.env.sleep(MONITOR_TICK).await;
            if !self.manager.is_leader() {
                leads_since = None;
                continue;
            }
            let since = *leads_since.get_or_insert(self.env.now());
            let has_volumes = self.manager.snapshot().volumes().next().is_some();
            if !has_volumes || self.manager.fresh().await.is_err() {
                continue;
            }
            let state = self.manager.snapshot();
            let heard = self.heard(&state, self.env.now().saturating_duration_since(since));
            for change in changes(&state, self.me, &heard) {
                tracing::info!(?change, "the chunk store's shards are to change");
                if let Err(error) = self.carry_out(change).await {
                    tracing::warn!(error, "a change of the chunk store's shards was not made");
                }
            }
        }
    }

    /// Who is there, when this node has led for so long.
    fn heard(&self, state: &Snapshot, led_for: Duration) -> Heard {
        let within = |age| -> BTreeSet<NodeId> { self.loads.heard_within(age).into_iter().chain([self.me]).collect() };
        let lately = within(LOAD_AGE);
        let away = state.nodes().map(|node| node.id).filter(|node| led_for >= LOAD_AGE && !lately.contains(node)).collect();
        Heard { nodes: within(HEARD_AGE), is_all: led_for >= HEARD_AGE, away }
    }

    async fn carry_out(&self, change: Change) -> Result<(), String> {
        let changed = match change {
            Change::Open { expected_next, members, hosts } => {
                self.manager.open_shard(expected_next, self.shard_chunks, members, hosts).await
            }
            Change::Members { shard, members } => {
                let changed = self.manager.set_group_members(unit_key(shard), members).await;
                return changed.map(|_| ()).map_err(|error| error.to_string());
            }
            Change::Hosts { shard, hosts } => self.manager.set_shard_hosts(shard, hosts).await,
        };
        changed.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// What is to be changed now. `me` is surely there: whoever begins a unit comes first among its members.
fn changes(state: &Snapshot, me: NodeId, heard: &Heard) -> Vec<Change> {
    let able = able_nodes(state, me, &heard.nodes);
    if able.is_empty() {
        return Vec::new();
    }
    let hosting = least_used(able.clone(), &heard.nodes, state.shards().flat_map(|shard| &shard.hosts));
    let mut changes: Vec<Change> = state.shards().flat_map(|shard| changes_of(state, shard, &able, &hosting, heard)).collect();
    if state.open_shard().is_none() {
        changes.extend(opening(state, &able, &hosting, heard));
    }
    changes
}

/// The next shard, when each node has had the time to be heard, or all that are named were: nobody moves it away from those that are not there. A third member that is away is
/// named where there are no others, since two go on without it. If most are away, it begins with those that are there: else it would be closed for its silence, and the
/// next one be founded like it. A node that is late is waited for: what a unit of one knows is on one disk.
fn opening(state: &Snapshot, able: &[NodeId], hosting: &[NodeId], heard: &Heard) -> Option<Change> {
    let Founders { members, are_few_there } = choice::founders(able, heard, state)?;
    let named = |hosting: &[NodeId]| fill(Vec::new(), hosting, SHARD_HOSTS, state);
    let hosts = named(hosting);
    if !heard.is_all && !hosts.iter().all(|node| heard.is_there(node)) {
        return None;
    }
    let hosts = if are_few_there { named(&heard.among(hosting)) } else { hosts };
    Some(Change::Open { expected_next: state.next_shard(), members, hosts })
}

/// What is to change about a shard.
fn changes_of(state: &Snapshot, shard: &ShardRecord, able: &[NodeId], hosting: &[NodeId], heard: &Heard) -> Vec<Change> {
    let stay: Vec<NodeId> = shard.hosts.iter().filter(|node| state.node(**node).is_some()).copied().collect();
    let hosts = fill(stay, &heard.among(hosting), SHARD_HOSTS, state);
    let mut changes = Vec::new();
    let present = state.unit(shard.id).map_or(&[][..], |unit| &unit.members);
    let members = choice::members(present, able, heard, state);
    if members != present && !members.is_empty() {
        changes.push(Change::Members { shard: shard.id, members });
    }
    if hosts != shard.hosts && !hosts.is_empty() {
        changes.push(Change::Hosts { shard: shard.id, hosts });
    }
    changes
}

/// Nodes with devices for chunks: this one first, then those that keep fewer units, and at last those that may be away: most founders of a unit have to be there.
fn able_nodes(state: &Snapshot, me: NodeId, heard: &BTreeSet<NodeId>) -> Vec<NodeId> {
    let with_volumes: BTreeSet<NodeId> = state.volumes().filter_map(|volume| state.device(volume.device)?.node).collect();
    let (mut able, others): (Vec<NodeId>, Vec<NodeId>) = with_volumes.into_iter().partition(|node| *node == me);
    able.extend(least_used(others, heard, state.groups_of(GroupKind::CHUNK_UNITS).flat_map(|unit| &unit.members)));
    able
}

#[cfg(test)]
mod tests;
