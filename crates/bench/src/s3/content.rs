//! Bodies that follow from the key: written without copying, checked byte for byte.
//!
//! A body is a stamp of 16 bytes (hash of the name, size) and then a cyclic walk through one shared pool of pseudorandom
//! bytes, from a start that the name chooses. The pool's length is prime, so no two blocks of one body are equal before
//! the walk has gone round 4,096 times, and a block of another object, or of another place in the same object, is noticed.
//! A PUT sends slices of the pool itself: making 4 KiB costs no more than choosing its start.

use std::io::IoSlice;
use std::sync::OnceLock;

use crate::random::mix64;

/// Length of the shared pool: the largest prime below 4 MiB.
pub const POOL_BYTES: usize = 4_194_301;

/// Length of the stamp that opens a body.
pub const STAMP_BYTES: usize = 16;

/// The body of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    stamp: [u8; STAMP_BYTES],
    start: usize,
    size: u64,
}

/// A byte that is not the one written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} is {found:#04x}, expected {expected:#04x}")]
pub struct Mismatch {
    /// Offset in the body.
    pub offset: u64,
    /// What the key implies.
    pub expected: u8,
    /// What came.
    pub found: u8,
}

impl Content {
    /// The body of `size` bytes of the object whose name has this hash.
    pub fn new(name_hash: u64, size: u64) -> Self {
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&name_hash.to_le_bytes());
        stamp[8..].copy_from_slice(&size.to_le_bytes());
        let start = (mix64(name_hash) % POOL_BYTES as u64) as usize;
        Content { stamp, start, size }
    }

    /// An empty body.
    pub fn empty() -> Self {
        Content { stamp: [0; STAMP_BYTES], start: 0, size: 0 }
    }

    /// Bytes in the body.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The longest run of contiguous bytes from `offset`; empty at the end.
    pub fn run(&self, offset: u64) -> &[u8] {
        let left = self.size.saturating_sub(offset);
        if left == 0 {
            return &[];
        }
        if offset < STAMP_BYTES as u64 {
            let end = self.size.min(STAMP_BYTES as u64) as usize;
            return &self.stamp[offset as usize..end];
        }
        let walked = (offset - STAMP_BYTES as u64) % POOL_BYTES as u64;
        let place = (self.start + walked as usize) % POOL_BYTES;
        let length = left.min((POOL_BYTES - place) as u64) as usize;
        &pool()[place..place + length]
    }

    /// Appends up to three runs from `offset` to `slices`: enough for 4 MiB, more than a socket takes at once.
    pub fn gather<'a>(&'a self, mut offset: u64, slices: &mut Gather<'a>) {
        for _ in 0..3 {
            let run = self.run(offset);
            if run.is_empty() {
                return;
            }
            offset += run.len() as u64;
            slices.push(run);
        }
    }

    /// Compares bytes that came at `offset` with the body.
    pub fn check(&self, mut offset: u64, mut found: &[u8]) -> Result<(), Mismatch> {
        while !found.is_empty() {
            let run = self.run(offset);
            if run.is_empty() {
                return Err(Mismatch { offset, expected: 0, found: found[0] });
            }
            let length = run.len().min(found.len());
            if run[..length] != found[..length] {
                let first = run.iter().zip(found).position(|(a, b)| a != b).expect("the slices differ");
                return Err(Mismatch { offset: offset + first as u64, expected: run[first], found: found[first] });
            }
            offset += length as u64;
            found = &found[length..];
        }
        Ok(())
    }
}

/// Slices for one vectored write: a head, a stamp and two runs of the pool at most.
pub struct Gather<'a> {
    slices: [IoSlice<'a>; Gather::LIMIT],
    count: usize,
}

impl Default for Gather<'_> {
    fn default() -> Self {
        Gather { slices: [IoSlice::new(&[]); Gather::LIMIT], count: 0 }
    }
}

impl<'a> Gather<'a> {
    /// Most slices of one write.
    pub const LIMIT: usize = 4;

    /// Adds one; an empty slice is left out.
    pub fn push(&mut self, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.slices[self.count] = IoSlice::new(bytes);
            self.count += 1;
        }
    }

    /// All of them.
    pub fn slices(&self) -> &[IoSlice<'a>] {
        &self.slices[..self.count]
    }
}

fn pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut bytes = Vec::with_capacity(POOL_BYTES + 8);
        let mut word = 0u64;
        while bytes.len() < POOL_BYTES {
            bytes.extend_from_slice(&mix64(word).to_le_bytes());
            word += 1;
        }
        bytes.truncate(POOL_BYTES);
        bytes
    })
}

/// Hash of an object's name, from which its size and content follow.
pub fn name_hash(name: &[u8]) -> u64 {
    let mut hash = name.len() as u64;
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix64(hash ^ u64::from_le_bytes(word));
    }
    hash
}
