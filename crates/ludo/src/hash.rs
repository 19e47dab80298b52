//! The hash of a key, and everything that is derived from it.
//!
//! One pass over the key makes a 128-bit digest under a secret seed; bucket choices, classifier nodes, slots and fingerprints
//! are arithmetic on the digest, so that a lookup reads the key once. The mixing step is the folded product: the two halves of
//! a 64 × 64 → 128 bit multiplication, combined by exclusive or. Both factors of every step carry bits of the seed, so that
//! nobody who does not know the seed can choose keys that collide; a collision by chance is answered with another seed.

use crate::shape::SEED_BITS;

/// Fraction digits of π: constants that nobody chose.
const PI: [u64; 6] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
];

/// Bytes that one mixing step takes.
const STRIPE_BYTES: usize = 16;

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

/// What the seeds of five bits add to a key: a load, in place of a product that the rest of a lookup would wait for.
const SHORT_SEEDS: [u64; 1 << SEED_BITS] = {
    let mut added = [0; 1 << SEED_BITS];
    let mut seed = 0;
    while seed < added.len() {
        added[seed] = of_seed(seed as u16);
        seed += 1;
    }
    added
};

#[inline(always)]
const fn of_seed(seed: u16) -> u64 {
    PI[3].wrapping_mul(seed as u64 + 1)
}

/// Hashes keys under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hasher {
    seed: u64,
    secrets: [u64; 4],
}

impl Hasher {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let secrets = PI[..4].iter().map(|constant| {
            state = state.wrapping_add(PI[4]);
            fold(state ^ constant, PI[5]) ^ state.rotate_left(23)
        });
        let mut filled = [0; 4];
        filled.iter_mut().zip(secrets).for_each(|(place, secret)| *place = secret);
        Self { seed, secrets: filled }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The digest of a key of any length.
    #[inline(always)]
    pub fn digest(&self, key: &[u8]) -> Digest {
        let [s0, s1, s2, s3] = self.secrets;
        let mut a = s0 ^ key.len() as u64;
        let mut b = s1;
        let mut mix = |low: u64, high: u64| {
            a = fold(a ^ low, high ^ s2);
            b = fold(b ^ high, low ^ s3).wrapping_add(b.rotate_left(29));
        };
        if key.len() < STRIPE_BYTES {
            let mut padded = [0; STRIPE_BYTES];
            padded[..key.len()].copy_from_slice(key);
            let (low, high) = halves(&padded);
            mix(low, high);
        } else {
            // Whole stripes, then the last 16 bytes again, which overlap the stripe before unless the length is a multiple.
            let whole = (key.len() - 1) / STRIPE_BYTES;
            for stripe in key[..whole * STRIPE_BYTES].chunks_exact(STRIPE_BYTES) {
                let (low, high) = halves(stripe);
                mix(low, high);
            }
            let (low, high) = halves(&key[key.len() - STRIPE_BYTES..]);
            mix(low, high);
        }
        Digest { x: fold(a ^ s3, b ^ PI[0]) ^ b, y: fold(b ^ s0, a ^ PI[1]) ^ a }
    }
}

#[inline(always)]
fn halves(stripe: &[u8]) -> (u64, u64) {
    let word = |from: usize| u64::from_le_bytes(stripe[from..from + 8].try_into().expect("eight bytes"));
    (word(0), word(8))
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

    /// The two classifier nodes under the classifier's own seed: one of `0..side_a` and one of `side_a..side_a + side_b`.
    #[inline(always)]
    pub fn nodes(self, seed: u64, side_a: u64, side_b: u64) -> [u64; 2] {
        let mixed = fold(self.y ^ seed, self.x ^ PI[2]);
        [reduce(mixed, side_a), side_a + reduce(mixed.rotate_left(32), side_b)]
    }

    /// Slot 0 to 3 under a bucket's seed.
    #[inline(always)]
    pub fn slot(self, seed: u16) -> usize {
        self.slot_by(of_seed(seed))
    }

    /// As [`slot`](Self::slot), for a seed of five bits.
    #[inline(always)]
    pub fn slot_of_short(self, seed: u16) -> usize {
        self.slot_by(SHORT_SEEDS[usize::from(seed) % SHORT_SEEDS.len()])
    }

    #[inline(always)]
    fn slot_by(self, seed: u64) -> usize {
        (fold(self.entropy() ^ seed, PI[5]) >> 62) as usize
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
