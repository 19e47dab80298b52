//! A bit array of words that readers may read while the writer writes.
//!
//! Fields have any offset and up to 64 bits; wider ones are read in pieces. A field that crosses words is not read at once:
//! the sequence lock around the array makes it consistent.

use crate::word::Word;

const WORDS_OF_A_LINE: usize = 8;

/// One cache line: an array whose stride divides 512 bits never lets a bucket cross one.
#[derive(Debug)]
#[repr(align(64))]
struct Line<W>([W; WORDS_OF_A_LINE]);

#[derive(Debug)]
pub struct BitArray<W> {
    lines: Box<[Line<W>]>,
    words: usize,
}

impl<W: Word> BitArray<W> {
    /// An array of zeros with room for `bits`.
    pub fn new(bits: u64) -> Self {
        let words = usize::try_from(bits.div_ceil(64)).expect("the address space holds the array");
        let lines = (0..words.div_ceil(WORDS_OF_A_LINE)).map(|_| Line(std::array::from_fn(|_| W::new(0))));
        Self { lines: lines.collect(), words }
    }

    /// Words that hold data; the rest of the last line is zero.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Bytes of memory behind the array.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line<W>>()
    }

    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.lines[index / WORDS_OF_A_LINE].0[index % WORDS_OF_A_LINE].load()
    }

    #[inline(always)]
    pub fn set_word(&self, index: usize, value: u64) {
        self.lines[index / WORDS_OF_A_LINE].0[index % WORDS_OF_A_LINE].store(value);
    }

    #[inline(always)]
    pub fn bit(&self, offset: u64) -> u32 {
        (self.word((offset / 64) as usize) >> (offset % 64)) as u32 & 1
    }

    pub fn flip(&self, offset: u64) {
        let index = (offset / 64) as usize;
        self.set_word(index, self.word(index) ^ 1 << (offset % 64));
    }

    /// A field of 1 to 64 bits.
    ///
    /// Without a branch: whether a field crosses words is as good as random, and a branch that is mispredicted after a cache miss
    /// throws away the lookups that the core has begun behind it.
    #[inline(always)]
    pub fn field(&self, offset: u64, width: u32) -> u64 {
        let shift = (offset % 64) as u32;
        let low = self.word((offset / 64) as usize) >> shift;
        // The word of the last bit: the next one, or the same again, whose bits then land above the mask.
        let high = self.word(((offset + u64::from(width) - 1) / 64) as usize) << 1 << (63 - shift);
        (low | high) & mask(width)
    }

    pub fn set_field(&self, offset: u64, width: u32, value: u64) {
        let (index, shift) = ((offset / 64) as usize, (offset % 64) as u32);
        let value = value & mask(width);
        self.set_word(index, self.word(index) & !(mask(width) << shift) | value << shift);
        if shift + width > 64 {
            let above = 64 - shift;
            self.set_word(index + 1, self.word(index + 1) & !(mask(width) >> above) | value >> above);
        }
    }
}

/// `width` ones, for widths of 1 to 64.
#[inline(always)]
pub const fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

#[cfg(test)]
mod tests;
