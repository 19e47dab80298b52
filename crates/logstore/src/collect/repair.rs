//! Making copies of what was written while fewer devices took writes (RFD 2, decision 21: growing to more copies is a new
//! generation and copying in the background).
//!
//! The leader looks through the index, a shard at a time, and then at the runs, whenever a view brings another table, or a device is
//! declared gone. A copy that is on a device that is away counts: the device may come back, and a person says when it will not. Each new
//! copy is published by compare-and-swap, like one that moves, so collection and repair of one key can't overwrite each other (decision
//! 10). A run that lacks copies is written anew.
//!
//! What a pass has made counts when a checkpoint has it, and before that the pass is not over: a start that finds a copy that was added takes it for
//! nothing, for the last checkpoint says where the record stands.

use super::copy::{COPY_EXTRA_BYTES, Moves};
use super::progress::RepairPoint;
use crate::index::Located;
use crate::large::{Tree, read_tree};
use crate::relocate::Recopy;
use crate::store::{Inner, SHARDS};
use crate::targets::RecordFrame;
use engine::EngineError;
use env::Instant;
use format::chunk_ref::ChunkRef;
use format::replicas::{Places, ReplicaDevices};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, KeyHash};

/// How long one round repairs before checkpoints and collection have their turn.
const ROUND: Duration = Duration::from_millis(500);
/// Pause before everything is looked through again because something could not get its copies.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How often that pause doubles while passes fail.
const MOST_DOUBLINGS: u32 = 2;
/// Records that get copies at once, so that a device writes many with one request.
const REPAIRS_AT_ONCE: usize = 64;
/// Copies of one record that are made before others have their turn, those that were in vain among them.
const MOST_ATTEMPTS: usize = 2 * MAX_REPLICAS;

impl Inner {
    /// Makes copies for a while, if records may lack some and this gateway leads.
    pub(crate) async fn repair_copies(self: &Arc<Self>) -> Result<(), EngineError> {
        let started = self.env.now();
        let may_go_on = |point: &RepairPoint| point.not_before.is_none_or(|not_before| started >= not_before);
        let Some(mut point) = self.background.repairs.at().filter(may_go_on) else { return Ok(()) };
        if self.check_leads().is_err() {
            return Ok(());
        }
        // Moves of a former leader come first: a copy is added to where a record stands for all.
        self.applied_all().await;
        let mut copied = 0u64;
        while point.shard < SHARDS {
            for batch in self.may_lack_copies(&point).await?.chunks(REPAIRS_AT_ONCE) {
                self.check_leads()?;
                self.get_in_step().await?;
                let (bytes, failure) = self.add_copies_of_many(batch).await;
                copied += bytes;
                note_failure(&mut point, failure);
                point.after = batch.last().map(|(hash, _)| *hash);
                let elapsed = self.keep_to_share(started, copied).await;
                if !self.background.repairs.go_on(point) || elapsed > ROUND {
                    self.background.wake();
                    return Ok(());
                }
            }
            (point.shard, point.after) = (point.shard + 1, None);
            // Where nothing is lacking, too: in the form without keys each shard takes a look at all rows.
            if !self.background.repairs.go_on(point) || self.env.now() - started > ROUND {
                self.background.wake();
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
        note_failure(&mut point, self.add_copies_of_runs().await.err());
        note_failure(&mut point, self.write_moves_down().await.err());
        match point.has_failed {
            true => drop(self.background.repairs.go_on(point.again(self.env.now() + pause_after(point.again)))),
            false => self.background.repairs.end(point),
        }
        Ok(())
    }

    /// Sees to it that a checkpoint has all places that records have got. As leader, or alone: without moves it makes none.
    pub(crate) async fn write_moves_down(self: &Arc<Self>) -> Result<(), EngineError> {
        let moved_in = self.remembered.moved_in();
        // Once, or twice where a leader before was an epoch ahead.
        while self.remembered.epoch() < moved_in {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Its share of bandwidth, like collection's. How long this round has taken before.
    pub(crate) async fn keep_to_share(&self, started: Instant, copied: u64) -> Duration {
        let due = Duration::from_micros(copied.saturating_mul(1_000_000) / self.config.collect_bytes_per_second.max(1));
        let elapsed = self.env.now() - started;
        if elapsed < due {
            self.env.sleep(due - elapsed).await;
        }
        elapsed
    }

    /// Makes the copies that these records lack: the bytes that were copied, and why one of them could not get all.
    async fn add_copies_of_many(self: &Arc<Self>, records: &[(KeyHash, Located)]) -> (u64, Option<EngineError>) {
        let mut adding = tokio::task::JoinSet::new();
        for (hash, known) in records.iter().copied() {
            let inner = self.clone();
            adding.spawn(self.env.within(async move { inner.add_copies(&hash, known).await }));
        }
        let (mut copied, mut failure) = (0, None);
        while let Some(added) = adding.join_next().await {
            match added.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() })) {
                Ok(bytes) => copied += bytes,
                Err(error) => failure = Some(error),
            }
        }
        (copied, failure)
    }

    pub(crate) fn repair_left(&self) -> usize {
        let at = self.background.repairs.at().filter(|_| self.leads());
        at.map_or(0, |point| SHARDS + 1 - point.shard)
    }

    /// Records of a shard with fewer copies than a write has now, and large ones: their chunks went to devices of their own. In the order of
    /// their hashes, from this point on.
    async fn may_lack_copies(&self, point: &RepairPoint) -> Result<Vec<(KeyHash, Located)>, EngineError> {
        let is_there = |known: &Located| known.is_live() && !self.targets.are_gone(&known.places);
        let may_lack = |known: &Located| is_there(known) && (known.large || self.lacks_copies(&known.places));
        let is_next = |hash: &KeyHash| point.after.is_none_or(|after| *hash > after);
        let mut found: Vec<(KeyHash, Located)> = Vec::new();
        self.visit_records(point.shard..point.shard + 1, &mut |hash, known| {
            if is_next(&hash) && may_lack(&known) {
                found.push((hash, known));
            }
        })
        .await?;
        found.sort_unstable_by_key(|(hash, _)| *hash);
        Ok(found)
    }

    fn lacks_copies(&self, places: &Places) -> bool {
        self.targets.lacks_copies(places)
    }

    /// Makes the copies that one record lacks; the bytes that were copied, or read in vain. Of a large object its chunks first: the record
    /// that names them is written anew.
    async fn add_copies(self: &Arc<Self>, hash: &KeyHash, known: Located) -> Result<u64, EngineError> {
        let Some(frame) = self.read_copies(&known).await? else { return Ok(0) };
        if !known.large {
            return self.add_copies_of_small(hash, known, frame).await;
        }
        let Tree { nodes, mut chunks, parts } = read_tree(self, &frame.payload, frame.record.tree_height).await?;
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
        let order = known.order;
        if self.replace_tree(hash, (known, frame), Tree { nodes, chunks, parts }, moves).await? {
            self.stats.added_copies.add(1);
            return Ok(bytes);
        }
        match self.live_large(hash).is_some_and(|newest| newest.order == order) {
            true => Err(EngineError::Unavailable { reason: "its list of chunks was moved meanwhile".to_owned() }),
            false => Ok(bytes),
        }
    }

    async fn add_copies_of_small(
        self: &Arc<Self>,
        hash: &KeyHash,
        mut known: Located,
        frame: RecordFrame,
    ) -> Result<u64, EngineError> {
        let (order, bytes) = (known.order, frame.payload.len() as u64 + COPY_EXTRA_BYTES);
        let mut copied = 0;
        for _ in 0..MOST_ATTEMPTS {
            let Some(device) = self.device_without(hash, &known.places, bytes)? else { return Ok(copied) };
            copied += bytes;
            let is_added = self.add_copy(frame.record.clone(), frame.payload.clone(), device, &known).await?;
            self.stats.added_copies.add(u64::from(is_added));
            // Collection may have moved a copy meanwhile: then the new one is garbage, and is made again beside those of now.
            match self.shard(hash).lock().index().newest(hash).filter(|newest| newest.order == order) {
                Some(newest) => known = newest,
                None => return Ok(copied),
            }
        }
        match self.lacks_copies(&known.places) {
            true => Err(EngineError::Unavailable { reason: "its copies move all the time".to_owned() }),
            false => Ok(copied),
        }
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
        let adds = |device: DeviceId| {
            let with: SmallVec<[DeviceId; MAX_REPLICAS]> = has.iter().copied().chain([device]).collect();
            table.apart(&with) > table.apart(&has)
        };
        let is_writable = |device: DeviceId| self.targets.takes_copies(device) && adds(device);
        let has_room = |device: DeviceId| is_writable(device) && self.has_spare_room(device, bytes);
        match table.another(hash, &has, has_room) {
            None if table.another(hash, &has, is_writable).is_some() => Err(EngineError::Full),
            device => Ok(device),
        }
    }
}

/// The pause after a pass that failed: it doubles, for what can't be read for days is looked for again each time.
fn pause_after(again: u32) -> Duration {
    PAUSE_AFTER_FAILURE * (1 << again.min(MOST_DOUBLINGS))
}

/// Told once a pass: a device that is full, or away, fails many.
fn note_failure(point: &mut RepairPoint, failure: Option<EngineError>) {
    if let Some(error) = failure
        && !std::mem::replace(&mut point.has_failed, true)
    {
        tracing::warn!(%error, "some copies that are missing can't be made yet");
    }
}
