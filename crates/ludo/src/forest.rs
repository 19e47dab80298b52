//! The graph behind a classifier: which keys' edges meet in which node. A forest, always.
//!
//! An edge is named by the slot of its key. Every node heads a list of its edges and every slot has two links, one for each
//! end, and the exclusive or of its ends: who comes from one end finds the other. That is 4 · 2.33 + 12 / 0.95 = 21.9 bytes a
//! key. Without the ends it would be 17.7, and every edge of a walk would cost a fetch of its key and a hash.
//!
//! With n edges between 1.33 n and n nodes, n² / (1.33 n · n) = 0.75 < 1: the graph is below the threshold at which a giant
//! component forms, trees have O(1) nodes in expectation, and it has no cycle with probability √(1 − 0.75) = 1/2.

use crate::shape::{SLOTS, Shape};

/// No slot.
const NONE: u32 = u32::MAX;

/// The two nodes of an edge, one of each side.
pub type Ends = [u32; 2];

#[derive(Debug)]
pub struct Forest {
    side_a: u32,
    heads: Vec<u32>,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The next edges of its two ends.
    next: [u32; 2],
    /// One end, seen from the other.
    across: u32,
}

const UNLINKED: Edge = Edge { next: [NONE; 2], across: 0 };

/// How the two ends of a possible edge lie to each other.
#[derive(Debug, PartialEq, Eq)]
pub enum Ties {
    /// In one tree: an edge would close a cycle.
    Joined,
    /// In two trees; the nodes of the smaller one.
    Apart(Vec<u32>),
}

/// A walk through the tree of one node, a node at a time.
struct Walk {
    /// Nodes in the order they were found, and the edge over which each was reached.
    found: Vec<(u32, u32)>,
    visited: usize,
    /// The node whose tree must be another one.
    target: u32,
}

enum Step {
    More,
    Exhausted,
    MetTarget,
}

impl Forest {
    pub fn new(side_a: u64, side_b: u64, slots: u64) -> Self {
        let heads = vec![NONE; (side_a + side_b) as usize];
        Self { side_a: side_a as u32, heads, edges: vec![UNLINKED; slots as usize] }
    }

    /// For the keys of a structure.
    pub fn of_shape(shape: &Shape) -> Self {
        Self::new(shape.side_a(), shape.side_b(), shape.buckets() * SLOTS as u64)
    }

    pub fn memory_bytes(&self) -> usize {
        self.heads.len() * size_of::<u32>() + self.edges.len() * size_of::<Edge>()
    }

    /// Asks for the cache line of a node's head before anything needs it.
    pub fn touch_head(&self, node: u32) {
        std::hint::black_box(self.heads[node as usize]);
    }

    /// Asks for a node's first edge, whose name is asked for already.
    pub fn touch_edge(&self, node: u32) {
        if let Some(edge) = self.edges.get(self.heads[node as usize] as usize) {
            std::hint::black_box(edge.across);
        }
    }

    /// Asks for the edges that keys of a bucket have, or will have.
    pub fn touch_bucket(&self, bucket: u64) {
        let first = bucket as usize * SLOTS;
        for slot in [first, first + SLOTS - 1] {
            std::hint::black_box(self.edges[slot].across);
        }
    }

    /// Asks for the head of the node behind a node's first edge; that node, if there is one.
    pub fn touch_neighbour(&self, node: u32) -> Option<u32> {
        let edge = self.edges.get(self.heads[node as usize] as usize)?;
        let neighbour = node ^ edge.across;
        self.touch_head(neighbour);
        Some(neighbour)
    }

    pub fn link(&mut self, slot: u32, ends: Ends) {
        let next = ends.map(|node| std::mem::replace(&mut self.heads[node as usize], slot));
        self.edges[slot as usize] = Edge { next, across: ends[0] ^ ends[1] };
    }

    pub fn unlink(&mut self, slot: u32, ends: Ends) {
        let Edge { next, .. } = self.edges[slot as usize];
        for side in 0..2 {
            self.redirect(ends[side], side, slot, next[side]);
        }
    }

    /// The key of slot `from` has moved to `to`.
    pub fn relabel(&mut self, from: u32, to: u32, ends: Ends) {
        self.edges[to as usize] = self.edges[from as usize];
        for (side, node) in ends.into_iter().enumerate() {
            self.redirect(node, side, from, to);
        }
    }

    /// Makes what points to `slot` in a node's list point to `other`.
    fn redirect(&mut self, node: u32, side: usize, slot: u32, other: u32) {
        let mut at = self.heads[node as usize];
        if at == slot {
            self.heads[node as usize] = other;
            return;
        }
        loop {
            let next = &mut self.edges[at as usize].next[side];
            if *next == slot {
                *next = other;
                return;
            }
            at = *next;
        }
    }

    /// Whether an edge between `ends` would close a cycle.
    pub fn ties(&self, ends: Ends) -> Ties {
        self.ties_without(NONE, ends)
    }

    /// The smaller of the two trees into which the forest falls apart without a linked edge.
    pub fn smaller_part(&self, slot: u32, ends: Ends) -> Vec<u32> {
        match self.ties_without(slot, ends) {
            Ties::Apart(nodes) => nodes,
            Ties::Joined => panic!("a cycle in a forest"),
        }
    }

    /// Both trees are walked in turn, so that the cost is that of the smaller one. Often one is a single node; that is seen
    /// from its head.
    fn ties_without(&self, excluded: u32, ends: Ends) -> Ties {
        if let Some(alone) = (0..2).find(|side| self.is_alone(ends[*side], *side, excluded)) {
            return Ties::Apart(vec![ends[alone]]);
        }
        let mut walks = [0, 1].map(|side| Walk { found: vec![(ends[side], excluded)], visited: 0, target: ends[1 - side] });
        loop {
            for walk in &mut walks {
                match self.step(walk) {
                    Step::More => {}
                    Step::MetTarget => return Ties::Joined,
                    Step::Exhausted => return Ties::Apart(walk.found.iter().map(|(node, _)| *node).collect()),
                }
            }
        }
    }

    /// Whether a node has no edge but `excluded`.
    fn is_alone(&self, node: u32, side: usize, excluded: u32) -> bool {
        let first = self.heads[node as usize];
        first == NONE || (first == excluded && self.edges[first as usize].next[side] == NONE)
    }

    fn step(&self, walk: &mut Walk) -> Step {
        let Some((node, via)) = walk.found.get(walk.visited).copied() else { return Step::Exhausted };
        walk.visited += 1;
        let side = usize::from(node >= self.side_a);
        let mut edge = self.heads[node as usize];
        while edge != NONE {
            let Edge { next, across } = self.edges[edge as usize];
            if edge != via {
                let other = node ^ across;
                if other == walk.target {
                    return Step::MetTarget;
                }
                walk.found.push((other, edge));
            }
            edge = next[side];
        }
        if walk.visited == walk.found.len() { Step::Exhausted } else { Step::More }
    }
}

#[cfg(test)]
mod tests;
