//! Latches on ranges of extents: a request that changes blocks has them alone, in the order of asking. Requests that read them may share them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::ids::ExtentId;

/// A range of an extent's blocks that is held or waited for.
struct Entry {
    ticket: u64,
    blocks: Range<u64>,
    is_shared: bool,
    /// While it is waited for.
    granted: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Queues {
    next_ticket: u64,
    of: HashMap<ExtentId, Vec<Entry>>,
}

/// All latches of a store.
#[derive(Clone, Default)]
pub struct Latches {
    queues: Arc<Mutex<Queues>>,
}

/// A range that is held until this is dropped.
pub struct Latch {
    queues: Arc<Mutex<Queues>>,
    extent: ExtentId,
    ticket: u64,
}

impl Latches {
    /// Waits until all that was asked for before and overlaps has ended.
    pub async fn take(&self, extent: ExtentId, blocks: Range<u64>) -> Latch {
        self.get(extent, blocks, false).await
    }

    /// Waits until all changes that were asked for before and overlap have ended.
    pub async fn share(&self, extent: ExtentId, blocks: Range<u64>) -> Latch {
        self.get(extent, blocks, true).await
    }

    async fn get(&self, extent: ExtentId, blocks: Range<u64>, is_shared: bool) -> Latch {
        let (latch, wait) = {
            let mut queues = self.queues.lock();
            let ticket = queues.next_ticket;
            queues.next_ticket += 1;
            let queue = queues.of.entry(extent).or_default();
            let mut entry = Entry { ticket, blocks, is_shared, granted: None };
            let mut wait = None;
            if queue.iter().any(|other| excludes(other, &entry)) {
                (entry.granted, wait) = Some(oneshot::channel()).unzip();
            }
            queue.push(entry);
            (Latch { queues: self.queues.clone(), extent, ticket }, wait)
        };
        if let Some(wait) = wait {
            wait.await.expect("an entry that waits is granted before it is dropped");
        }
        latch
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let queue = queues.of.get_mut(&self.extent).expect("a latch has an entry");
        queue.retain(|entry| entry.ticket != self.ticket);
        for index in 0..queue.len() {
            let (before, after) = queue.split_at_mut(index);
            let entry = &mut after[0];
            if entry.granted.is_some() && !before.iter().any(|other| excludes(other, entry)) {
                let granted = entry.granted.take().expect("it waits");
                // The request may be gone; its latch is then being dropped.
                let _told = granted.send(());
            }
        }
        if queue.is_empty() {
            queues.of.remove(&self.extent);
        }
    }
}

fn excludes(one: &Entry, other: &Entry) -> bool {
    let overlap = one.blocks.start < other.blocks.end && other.blocks.start < one.blocks.end;
    overlap && !(one.is_shared && other.is_shared)
}
