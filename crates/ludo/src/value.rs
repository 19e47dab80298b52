//! Values: up to 256 bits, in the integer types that hold them.

use std::fmt::Debug;

/// Widest value, in bits.
pub const MAX_VALUE_BITS: u32 = 256;
/// Words of the widest value.
pub const VALUE_WORDS: usize = 4;

/// A value as words, least significant first; the words above the value's width are zero.
pub type ValueWords = [u64; VALUE_WORDS];

/// An integer that values are packed from and unpacked to.
pub trait PackedValue: Copy + Eq + Debug + Send + Sync + 'static {
    /// Bits that the type can hold.
    const MAX_BITS: u32;
    fn to_words(self) -> ValueWords;
    /// The words above `MAX_BITS` are zero.
    fn from_words(words: ValueWords) -> Self;
}

macro_rules! small {
    ($($integer:ty),*) => {$(
        impl PackedValue for $integer {
            const MAX_BITS: u32 = <$integer>::BITS;

            #[inline(always)]
            fn to_words(self) -> ValueWords {
                [u64::from(self), 0, 0, 0]
            }

            #[inline(always)]
            fn from_words(words: ValueWords) -> Self {
                words[0] as $integer
            }
        }
    )*};
}

small!(u8, u16, u32, u64);

impl PackedValue for u128 {
    const MAX_BITS: u32 = 128;

    #[inline(always)]
    fn to_words(self) -> ValueWords {
        [self as u64, (self >> 64) as u64, 0, 0]
    }

    #[inline(always)]
    fn from_words(words: ValueWords) -> Self {
        Self::from(words[0]) | Self::from(words[1]) << 64
    }
}

impl PackedValue for ValueWords {
    const MAX_BITS: u32 = MAX_VALUE_BITS;

    #[inline(always)]
    fn to_words(self) -> ValueWords {
        self
    }

    #[inline(always)]
    fn from_words(words: ValueWords) -> Self {
        words
    }
}

/// Whether all bits from `bits` on are zero.
pub fn fits(words: &ValueWords, bits: u32) -> bool {
    words.iter().enumerate().all(|(index, word)| {
        let below = bits.saturating_sub(index as u32 * 64).min(64);
        below == 64 || word >> below == 0
    })
}
