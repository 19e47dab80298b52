//! A bit array of words that readers may read while the writer writes.
//!
//! Fields have any offset and up to 64 bits; wider ones are read in pieces. A field that crosses words is not read at once:
//! the sequence lock around the array makes it consistent.

use crate::word::Word;

/// Bytes of a cache line, at whose beginning an array begins: one whose stride divides 512 bits then never lets a bucket cross a line.
pub const LINE_BYTES: usize = 64;
const WORDS_OF_A_LINE: usize = LINE_BYTES / 8;

#[derive(Debug)]
pub struct BitArray<W> {
    /// Words that do nothing but align the array; then the array, padded to whole lines. One flat slice, because the index of a
    /// line and of a word in it would cost every access several instructions more.
    allocated: Box<[W]>,
    start: usize,
    words: usize,
}

impl<W: Word> BitArray<W> {
    /// An array of zeros with room for `bits`.
    pub fn new(bits: u64) -> Self {
        let words = usize::try_from(bits.div_ceil(64)).expect("the address space holds the array");
        let places = words.next_multiple_of(WORDS_OF_A_LINE) + WORDS_OF_A_LINE - 1;
        let allocated: Box<[W]> = (0..places).map(|_| W::new(0)).collect();
        let start = allocated.as_ptr().align_offset(LINE_BYTES);
        // The words of the model checker are larger, and need not lie anywhere.
        let start = if start < WORDS_OF_A_LINE { start } else { 0 };
        Self { allocated, start, words }
    }

    /// Words that hold data; the rest of the last line is zero.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Bytes of memory behind the array.
    pub fn memory_bytes(&self) -> usize {
        self.allocated.len() * size_of::<W>()
    }

    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.allocated[self.start + index].load()
    }

    /// Asks for the word's cache line before anything needs it.
    #[inline(always)]
    pub fn touch(&self, index: usize) {
        self.allocated[self.start + index].touch();
    }

    #[inline(always)]
    pub fn set_word(&self, index: usize, value: u64) {
        self.allocated[self.start + index].store(value);
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
