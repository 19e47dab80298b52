//! A set of numbers below a length, as a bitmap of several levels: a bit of a level says that a word of the level beneath has any.
//!
//! ```text
//!   level 2                 1                         one bit for 4096 numbers
//!   level 1      1  0  1 …  0  1                      one bit for 64
//!   level 0   0010 0000 1000 … 0000 0111              one bit for each number
//! ```
//!
//! Invariants:
//! - Bit `i` of a level above the lowest is set exactly if word `i` of the level beneath is not 0.
//! - The last level is one word.
//! - No bit at or beyond the length is set.

use std::ops::Range;

/// Numbers of a word.
const WORD_BITS: u64 = u64::BITS as u64;

/// A set of numbers from 0 up to a length. 65/64 bits a number; the next member is found in two steps a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    length: u64,
    /// The lowest first.
    levels: Vec<Vec<u64>>,
}

impl Bitmap {
    /// The empty set.
    pub fn new(length: u64) -> Bitmap {
        let mut levels = Vec::new();
        let mut bits = length;
        loop {
            let words = bits.div_ceil(WORD_BITS).max(1);
            levels.push(vec![0; usize::try_from(words).expect("a bitmap fits into memory")]);
            if words == 1 {
                return Bitmap { length, levels };
            }
            bits = words;
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn contains(&self, number: u64) -> bool {
        number < self.length && self.levels[0][word(number)] & bit(number) != 0
    }

    /// All of a range become members. Panics beyond the length.
    pub fn insert(&mut self, range: Range<u64>) {
        assert!(range.end <= self.length, "{range:?} is beyond {}", self.length);
        self.for_words(range, |word, mask| *word |= mask);
    }

    /// None of a range is a member any more. Panics beyond the length.
    pub fn remove(&mut self, range: Range<u64>) {
        assert!(range.end <= self.length, "{range:?} is beyond {}", self.length);
        self.for_words(range, |word, mask| *word &= !mask);
    }

    /// The least member from a number on.
    pub fn next_from(&self, number: u64) -> Option<u64> {
        let mut at = number;
        // Up until a word has one from there on, then down to its first.
        for level in 0..self.levels.len() {
            let words = &self.levels[level];
            let here = words.get(word(at)).map_or(0, |found| found & (u64::MAX << (at % WORD_BITS)));
            if here != 0 {
                return Some(self.first_beneath(level, at / WORD_BITS * WORD_BITS + u64::from(here.trailing_zeros())));
            }
            at = at / WORD_BITS + 1;
        }
        None
    }

    /// The least number from this one on that is no member, or `end` if all before it are.
    pub fn next_absent(&self, number: u64, end: u64) -> u64 {
        let end = end.min(self.length);
        let mut at = number;
        while at < end {
            let absent = !self.levels[0][word(at)] & (u64::MAX << (at % WORD_BITS));
            let of_word = at / WORD_BITS * WORD_BITS;
            if absent != 0 {
                return (of_word + u64::from(absent.trailing_zeros())).min(end);
            }
            at = of_word + WORD_BITS;
        }
        end.max(number)
    }

    /// Whether all of a range are members, or none is; none if some are.
    pub fn holds(&self, range: Range<u64>) -> Option<bool> {
        let first = self.contains(range.start);
        let is_uniform = match first {
            true => self.next_absent(range.start, range.end) == range.end,
            false => self.next_from(range.start).is_none_or(|next| next >= range.end),
        };
        is_uniform.then_some(first)
    }

    fn first_beneath(&self, level: usize, bit: u64) -> u64 {
        (0..level).rev().fold(bit, |at, level| {
            let word = self.levels[level][usize::try_from(at).expect("a word that there is")];
            at * WORD_BITS + u64::from(word.trailing_zeros())
        })
    }

    /// Changes the bits of a range, word by word, and what the levels above say of these words.
    fn for_words(&mut self, range: Range<u64>, change: impl Fn(&mut u64, u64)) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start / WORD_BITS, (range.end - 1) / WORD_BITS);
        for at in first..=last {
            let low = if at == first { u64::MAX << (range.start % WORD_BITS) } else { u64::MAX };
            let high = if at == last { u64::MAX >> (WORD_BITS - 1 - (range.end - 1) % WORD_BITS) } else { u64::MAX };
            let words = &mut self.levels[0][usize::try_from(at).expect("a word that there is")];
            let had_any = *words != 0;
            change(words, low & high);
            if had_any != (*words != 0) {
                self.tell_above(at);
            }
        }
    }

    /// Word `at` of the lowest level has become 0, or is it no more.
    fn tell_above(&mut self, mut at: u64) {
        for level in 1..self.levels.len() {
            let has_any = self.levels[level - 1][usize::try_from(at).expect("a word that there is")] != 0;
            let above = &mut self.levels[level][word(at)];
            let had_any = *above != 0;
            if has_any {
                *above |= bit(at);
            } else {
                *above &= !bit(at);
            }
            if had_any == (*above != 0) {
                return;
            }
            at /= WORD_BITS;
        }
    }
}

fn word(number: u64) -> usize {
    usize::try_from(number / WORD_BITS).expect("a word that there is")
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests;
