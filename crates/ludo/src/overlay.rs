//! The overlay: keys whose classifier edge would close a cycle, exactly, with the bucket each is in.
//!
//! At capacity an insertion closes a cycle with a probability of about 3 / n, so a handful of entries serves until a new
//! classifier is ready. They lie in a row and are searched one by one: that is quicker than hashing while they are few, and
//! costs one look at the count while there are none.
//!
//! ```text
//! len: entries   choices: bit i = choice of entry i   digests: words 2i, 2i + 1: digest of entry i
//! ```

use crate::bits::BitArray;
use crate::hash::Digest;
use crate::word::Word;

/// Most keys that wait for a new classifier.
pub const OVERLAY_CAPACITY: usize = 64;
pub const OVERLAY_BITS: u64 = (2 + 2 * OVERLAY_CAPACITY as u64) * 64;

#[derive(Debug)]
pub struct Overlay<W> {
    /// Not in the array: every lookup looks at it.
    len: W,
    choices: W,
    digests: BitArray<W>,
}

impl<W: Word> Overlay<W> {
    pub fn new() -> Self {
        Self { len: W::new(0), choices: W::new(0), digests: BitArray::new(OVERLAY_BITS - 128) }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        // A reader may see any bits while the writer writes; it must not leave the array.
        (self.len.load() as usize).min(OVERLAY_CAPACITY)
    }

    /// The bucket choice of a key that is held here.
    #[inline(always)]
    pub fn choice(&self, digest: Digest) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        self.search(digest)
    }

    #[cold]
    fn search(&self, digest: Digest) -> Option<u32> {
        self.position(digest).map(|position| self.choice_at(position))
    }

    fn choice_at(&self, position: usize) -> u32 {
        (self.choices.load() >> position) as u32 & 1
    }

    fn position(&self, digest: Digest) -> Option<usize> {
        (0..self.len()).find(|position| self.digest_at(*position) == digest)
    }

    fn digest_at(&self, position: usize) -> Digest {
        Digest { x: self.digests.word(2 * position), y: self.digests.word(2 * position + 1) }
    }

    /// All entries in their order.
    pub fn entries(&self) -> impl Iterator<Item = (Digest, u32)> {
        (0..self.len()).map(|position| (self.digest_at(position), self.choice_at(position)))
    }

    /// Adds an entry or changes its choice. The caller has seen to the room.
    pub fn put(&self, digest: Digest, choice: u32) {
        let position = self.position(digest).unwrap_or_else(|| {
            let position = self.len();
            assert!(position < OVERLAY_CAPACITY, "the overlay has room");
            self.write(position, digest, choice);
            self.len.store(position as u64 + 1);
            position
        });
        self.write(position, digest, choice);
    }

    /// Removes an entry, if it is there: the last one takes its place.
    pub fn remove(&self, digest: Digest) {
        let Some(position) = self.position(digest) else { return };
        let last = self.len() - 1;
        self.write(position, self.digest_at(last), self.choice_at(last));
        self.len.store(last as u64);
    }

    fn write(&self, position: usize, digest: Digest, choice: u32) {
        self.digests.set_word(2 * position, digest.x);
        self.digests.set_word(2 * position + 1, digest.y);
        let bit = 1 << position;
        let others = self.choices.load() & !bit;
        self.choices.store(others | if choice == 1 { bit } else { 0 });
    }
}
