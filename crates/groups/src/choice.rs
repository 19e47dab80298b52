//! Which nodes are to be the members of a group: functions of the manager's state and of what is known of nodes.

use std::collections::{BTreeMap, BTreeSet};

use manager::Snapshot;
use types::NodeId;

use crate::limits::MEMBERS;

/// Which nodes are there, as far as this node knows.
pub struct Heard {
    /// Nodes that were heard of lately.
    pub nodes: BTreeSet<NodeId>,
    /// The others have had the time to say so since this node leads.
    pub is_all: bool,
    /// Those that are surely not: they have missed more than one report. The rest may have lost one.
    pub away: BTreeSet<NodeId>,
}

impl Heard {
    /// `silent`: nodes that do not answer the manager's leader. `is_all`: it leads for long enough to know.
    pub fn of(state: &Snapshot, silent: BTreeSet<NodeId>, is_all: bool) -> Heard {
        let nodes = state.nodes().map(|node| node.id).filter(|node| !silent.contains(node)).collect();
        Heard { nodes, is_all, away: if is_all { silent } else { BTreeSet::new() } }
    }

    pub fn is_there(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// Those of them that are there.
    pub fn among(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        nodes.iter().filter(|node| self.is_there(node)).copied().collect()
    }
}

/// The members that a new group begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founders {
    pub members: Vec<NodeId>,
    /// Most of those that it should have are away: these are the ones that are there.
    pub are_few_there: bool,
}

/// The members that a new group begins with: an odd number. If most of those that it should have are away, it begins with those that are there; none while one of
/// them may only be late.
pub fn founders(able: &[NodeId], heard: &Heard, state: &Snapshot) -> Option<Founders> {
    let of = |able: &[NodeId]| odd(fill(Vec::new(), able, MEMBERS, state));
    let members = of(able);
    if !heard.is_all && !members.iter().all(|node| heard.is_there(node)) {
        return None;
    }
    if 2 * heard.among(&members).len() > members.len() {
        return Some(Founders { members, are_few_there: false });
    }
    let is_late = |node: &NodeId| !heard.is_there(node) && !heard.away.contains(node);
    if members.iter().any(is_late) {
        return None;
    }
    let members = of(&heard.among(able));
    (!members.is_empty()).then_some(Founders { members, are_few_there: true })
}

/// The members that a group is to have that has these. Nodes that are gone are replaced, and places that are free are filled, with nodes that were heard of: one that is
/// named is there to stay. One that is away may be the last.
pub fn members(present: &[NodeId], able: &[NodeId], heard: &Heard, state: &Snapshot) -> Vec<NodeId> {
    let stay: Vec<NodeId> = present.iter().filter(|node| state.node(**node).is_some()).copied().collect();
    match (present, &stay[..]) {
        ([_], [alone]) => joined(*alone, able, heard, state),
        (_, stay) => completed(stay, able, heard, state),
    }
}

/// The members of a group that has one so far: it and the two that it would have been founded with, as soon as one of these is there. Were the one that is away not named, two would be
/// needed for ever when one of them dies before it is back: they could not take it in any more. It is not asked for more votes than without it.
fn joined(alone: NodeId, able: &[NodeId], heard: &Heard, state: &Snapshot) -> Vec<NodeId> {
    let all = fill(vec![alone], able, MEMBERS, state);
    let others = heard.among(&all[1..]).len();
    // A node that is named stays. So the nodes that are there shall have said so first.
    let may_join = others + 1 == MEMBERS || others > 0 && heard.is_all;
    if all.len() == MEMBERS && may_join { all } else { vec![alone] }
}

/// The members of a group that has lost some: those that stay, and others that are there. If these are one fewer than they should be, and all nodes have had the time to be heard, one that is away
/// is named as well: the two would need each other until another is there, and for ever if one of them died by then. Its vote is not needed meanwhile.
fn completed(stay: &[NodeId], able: &[NodeId], heard: &Heard, state: &Snapshot) -> Vec<NodeId> {
    let members = fill(stay.to_vec(), &heard.among(able), MEMBERS, state);
    let lacks_one = members.len() + 1 == MEMBERS;
    if lacks_one && heard.is_all { fill(members, able, MEMBERS, state) } else { members }
}

/// Of those that were heard of lately, and then of the others, those first that are named less often: what is named costs memory and requests, and nodes share
/// it.
pub fn least_used<'a>(
    mut nodes: Vec<NodeId>,
    heard: &BTreeSet<NodeId>,
    named: impl Iterator<Item = &'a NodeId>,
) -> Vec<NodeId> {
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    named.for_each(|node| *counts.entry(*node).or_default() += 1);
    nodes.sort_by_key(|node| (!heard.contains(node), counts.get(node).copied().unwrap_or_default()));
    nodes
}

/// More nodes, up to `count`: on hosts that have none of them yet before others.
pub fn fill(mut nodes: Vec<NodeId>, able: &[NodeId], count: usize, state: &Snapshot) -> Vec<NodeId> {
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
pub fn odd(mut members: Vec<NodeId>) -> Vec<NodeId> {
    if members.len().is_multiple_of(2) {
        members.pop();
    }
    members
}
