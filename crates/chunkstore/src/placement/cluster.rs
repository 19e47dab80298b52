//! The map of the cluster: nodes with their load, and what fails together.
//!
//! Nodes are sorted by where they stand, so that each domain is a range of them. A domain knows how many of its nodes take chunks and how
//! many blocks those have free; a change of one node changes the four domains around it and nothing else.

use super::load::Load;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use topology::{Branch, Level};
use types::NodeId;

/// Levels that are domains of nodes, the widest first.
const LEVELS: [Level; 4] = [Level::Zone, Level::Pod, Level::Rack, Level::Host];

/// A storage node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub branch: Branch,
    pub load: Load,
    /// Whether its heartbeats come.
    pub is_up: bool,
}

impl Node {
    /// Whether it takes new chunks.
    pub fn is_open(&self) -> bool {
        self.is_up && !self.load.is_full() && !self.load.is_busy()
    }
}

/// A node that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterError(pub NodeId);

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} stands in the cluster twice", self.0)
    }
}

impl std::error::Error for ClusterError {}

/// A domain: its nodes and what they can take.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub nodes: Range<usize>,
    /// Nodes that take chunks, and the blocks that these have free.
    pub open: usize,
    pub free_blocks: u64,
}

/// All nodes.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    nodes: Vec<Node>,
    places: BTreeMap<NodeId, usize>,
    /// By level, sorted by their nodes.
    domains: [Vec<Domain>; LEVELS.len()],
    /// Of each node, the index of its domain by level.
    around: Vec<[u32; LEVELS.len()]>,
}

impl Cluster {
    pub fn new(mut nodes: Vec<Node>) -> Result<Cluster, ClusterError> {
        nodes.sort_by_key(|node| (node.branch, node.id));
        let mut cluster = Cluster { around: vec![[0; LEVELS.len()]; nodes.len()], ..Cluster::default() };
        for (at, node) in nodes.iter().enumerate() {
            if cluster.places.insert(node.id, at).is_some() {
                return Err(ClusterError(node.id));
            }
        }
        for (depth, level) in LEVELS.into_iter().enumerate() {
            for (at, node) in nodes.iter().enumerate() {
                let begins = at == 0 || nodes[at - 1].branch.parts_at(&node.branch).is_some_and(|parts| parts >= level);
                let domains = &mut cluster.domains[depth];
                if begins {
                    domains.push(Domain { nodes: at..at, open: 0, free_blocks: 0 });
                }
                cluster.around[at][depth] = domains.len() as u32 - 1;
                domains.last_mut().expect("the first node begins a domain").nodes.end = at + 1;
            }
        }
        cluster.nodes = nodes;
        (0..cluster.nodes.len()).for_each(|at| cluster.count_in(at));
        Ok(cluster)
    }

    /// The cluster with one node more.
    pub fn with(&self, node: Node) -> Result<Cluster, ClusterError> {
        Cluster::new([self.nodes.as_slice(), &[node]].concat())
    }

    /// Sorted by where they stand.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.places.get(&id).map(|at| &self.nodes[*at])
    }

    /// Takes a node's report; whether there is such a node.
    pub fn report(&mut self, id: NodeId, load: Load, is_up: bool) -> bool {
        let Some(at) = self.places.get(&id).copied() else { return false };
        self.change(at, |node| (node.load, node.is_up) = (load, is_up));
        true
    }

    /// Counts a block as taken before the node's next report says so; whether there was one. Without this all puts between two reports
    /// would see the same load.
    pub fn take_block(&mut self, id: NodeId) -> bool {
        let Some(at) = self.places.get(&id).copied() else { return false };
        let has = !self.nodes[at].load.is_full();
        if has {
            self.change(at, |node| node.load.free_blocks -= 1);
        }
        has
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Node)) {
        self.count_out(at);
        change(&mut self.nodes[at]);
        self.count_in(at);
    }

    fn count_in(&mut self, at: usize) {
        let node = self.nodes[at];
        if node.is_open() {
            for (depth, index) in self.around[at].into_iter().enumerate() {
                let domain = &mut self.domains[depth][index as usize];
                domain.open += 1;
                domain.free_blocks += u64::from(node.load.free_blocks);
            }
        }
    }

    fn count_out(&mut self, at: usize) {
        let node = self.nodes[at];
        if node.is_open() {
            for (depth, index) in self.around[at].into_iter().enumerate() {
                let domain = &mut self.domains[depth][index as usize];
                domain.open -= 1;
                domain.free_blocks -= u64::from(node.load.free_blocks);
            }
        }
    }

    /// Domains of a level, and those of them with a node that takes chunks.
    pub fn count(&self, level: Level) -> (usize, usize) {
        match depth_of(level) {
            Some(depth) => {
                let domains = &self.domains[depth];
                (domains.len(), domains.iter().filter(|domain| domain.open > 0).count())
            }
            None => (self.nodes.len(), self.nodes.iter().filter(|node| node.is_open()).count()),
        }
    }

    pub(super) fn index_of(&self, id: NodeId) -> Option<usize> {
        self.places.get(&id).copied()
    }

    /// The domain of a level around a node. Not of `Level::Device`.
    pub(super) fn domain_of(&self, at: usize, level: Level) -> Option<&Domain> {
        let depth = depth_of(level)?;
        Some(&self.domains[depth][self.around[at][depth] as usize])
    }

    /// The domain of a level that a branch is in, if a node stands there.
    pub(super) fn domain_at(&self, branch: &Branch, level: Level) -> Option<&Domain> {
        let depth = depth_of(level)?;
        let found = self.domains[depth].binary_search_by(|domain| {
            let other = self.nodes[domain.nodes.start].branch;
            let is_same = other.parts_at(branch).is_none_or(|parts| parts < level);
            if is_same { std::cmp::Ordering::Equal } else { other.cmp(branch) }
        });
        found.ok().map(|index| &self.domains[depth][index])
    }

    /// The domains of a level within a range of nodes that begins and ends with a wider domain.
    pub(super) fn domains_in(&self, nodes: &Range<usize>, level: Level) -> &[Domain] {
        let Some(depth) = depth_of(level) else { return &[] };
        let domains = &self.domains[depth];
        let first = domains.partition_point(|domain| domain.nodes.start < nodes.start);
        let last = domains.partition_point(|domain| domain.nodes.start < nodes.end);
        &domains[first..last]
    }
}

fn depth_of(level: Level) -> Option<usize> {
    LEVELS.iter().position(|other| *other == level)
}
