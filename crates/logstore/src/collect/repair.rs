//! Making copies of what was written while fewer devices took writes (zstore.md, decision 21: growing to more copies is a new
//! generation and copying in the background).
//!
//! The leader looks through the index, a shard at a time, and then at the runs, whenever a view brings another table, or a device is
//! declared gone. A copy that is on a device that is away counts: the device may come back, and a person says when it will not. Each new
//! copy is published by compare-and-swap, like one that moves, so collection and repair of one key can't overwrite each other (decision
//! 10). A run that lacks copies is written anew.

use super::copy::Moves;
use crate::index::Located;
use crate::large::{Tree, read_tree};
use crate::relocate::Recopy;
use crate::store::{Inner, SHARDS};
use crate::targets::RecordFrame;
use engine::EngineError;
use format::chunk_ref::ChunkRef;
use format::replicas::{Places, ReplicaDevices};
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
        if self.background.repair_at().is_none() || self.check_leads().is_err() {
            return Ok(());
        }
        // Moves of a former leader come first: a copy is added to where a record stands for all.
        self.applied_all().await;
        let (started, mut copied) = (self.env.now(), 0u64);
        while let Some(shard) = self.background.repair_at() {
            if self.check_leads().is_err() {
                return Ok(());
            }
            if shard == SHARDS {
                self.add_copies_of_runs().await?;
                self.background.repaired(shard, None);
                return Ok(());
            }
            for (hash, known) in self.may_lack_copies(shard) {
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
            self.background.repaired(shard, Some(shard + 1));
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    pub(crate) fn repair_left(&self) -> usize {
        let at = self.background.repair_at().filter(|_| self.leads());
        at.map_or(0, |shard| SHARDS + 1 - shard)
    }

    /// Records of a shard with fewer copies than a write has now, and large ones: their chunks went to devices of their own.
    fn may_lack_copies(&self, shard: usize) -> Vec<(KeyHash, Located)> {
        let keys = self.shards[shard].lock();
        let may_lack = |known: &Located| known.is_live() && (known.large || self.lacks_copies(&known.places));
        keys.index().iter().filter(|(_, known)| may_lack(known)).collect()
    }

    fn lacks_copies(&self, places: &Places) -> bool {
        self.targets.kept(places).len() < self.targets.table().copies()
    }

    /// Makes the copies that one record lacks; the bytes that were copied, or read in vain. Of a large object its chunks first: the record
    /// that names them is written anew.
    async fn add_copies(self: &Arc<Self>, hash: &KeyHash, known: Located) -> Result<u64, EngineError> {
        let Some(frame) = self.read_copies(&known).await? else { return Ok(0) };
        if !known.large {
            return self.add_copies_of_small(hash, known, frame).await;
        }
        let Tree { nodes, mut chunks } = read_tree(self, &frame.payload, frame.record.tree_height).await?;
        let mut bytes = COPY_EXTRA_BYTES;
        let is_complete =
            !self.lacks_copies(&known.places) && nodes.iter().chain(&chunks).all(|chunk| !self.lacks_copies(&chunk.places));
        if is_complete {
            return Ok(bytes);
        }
        let mut moves = Moves::new(self);
        for chunk in &mut chunks {
            if self.lacks_copies(&chunk.places) {
                bytes += self.add_copies_of_chunk(chunk, &mut moves).await?;
            }
        }
        self.replace_tree(hash, (known, frame), nodes, chunks, moves).await?;
        self.stats.added_copies.add(1);
        Ok(bytes)
    }

    async fn add_copies_of_small(
        self: &Arc<Self>,
        hash: &KeyHash,
        mut known: Located,
        frame: RecordFrame,
    ) -> Result<u64, EngineError> {
        let (order, bytes) = (known.order, frame.payload.len() as u64 + COPY_EXTRA_BYTES);
        let mut copied = 0;
        while let Some(device) = self.device_without(hash, &known.places, bytes)? {
            copied += bytes;
            if !self.add_copy(frame.record.clone(), frame.payload.clone(), device, &known).await? {
                break;
            }
            self.stats.added_copies.add(1);
            match self.shard(hash).lock().index().newest(hash).filter(|newest| newest.order == order) {
                Some(newest) => known = newest,
                None => break,
            }
        }
        Ok(copied)
    }

    async fn add_copies_of_chunk(self: &Arc<Self>, chunk: &mut ChunkRef, moves: &mut Moves) -> Result<u64, EngineError> {
        let bytes = u64::from(chunk.payload_bytes) + COPY_EXTRA_BYTES;
        let frame = self.read_chunk_frame(chunk).await?;
        let mut copied = 0;
        while let Some(device) = self.device_without(&frame.record.hash, &chunk.places, bytes)? {
            let mut places = self.targets.kept(&chunk.places);
            let mut record = frame.record.clone();
            let devices: SmallVec<[DeviceId; MAX_REPLICAS]> = places.iter().map(|place| place.device).chain([device]).collect();
            record.replica_devices = ReplicaDevices::new(&devices).expect("at most as many as a record may have");
            let (payload, replica) = (frame.payload.clone(), places.len());
            let copy = Recopy { record, payload, order: None, replica, device, moved: true };
            let appended = self.recopy(copy).await?;
            places.push(appended.place);
            chunk.places = Places::new(&places).expect("counted above");
            moves.made(appended.place, appended.frame_bytes as u64);
            copied += bytes;
        }
        Ok(copied)
    }

    /// Writes every run anew that has fewer copies than one has that is written now.
    async fn add_copies_of_runs(self: &Arc<Self>) -> Result<(), EngineError> {
        for run in self.names.layers().runs {
            if run.frames().any(|(places, _)| self.lacks_copies(&places)) {
                env::mark("engine: a run that lacked copies is written anew");
                let level = run.level();
                self.merge(vec![run], level).await?;
            }
        }
        Ok(())
    }

    /// A device for another copy, if one is wanted and a device takes it.
    fn device_without(&self, hash: &KeyHash, places: &Places, bytes: u64) -> Result<Option<DeviceId>, EngineError> {
        if !self.lacks_copies(places) {
            return Ok(None);
        }
        let table = self.targets.table();
        let has: SmallVec<[DeviceId; MAX_REPLICAS]> = self.targets.kept(places).iter().map(|place| place.device).collect();
        let is_writable = |device: DeviceId| self.targets.is_writable(device);
        let has_room = |device: DeviceId| is_writable(device) && self.check_room(device, bytes).is_ok();
        match table.another(hash, &has, has_room) {
            None if table.another(hash, &has, is_writable).is_some() => Err(EngineError::Full),
            device => Ok(device),
        }
    }
}
