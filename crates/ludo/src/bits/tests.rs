use std::sync::atomic::AtomicU64;

use proptest::prelude::any;

use super::{BitArray, Field, mask};
use crate::word::Word;

const BITS: u64 = 1_000;

fn array(seed: u64) -> BitArray<AtomicU64> {
    let array = BitArray::new(BITS);
    (0..array.words()).for_each(|index| array.set_word(index, crate::hash::fold(seed ^ index as u64, !seed | 1)));
    array
}

#[test]
fn an_array_begins_at_a_cache_line() {
    // Several sizes, because allocators align small and large blocks differently.
    for bits in [1, 1_000, 100_000, 10_000_000] {
        let array = BitArray::<AtomicU64>::new(bits);
        assert_eq!(std::ptr::from_ref(&array.allocated[array.start]).addr() % 64, 0);
        assert_eq!(array.allocated.len(), array.words().next_multiple_of(8) + 8, "a line is spent on that");
        array.touch(array.position(bits - 1));
    }
    assert_eq!(array(1).memory_bytes(), 128 + 64);
    assert_eq!(<AtomicU64 as Word>::new(3).into_inner(), 3);
}

proptest::proptest! {
    #[test]
    fn a_field_is_what_was_written_and_others_stay(offset in 0..BITS - 64, width in 1..=64_u32, value: u64, seed in any::<u64>()) {
        let array = array(seed);
        let before: Vec<u32> = (0..BITS).map(|bit| array.bit(bit)).collect();
        array.set_field(offset, width, value);
        assert_eq!(array.field(array.position(offset), &Field::new(width)), value & mask(width));
        let wide = array.wide_field(array.position(offset), &Field::new(width), 1);
        assert_eq!(wide, [value & mask(width), 0, 0, 0]);
        let double = array.double_field(array.position(offset), &Field::new(width));
        assert_eq!(double, [value & mask(width), 0]);
        for bit in 0..BITS {
            let inside = (offset..offset + u64::from(width)).contains(&bit);
            let expected = if inside { (value >> (bit - offset)) as u32 & 1 } else { before[bit as usize] };
            assert_eq!(array.bit(bit), expected, "bit {bit}");
        }
        array.flip(offset);
        assert_eq!(array.bit(offset), value as u32 & 1 ^ 1);
    }

    #[test]
    fn a_wide_field_is_its_bits(offset in 0..BITS - 256, width in 1..=256_u32, seed: u64) {
        let array = array(seed);
        let found = array.wide_field(array.position(offset), &Field::new(width), 4);
        for bit in 0..256 {
            let expected = if bit < u64::from(width) { array.bit(offset + bit) } else { 0 };
            assert_eq!((found[(bit / 64) as usize] >> (bit % 64)) as u32 & 1, expected, "bit {bit}");
        }
        if width <= 128 {
            assert_eq!(array.double_field(array.position(offset), &Field::new(width)), found[..2]);
        }
    }
}
