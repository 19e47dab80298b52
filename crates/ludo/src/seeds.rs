//! The search for a seed that sends the keys of a bucket to different slots.
//!
//! A seed does so for four keys with probability 4!/4⁴ = 9.4%, for three with 37.5%. The 63 seeds that fit into six bits all
//! fail for 0.51% of the full buckets (0.2% if they were independent, see [`Digest::slot_of_short`]); those go on to longer seeds.
//! 65,536 of them fail with 10⁻²⁸⁰⁰: what makes all of them fail is two keys of one digest, and the answer to that is another
//! hash seed.

use crate::hash::Digest;
use crate::shape::SLOTS;
use crate::table::ESCAPE;
use crate::update::ORDER_KEPT;

/// Whether a seed separates the keys.
pub fn separates(seed: u16, digests: &[Digest]) -> bool {
    let mut taken = 0_u8;
    for digest in digests {
        let bit = 1 << digest.slot(seed);
        if taken & bit != 0 {
            return false;
        }
        taken |= bit;
    }
    true
}

/// The first seed that separates the keys, `preferred` before all others.
pub fn find(preferred: u16, digests: &[Digest]) -> Option<u16> {
    if separates(preferred, digests) {
        return Some(preferred);
    }
    let mut short = u64::MAX;
    for (index, digest) in digests.iter().enumerate() {
        digests[..index].iter().for_each(|other| short &= digest.separating(*other));
    }
    let first = short.trailing_zeros() as u16;
    if first < ESCAPE { Some(first) } else { (ESCAPE..=u16::MAX).find(|seed| separates(*seed, digests)) }
}

/// The order that takes each of the keys from its slot (`sources`) to the one that `seed` gives it.
pub fn order(seed: u16, digests: &[Digest], sources: &[usize]) -> u8 {
    let mut order = ORDER_KEPT;
    for (digest, source) in digests.iter().zip(sources) {
        let shift = 2 * digest.slot(seed);
        order = order & !(3 << shift) | (*source as u8) << shift;
    }
    order
}

const _: () = assert!(SLOTS == 4, "an order has two bits a slot");
