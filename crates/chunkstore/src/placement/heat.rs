//! Heat balancing: which hot chunks to relocate, and to where.
//!
//! ```text
//!   the hottest node ── its hottest chunk ──► the coolest node that may hold it
//!          ▲                                        │
//!          └──── until the hottest is near the mean ┘
//! ```
//!
//! A move is made only if its target stays cooler than its source was, so the hottest node never gets hotter, no chunk moves twice, and the plan
//! ends. Hottest chunks first: that is the most heat per byte copied. The plan is a list; the monitor carries it out, and
//! [`Limits::moves`] says how much of it at once.

use super::cluster::Cluster;
use super::load::Permille;
use super::taken::Taken;
use super::{Made, Request};
use std::collections::{BTreeMap, BTreeSet};
use topology::Level;
use types::NodeId;

/// Coolest nodes that are tried for one chunk before it stays. Only full, busy and ruled out nodes fail.
const MAX_TARGETS: usize = 64;

/// A chunk that a hot node has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotChunk<C> {
    pub chunk: C,
    pub heat: u64,
    /// The node whose copy is asked for.
    pub at: NodeId,
    /// Nodes with the other copies.
    pub others: Vec<NodeId>,
}

/// One relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<C> {
    pub chunk: C,
    pub heat: u64,
    pub from: NodeId,
    pub to: NodeId,
}

/// How far a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes within this above the mean are left alone.
    pub tolerance: Permille,
    pub moves: usize,
}

/// Relocations that cool the hottest nodes. `heats` has the whole heat of each node, of which the chunks are a part; nodes without an entry are
/// cold. Chunks on nodes that the cluster does not know stay where they are.
pub fn plan<C: Copy>(
    cluster: &Cluster,
    heats: &BTreeMap<NodeId, u64>,
    chunks: &[HotChunk<C>],
    apart: Level,
    limits: Limits,
) -> Vec<Move<C>> {
    let mut balance = Balance::new(cluster, heats, chunks, apart);
    let goal = balance.mean() * (1000 + u64::from(limits.tolerance.0)) / 1000;
    let mut moves = Vec::new();
    while moves.len() < limits.moves
        && let Some((heat, from)) = balance.ranks.last().copied()
        && heat > goal
    {
        match balance.next_move(heat, from) {
            Some(step) => moves.push(step),
            // Nothing of it can be moved; the next hottest may be helped.
            None => drop(balance.ranks.pop_last()),
        }
    }
    moves
}

struct Balance<'a, C> {
    cluster: &'a Cluster,
    apart: Level,
    /// Heat and index of each node, the coolest first.
    ranks: BTreeSet<(u64, usize)>,
    /// Chunks by their node, the hottest last.
    chunks: BTreeMap<usize, Vec<&'a HotChunk<C>>>,
    /// Blocks that the plan has given away, by node.
    given: BTreeMap<usize, u32>,
}

impl<'a, C: Copy> Balance<'a, C> {
    fn new(cluster: &'a Cluster, heats: &BTreeMap<NodeId, u64>, hot: &'a [HotChunk<C>], apart: Level) -> Balance<'a, C> {
        let heat = |id: NodeId| heats.get(&id).copied().unwrap_or(0);
        let ranks = cluster.nodes().iter().enumerate().map(|(at, node)| (heat(node.id), at)).collect();
        let mut chunks: BTreeMap<usize, Vec<&HotChunk<C>>> = BTreeMap::new();
        for chunk in hot.iter().filter(|chunk| chunk.heat > 0) {
            if let Some(at) = cluster.index_of(chunk.at) {
                chunks.entry(at).or_default().push(chunk);
            }
        }
        chunks.values_mut().for_each(|chunks| chunks.sort_by_key(|chunk| chunk.heat));
        Balance { cluster, apart, ranks, chunks, given: BTreeMap::new() }
    }

    fn mean(&self) -> u64 {
        let sum: u128 = self.ranks.iter().map(|(heat, _)| u128::from(*heat)).sum();
        (sum / (self.ranks.len() as u128).max(1)) as u64
    }

    /// The next chunk of the hottest node that has somewhere to go.
    fn next_move(&mut self, heat: u64, from: usize) -> Option<Move<C>> {
        while let Some(chunk) = self.chunks.get_mut(&from).and_then(Vec::pop) {
            let Some((target_heat, to)) = self.target(chunk, heat) else { continue };
            self.ranks.remove(&(heat, from));
            self.ranks.insert((heat.saturating_sub(chunk.heat), from));
            self.ranks.remove(&(target_heat, to));
            self.ranks.insert((target_heat + chunk.heat, to));
            *self.given.entry(to).or_default() += 1;
            let nodes = self.cluster.nodes();
            return Some(Move { chunk: chunk.chunk, heat: chunk.heat, from: nodes[from].id, to: nodes[to].id });
        }
        None
    }

    /// The coolest node that may hold a chunk and stays cooler with it than its source is.
    fn target(&self, chunk: &HotChunk<C>, source_heat: u64) -> Option<(u64, usize)> {
        let request =
            Request { copies: 1, apart: self.apart, has: &chunk.others, writer: None, chunk: 0, made: Made::default() };
        let taken = Taken::new(self.cluster, &request);
        let cooler = self.ranks.iter().take(MAX_TARGETS).take_while(|(heat, _)| heat + chunk.heat < source_heat);
        let has_room = |at: usize| self.given.get(&at).copied().unwrap_or(0) < self.cluster.nodes()[at].load.free_blocks;
        cooler.copied().find(|(_, at)| taken.allows(*at) && has_room(*at))
    }
}
