//! The monitor: which shards there are, and which nodes keep and host them (paper, section 4.1; docs/rfd/0012).
//!
//! It runs where the manager is led, and all that it decides are records there. Bulks are granted by the manager when a unit's leader asks.
//! Nodes tell it what they are asked for, and it has hot copies moved ([`balance`]).

pub mod balance;
pub mod loads;
pub mod opening;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use manager::{Manager, ShardRecord, Snapshot};
use types::NodeId;

use crate::limits::{HEARD_AGE, LOAD_AGE, MONITOR_TICK, SHARD_HOSTS, UNIT_MEMBERS};
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
            Change::Members { shard, members } => self.manager.set_shard_members(shard, members).await,
            Change::Hosts { shard, hosts } => self.manager.set_shard_hosts(shard, hosts).await,
        };
        changed.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Who is there, as far as is known here.
struct Heard {
    /// Those who were heard of lately.
    nodes: BTreeSet<NodeId>,
    /// The others have had the time to say so since this node leads.
    is_all: bool,
    /// Those that are surely not: they have missed more than one report. The rest may have lost one.
    away: BTreeSet<NodeId>,
}

impl Heard {
    fn is_there(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// Those of them that are there.
    fn among(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        nodes.iter().filter(|node| self.is_there(node)).copied().collect()
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
    let founders = |able: &[NodeId], hosting: &[NodeId]| {
        (odd(fill(Vec::new(), able, UNIT_MEMBERS, state)), fill(Vec::new(), hosting, SHARD_HOSTS, state))
    };
    let (mut members, mut hosts) = founders(able, hosting);
    if !heard.is_all && !members.iter().chain(&hosts).all(|node| heard.is_there(node)) {
        return None;
    }
    if 2 * heard.among(&members).len() <= members.len() {
        if members.iter().any(|node| !heard.is_there(node) && !heard.away.contains(node)) {
            return None;
        }
        (members, hosts) = founders(&heard.among(able), &heard.among(hosting));
    }
    (!members.is_empty()).then(|| Change::Open { expected_next: state.next_shard(), members, hosts })
}

/// Nodes that are gone are replaced, and places that are free are filled, with nodes that were heard of: one that is named is there to stay. Of members one that is away may be the last.
fn changes_of(state: &Snapshot, shard: &ShardRecord, able: &[NodeId], hosting: &[NodeId], heard: &Heard) -> Vec<Change> {
    let stay =
        |nodes: &[NodeId]| -> Vec<NodeId> { nodes.iter().filter(|node| state.node(**node).is_some()).copied().collect() };
    let members = match (&shard.members[..], &stay(&shard.members)[..]) {
        ([_], [alone]) => joined(*alone, able, heard, state),
        (_, stay) => completed(stay, able, heard, state),
    };
    let hosts = fill(stay(&shard.hosts), &heard.among(hosting), SHARD_HOSTS, state);
    let mut changes = Vec::new();
    if members != shard.members && !members.is_empty() {
        changes.push(Change::Members { shard: shard.id, members });
    }
    if hosts != shard.hosts && !hosts.is_empty() {
        changes.push(Change::Hosts { shard: shard.id, hosts });
    }
    changes
}

/// The members of a unit that has one so far: it and the two that it would have been founded with, as soon as one of these is there. Were the one that is away not named, two would be
/// needed for ever when one of them dies before it is back: they could not take it in any more. It is not asked for more votes than without it.
fn joined(alone: NodeId, able: &[NodeId], heard: &Heard, state: &Snapshot) -> Vec<NodeId> {
    let all = fill(vec![alone], able, UNIT_MEMBERS, state);
    let others = heard.among(&all[1..]).len();
    // Whoever is named stays: those that are there shall have said so.
    let may_join = others + 1 == UNIT_MEMBERS || others > 0 && heard.is_all;
    if all.len() == UNIT_MEMBERS && may_join { all } else { vec![alone] }
}

/// The members of a unit that has lost some: those that stay, and others that are there. If these are one fewer than they should be, and everybody has had the time to be heard, one that is away
/// is named as well: the two would need each other until another is there, and for ever if one of them died by then. Its vote is not needed meanwhile.
fn completed(stay: &[NodeId], able: &[NodeId], heard: &Heard, state: &Snapshot) -> Vec<NodeId> {
    let members = fill(stay.to_vec(), &heard.among(able), UNIT_MEMBERS, state);
    let lacks_one = members.len() + 1 == UNIT_MEMBERS;
    if lacks_one && heard.is_all { fill(members, able, UNIT_MEMBERS, state) } else { members }
}

/// Nodes with devices for chunks: this one first, then those that keep fewer units, and at last those that may be away: most founders of a unit have to be there.
fn able_nodes(state: &Snapshot, me: NodeId, heard: &BTreeSet<NodeId>) -> Vec<NodeId> {
    let with_volumes: BTreeSet<NodeId> = state.volumes().filter_map(|volume| state.device(volume.device)?.node).collect();
    let (mut able, others): (Vec<NodeId>, Vec<NodeId>) = with_volumes.into_iter().partition(|node| *node == me);
    able.extend(least_used(others, heard, state.shards().flat_map(|shard| &shard.members)));
    able
}

/// Of those that were heard of lately, and then of the others, those first that are named less often: lookup units cost memory and requests, and nodes share
/// them.
fn least_used<'a>(mut nodes: Vec<NodeId>, heard: &BTreeSet<NodeId>, named: impl Iterator<Item = &'a NodeId>) -> Vec<NodeId> {
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    named.for_each(|node| *counts.entry(*node).or_default() += 1);
    nodes.sort_by_key(|node| (!heard.contains(node), counts.get(node).copied().unwrap_or_default()));
    nodes
}

/// More nodes, up to `count`: on hosts that have none of them yet before others.
fn fill(mut nodes: Vec<NodeId>, able: &[NodeId], count: usize, state: &Snapshot) -> Vec<NodeId> {
    let host = |node: &NodeId| state.node(*node).map(|node| (node.zone.clone(), node.rack.clone(), node.host.clone()));
    while nodes.len() < count {
        let taken: BTreeSet<_> = nodes.iter().map(host).collect();
        let mut others = able.iter().filter(|node| !nodes.contains(node));
        let apart = others.clone().find(|node| !taken.contains(&host(node)));
        let Some(next) = apart.or_else(|| others.next()) else { break };
        nodes.push(*next);
    }
    nodes
}

/// An even number of members survives no more failures than one fewer.
fn odd(mut members: Vec<NodeId>) -> Vec<NodeId> {
    if members.len().is_multiple_of(2) {
        members.pop();
    }
    members
}

#[cfg(test)]
mod tests;
