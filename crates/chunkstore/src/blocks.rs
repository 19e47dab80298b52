//! The chunks of one device: runs the device's [`StorageNode`] over its volume (docs/rfd/0012).
//!
//! ```text
//!            handle ─► StorageNode ─ Write ─► a task of its own ─► volume, durable ─► StorageNode ─ Write, or Answer ─► whoever asked
//!                          └──────── Read ──► whoever asked ─► volume ─► checksum ─► answer
//!
//!   volume   ├─ fences, two slots: 1 MiB ─┼─ block 0: header, two slots │ 4 MiB of data ─┼─ block 1 …
//! ```
//!
//! Invariants:
//! - What is answered as done is durable. In a mode weaker than [`device::SyncMode::Always`] a power cut may also leave a header whose content
//!   is not there: that copy answers that it is damaged.
//! - A request that was begun goes on if nobody waits for it any more.
//! - Content is returned only with the checksum that it was written with.
//! - A write that fails ends its request with a refusal. If the device is sound (a full file system), the block goes on as it was before
//!   that write; else nothing is written any more, since what the medium holds is unknown, and reads go on.
//! - A block whose header can't be read is left alone: it answers that it is damaged, and nothing is written to it but that it is
//!   condemned ([`BlockStore::condemn`]).

mod ailing;
mod asked_scrub;
mod error;
mod fences;
mod heat;
mod layout;
mod limits;
mod load;
mod reading;
mod returning;
mod scrub;
mod stats;
mod work;

pub use error::BlocksError;
pub use heat::DeviceHeat;
pub(crate) use layout::STRIDES;
pub use layout::{block_count, volume_bytes};
pub use stats::BlockStats;

use std::sync::Arc;
use std::time::Duration;

use device::Volume;
use env::Env;
use format::chunk_id::{ChunkId, ShardId};
use net::BoxFuture;
use subsystem::AskedScrub;
use tokio::sync::{Notify, Semaphore};
use types::DeviceId;

use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::StorageNode;
use ailing::Ailing;
use fences::Fences;
use heat::Heat;
use limits::MAX_READS;
use stats::Counters;
use work::Work;

/// A device's chunks, being served.
pub struct BlockStore {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    volume: Volume,
    block_count: u32,
    ailing: Ailing,
    fences: Fences,
    work: parking_lot::Mutex<Work>,
    /// The last request under way has ended.
    idle: Notify,
    reads: Semaphore,
    counters: Counters,
    heat: Heat,
    /// The last scrub that was asked for.
    asked_scrub: parking_lot::Mutex<Option<AskedScrub>>,
}

impl BlockStore {
    /// Loads the fences and the headers of all blocks that have space.
    pub fn open(env: &Env, volume: Volume) -> BoxFuture<'_, Result<BlockStore, BlocksError>> {
        Box::pin(async move {
            let block_count = layout::block_count(volume.byte_count());
            if block_count == 0 {
                let (device, bytes) = (volume.device(), volume.byte_count());
                return Err(BlocksError::TooSmall { device, bytes, least: volume_bytes(1) });
            }
            let loaded = load::load(&volume, block_count).await?;
            let machine = StorageNode::new(volume.device_uuid(), block_count, loaded.headers, loaded.fences.clone());
            let counters = Counters::default();
            counters.blocks_damaged.add((loaded.damaged.len() + loaded.condemned.len()) as u64);
            counters.headers_fallen_back.add(loaded.fallen_back);
            let inner = Inner {
                env: env.clone(),
                fences: Fences::new(volume.clone(), loaded.fences, loaded.sequence),
                volume,
                block_count,
                ailing: Ailing::new(loaded.damaged, loaded.condemned),
                work: parking_lot::Mutex::new(Work::new(machine, loaded.vacant)),
                idle: Notify::new(),
                reads: Semaphore::new(MAX_READS),
                counters,
                heat: Heat::default(),
                asked_scrub: parking_lot::Mutex::default(),
            };
            Ok(BlockStore { inner: Arc::new(inner) })
        })
    }

    /// Carries out a request about a chunk in a block. It goes on if the future is dropped after its first poll.
    pub async fn handle(&self, block: u32, id: ChunkId, request: NodeRequest) -> NodeAnswer {
        let inner = &self.inner;
        inner.counters.requests.add(1);
        inner.heat.note(id, block);
        let brought_bytes = matches!(request, NodeRequest::Bring { .. }).then(|| request.content_bytes() as u64);
        let mended =
            if let NodeRequest::Mend { version, is_compared, .. } = request { Some((version, is_compared)) } else { None };
        let answer = match (inner.ailing.is_damaged(block), request.only_reads()) {
            (true, true) => NodeAnswer::Damaged,
            (true, false) => NodeAnswer::Refused(NodeRefusal::Failed),
            (false, true) => inner.read(block, id, &request).await,
            (false, false) => inner.change(block, id, request).await,
        };
        if let (Some((version, is_compared)), NodeAnswer::Done(Some(Mark::Live(held)))) = (mended, &answer) {
            inner.was_mended((block, id), version, *held, is_compared);
        }
        inner.counters.count_answer(&answer);
        if let (Some(bytes), NodeAnswer::Done(_)) = (brought_bytes, &answer) {
            inner.counters.count_brought(bytes);
        }
        answer
    }

    /// Up to `limit` chunks of a shard whose copies here are dead: what the shard's unit is told until it has them forgotten.
    pub fn freed(&self, shard: ShardId, limit: usize) -> Vec<ChunkId> {
        self.inner.work.lock().machine.freed(shard, limit)
    }

    /// How the device was used lately, and up to `most` copies that are asked for most. Ends the window that began with the last look, or the start.
    pub fn look_at_heat(&self, window: Duration, most: usize) -> DeviceHeat {
        self.inner.heat.look(window, most)
    }

    /// Whose chunks they are.
    pub fn device(&self) -> DeviceId {
        self.inner.volume.device()
    }

    pub fn block_count(&self) -> u32 {
        self.inner.block_count
    }

    /// Whether the device takes no writes now: one has failed, which is the end of them until the next start, or its disk hangs.
    pub fn is_stuck(&self) -> bool {
        let volume = &self.inner.volume;
        volume.poisoned_by().is_some() || volume.hangs()
    }

    /// What has been done since the store was opened.
    pub fn stats(&self) -> BlockStats {
        self.inner.counters.snapshot()
    }

    /// Refuses what would write from now on, and returns when all that was begun has ended: then the device may be sealed.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.work.lock().is_closed = true;
            loop {
                let idle = self.inner.idle.notified();
                if self.inner.work.lock().is_idle() {
                    break;
                }
                idle.await;
            }
            self.inner.ailing.rest().await;
        })
    }
}

#[cfg(test)]
mod tests;
