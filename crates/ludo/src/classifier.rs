//! The classifier: one bit for every key, the bucket it is in, from two bits of memory and no key.
//!
//! An Othello: a bipartite graph with a node for every bit of two arrays and an edge for every key, between the two nodes its
//! digest names. While the graph has no cycle, the bits can be chosen so that the exclusive or over each edge is the key's
//! choice, for any choices; [`crate::forest`] keeps the graph. A key whose edge would close a cycle is held by the overlay.

use crate::bits::{BitArray, Position};
use crate::hash::Digest;
use crate::overlay::Overlay;
use crate::shape::Shape;
use crate::word::Word;

#[derive(Debug)]
pub struct Classifier<W> {
    seed: u64,
    /// What stands for the seed.
    factors: [u64; 2],
    /// Nodes of the two sides.
    sides: [u64; 2],
    bits: BitArray<W>,
    /// Where the two sides begin.
    starts: [Position; 2],
    overlay: Overlay<W>,
}

impl<W: Word> Classifier<W> {
    pub fn new(shape: &Shape, seed: u64) -> Self {
        let sides = [shape.side_a(), shape.side_b()];
        let bits = BitArray::new(sides[0] + sides[1]);
        let starts = [bits.position(0), bits.position(sides[0])];
        Self { seed, factors: [seed | 1, seed.rotate_left(32) | 1], sides, bits, starts, overlay: Overlay::new() }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn array(&self) -> &BitArray<W> {
        &self.bits
    }

    pub fn overlay(&self) -> &Overlay<W> {
        &self.overlay
    }

    pub fn memory_bytes(&self) -> usize {
        self.bits.memory_bytes() + size_of::<Self>()
    }

    #[inline(always)]
    pub fn nodes(&self, digest: Digest) -> [u64; 2] {
        let [a, b] = digest.nodes(self.factors, self.sides);
        [a, self.sides[0] + b]
    }

    /// Asks for the cache lines of a key's two bits.
    pub fn touch(&self, nodes: [u64; 2]) {
        nodes.iter().for_each(|node| self.bits.touch(self.bits.position(*node)));
    }

    /// The choice that the two nodes stand for.
    #[inline(always)]
    pub fn of_nodes(&self, nodes: [u64; 2]) -> u32 {
        self.bits.bit(nodes[0]) ^ self.bits.bit(nodes[1])
    }

    /// The bucket choice of a key, 0 or 1. Any of the two for a key that is not present.
    #[inline(always)]
    pub fn choice(&self, digest: Digest) -> u32 {
        match self.overlay.choice(digest) {
            None => {
                let [a, b] = digest.nodes(self.factors, self.sides);
                self.bits.bit_at(self.starts[0].after(a)) ^ self.bits.bit_at(self.starts[1].after(b))
            }
            Some(choice) => choice,
        }
    }
}
