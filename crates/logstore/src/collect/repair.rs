//! Making copies of what was written while fewer devices took writes (zstore.md, decision 21: growing to more copies is a new
//! generation and copying in the background).
//!
//! The leader looks through the index, a shard at a time, whenever a view brings another table, or a device is declared gone. A copy that
//! is on a device that is away counts: the device may come back, and a person says when it will not. Each new copy is published by
//! compare-and-swap, like one that moves, so collection and repair of one key can't overwrite each other (decision 10).

use super::copy::Moves;
use crate::index::Located;
use crate::large::{Tree, read_tree};
use crate::relocate::Recopy;
use crate::store::{Inner, SHARDS};
use engine::EngineError;
use format::chunk_ref::ChunkRef;
use format::replicas::Places;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, KeyHash};

/// How long one round repairs before checkpoints and collection have their turn.
const ROUND: Duration = Duration::from_millis(500);
/// What a copy takes beside its payload.
const COPY_EXTRA_BYTES: u64 = 4096;

impl Inner {
    /// Makes copies for a while, if records may lack some and this gateway leads.
    pub(crate) async fn repair_copies(self: &Arc<Self>) -> Result<(), EngineError> {
        if self.is_alone() || self.background.repair_at().is_none() || self.check_leads().is_err() {
            return Ok(());
        }
        // Moves of a former leader come first: a copy is added to where a record stands for all.
        self.applied_all().await;
        let (started, mut copied) = (self.env.now(), 0u64);
        while let Some(shard) = self.background.repair_at() {
            if self.is_alone() || self.check_leads().is_err() {
                return Ok(());
            }
            for (hash, known) in self.lacking_copies(shard) {
                self.get_in_step().await?;
                copied += self.add_copies(&hash, known).await?;
                // Its share of bandwidth, like collection's.
                let due = Duration::from_micros(copied.saturating_mul(1_000_000) / self.config.collect_bytes_per_second.max(1));
                let elapsed = self.env.now() - started;
                if elapsed < due {
                    self.env.sleep(due - elapsed).await;
                }
                if elapsed > ROUND {
                    self.background.wake();
                    return Ok(());
                }
            }
            let next = Some(shard + 1).filter(|next| *next < SHARDS);
            self.background.repaired(shard, next);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Records of a shard with fewer copies than a write has now.
    fn lacking_copies(&self, shard: usize) -> Vec<(KeyHash, Located)> {
        let wanted = self.targets.table().copies();
        let keys = self.shards[shard].lock();
        let lacks = |known: &Located| known.is_live() && self.targets.kept(&known.places).len() < wanted;
        keys.index().iter().filter(|(_, known)| lacks(known)).collect()
    }

    /// Makes the copies that one record lacks; the bytes that were copied. Of a large object its chunks first: the record that names
    /// them is written anew.
    async fn add_copies(self: &Arc<Self>, hash: &KeyHash, known: Located) -> Result<u64, EngineError> {
        let Some(frame) = self.read_copies(&known).await? else { return Ok(0) };
        if !known.large {
            let Some(device) = self.device_without(&known.places) else { return Ok(0) };
            let bytes = frame.payload.len() as u64 + COPY_EXTRA_BYTES;
            self.check_room(device, bytes)?;
            if self.add_copy(frame.record, frame.payload, device, &known).await? {
                self.stats.added_copies.add(1);
            }
            return Ok(bytes);
        }
        let Tree { nodes, mut chunks } = read_tree(self, &frame.payload, frame.record.tree_height).await?;
        let mut moves = Moves::new(self);
        let mut bytes = 0;
        for chunk in &mut chunks {
            while let Some(device) = self.device_without(&chunk.places) {
                bytes += self.add_chunk_copy(chunk, device, &mut moves).await?;
            }
        }
        self.replace_tree(hash, (known, frame), nodes, chunks, moves).await?;
        self.stats.added_copies.add(1);
        Ok(bytes)
    }

    async fn add_chunk_copy(
        self: &Arc<Self>,
        chunk: &mut ChunkRef,
        device: DeviceId,
        moves: &mut Moves,
    ) -> Result<u64, EngineError> {
        let bytes = u64::from(chunk.payload_bytes) + COPY_EXTRA_BYTES;
        self.check_room(device, bytes)?;
        let frame = self.read_chunk_frame(chunk).await?;
        let mut places = self.targets.kept(&chunk.places);
        let mut record = frame.record;
        let devices: SmallVec<[DeviceId; MAX_REPLICAS]> = places.iter().map(|place| place.device).chain([device]).collect();
        record.replica_devices = format::replicas::ReplicaDevices::new(&devices).expect("at most as many as a record may have");
        let copy = Recopy { record, payload: frame.payload, order: None, replica: places.len(), device, moved: true };
        let appended = self.recopy(copy).await?;
        places.push(appended.place);
        chunk.places = Places::new(&places).expect("counted above");
        moves.made(appended.place, appended.frame_bytes as u64);
        Ok(bytes)
    }

    /// A device of the table that holds no copy, if another one is wanted.
    fn device_without(&self, places: &Places) -> Option<DeviceId> {
        let table = self.targets.table();
        if self.targets.kept(places).len() >= table.copies() {
            return None;
        }
        let has_none = |device: &&DeviceId| places.as_slice().iter().all(|place| place.device != **device);
        table.devices().iter().filter(has_none).find(|device| self.targets.is_writable(**device)).copied()
    }
}
