//! The graph behind a classifier: which keys' edges meet in which node. A forest, always.
//!
//! An edge is named by the slot of its key. Every node heads a list of its edges and every slot has two links, one for each
//! end: 4 · 2.33 + 8 / 0.95 = 17.7 bytes a key. The ends of an edge are not stored: its key is hashed again.
//!
//! With n edges between 1.33 n and n nodes, n² / (1.33 n · n) = 0.75 < 1: the graph is below the threshold at which a giant
//! component forms, trees have O(1) nodes in expectation, and it has no cycle with probability √(1 − 0.75) = 1/2.

/// No slot.
const NONE: u32 = u32::MAX;

/// The two nodes of an edge, one of each side.
pub type Ends = [u32; 2];

#[derive(Debug)]
pub struct Forest {
    side_a: u32,
    heads: Vec<u32>,
    links: Vec<[u32; 2]>,
}

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
        Self { side_a: side_a as u32, heads, links: vec![[NONE; 2]; slots as usize] }
    }

    pub fn memory_bytes(&self) -> usize {
        self.heads.len() * size_of::<u32>() + self.links.len() * size_of::<[u32; 2]>()
    }

    pub fn link(&mut self, slot: u32, ends: Ends) {
        for (side, node) in ends.into_iter().enumerate() {
            self.links[slot as usize][side] = self.heads[node as usize];
            self.heads[node as usize] = slot;
        }
    }

    pub fn unlink(&mut self, slot: u32, ends: Ends) {
        let links = self.links[slot as usize];
        for side in 0..2 {
            self.redirect(ends[side], side, slot, links[side]);
        }
    }

    /// The key of slot `from` has moved to `to`.
    pub fn relabel(&mut self, from: u32, to: u32, ends: Ends) {
        self.links[to as usize] = self.links[from as usize];
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
            let next = self.links[at as usize][side];
            if next == slot {
                self.links[at as usize][side] = other;
                return;
            }
            at = next;
        }
    }

    /// Whether an edge between `ends` would close a cycle. `ends_of` tells the ends of a linked slot.
    pub fn ties(&self, ends: Ends, ends_of: impl Fn(u32) -> Ends) -> Ties {
        self.ties_without(NONE, ends, ends_of)
    }

    /// The smaller of the two trees into which the forest falls apart without a linked edge.
    pub fn smaller_part(&self, slot: u32, ends: Ends, ends_of: impl Fn(u32) -> Ends) -> Vec<u32> {
        match self.ties_without(slot, ends, ends_of) {
            Ties::Apart(nodes) => nodes,
            Ties::Joined => panic!("a cycle in a forest"),
        }
    }

    /// Both trees are walked in turn, so that the cost is that of the smaller one. Often one is a single node; that is seen
    /// without fetching a key.
    fn ties_without(&self, excluded: u32, ends: Ends, ends_of: impl Fn(u32) -> Ends) -> Ties {
        if let Some(alone) = (0..2).find(|side| self.is_alone(ends[*side], *side, excluded)) {
            return Ties::Apart(vec![ends[alone]]);
        }
        let mut walks = [0, 1].map(|side| Walk { found: vec![(ends[side], excluded)], visited: 0, target: ends[1 - side] });
        loop {
            for walk in &mut walks {
                match self.step(walk, &ends_of) {
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
        first == NONE || (first == excluded && self.links[first as usize][side] == NONE)
    }

    fn step(&self, walk: &mut Walk, ends_of: impl Fn(u32) -> Ends) -> Step {
        let Some((node, via)) = walk.found.get(walk.visited).copied() else { return Step::Exhausted };
        walk.visited += 1;
        let side = usize::from(node >= self.side_a);
        let mut edge = self.heads[node as usize];
        while edge != NONE {
            if edge != via {
                let other = ends_of(edge)[1 - side];
                if other == walk.target {
                    return Step::MetTarget;
                }
                walk.found.push((other, edge));
            }
            edge = self.links[edge as usize][side];
        }
        if walk.visited == walk.found.len() { Step::Exhausted } else { Step::More }
    }
}

#[cfg(test)]
mod tests;
