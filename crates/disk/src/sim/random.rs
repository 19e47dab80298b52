//! The simulated disk's dice.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

const MILLION: u64 = 1_000_000;

/// A seeded generator with the throws that the simulated disk needs.
pub(super) struct Random {
    generator: StdRng,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { generator: StdRng::seed_from_u64(seed) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.generator.next_u64()
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(super) fn is_heads(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Whether something that happens `per_million` times in a million happens now. Takes no throw for 0.
    pub(super) fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(MILLION) < u64::from(per_million)
    }

    /// A time from 1 microsecond to `most`.
    pub(super) fn duration(&mut self, most: Duration) -> Duration {
        let most_us = (most.as_micros() as u64).max(1);
        Duration::from_micros(1 + self.below(most_us))
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }

    /// Which of `count` sectors of a torn write get through: some prefix, or any subset; never all.
    pub(super) fn part(&mut self, count: usize) -> Vec<bool> {
        let mut keep = if self.is_heads() {
            let prefix = self.below(count as u64) as usize;
            (0..count).map(|sector| sector < prefix).collect()
        } else {
            (0..count).map(|_| self.is_heads()).collect::<Vec<bool>>()
        };
        if keep.iter().all(|kept| *kept) {
            let lost = self.below(count as u64) as usize;
            keep[lost] = false;
        }
        keep
    }

    /// Changes one to four bytes.
    pub(super) fn corrupt(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        // Distinct places, so that two changes cannot undo each other: an even stride from a random start.
        let count = (1 + self.below(4) as usize).min(bytes.len());
        let start = self.below(bytes.len() as u64) as usize;
        let stride = bytes.len() / count;
        for index in 0..count {
            let place = (start + index * stride) % bytes.len();
            bytes[place] ^= 1 + self.below(255) as u8;
        }
    }
}
