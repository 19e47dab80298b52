//! The scrub: every content of a device is read from the medium once in a period, so that rot is found while other copies are there.

use std::time::Duration;

use format::chunk_block::{BlockEntry, CopyState};

use super::ailing::Rotten;
use super::limits::SCRUB_PAUSE;
use super::reading::Extent;
use super::{BlockStore, Inner};

/// What a round of a scrub has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    pub copies: u64,
    pub bytes: u64,
    /// Contents that are not what was written.
    pub rotten: u64,
}

impl BlockStore {
    /// Reads all contents again and again, each round within `period`, for as long as it is polled.
    pub async fn scrub(&self, period: Duration) {
        let env = &self.inner.env;
        let blocks = self.inner.block_count;
        // A process that is started often would never come to the last blocks if each began with the first.
        let mut first = env.random_below(u64::from(blocks)) as u32;
        loop {
            let began = env.now();
            let order = (first..blocks).chain(0..first);
            let found = self.scrub_blocks(order, period / blocks.max(1)).await;
            first = 0;
            if found.rotten > 0 {
                tracing::warn!(device = self.inner.volume.device().0, ?found, "a scrub has found chunks that rotted");
            }
            let rest = period.saturating_sub(env.now().saturating_duration_since(began));
            env.sleep(rest.max(SCRUB_PAUSE)).await;
        }
    }

    /// One round, with this pause behind each block that has something.
    pub(super) async fn scrub_blocks(&self, blocks: impl Iterator<Item = u32>, pause: Duration) -> Scrubbed {
        let mut found = Scrubbed::default();
        for block in blocks {
            let contents = self.inner.contents_of(block);
            if contents.is_empty() {
                continue;
            }
            for entry in contents {
                found.copies += 1;
                found.bytes += u64::from(entry.length);
                found.rotten += u64::from(self.inner.scrub_copy(block, &entry).await.is_some());
            }
            self.inner.env.sleep(pause).await;
        }
        found
    }
}

impl Inner {
    pub(super) fn contents_of(&self, block: u32) -> Vec<BlockEntry> {
        let work = self.work.lock();
        work.machine.entries_of(block).filter(|entry| entry.state == CopyState::Live).copied().collect()
    }

    /// Reads a content from the medium; what it is if it is not what was written.
    pub(super) async fn scrub_copy(&self, block: u32, entry: &BlockEntry) -> Option<Rotten> {
        let BlockEntry { id, offset, length, checksum, .. } = *entry;
        let extent = Extent { block, offset, length, checksum };
        if self.content(extent, true).await.is_some() {
            return None;
        }
        let copy = Rotten::new(id, extent);
        // Unless it was written meanwhile.
        if !copy.is_held(&self.work.lock().machine) {
            return None;
        }
        tracing::error!(device = self.volume.device().0, block, %id, "a scrub has found a chunk that rotted");
        self.ailing.note_rotten(copy);
        Some(copy)
    }
}
