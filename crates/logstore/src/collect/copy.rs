//! Copying what is live out of a zone, to other zones of the same device.

use super::Victim;
use crate::index::Located;
use crate::large::{LogStaged, Tree, read_tree};
use crate::relocate::Recopy;
use crate::store::Inner;
use crate::targets::{RecordFrame, frames_of};
use bytes::Bytes;
use device::ZoneStream;
use engine::EngineError;
use format::chunk_ref::{ChunkRef, MAX_REF_BYTES};
use format::part_table::PartTable;
use format::record::Record;
use format::replicas::{Places, ReplicaDevices};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::limits::{BLOCK_BYTES, MAX_REPLICAS};
use types::{DeviceId, KeyHash, Place};

/// Free zones that copies leave which others lost.
const FREE_ZONES_LEFT: u32 = 1;
/// One part in so many of a zone that copies leave where no zone is free for the checkpoint.
const CHECKPOINT_SHARE: u64 = 4;
/// The runs in a zone are written anew to empty it if they take no more than one part in so many of one: else they would soon fill another one, and to empty
/// that would gain as little.
const MOVED_RUNS_SHARE: u64 = 4;
/// What a copy takes beside its payload: its header, and what is lost to padding.
pub(crate) const COPY_EXTRA_BYTES: u64 = 4096;
/// Records copied at once, so that the device writes many with one request: alone, each would be padded to a block.
pub(super) const MOVES_AT_ONCE: usize = 64;

impl Inner {
    pub(super) async fn move_named(self: &Arc<Self>, moves: Vec<(Record, Bytes, Place)>) -> Result<(), EngineError> {
        let mut moving = tokio::task::JoinSet::new();
        if let Some((_, _, place)) = moves.first() {
            let bytes = moves.iter().map(|(_, payload, _)| payload.len() as u64 + COPY_EXTRA_BYTES).sum();
            self.check_room(place.device, bytes)?;
        }
        for (record, payload, place) in moves {
            let inner = self.clone();
            moving.spawn(self.env.within(async move {
                let hash = record.hash;
                inner.move_copy(record, payload, place, &hash).await
            }));
        }
        let mut outcome = Ok(());
        while let Some(moved) = moving.join_next().await {
            let moved = moved.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() }));
            outcome = outcome.and(moved.map(|_| ()));
        }
        outcome
    }

    /// Copies chunks of one record and gives the record a new tree over them; whether that came into force. `to` says where the copy of a chunk
    /// goes that stands on a device.
    pub(crate) async fn move_chunks(
        self: &Arc<Self>,
        owner: &KeyHash,
        moving: &BTreeSet<Place>,
        to: impl Fn(&ChunkRef, DeviceId) -> Result<DeviceId, EngineError>,
    ) -> Result<bool, EngineError> {
        let Some(known) = self.live_large(owner) else { return Ok(false) };
        let Some(frame) = self.read_copies(&known).await? else { return Ok(false) };
        let Tree { nodes, mut chunks, parts } = read_tree(self, &frame.payload, frame.record.tree_height).await?;
        let mut moves = Moves::new(self);
        for chunk in &mut chunks {
            for replica in 0..chunk.places.len() {
                let from = chunk.places.as_slice()[replica];
                if moving.contains(&from) {
                    let to = to(chunk, from.device)?;
                    self.move_chunk(chunk, (replica, to), &mut moves).await?;
                }
            }
        }
        self.replace_tree(owner, (known, frame), Tree { nodes, chunks, parts }, moves).await
    }

    /// Gives a record a new tree over chunks of which some have new places, unless it was replaced meanwhile; whether it did.
    pub(super) async fn replace_tree(
        self: &Arc<Self>,
        owner: &KeyHash,
        (known, frame): (Located, RecordFrame),
        Tree { nodes, chunks, parts }: Tree,
        mut moves: Moves,
    ) -> Result<bool, EngineError> {
        self.check_room_for_tree(chunks.len(), parts.as_ref())?;
        let pin = self.pins.pin();
        let content = LogStaged::from_moved(self, *owner, chunks, pin).with_parts(parts).into_content().await?;
        let payload = content.payload.concat();
        let mut record = frame.record;
        record.tree_height = content.tree_height;
        let is_in_force = self.rewrite(record, Bytes::from(payload), (known.order, known.places)).await?;
        if is_in_force {
            content.kept.record_sent();
            moves.old.extend(nodes.iter().flat_map(frames_of));
            moves.came_into_force();
        }
        Ok(is_in_force)
    }

    async fn move_chunk(
        self: &Arc<Self>,
        chunk: &mut ChunkRef,
        (replica, to): (usize, DeviceId),
        moves: &mut Moves,
    ) -> Result<(), EngineError> {
        let bytes = u64::from(chunk.payload_bytes) + COPY_EXTRA_BYTES;
        let from = chunk.places.as_slice()[replica];
        self.check_room(to, bytes)?;
        let frame = self.read_chunk_frame(chunk).await?;
        // The copy that was read may be of a time when the chunk had fewer.
        let mut devices: SmallVec<[DeviceId; MAX_REPLICAS]> =
            chunk.places.as_slice().iter().map(|place| place.device).collect();
        devices[replica] = to;
        let replica_devices = ReplicaDevices::new(&devices).expect("one for each place");
        let record = Record { replica_devices, ..frame.record };
        let copy = Recopy { record, payload: frame.payload, order: None, replica, device: to, moved: true };
        let appended = self.recopy(copy).await?;
        chunk.places.as_mut_slice()[replica] = appended.place;
        let frame_bytes = appended.frame_bytes as u64;
        self.stats.relocated_bytes.add(frame_bytes);
        moves.old.push((from, frame_bytes));
        moves.made(appended.place, frame_bytes);
        Ok(())
    }

    /// Writes the runs anew that stand in a zone; false if they are too many or too long for that. Then merges are made if any are due: collection makes many
    /// checkpoints, and nothing else may be due for long.
    pub(super) async fn move_runs(self: &Arc<Self>, victim: &Victim) -> Result<bool, EngineError> {
        let stands_there = |places: &Places| places.as_slice().iter().any(|place| victim.holds(place));
        let mut runs = self.names.layers().runs;
        runs.retain(|run| run.frames().any(|(places, _)| stands_there(&places)));
        // Each frame may fill up its last block alone.
        let padded = |frame_bytes: u32| u64::from(frame_bytes).next_multiple_of(BLOCK_BYTES as u64);
        let bytes: u64 = runs.iter().map(|run| run.frames().map(|(_, frame_bytes)| padded(frame_bytes)).sum::<u64>()).sum();
        if bytes > victim.device.usage().zone_bytes / MOVED_RUNS_SHARE {
            self.merge_runs().await?;
            return Ok(false);
        }
        for run in runs {
            env::mark("engine: a run is written anew to empty a zone");
            let level = run.level();
            self.merge(vec![run], level).await?;
        }
        Ok(true)
    }

    /// Whether the nodes over so many chunks and a long part table find room, wherever they are placed.
    fn check_room_for_tree(&self, chunks: usize, parts: Option<&PartTable>) -> Result<(), EngineError> {
        let nodes = chunks.div_ceil(self.config.refs_per_list);
        let table_bytes = parts.map_or(0, |table| table.as_bytes().len() as u64);
        if nodes > 1 || table_bytes > COPY_EXTRA_BYTES {
            let bytes = (chunks * MAX_REF_BYTES) as u64 + nodes as u64 * COPY_EXTRA_BYTES + table_bytes;
            self.targets.in_use().try_for_each(|device| self.check_room(device.id(), bytes))?;
        }
        Ok(())
    }

    /// What can't be read can't be copied from here. If it is live, another copy of it may do; else the zone stays, for whoever
    /// knows how to read it. Torn frames that a crash left are named by nothing.
    pub(super) async fn repair(self: &Arc<Self>, victim: &Victim) -> Result<(), EngineError> {
        for (hash, mut places) in self.named_in(victim.at()).await.whole()? {
            let Some(known) = self.shard(&hash).lock().index().newest(&hash) else { continue };
            let own: Vec<Place> = places.iter().filter(|place| known.places.as_slice().contains(place)).copied().collect();
            if !own.is_empty() {
                let Some(frame) = self.read_copies(&known).await? else { continue };
                for place in own {
                    self.check_room(place.device, frame.payload.len() as u64 + COPY_EXTRA_BYTES)?;
                    places.remove(&place);
                    self.move_copy(frame.record.clone(), frame.payload.clone(), place, &hash).await?;
                }
            }
            if !places.is_empty() {
                self.move_chunks(&hash, &places, |_, device| Ok(device)).await?;
            }
        }
        Ok(())
    }

    /// Whether so many bytes may be copied within a device: into the zone that is open for copies, and into others as long as a checkpoint finds room
    /// beside them. It finds that in the open zone of its own, in a free one, or in a share of the zone that the last copies go to: a start goes on with
    /// both open ones, so they are as good as free.
    pub(crate) fn check_room(&self, device: DeviceId, bytes: u64) -> Result<(), EngineError> {
        let Some(device) = self.targets.device(device) else { return Ok(()) };
        let usage = device.usage();
        let zone_bytes = usage.capacity_bytes / u64::from(usage.zones.max(1));
        let (copies, checkpoint) = (device.open_room(ZoneStream::Relocated), zone_bytes / CHECKPOINT_SHARE);
        let share = if device.open_room(ZoneStream::Meta) < checkpoint { checkpoint } else { 0 };
        let free_zones = u64::from(usage.free_zones);
        let in_open = bytes + if free_zones == 0 { share } else { 0 } <= copies;
        // What is left of the open zone may be too short for the first frame.
        let zones = bytes.div_ceil(zone_bytes);
        let in_others = zones < free_zones || zones == free_zones && bytes + share <= zones * zone_bytes;
        if in_open || in_others { Ok(()) } else { Err(EngineError::Full) }
    }

    /// Whether a device takes so many bytes of what it did not have. The reserve is for what makes room: full of copies that others lost, it would leave none for the
    /// checkpoint without which nothing is freed again. Without zones beside it such copies may fill the open zone, as long as collection has another one.
    pub(crate) fn has_spare_room(&self, device: DeviceId, bytes: u64) -> bool {
        let is_spare = self.targets.device(device).is_none_or(|device| {
            let usage = device.usage();
            let is_in_open = || usage.free_zones > FREE_ZONES_LEFT && device.open_room(ZoneStream::Relocated) >= bytes;
            usage.free_data_zones > 0 || is_in_open()
        });
        is_spare && self.check_room(device, bytes).is_ok()
    }
}

/// Places that a tree gave up and took, with the bytes of their frames. Unless the new tree comes into force, what was made for
/// it is garbage.
pub(super) struct Moves {
    inner: Arc<Inner>,
    old: Vec<(Place, u64)>,
    new: Vec<(Place, u64)>,
}

impl Moves {
    pub fn new(inner: &Arc<Inner>) -> Self {
        Moves { inner: inner.clone(), old: Vec::new(), new: Vec::new() }
    }

    /// A copy was made.
    pub fn made(&mut self, place: Place, frame_bytes: u64) {
        self.inner.targets.add_live_chunk(&place, frame_bytes);
        self.new.push((place, frame_bytes));
    }

    fn came_into_force(mut self) {
        std::mem::swap(&mut self.old, &mut self.new);
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        self.new.iter().for_each(|(place, bytes)| self.inner.targets.remove_live_chunk(place, *bytes));
    }
}
