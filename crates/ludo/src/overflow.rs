//! Seeds that do not fit into five bits, exactly, by bucket.
//!
//! Open addressing with linear probing over words of `(bucket + 1) << 16 | seed`; zero is free. One place always stays free,
//! so that a search ends. Removal moves later entries back, which readers do not notice: a sequence lock covers them.

use crate::bits::BitArray;
use crate::word::Word;

#[derive(Debug)]
pub struct Overflow<W> {
    places: BitArray<W>,
}

const SEED_SHIFT: u32 = 16;
/// 2³² / golden ratio: neighbouring buckets get homes far apart.
const SPREAD: u32 = 0x9e37_79b9;

impl<W: Word> Overflow<W> {
    pub fn new(places: u64) -> Self {
        Self { places: BitArray::new(places * 64) }
    }

    /// The words as they are serialised.
    pub fn array(&self) -> &BitArray<W> {
        &self.places
    }

    fn home(&self, bucket: u64) -> usize {
        let spread = (bucket as u32).wrapping_mul(SPREAD);
        ((u64::from(spread) * self.places.words() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.places.words() { 0 } else { place + 1 }
    }

    /// The place of a bucket's entry, or the free place where it would go. None when a whole round finds neither, which
    /// happens only to a reader that the writer overtakes.
    fn place(&self, bucket: u64) -> Option<(usize, u64)> {
        let mut place = self.home(bucket);
        for _ in 0..self.places.words() {
            let entry = self.places.word(place);
            if entry == 0 || entry >> SEED_SHIFT == bucket + 1 {
                return Some((place, entry));
            }
            place = self.after(place);
        }
        None
    }

    #[cold]
    pub fn seed(&self, bucket: u64) -> Option<u16> {
        let (_, entry) = self.place(bucket)?;
        (entry != 0).then_some(entry as u16)
    }

    /// Writes an entry; whether it is a new one. The caller has seen to the room.
    pub fn set(&self, bucket: u64, seed: u16) -> bool {
        let (place, entry) = self.place(bucket).expect("the overflow table has a free place");
        self.places.set_word(place, (bucket + 1) << SEED_SHIFT | u64::from(seed));
        entry == 0
    }

    /// Removes a bucket's entry; whether there was one.
    pub fn remove(&self, bucket: u64) -> bool {
        let Some((mut hole, entry)) = self.place(bucket) else { return false };
        if entry == 0 {
            return false;
        }
        let mut next = hole;
        loop {
            next = self.after(next);
            let entry = self.places.word(next);
            if entry == 0 {
                break;
            }
            // An entry may fill the hole unless its home lies behind the hole, cyclically.
            let home = self.home((entry >> SEED_SHIFT) - 1);
            let stays = if hole <= next { hole < home && home <= next } else { hole < home || home <= next };
            if !stays {
                self.places.set_word(hole, entry);
                hole = next;
            }
        }
        self.places.set_word(hole, 0);
        true
    }

    /// All entries: bucket and seed.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u16)> {
        let words = (0..self.places.words()).map(|place| self.places.word(place)).filter(|entry| *entry != 0);
        words.map(|entry| ((entry >> SEED_SHIFT).wrapping_sub(1), entry as u16))
    }
}

#[cfg(test)]
mod tests;
