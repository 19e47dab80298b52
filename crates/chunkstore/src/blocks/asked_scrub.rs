//! A scrub that a person asks for: one round over all contents at once, and then a wait until what was found is made again.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use format::chunk_block::{BlockEntry, CopyState};
use subsystem::{AskedScrub, ScrubStep};

use super::ailing::Rotten;
use super::limits::{HEAL_LOOK, HEAL_PATIENCE, MAX_ROTTEN, SCRUB_MIB_PER_S};
use super::{BlockStore, Inner};

/// Clients that use the chunks meanwhile should not feel it.
const BYTES_PER_US: u64 = (SCRUB_MIB_PER_S << 20) / 1_000_000;

impl BlockStore {
    /// Begins a scrub, unless one is under way.
    pub fn begin_scrub(&self) -> AskedScrub {
        let mut asked = self.inner.asked_scrub.lock();
        match *asked {
            Some(scrub) if scrub.step != ScrubStep::Done => scrub,
            _ => {
                let (device, bytes) = (self.inner.volume.device(), self.inner.content_bytes());
                let scrub = AskedScrub { device, step: ScrubStep::Reading, bytes, read_bytes: 0, damaged: 0, left: 0 };
                *asked = Some(scrub);
                self.inner.env.spawn(run(Arc::downgrade(&self.inner)));
                scrub
            }
        }
    }

    /// How far the last one is that was asked for.
    pub fn asked_scrub(&self) -> Option<AskedScrub> {
        *self.inner.asked_scrub.lock()
    }
}

impl Inner {
    fn content_bytes(&self) -> u64 {
        let work = self.work.lock();
        let live = |block| work.machine.entries_of(block).filter(|entry: &&BlockEntry| entry.state == CopyState::Live);
        (0..self.block_count).flat_map(live).map(|entry| u64::from(entry.length)).sum()
    }

    fn update_scrub(&self, update: impl FnOnce(&mut AskedScrub)) {
        if let Some(scrub) = self.asked_scrub.lock().as_mut() {
            update(scrub);
        }
    }
}

/// Ends with the store.
async fn run(store: Weak<Inner>) -> Option<()> {
    let mut found: BTreeSet<Rotten> = BTreeSet::new();
    let (env, blocks) = store.upgrade().map(|inner| (inner.env.clone(), inner.block_count))?;
    let (began, mut read_bytes) = (env.now(), 0_u64);
    for block in 0..blocks {
        env.sleep_until(began + Duration::from_micros(read_bytes / BYTES_PER_US)).await;
        let inner = store.upgrade()?;
        for entry in inner.contents_of(block) {
            if let Some(rotten) = inner.scrub_copy(block, &entry).await
                && found.len() < MAX_ROTTEN
            {
                found.insert(rotten);
            }
            read_bytes += u64::from(entry.length);
            inner.update_scrub(|scrub| {
                scrub.read_bytes = read_bytes;
                (scrub.damaged, scrub.left) = (found.len() as u64, found.len() as u64);
            });
        }
    }
    let until = env.now() + HEAL_PATIENCE;
    store.upgrade()?.update_scrub(|scrub| scrub.step = ScrubStep::Healing);
    loop {
        {
            let inner = store.upgrade()?;
            let left = found.iter().filter(|copy| inner.is_rotten(copy)).count() as u64;
            let is_over = left == 0 || env.now() >= until;
            inner.update_scrub(|scrub| {
                scrub.left = left;
                scrub.step = if is_over { ScrubStep::Done } else { ScrubStep::Healing };
            });
            if is_over {
                return Some(());
            }
        }
        env.sleep(HEAL_LOOK).await;
    }
}
