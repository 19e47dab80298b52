//! A bit array of words that readers may read while the writer writes.
//!
//! Fields have any offset; those that are written have up to 64 bits, and wider ones are written in pieces. A field that crosses words is not read at once:
//! the sequence lock around the array makes it consistent.

use crate::value::ValueWords;
use crate::word::Word;

/// Bytes of a cache line, at whose beginning an array begins: one whose stride divides 512 bits then never lets a bucket cross a line.
pub const LINE_BYTES: usize = 64;
const WORDS_OF_A_LINE: usize = LINE_BYTES / 8;

#[derive(Debug)]
pub struct BitArray<W> {
    /// Words that do nothing but align the array; then the array, padded to whole lines, and at least one word more. One flat slice, because the index of a
    /// line and of a word in it would cost every access several instructions more.
    allocated: Box<[W]>,
    start: usize,
    /// The bits of the words before the array.
    origin: u64,
    words: usize,
}

/// A bit of an array, counted from its allocation's beginning: what lies before the array is added once to a position, and not to
/// the index of every word that is read there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position(u64);

impl Position {
    #[inline(always)]
    pub fn after(self, bits: u64) -> Self {
        Self(self.0 + bits)
    }

    /// One of two, 0 or 1. Without a branch: which one is as good as random.
    #[inline(always)]
    pub fn one_of([first, second]: [Self; 2], choice: u32) -> Self {
        Self(first.0 ^ (first.0 ^ second.0) & u64::from(choice).wrapping_neg())
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 / 64) as usize
    }
}

/// A field's width, and what reading would work out from it every time.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Bits from its first to its last.
    span: u64,
    /// Ones where the field has bits in the last of its words.
    mask: u64,
    /// Ones where it has bits in the first two.
    masks: [u64; 2],
    /// Words that hold it when it begins at a word.
    words: usize,
}

impl Field {
    /// A field of 1 bit or more.
    pub const fn new(width: u32) -> Self {
        let mask = mask((width - 1) % 64 + 1);
        let masks = if width <= 64 { [mask, 0] } else { [u64::MAX, mask] };
        Self { span: width as u64 - 1, mask, masks, words: width.div_ceil(64) as usize }
    }
}

impl<W: Word> BitArray<W> {
    /// An array of zeros with room for `bits`.
    pub fn new(bits: u64) -> Self {
        let words = usize::try_from(bits.div_ceil(64)).expect("the address space holds the array");
        let places = words.next_multiple_of(WORDS_OF_A_LINE) + WORDS_OF_A_LINE;
        let allocated: Box<[W]> = (0..places).map(|_| W::new(0)).collect();
        let start = allocated.as_ptr().align_offset(LINE_BYTES);
        // The words of the model checker are larger, and need not lie anywhere.
        let start = if start < WORDS_OF_A_LINE { start } else { 0 };
        Self { allocated, start, origin: start as u64 * 64, words }
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

    #[inline(always)]
    pub fn set_word(&self, index: usize, value: u64) {
        self.allocated[self.start + index].store(value);
    }

    /// The position of one of the array's bits.
    #[inline(always)]
    pub fn position(&self, offset: u64) -> Position {
        Position(self.origin + offset)
    }

    #[inline(always)]
    fn word_at(&self, position: Position) -> u64 {
        self.allocated[position.index()].load()
    }

    /// The word of a position and the one after it, which is there even for the last.
    #[inline(always)]
    fn two_words_at(&self, position: Position) -> [u64; 2] {
        let index = position.index();
        let words = &self.allocated[index..index + 2];
        [words[0].load(), words[1].load()]
    }

    /// Asks for a bit's cache line before anything needs it.
    #[inline(always)]
    pub fn touch(&self, position: Position) {
        self.allocated[position.index()].touch();
    }

    #[inline(always)]
    pub fn bit(&self, offset: u64) -> u32 {
        self.bit_at(self.position(offset))
    }

    #[inline(always)]
    pub fn bit_at(&self, position: Position) -> u32 {
        (self.word_at(position) >> (position.0 % 64)) as u32 & 1
    }

    pub fn flip(&self, offset: u64) {
        let index = (offset / 64) as usize;
        self.set_word(index, self.word(index) ^ 1 << (offset % 64));
    }

    /// A field of up to 64 bits.
    ///
    /// Always of two words: whether a field crosses them is as good as random, and a branch that is mispredicted after a cache miss
    /// throws away the lookups that the core has begun behind it. Two neighbours need one check of bounds. That the second lies in
    /// the next line though the field does not is rare, and what is read after a bucket's seed or value is mostly in that line.
    #[inline(always)]
    pub fn field(&self, position: Position, field: &Field) -> u64 {
        let [low, high] = self.two_words_at(position);
        joined(low, high, position) & field.mask
    }

    /// A field of up to 128 bits, least significant word first; without a branch, as one of up to 64.
    #[inline(always)]
    pub fn double_field(&self, position: Position, field: &Field) -> [u64; 2] {
        let [low, middle] = self.two_words_at(position);
        // The word of the last bit and not the third one: the last slot of a cache line ends in the second.
        let high = self.word_at(position.after(field.span));
        [joined(low, middle, position) & field.masks[0], joined(middle, high, position) & field.masks[1]]
    }

    /// A field of up to `words_max` words, least significant first. No word of the array is read twice.
    #[inline(always)]
    pub fn wide_field(&self, position: Position, field: &Field, words_max: usize) -> ValueWords {
        let mut words = ValueWords::default();
        let mut low = self.word_at(position);
        for (index, word) in words.iter_mut().enumerate().take(words_max) {
            if index + 1 == field.words {
                let high = self.word_at(position.after(field.span));
                *word = joined(low, high, position) & field.mask;
                break;
            }
            let high = self.word_at(position.after(64 * (index as u64 + 1)));
            *word = joined(low, high, position);
            low = high;
        }
        words
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

/// 64 bits of two words, from a position in the lower one. As one wide shift, which machines have an instruction for.
#[inline(always)]
const fn joined(low: u64, high: u64, from: Position) -> u64 {
    ((low as u128 | (high as u128) << 64) >> (from.0 % 64)) as u64
}

/// `width` ones, for widths of 1 to 64.
#[inline(always)]
pub const fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

#[cfg(test)]
mod tests;
