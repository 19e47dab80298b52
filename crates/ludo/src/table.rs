//! The buckets of a lookup structure: a seed and four slots each, and no key.
//!
//! ```text
//! bucket b, at bit b · stride:
//! ├ seed, 6 ┼ slot 0 ┼ slot 1 ┼ slot 2 ┼ slot 3 ┼ padding ┤      slot: ├ value ┼ fingerprint ┤
//! ```
//!
//! Seeds from [`ESCAPE`] on stand in the overflow table, and the bucket holds the escape.

use crate::bits::{BitArray, Field, Position, mask};
use crate::overflow::Overflow;
use crate::shape::{SEED_BITS, SLOTS, Shape};
use crate::value::{PackedValue, ValueWords};
use crate::word::Word;

/// What a bucket's seed field holds when its seed stands in the overflow table.
pub const ESCAPE: u16 = (1 << SEED_BITS) - 1;

/// A slot's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub value: ValueWords,
    pub fingerprint: u16,
}

#[derive(Debug)]
pub struct Table<W> {
    bits: BitArray<W>,
    overflow: Overflow<W>,
    stride_bits: u64,
    slot_bits: u64,
    value: Field,
    value_bits: u32,
    fingerprint_bits: u32,
}

const SEED: Field = Field::new(SEED_BITS);

impl<W: Word> Table<W> {
    pub fn new(shape: &Shape) -> Self {
        Self {
            bits: BitArray::new(shape.buckets() * shape.stride_bits()),
            overflow: Overflow::new(shape.overflow_places()),
            stride_bits: shape.stride_bits(),
            slot_bits: u64::from(shape.slot_bits()),
            value: Field::new(shape.value_bits()),
            value_bits: shape.value_bits(),
            fingerprint_bits: shape.fingerprint_bits(),
        }
    }

    pub fn array(&self) -> &BitArray<W> {
        &self.bits
    }

    pub fn overflow(&self) -> &Overflow<W> {
        &self.overflow
    }

    pub fn memory_bytes(&self) -> usize {
        self.bits.memory_bytes() + self.overflow.array().memory_bytes()
    }

    /// A bucket's seed. A reader that the writer overtakes may find an escape without an entry: any seed will do, its lookup
    /// is repeated.
    #[inline(always)]
    pub fn seed(&self, bucket: u64) -> u16 {
        let seed = self.seed_field(bucket);
        if seed == ESCAPE { self.overflow.seed(bucket).unwrap_or(0) } else { seed }
    }

    /// Where a bucket begins.
    #[inline(always)]
    pub fn position(&self, bucket: u64) -> Position {
        self.bits.position(bucket * self.stride_bits)
    }

    /// Asks for the cache line of a bucket's seed.
    #[inline(always)]
    pub fn touch_seed(&self, bucket: Position) {
        self.bits.touch(bucket);
    }

    /// Asks for the cache lines of a bucket's seed and of its end.
    pub fn touch(&self, bucket: u64) {
        self.bits.touch(self.position(bucket));
        self.bits.touch(self.position(bucket).after(self.stride_bits - 1));
    }

    /// The six bits alone.
    #[inline(always)]
    pub fn seed_field(&self, bucket: u64) -> u16 {
        self.seed_at(self.position(bucket))
    }

    /// The six bits of the bucket that begins at a position.
    #[inline(always)]
    pub fn seed_at(&self, bucket: Position) -> u16 {
        self.bits.field(bucket, &SEED) as u16
    }

    /// Writes a bucket's seed; by how many entries the overflow table grew.
    pub fn set_seed(&self, bucket: u64, seed: u16) -> i64 {
        let escaped = self.seed_field(bucket) == ESCAPE;
        self.bits.set_field(bucket * self.stride_bits, SEED_BITS, u64::from(seed.min(ESCAPE)));
        if seed >= ESCAPE {
            i64::from(self.overflow.set(bucket, seed))
        } else if escaped {
            -i64::from(self.overflow.remove(bucket))
        } else {
            0
        }
    }

    #[inline(always)]
    fn offset(&self, bucket: u64, slot: usize) -> u64 {
        bucket * self.stride_bits + u64::from(SEED_BITS) + slot as u64 * self.slot_bits
    }

    /// Where a slot of the bucket that begins at a position begins.
    #[inline(always)]
    pub fn slot_position(&self, bucket: Position, slot: usize) -> Position {
        bucket.after(u64::from(SEED_BITS) + slot as u64 * self.slot_bits)
    }

    /// A slot's value, as wide as the shape says.
    #[inline(always)]
    pub fn value_at<V: PackedValue>(&self, slot: Position) -> V {
        if V::MAX_BITS <= 64 {
            return V::from_words([self.bits.field(slot, &self.value), 0, 0, 0]);
        }
        if V::MAX_BITS <= 128 {
            let [low, high] = self.bits.double_field(slot, &self.value);
            return V::from_words([low, high, 0, 0]);
        }
        V::from_words(self.bits.wide_field(slot, &self.value, V::MAX_BITS.div_ceil(64) as usize))
    }

    /// A slot's fingerprint; 0 if the shape has none.
    #[inline(always)]
    pub fn fingerprint_at(&self, slot: Position) -> u16 {
        if self.fingerprint_bits == 0 {
            return 0;
        }
        let field = Field::new(self.fingerprint_bits);
        self.bits.field(slot.after(u64::from(self.value_bits)), &field) as u16
    }

    pub fn slot(&self, bucket: u64, slot: usize) -> Slot {
        let position = self.slot_position(self.position(bucket), slot);
        Slot { value: self.value_at(position), fingerprint: self.fingerprint_at(position) }
    }

    pub fn set_slot(&self, bucket: u64, slot: usize, content: Slot) {
        let offset = self.offset(bucket, slot);
        let mut written = 0;
        for word in content.value {
            let width = (self.value_bits - written).min(64);
            self.bits.set_field(offset + u64::from(written), width, word & mask(width));
            written += width;
            if written == self.value_bits {
                break;
            }
        }
        if self.fingerprint_bits > 0 {
            let fingerprint = u64::from(content.fingerprint);
            self.bits.set_field(offset + u64::from(self.value_bits), self.fingerprint_bits, fingerprint);
        }
    }

    /// The four slots, to be put into another order.
    pub fn slots(&self, bucket: u64) -> [Slot; SLOTS] {
        std::array::from_fn(|slot| self.slot(bucket, slot))
    }
}
