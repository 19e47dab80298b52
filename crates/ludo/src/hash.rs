//! The hash of a key, and everything that is derived from it.
//!
//! One pass over the key makes a 128-bit digest under a secret seed; bucket choices, classifier nodes, slots and fingerprints
//! are arithmetic on the digest, so that a lookup reads the key once.
//!
//! ```text
//! sum  = length + Σ (low of stripe i + secret) · (high of stripe i + secret)                    modulo 2¹²⁸
//! x, y = fold(low of sum ⊕ secret, high of sum ⊕ secret), each with secrets of its own           fold: the product's halves, xored
//! ```
//!
//! A stripe is 16 bytes of the key. The sum is NH (Black et al., "UMAC", 1999): for any two keys that were chosen without knowing
//! the secrets, it is the same with a probability of 2⁻⁶⁴ at most, and of about 2⁻¹²⁸ unless somebody looked for the worst pair.
//! Its products don't wait for each other. Every four stripes it is folded, so that longer keys need no more secrets. Both
//! factors of every step carry bits of the seed, so that nobody who does not know the seed can choose keys that collide; a
//! collision by chance is answered with another seed.

use crate::shape::SEED_BITS;
use crate::table::ESCAPE;

/// Fraction digits of π: constants that nobody chose.
const PI: [u64; 6] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
];

/// Bytes that one product takes.
const STRIPE_BYTES: usize = 16;
/// Stripes that have secrets of their own.
const BLOCK_STRIPES: usize = 4;

/// The folded product.
#[inline(always)]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Maps a 64-bit hash to `0..range` without a division and for any range: the high half of the product.
#[inline(always)]
fn reduce(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

#[inline(always)]
const fn of_seed(seed: u16) -> u64 {
    PI[3].wrapping_mul(seed as u64 + 1)
}

/// A bit for every seed that stands in its bucket.
const SHORT_SEEDS: u64 = (1 << ESCAPE) - 1;
const _: () = assert!(1_u64 << SEED_BITS == u64::BITS as u64, "a short seed is a rotation");

/// Hashes keys under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hasher {
    seed: u64,
    /// Two for each stripe of a block.
    stripes: [[u64; 2]; BLOCK_STRIPES],
    /// Two for each half of a digest.
    halves: [[u64; 2]; 2],
}

impl Hasher {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut secret = |constant: u64| {
            state = state.wrapping_add(PI[4]);
            fold(state ^ constant, PI[5]) ^ state.rotate_left(23)
        };
        let mut pair = || [secret(PI[0]), secret(PI[1])];
        Self { seed, stripes: std::array::from_fn(|_| pair()), halves: std::array::from_fn(|_| pair()) }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The digest of a key of any length.
    #[inline(always)]
    pub fn digest(&self, key: &[u8]) -> Digest {
        let length = key.len();
        let mut sum = length as u128;
        if length < STRIPE_BYTES {
            let mut padded = [0; STRIPE_BYTES];
            padded[..length].copy_from_slice(key);
            return self.finish(sum.wrapping_add(self.product(0, &padded)));
        }
        // Whole stripes, then the last 16 bytes again, which overlap the stripe before unless the length is a multiple.
        let whole = (length - 1) / STRIPE_BYTES;
        for (index, stripe) in key[..whole * STRIPE_BYTES].chunks_exact(STRIPE_BYTES).enumerate() {
            sum = sum.wrapping_add(self.product(index, stripe));
            if index % BLOCK_STRIPES == BLOCK_STRIPES - 1 {
                sum = self.chained(sum);
            }
        }
        self.finish(sum.wrapping_add(self.product(whole, &key[length - STRIPE_BYTES..])))
    }

    /// A stripe's product, with all its bits.
    #[inline(always)]
    fn product(&self, index: usize, stripe: &[u8]) -> u128 {
        let ([low, high], [s, t]) = (halves(stripe), self.stripes[index % BLOCK_STRIPES]);
        u128::from(low.wrapping_add(s)) * u128::from(high.wrapping_add(t))
    }

    #[inline(always)]
    fn finish(&self, sum: u128) -> Digest {
        let half = |[s, t]: [u64; 2]| fold(sum as u64 ^ s, (sum >> 64) as u64 ^ t);
        let [x, y] = self.halves.map(half);
        Digest { x, y }
    }

    /// What a block leaves for the next one, which has the same secrets.
    fn chained(&self, sum: u128) -> u128 {
        let Digest { x, y } = self.finish(sum);
        u128::from(x) << 64 | u128::from(y)
    }
}

#[inline(always)]
fn halves(stripe: &[u8]) -> [u64; 2] {
    let word = |from: usize| u64::from_le_bytes(stripe[from..from + 8].try_into().expect("eight bytes"));
    [word(0), word(8)]
}

/// 128 bits that stand for a key under one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest {
    pub x: u64,
    pub y: u64,
}

impl Digest {
    /// The two buckets that may hold the key. They can be the same.
    #[inline(always)]
    pub fn buckets(self, count: u64) -> [u64; 2] {
        [self.bucket(0, count), self.bucket(1, count)]
    }

    /// Bucket 0 or 1 of the key. The first takes the upper half of `x`, the second the lower one.
    #[inline(always)]
    pub fn bucket(self, choice: u32, count: u64) -> u64 {
        reduce(self.x.rotate_left(32 * choice), count)
    }

    /// The two classifier nodes, counted from 0 on each side; two odd factors stand for the classifier's seed. The digest's halves
    /// are as good as random already, so that a product with another factor makes another graph.
    #[inline(always)]
    pub fn nodes(self, factors: [u64; 2], sides: [u64; 2]) -> [u64; 2] {
        [reduce(self.y.wrapping_mul(factors[0]), sides[0]), reduce(self.x.wrapping_mul(factors[1]), sides[1])]
    }

    /// Slot 0 to 3 under a bucket's seed.
    #[inline(always)]
    pub fn slot(self, seed: u16) -> usize {
        if seed < ESCAPE { self.slot_of_short(seed) } else { (fold(self.entropy() ^ of_seed(seed), PI[5]) >> 62) as usize }
    }

    /// As [`slot`](Self::slot), for a seed below [`ESCAPE`]: two neighbouring bits of `y`. Seeds next to each other share one, which
    /// is why those of six bits fail 2.5 times as often as independent ones would, for 0.51% of the full buckets.
    #[inline(always)]
    pub fn slot_of_short(self, seed: u16) -> usize {
        (self.y.rotate_right(u32::from(seed)) & 3) as usize
    }

    /// The seeds below [`ESCAPE`] that send two keys to different slots, as bits, all at once.
    #[inline(always)]
    pub fn separating(self, other: Self) -> u64 {
        let differ = self.y ^ other.y;
        (differ | differ.rotate_right(1)) & SHORT_SEEDS
    }

    /// A fingerprint of 0 to 16 bits.
    #[inline(always)]
    pub fn fingerprint(self, bits: u32) -> u16 {
        (u32::from((fold(self.entropy() ^ PI[4], PI[0]) >> 48) as u16) >> (16 - bits)) as u16
    }

    /// A byte for the keyed table, never 0. It stands in no message and no snapshot.
    #[inline(always)]
    pub fn tag(self) -> u8 {
        reduce(self.y, 255) as u8 + 1
    }

    /// What keys of one bucket still differ in: their `x` agree in a part.
    #[inline(always)]
    fn entropy(self) -> u64 {
        self.y ^ self.x.rotate_left(17)
    }
}

#[cfg(test)]
mod tests;
