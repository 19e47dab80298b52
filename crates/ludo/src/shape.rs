//! How large everything is: a function of capacity, value width and fingerprint width.
//!
//! | part | bits a key at full capacity |
//! |---|---|
//! | classifier | 1.33 + 1 = 2.33 |
//! | seeds | 6 / (4 · 0.95) = 1.58 |
//! | slots | (l + f) / 0.95 = 1.05 · (l + f) |
//! | seed overflow | 64 · 0.16% = 0.10 |
//! | overlay | 8,320 in all |

use std::fmt;

use crate::overlay::OVERLAY_BITS;
use crate::value::MAX_VALUE_BITS;

/// Most keys of one structure: the largest shard of the paper, rounded up; slots and nodes have 32-bit numbers.
pub const MAX_CAPACITY: u64 = 1 << 30;
/// Widest fingerprint, in bits.
pub const MAX_FINGERPRINT_BITS: u32 = 16;
/// Slots of a bucket.
pub const SLOTS: usize = 4;
/// Bits of a seed within a bucket. The paper has five; they fail for 4.7% of the full buckets and not for 0.5%, and the exact
/// overflow table for those takes more (0.86 bits a key) than the bit that is saved (0.26).
pub const SEED_BITS: u32 = 6;

/// Buckets = keys · 0.263: slots are 95% full, below the 98.03% up to which (2,4)-cuckoo insertions almost surely succeed.
const BUCKETS_PER_10000: u64 = 2_632;
/// Buckets beyond the formula. Tiny tables have no law of large numbers to rely on.
const BUCKETS_EXTRA: u64 = 2;
/// Nodes of the classifier's first side, per 100 keys; the second side has one node a key.
const SIDE_A_PER_100: u64 = 133;
const SIDE_EXTRA: u64 = 8;
/// Places of the overflow table. At capacity, 0.51% of the full buckets need one, which is 0.114% of the keys.
const OVERFLOW_PER_10000: u64 = 16;
const OVERFLOW_EXTRA: u64 = 32;
/// A bucket is padded to whole words where that costs at most this share: 510 bits become one cache line.
const PADDING_MAX_PERCENT: u64 = 1;

const _: () = assert!(MAX_CAPACITY * BUCKETS_PER_10000 / 10_000 * 4 < u32::MAX as u64, "slots have 32-bit numbers");
const _: () = assert!(MAX_CAPACITY * (100 + SIDE_A_PER_100) / 100 < u32::MAX as u64, "nodes have 32-bit numbers");

/// Sizes of a lookup structure. Made from three numbers, so that two sides that agree on those agree on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    capacity: u64,
    value_bits: u32,
    fingerprint_bits: u32,
}

/// Why there is no such shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The capacity is 0 or above [`MAX_CAPACITY`].
    Capacity(u64),
    /// The value width is 0 or above [`MAX_VALUE_BITS`].
    ValueBits(u32),
    /// The fingerprint is wider than [`MAX_FINGERPRINT_BITS`].
    FingerprintBits(u32),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(found) => write!(f, "capacity of {found} keys, not of 1 to {MAX_CAPACITY}"),
            Self::ValueBits(found) => write!(f, "values of {found} bits, not of 1 to {MAX_VALUE_BITS}"),
            Self::FingerprintBits(found) => write!(f, "fingerprints of {found} bits, not of 0 to {MAX_FINGERPRINT_BITS}"),
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// `capacity` keys with values of `value_bits` (1 to 256) and fingerprints of `fingerprint_bits` (0 to 16).
    pub fn new(capacity: u64, value_bits: u32, fingerprint_bits: u32) -> Result<Self, ShapeError> {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(ShapeError::Capacity(capacity));
        }
        if !(1..=MAX_VALUE_BITS).contains(&value_bits) {
            return Err(ShapeError::ValueBits(value_bits));
        }
        if fingerprint_bits > MAX_FINGERPRINT_BITS {
            return Err(ShapeError::FingerprintBits(fingerprint_bits));
        }
        Ok(Self { capacity, value_bits, fingerprint_bits })
    }

    /// Keys that the structure is made for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn value_bits(&self) -> u32 {
        self.value_bits
    }

    pub fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// Bits of a slot: the value, then the fingerprint.
    pub fn slot_bits(&self) -> u32 {
        self.value_bits + self.fingerprint_bits
    }

    pub fn buckets(&self) -> u64 {
        (self.capacity * BUCKETS_PER_10000).div_ceil(10_000) + BUCKETS_EXTRA
    }

    /// Bits from one bucket to the next.
    pub fn stride_bits(&self) -> u64 {
        let packed = u64::from(SEED_BITS) + SLOTS as u64 * u64::from(self.slot_bits());
        let padded = packed.next_multiple_of(64);
        if (padded - packed) * 100 <= packed * PADDING_MAX_PERCENT { padded } else { packed }
    }

    /// Nodes of the classifier's first side.
    pub fn side_a(&self) -> u64 {
        (self.capacity * SIDE_A_PER_100).div_ceil(100) + SIDE_EXTRA
    }

    /// Nodes of the classifier's second side.
    pub fn side_b(&self) -> u64 {
        self.capacity + SIDE_EXTRA
    }

    /// Places of the seed overflow table.
    pub fn overflow_places(&self) -> u64 {
        (self.capacity * OVERFLOW_PER_10000).div_ceil(10_000) + OVERFLOW_EXTRA
    }

    /// Bits of the whole lookup structure, without the padding of its three arrays to cache lines.
    pub fn total_bits(&self) -> u64 {
        self.buckets() * self.stride_bits() + self.side_a() + self.side_b() + 64 * self.overflow_places() + OVERLAY_BITS
    }
}
