//! What is on a simulated medium, and what is only in its cache.
//!
//! Invariants
//! - `visible` is `durable` with the live sectors of all `cached` writes applied in order; so with no cached writes they are equal.
//! - A sector of a cached write is live until a later durable write covers it: the device then holds only the newer bytes, so
//!   the older ones can come back from no crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::random::Random;
use crate::{BLOCK_BYTES, SECTOR_BYTES};

type Block = [u8; BLOCK_BYTES];
/// Blocks by number; those that are absent are zeros. Equal blocks of the two images share memory.
type Blocks = BTreeMap<u64, Arc<Block>>;

const SECTORS_PER_BLOCK: usize = BLOCK_BYTES / SECTOR_BYTES;
const ZEROS: &[u8] = &[0; BLOCK_BYTES];

#[derive(Default)]
pub(super) struct Image {
    visible: Blocks,
    durable: Blocks,
    cached: Vec<CachedWrite>,
    size: u64,
    durable_size: u64,
}

/// A completed write that is not durable.
struct CachedWrite {
    offset: u64,
    bytes: Vec<u8>,
    /// By sector.
    live: Vec<bool>,
}

impl Image {
    pub(super) fn new(size: u64) -> Image {
        Image { size, durable_size: size, ..Image::default() }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let place = offset + done as u64;
            let within = (place % BLOCK_BYTES as u64) as usize;
            let count = (BLOCK_BYTES - within).min(buf.len() - done);
            let part = &mut buf[done..done + count];
            match self.visible.get(&(place / BLOCK_BYTES as u64)) {
                Some(block) => part.copy_from_slice(&block[within..within + count]),
                None => part.fill(0),
            }
            done += count;
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], is_durable: bool) {
        let all = vec![true; bytes.len() / SECTOR_BYTES];
        self.write_part(offset, bytes, &all, is_durable);
    }

    /// Writes the sectors of `bytes` that `keep` names.
    pub(super) fn write_part(&mut self, offset: u64, bytes: &[u8], keep: &[bool], is_durable: bool) {
        self.grow(offset + bytes.len() as u64);
        put(&mut self.visible, offset, bytes, keep);
        if is_durable {
            put(&mut self.durable, offset, bytes, keep);
            self.durable_size = self.durable_size.max(offset + bytes.len() as u64);
            self.supersede(offset, keep);
        } else {
            self.cached.push(CachedWrite { offset, bytes: bytes.to_vec(), live: keep.to_vec() });
        }
    }

    /// Makes all cached writes durable.
    pub(super) fn flush(&mut self) {
        for write in std::mem::take(&mut self.cached) {
            put(&mut self.durable, write.offset, &write.bytes, &write.live);
        }
        self.durable_size = self.size;
    }

    /// Loses power: of the cached writes a part gets to the medium, in any order, the rest is gone.
    pub(super) fn lose_cache(&mut self, random: &mut Random) {
        let mut cached = std::mem::take(&mut self.cached);
        // The plain outcomes are the likely ones of a real cut, and rare among independent throws.
        match random.below(8) {
            0 => cached.clear(),
            1 => {}
            2 => cached.truncate(random.below(cached.len() as u64 + 1) as usize),
            _ => {
                cached.retain_mut(|write| survives(write, random));
                random.shuffle(&mut cached);
            }
        }
        let mut end = self.durable_size + random.below(self.size - self.durable_size + 1);
        for write in cached {
            put(&mut self.durable, write.offset, &write.bytes, &write.live);
            if write.live.contains(&true) {
                end = end.max(write.offset + write.bytes.len() as u64);
            }
        }
        self.visible = self.durable.clone();
        self.size = end;
        self.durable_size = end;
    }

    /// Changes every sector in the range, wherever it is held.
    pub(super) fn corrupt(&mut self, offset: u64, len: u64, random: &mut Random) {
        let sector = SECTOR_BYTES as u64;
        let end = (offset + len).min(self.size);
        let mut place = offset - offset % sector;
        while place < end {
            let within = random.below(sector.min(self.size - place)) as usize;
            let change = 1 + random.below(255) as u8;
            for blocks in [&mut self.visible, &mut self.durable] {
                let block = blocks.entry(place / BLOCK_BYTES as u64).or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
                Arc::make_mut(block)[(place % BLOCK_BYTES as u64) as usize + within] ^= change;
            }
            for write in &mut self.cached {
                let covers = write.offset..write.offset + write.bytes.len() as u64;
                if covers.contains(&place) {
                    write.bytes[(place - write.offset) as usize + within] ^= change;
                }
            }
            place += sector;
        }
    }

    /// Ends the older cached bytes of the sectors that `keep` names from `offset` on.
    fn supersede(&mut self, offset: u64, keep: &[bool]) {
        let first = offset / SECTOR_BYTES as u64;
        self.cached.retain_mut(|write| {
            let write_first = write.offset / SECTOR_BYTES as u64;
            for (index, live) in write.live.iter_mut().enumerate() {
                let position = (write_first + index as u64).checked_sub(first).map(|position| position as usize);
                if position.and_then(|position| keep.get(position)) == Some(&true) {
                    *live = false;
                }
            }
            write.live.contains(&true)
        });
    }
}

/// Decides what a power cut leaves of one cached write: nothing, all, or some sectors. `false` for nothing.
fn survives(write: &mut CachedWrite, random: &mut Random) -> bool {
    match random.below(3) {
        0 => return false,
        1 => return true,
        _ => {}
    }
    let part = random.part(write.live.len());
    for (live, kept) in write.live.iter_mut().zip(part) {
        *live = *live && kept;
    }
    write.live.contains(&true)
}

/// Puts the sectors of `bytes` that `keep` names into `blocks`.
fn put(blocks: &mut Blocks, offset: u64, bytes: &[u8], keep: &[bool]) {
    assert!(offset.is_multiple_of(BLOCK_BYTES as u64) && bytes.len().is_multiple_of(BLOCK_BYTES), "whole blocks only");
    assert!(keep.len() * SECTOR_BYTES == bytes.len(), "one mark for each sector");
    let first = offset / BLOCK_BYTES as u64;
    let parts = bytes.chunks_exact(BLOCK_BYTES).zip(keep.chunks_exact(SECTORS_PER_BLOCK));
    for (number, (part, keep)) in (first..).zip(parts) {
        if !keep.contains(&true) {
            continue;
        }
        // What was never written is zeros.
        if keep.iter().all(|kept| *kept) && part == ZEROS {
            blocks.remove(&number);
            continue;
        }
        let block = blocks.entry(number).or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
        let block = Arc::make_mut(block);
        let sectors = block.chunks_exact_mut(SECTOR_BYTES).zip(part.chunks_exact(SECTOR_BYTES));
        for ((target, source), _) in sectors.zip(keep).filter(|(_, kept)| **kept) {
            target.copy_from_slice(source);
        }
    }
}
