//! What clients may read: of each word of an extent, the last write that was acknowledged, or a later one whose outcome they don't know. What was read once stays.

use bytes::Bytes;

use crate::ids::ExtentId;

pub const WORD: u64 = 4;

/// A write. Its number stands in each of its words, so that bytes of another file are known for what they are.
pub type WriteNumber = u32;

/// An extent as its one client knows it.
#[derive(Debug)]
pub struct Known {
    pub extent: ExtentId,
    /// What each word may be.
    words: Vec<Vec<WriteNumber>>,
    /// An append had no good answer: the next one goes elsewhere.
    pub is_sealed: bool,
    /// First and last block that were given back.
    pub punched: Option<std::ops::Range<u64>>,
}

impl Known {
    pub fn new(extent: ExtentId) -> Known {
        Known { extent, words: Vec::new(), is_sealed: false, punched: None }
    }

    /// In bytes.
    pub fn len(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    pub fn appended(&mut self, number: WriteNumber, words: u64) {
        self.words.extend((0..words).map(|_| vec![number]));
    }

    pub fn overwritten(&mut self, first: u64, words: u64, number: WriteNumber, is_acknowledged: bool) {
        for word in &mut self.words[first as usize..(first + words) as usize] {
            if is_acknowledged {
                word.clear();
            }
            word.push(number);
        }
    }

    /// Takes in what was read; what is wrong with it, if something is.
    pub fn read(&mut self, first: u64, found: &[u8]) -> Result<(), String> {
        for (word, found) in (first..).zip(found.chunks_exact(WORD as usize)) {
            let found = WriteNumber::from_le_bytes(found.try_into().expect("a word"));
            let may_be = &mut self.words[word as usize];
            if !may_be.contains(&found) {
                return Err(format!("{:?}, word {word}: {found} was read, and may be one of {may_be:?}", self.extent));
            }
            *may_be = vec![found];
        }
        Ok(())
    }
}

/// Content of a write.
pub fn content(number: WriteNumber, words: u64) -> Bytes {
    number.to_le_bytes().repeat(words as usize).into()
}
