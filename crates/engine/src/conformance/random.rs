//! Seeded draws for the random tests: small, ours, the same on every platform.

use super::{SEED_VARIABLE, SOAK_VARIABLE};

/// SplitMix64 (Steele, Lea, Flood 2014): every seed gives a full-period sequence.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// The seeds of one random test: the one that the environment names, or `count` times the soak factor.
pub(super) fn seeds(count: u64) -> Vec<u64> {
    match number_in(SEED_VARIABLE) {
        Some(seed) => vec![seed],
        None => (1..=count * number_in(SOAK_VARIABLE).unwrap_or(1)).collect(),
    }
}

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, it is {text:?}")))
}

/// `length` bytes that depend on `seed` and on their place, so that bytes from elsewhere never pass.
pub(super) fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut draw = Draw::new(seed.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&draw.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
