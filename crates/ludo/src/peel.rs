//! Solving a classifier for many keys at once.
//!
//! A node with one edge, a leaf, can take the bit that its edge asks for, whatever the other end will be. So leaves are taken away,
//! with their edges, until none is left; if edges are, they form a cycle. In reverse order every leaf then takes the exclusive or
//! of its neighbour's bit and its edge's choice. That is a handful of accesses an edge which mostly wait for nothing; adding the
//! keys to a forest one by one walks a tree for each, one miss after the other.
//!
//! ```text
//! node:   ├ edges it still has, 31 ┼ exclusive or over them of (other end, 32 ┼ choice, 1) ┤
//! ```
//!
//! The exclusive or of one edge is that edge: a leaf names its neighbour without a list of edges. Takes 8 · 2.33 + 4 = 22.6 bytes a
//! key while it runs.

use crate::classifier::Classifier;
use crate::forest::Ends;
use crate::shape::MAX_CAPACITY;
use crate::word::Word;

const LINK_BITS: u32 = 33;
const ONE_EDGE: u64 = 1 << LINK_BITS;
const LINK: u64 = ONE_EDGE - 1;

const _: () = assert!(MAX_CAPACITY < 1 << (64 - LINK_BITS), "a node can count all edges");

pub struct Peeling {
    nodes: Vec<u64>,
    edges: usize,
}

fn link(other: u32, choice: u32) -> u64 {
    u64::from(other) << 1 | u64::from(choice)
}

impl Peeling {
    pub fn new(nodes: u64) -> Self {
        Self { nodes: vec![0; usize::try_from(nodes).expect("the address space holds the nodes")], edges: 0 }
    }

    /// Adds a key's edge and its choice.
    pub fn add(&mut self, ends: Ends, choice: u32) {
        for side in 0..2 {
            let node = &mut self.nodes[ends[side] as usize];
            *node = (*node ^ link(ends[1 - side], choice)) + ONE_EDGE;
        }
        self.edges += 1;
    }

    /// Sets the bits of a classifier that has none set; whether there was no cycle. If there was one, no bit is set.
    pub fn solve<W: Word>(mut self, classifier: &Classifier<W>) -> bool {
        let leaves = self.peel();
        if leaves.len() < self.edges {
            return false;
        }
        for leaf in leaves.into_iter().rev() {
            let link = self.nodes[leaf as usize];
            if classifier.array().bit(link >> 1) ^ (link & 1) as u32 == 1 {
                classifier.array().flip(u64::from(leaf));
            }
        }
        true
    }

    /// The leaves in the order in which they were taken away. Each keeps its link, without an edge.
    fn peel(&mut self) -> Vec<u32> {
        let mut leaves = Vec::with_capacity(self.edges);
        for start in 0..self.nodes.len() {
            // What has lost its leaf may be one itself; a chain of those is taken at once, while its nodes are at hand.
            let mut node = start;
            while self.nodes[node] >> LINK_BITS == 1 {
                let to_neighbour = self.nodes[node] & LINK;
                leaves.push(node as u32);
                self.nodes[node] = to_neighbour;
                let neighbour = (to_neighbour >> 1) as usize;
                let back = link(node as u32, (to_neighbour & 1) as u32);
                self.nodes[neighbour] = (self.nodes[neighbour] - ONE_EDGE) ^ back;
                node = neighbour;
            }
        }
        leaves
    }
}

#[cfg(test)]
mod tests;
