//! Balances heat: copies that are asked for most move from nodes that do more than others to those that do least (paper, section 4.1).
//!
//! ```text
//!   nodes ── LoadReport ──► Loads ─► hot copies on nodes far above the mean ─► their units: where are the others? ─► heat::plan ─► relocations
//! ```
//!
//! It can be wrong in everything and do no harm: a relocation is asked of the chunk's unit, which knows what may be done with it. What is asked for,
//! it is asked for again only after a rest: the averages follow slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use env::{Env, Instant};
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{DeviceState, Manager, Snapshot};
use topology::Level;
use types::{DeviceId, NodeId};

use super::loads::Loads;
use crate::branches::Branches;
use crate::limits::{
    BALANCE_FLOOR, BALANCE_INTERVAL, BALANCE_REST, BALANCE_TOLERANCE, CLIENT_UNIT_PATIENCE, MAX_BALANCE_LOOKS,
    MAX_BALANCE_MOVES,
};
use crate::maintenance::Refusal;
use crate::message::Found;
use crate::placement::heat::{HotChunk, Limits, Move, plan};
use crate::placement::{Cluster, Load, Node};
use crate::protocol::{HotCopy, LoadReport, UnitAnswer, UnitRequest};
use crate::unit_ways::UnitWays;

/// The monitor's part that balances heat.
pub struct Balance {
    env: Env,
    manager: Arc<Manager>,
    units: UnitWays,
    loads: Arc<Loads>,
    /// Chunks that were to move, and when.
    moved: BTreeMap<ChunkId, Instant>,
}

impl Balance {
    pub fn new(env: &Env, manager: Arc<Manager>, units: UnitWays, loads: Arc<Loads>) -> Balance {
        Balance { env: env.clone(), manager, units, loads, moved: BTreeMap::new() }
    }

    /// For as long as the node lives; acts while that leads the manager.
    pub async fn run(mut self) {
        loop {
            self.env.sleep(BALANCE_INTERVAL).await;
            if self.manager.is_leader() {
                self.look().await;
            }
        }
    }

    /// Looks once, and begins some relocations if nodes do far more than others.
    async fn look(&mut self) {
        let now = self.env.now();
        self.moved.retain(|_, at| now.saturating_duration_since(*at) < BALANCE_REST);
        let state = self.manager.snapshot();
        let reports = self.loads.recent();
        let cluster = cluster_of(&state, &reports);
        let heats: BTreeMap<NodeId, u64> = reports.iter().map(|report| (report.node, report.heat)).collect();
        let mut hot = Vec::new();
        for (node, copy) in candidates(&cluster, &heats, &reports, |id| self.moved.contains_key(&id)) {
            let Some(places) = self.places(copy).await else { continue };
            let node_of = |device| state.device(device)?.node;
            if let Some(others) = others_there(&places, copy.place, node_of, &heats) {
                hot.push(HotChunk { chunk: copy, heat: copy.heat, at: node, others });
            }
        }
        let limits = Limits { tolerance: BALANCE_TOLERANCE, moves: MAX_BALANCE_MOVES };
        for step in plan(&cluster, &heats, &hot, Level::Host, limits) {
            self.relocate(&state, step).await;
        }
    }

    /// Where the copies of a chunk are that has one there; none if it is not so any more.
    async fn places(&self, copy: HotCopy) -> Option<ChunkPlaces> {
        let until = self.env.now() + CLIENT_UNIT_PATIENCE;
        match self.units.ask(copy.id.shard, &UnitRequest::Find(copy.id), until).await {
            Some(UnitAnswer::Found(Found::Known { places, .. })) if places.contains(copy.place) => Some(places),
            _ => None,
        }
    }

    async fn relocate(&mut self, state: &Snapshot, step: Move<HotCopy>) {
        let Move { chunk: HotCopy { id, place, heat }, to, .. } = step;
        let Some(device) = roomiest(state, to) else { return };
        let request = UnitRequest::Relocate { id, from: place.device(), to: Some(device) };
        // Also if it is refused: there is no room for it there, or something is under way with it.
        self.moved.insert(id, self.env.now());
        match self.units.ask(id.shard, &request, self.env.now() + CLIENT_UNIT_PATIENCE).await {
            Some(UnitAnswer::Done) => {
                self.loads.count_move();
                tracing::info!(%id, heat, from = place.device().0, to = device.0, "a hot chunk's copy moves to a node that does less");
            }
            Some(UnitAnswer::Refused(refusal @ Refusal::NoPlaces)) => {
                tracing::info!(%id, to = device.0, %refusal, "a hot chunk stays")
            }
            other => tracing::debug!(%id, ?other, "a hot chunk was not moved"),
        }
    }
}

/// The nodes of a chunk's other copies. None if one of them was not heard of lately: the chunk's relocation would wait for it.
fn others_there(
    places: &ChunkPlaces,
    at: BlockPlace,
    node_of: impl Fn(DeviceId) -> Option<NodeId>,
    heats: &BTreeMap<NodeId, u64>,
) -> Option<Vec<NodeId>> {
    let others = places.iter().filter(|place| *place != at);
    others.map(|place| node_of(place.device()).filter(|node| heats.contains_key(node))).collect()
}

/// Nodes that say what they do, and take chunks. How much room they have their units know.
fn cluster_of(state: &Snapshot, reports: &[LoadReport]) -> Cluster {
    let branches = Branches::of(state);
    let node = |report: &LoadReport| {
        let record = state.node(report.node)?;
        let blocks = active_blocks(state, report.node).map(|(_, blocks)| blocks).sum();
        Some(Node {
            id: report.node,
            branch: branches.branch(record),
            load: Load::empty(blocks).on(report.machine),
            is_up: blocks > 0,
        })
    };
    Cluster::new(reports.iter().filter_map(node).collect()).expect("a node has one newest report")
}

/// The device of a node that has most blocks which nobody has.
fn roomiest(state: &Snapshot, node: NodeId) -> Option<DeviceId> {
    let free = |device: &DeviceId| state.volume(*device).map(|volume| volume.free_blocks());
    active_blocks(state, node).map(|(device, _)| device).max_by_key(free)
}

fn active_blocks(state: &Snapshot, node: NodeId) -> impl Iterator<Item = (DeviceId, u32)> {
    let is_its = move |device: DeviceId| {
        state.device(device).is_some_and(|record| record.state == DeviceState::Active && record.node == Some(node))
    };
    state.volumes().filter(move |volume| is_its(volume.device)).map(|volume| (volume.device, volume.blocks))
}

/// The hottest copies on nodes that are hotter than they should be, the hottest first; each chunk once.
fn candidates(
    cluster: &Cluster,
    heats: &BTreeMap<NodeId, u64>,
    reports: &[LoadReport],
    rests: impl Fn(ChunkId) -> bool,
) -> Vec<(NodeId, HotCopy)> {
    let heat_of = |node: &Node| heats.get(&node.id).copied().unwrap_or_default();
    let sum: u64 = cluster.nodes().iter().map(heat_of).sum();
    let mean = sum / (cluster.nodes().len() as u64).max(1);
    let goal = (mean * (1000 + u64::from(BALANCE_TOLERANCE.0)) / 1000).max(BALANCE_FLOOR);
    let hotter = reports.iter().filter(|report| report.heat > goal);
    let copies = hotter.flat_map(|report| report.hot.iter().map(|copy| (report.node, *copy)));
    let mut copies: Vec<(NodeId, HotCopy)> = copies.filter(|(_, copy)| !rests(copy.id)).collect();
    copies.sort_by_key(|(_, copy)| std::cmp::Reverse(copy.heat));
    let mut seen = BTreeSet::new();
    copies.retain(|(_, copy)| seen.insert(copy.id));
    copies.truncate(MAX_BALANCE_LOOKS);
    copies
}

#[cfg(test)]
mod tests;
