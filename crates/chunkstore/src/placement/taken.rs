//! Nodes that hold a copy, what they rule out, and the choice among the others.

use super::cluster::{Cluster, Domain};
use super::load::Permille;
use super::{CHOICES, Random, Request, below};
use std::ops::Range;
use topology::Level;
use types::NodeId;

/// Draws after which a range is looked through whole: where one node in four is open, two are found in 16 draws with 93%.
const MAX_DRAWS: usize = 16;

/// Copies that are there and copies chosen so far.
pub struct Taken<'a> {
    cluster: &'a Cluster,
    apart: Level,
    /// Indices in the cluster.
    nodes: Vec<usize>,
    has: usize,
}

impl<'a> Taken<'a> {
    /// Nodes that the cluster does not know are nowhere and rule nothing out.
    pub fn new(cluster: &'a Cluster, request: &Request<'_>) -> Taken<'a> {
        let nodes: Vec<usize> = request.has.iter().filter_map(|id| cluster.index_of(*id)).collect();
        Taken { cluster, apart: request.apart, has: nodes.len(), nodes }
    }

    pub fn add(&mut self, at: usize) {
        self.nodes.push(at);
    }

    /// New copies.
    pub fn chosen(&self) -> usize {
        self.nodes.len() - self.has
    }

    /// The first copy of all.
    pub fn first(&self) -> Option<usize> {
        self.nodes.first().copied()
    }

    /// The nodes of the new copies.
    pub fn into_chosen(self) -> Vec<NodeId> {
        self.nodes[self.has..].iter().map(|at| self.cluster.nodes()[*at].id).collect()
    }

    /// The nodes that a copy on this one rules out.
    fn shadow(&self, at: usize) -> Range<usize> {
        self.cluster.domain_of(at, self.apart).map_or(at..at + 1, |domain| domain.nodes.clone())
    }

    /// Whether a node may get a copy.
    pub fn allows(&self, at: usize) -> bool {
        self.cluster.nodes()[at].is_open() && !self.nodes.iter().any(|taken| self.shadow(*taken).contains(&at))
    }

    /// How many nodes of a domain may get a copy.
    pub fn allowed_in(&self, domain: &Domain) -> usize {
        let mut ruled_out = 0;
        for (index, taken) in self.nodes.iter().enumerate() {
            let shadow = self.shadow(*taken);
            if shadow.start <= domain.nodes.start && domain.nodes.end <= shadow.end {
                return 0;
            }
            let is_counted = self.nodes[..index].iter().any(|other| shadow.contains(other));
            if !is_counted && domain.nodes.contains(taken) {
                let open = self.cluster.domain_of(*taken, self.apart).map(|domain| domain.open);
                ruled_out += open.unwrap_or_else(|| usize::from(self.cluster.nodes()[*taken].is_open()));
            }
        }
        domain.open - ruled_out
    }

    /// Copies in a domain.
    pub fn held_in(&self, domain: &Domain) -> usize {
        self.nodes.iter().filter(|at| domain.nodes.contains(at)).count()
    }

    /// The least loaded of [`CHOICES`] random nodes that may get a copy; of all, where those are rare. `may` adds a condition.
    pub fn pick(&self, nodes: &Range<usize>, random: &mut Random<'_>, may: impl Fn(usize) -> bool) -> Option<usize> {
        if nodes.is_empty() {
            return None;
        }
        let is_candidate = |at: usize| self.allows(at) && may(at);
        let mut least: Option<usize> = None;
        let mut seen = 0;
        for _ in 0..MAX_DRAWS {
            let at = nodes.start + below(random, nodes.len() as u64) as usize;
            if is_candidate(at) {
                seen += 1;
                least = Some(least.map_or(at, |least| if self.load(at) < self.load(least) { at } else { least }));
            }
            if seen == CHOICES {
                return least;
            }
        }
        nodes.clone().filter(|at| is_candidate(*at)).min_by_key(|at| self.load(*at))
    }

    fn load(&self, at: usize) -> Permille {
        self.cluster.nodes()[at].load.utilisation()
    }
}
