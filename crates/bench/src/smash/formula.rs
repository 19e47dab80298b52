//! Memory by the paper's formulas (section 4.7), in bits.
//!
//! | unit | bits for α objects, b = ⌈0.263 α⌉ buckets, l bits of id, v = 3 · (l_n + ⌈log2 p⌉) bits of value |
//! |---|---|
//! | lookup | 2.33 α + b (5 + 4 v): 3.76 + 1.05 v an object, with the 0.11 of its overflow table left out |
//! | maintenance | the same + b · 4 l |
//! | with keys (SmashSimple) | b · 4 (l + v) |
//! | monitor | n (p / 256) l_s + 10 n: the paper prints α where the blocks of a node, p, are meant |

/// 95% load of buckets of four.
const BUCKETS_PER_OBJECT: f64 = 0.263;
const SLOTS: f64 = 4.0;
const SEED_BITS: f64 = 5.0;
const CLASSIFIER_BITS: f64 = 2.33;
/// Blocks of 4 MiB in a bulk of 1 GiB.
const BLOCKS_PER_BULK: f64 = 256.0;
/// The monitor's load share of a node.
const LOAD_BITS: f64 = 10.0;

/// Lengths that a system has chosen.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    pub id_bits: f64,
    pub shard_bits: f64,
    pub node_bits: f64,
    /// On a node.
    pub blocks: f64,
    pub copies: f64,
}

impl Lengths {
    /// The paper's evaluation: ids of 40 bytes, nodes of 4 TB.
    pub const EVALUATION: Lengths = Lengths { id_bits: 320.0, shard_bits: 20.0, node_bits: 20.0, blocks: 1e6, copies: 3.0 };
    /// The example of the paper's section 4.7.
    pub const EXAMPLE: Lengths = Lengths { id_bits: 160.0, ..Lengths::EVALUATION };

    fn block_bits(&self) -> f64 {
        self.blocks.log2().ceil()
    }

    /// The locations of an object.
    pub fn value_bits(&self) -> f64 {
        self.copies * (self.node_bits + self.block_bits())
    }

    pub fn lookup_unit(&self, objects: f64) -> f64 {
        CLASSIFIER_BITS * objects + buckets(objects) * (SEED_BITS + SLOTS * self.value_bits())
    }

    pub fn maintenance_unit(&self, objects: f64) -> f64 {
        self.lookup_unit(objects) + buckets(objects) * SLOTS * self.id_bits
    }

    /// All ids of a unit begin with its shard's id: stored once, not with each.
    pub fn maintenance_unit_without_shard(&self, objects: f64) -> f64 {
        Lengths { id_bits: self.id_bits - self.shard_bits, ..*self }.maintenance_unit(objects)
    }

    /// An index of full ids with all locations.
    pub fn simple_unit(&self, objects: f64) -> f64 {
        buckets(objects) * SLOTS * (self.id_bits + self.value_bits())
    }

    /// What a node needs to find its own copies when locations are computed: id and block of each.
    pub fn local_index(&self, copies: f64) -> f64 {
        buckets(copies) * SLOTS * (self.id_bits + self.block_bits())
    }

    pub fn monitor(&self, nodes: f64) -> f64 {
        nodes * (self.blocks / BLOCKS_PER_BULK) * self.shard_bits + LOAD_BITS * nodes
    }

    /// The monitor's as the paper prints it.
    pub fn monitor_as_printed(&self, nodes: f64, objects: f64) -> f64 {
        nodes * (objects / BLOCKS_PER_BULK) * self.shard_bits + LOAD_BITS * nodes
    }

    /// Of all objects, on one server: an id and the number of a node for each.
    pub fn directory(&self, objects: f64) -> f64 {
        objects * (self.id_bits + self.node_bits)
    }
}

fn buckets(objects: f64) -> f64 {
    (BUCKETS_PER_OBJECT * objects).ceil()
}

/// Bits as megabytes of 10^6 bytes, the paper's.
pub fn megabytes(bits: f64) -> f64 {
    bits / 8e6
}
