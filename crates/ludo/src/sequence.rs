//! The sequence lock: readers write nothing and never hold a writer up.
//!
//! ```text
//! even: stable ──begin──▶ odd: being changed ──end──▶ even + 2: stable … ──retire──▶ all ones: replaced
//! ```
//!
//! A reader notes the number, reads, and looks again; a change in between voids what it read. One number covers a whole
//! generation, because one insertion touches classifier bits, seeds and slots of several buckets that only together make sense.
//! Finer locks were rejected: a reader would have to check three stripes (two classifier nodes, one bucket) on every lookup,
//! which costs each of them more than the rare repetition.

use crate::word::Word;

const RETIRED: u64 = u64::MAX;

#[derive(Debug)]
pub struct Sequence<W> {
    number: W,
}

/// A reader's first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Stable(u64),
    Changing,
    Retired,
}

impl<W: Word> Sequence<W> {
    pub fn new() -> Self {
        Self { number: W::new(0) }
    }

    #[inline(always)]
    pub fn look(&self) -> Look {
        match self.number.load_acquire() {
            RETIRED => Look::Retired,
            number if number % 2 == 1 => Look::Changing,
            number => Look::Stable(number),
        }
    }

    /// Whether nothing has changed since the look that returned `number`.
    #[inline(always)]
    pub fn unchanged(&self, number: u64) -> bool {
        W::fence_acquire();
        self.number.load() == number
    }

    /// Runs one change. The caller is the only writer.
    pub fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        let number = self.number.load();
        assert!(number.is_multiple_of(2), "a change within a change, or of a retired generation");
        self.number.store(number + 1);
        W::fence_release();
        let result = change();
        self.number.store_release(number + 2);
        result
    }

    /// Sends all readers to the next generation. What is written afterwards, to words that both share, no reader of this one
    /// can take for its own.
    pub fn retire(&self) {
        self.number.store(RETIRED);
        W::fence_release();
    }
}
