//! Straw2: a weighted choice that moves little when its items change (CRUSH, Weil et al. 2006, with the straw2 bucket of Ceph).
//!
//! Each item draws a straw for the question at hand: `-log2(u) / weight`, where `u` is a number in (0, 1] that only the question and the
//! item decide. The shortest straw wins. These are exponentially distributed with the weights as rates, so an item wins a share of the
//! questions that is its share of the weight; and as no straw depends on another item, an item that comes or goes, or whose weight
//! changes, moves only the questions that it wins or loses.
//!
//! Everything is integer arithmetic: all processes of a cluster have to come to the same choice.

/// Bits behind the point of a logarithm.
const FRACTION_BITS: u32 = 32;
/// Bits of the mantissa that pick an entry of [`LOGARITHMS`]; the rest interpolates between two.
const INDEX_BITS: u32 = 8;

/// `log2(1 + i / 256)` with [`FRACTION_BITS`] bits behind the point. Between two entries a straight line is off by less than 2^-18.
static LOGARITHMS: [u64; (1 << INDEX_BITS) + 1] = logarithms();

const fn logarithms() -> [u64; (1 << INDEX_BITS) + 1] {
    let mut table = [0; (1 << INDEX_BITS) + 1];
    let mut index = 0;
    while index < 1 << INDEX_BITS {
        table[index] = fraction_of_log2((1 << 62) | ((index as u64) << (62 - INDEX_BITS)));
        index += 1;
    }
    table[1 << INDEX_BITS] = 1 << FRACTION_BITS;
    table
}

/// The logarithm of a number in [1, 2) that has 62 bits behind the point. Squaring doubles a logarithm: each square that reaches 2 has
/// brought a one over the point.
const fn fraction_of_log2(mut number: u64) -> u64 {
    let mut bits = 0;
    let mut place = 0;
    while place < FRACTION_BITS {
        let square = ((number as u128 * number as u128) >> 62) as u64;
        bits <<= 1;
        number = square;
        if square >= 1 << 63 {
            bits |= 1;
            number = square >> 1;
        }
        place += 1;
    }
    bits
}

/// `-log2(u)` of `u = hash / 2^64`, with [`FRACTION_BITS`] bits behind the point.
fn negative_log2(hash: u64) -> u64 {
    let hash = hash.max(1);
    let zeros = hash.leading_zeros();
    // The leading one is the integer part; the mantissa's first bits pick the entry, the next 32 interpolate.
    let mantissa = (hash << zeros) << 1;
    let index = (mantissa >> (64 - INDEX_BITS)) as usize;
    let between = (mantissa << INDEX_BITS) >> 32;
    let (from, to) = (LOGARITHMS[index], LOGARITHMS[index + 1]);
    let fraction = from + (((to - from) * between) >> 32);
    ((u64::from(zeros) + 1) << FRACTION_BITS) - fraction
}

/// Scatters the bits of a number (the finaliser of SplitMix64).
pub(crate) fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// One item's straw.
#[derive(Clone, Copy)]
struct Straw {
    length: u64,
    weight: u64,
    item: u64,
}

impl Straw {
    fn drawn(question: u64, item: u64, weight: u64) -> Straw {
        // An item without weight would never be chosen, not even when nothing else is left.
        Straw { length: negative_log2(scatter(question ^ scatter(item))), weight: weight.max(1), item }
    }

    fn is_shorter_than(&self, other: &Straw) -> bool {
        // length / weight, compared without dividing: 38 and 64 bits fit.
        let (own, others) =
            (u128::from(self.length) * u128::from(other.weight), u128::from(other.length) * u128::from(self.weight));
        own < others || (own == others && self.item < other.item)
    }
}

/// The item that wins a question, by weight; none if there is none. Items are named by numbers that stay theirs.
pub fn choose(question: u64, items: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    let mut shortest: Option<Straw> = None;
    for (item, weight) in items {
        let straw = Straw::drawn(question, item, weight);
        if shortest.is_none_or(|shortest| straw.is_shorter_than(&shortest)) {
            shortest = Some(straw);
        }
    }
    shortest.map(|straw| straw.item)
}

#[cfg(test)]
mod tests;
