//! Garbage collection: copies what is live out of the zone with the least of it, then resets the zone (paper section 3.5;
//! zstore.md, required 13 and decisions 10, 12, 15, 22).
//!
//! ```text
//!   choose ─► copy what is live ─► checkpoint ─► wait for pins older than that ─► look again: nothing live? ─► reset
//! ```
//!
//! Live-byte counts choose; they never decide. What decides is each frame's owner: the index for named records, the owner's list of
//! chunks for chunks, the manifest for runs. The second look makes it safe against whatever happened between: a Complete that
//! had read an old list, a reader that holds old places.
//!
//! Invariants:
//! - Only finished zones that lie wholly before the start vector are collected: what they hold is in the runs.
//! - A zone is reset only after a checkpoint that has the new places, so that no start needs what is gone.

use crate::index::Located;
use crate::large::{LogStaged, collect_refs};
use crate::pins::Stamp;
use crate::store::Inner;
use bytes::Bytes;
use device::{Device, WalkEvent, ZoneInfo, ZoneState, ZoneStream};
use engine::EngineError;
use format::chunk_ref::ChunkRef;
use format::record::{ChunkOwner, EntryName, Record, RecordKind, WriteId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, KeyHash, Place, ZoneIndex};

/// A zone is worth collecting when less than this share of what it could hold is live, in percent.
const MAX_LIVE_PERCENT: u64 = 90;
/// Zones collected between two checkpoints: the more, the fewer checkpoints.
const ZONES_PER_CYCLE: usize = 4;
/// Another cycle follows at once if at least this share of the zones freed was gained, not filled with copies, in percent: else it
/// would copy all the time what hardly ever dies.
const MIN_GAIN_PERCENT: u64 = 25;
/// Copying is not held back any more when free zones are fewer than the wanted ones by this factor.
const PRESSED_FACTOR: u32 = 4;
/// Free zones of a device with which a cycle takes on another zone: one to copy into, one for the checkpoint, one to spare.
const FREE_ZONES_FOR_ANOTHER: u32 = 3;
/// Free zones that copying leaves: one for the checkpoint.
const FREE_ZONES_LEFT: u32 = 1;
/// What a copy takes beside its payload: its header, and what is lost to padding.
const COPY_EXTRA_BYTES: u64 = 4096;
/// Records copied at once, so that the device writes many with one request: alone, each would be padded to a block.
const MOVES_AT_ONCE: usize = 64;
/// How long a cycle waits for readers of moved chunks before it leaves the zones for a later one.
const PIN_PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks whether they are gone.
const PIN_LOOK: Duration = Duration::from_millis(20);

/// A zone to be emptied.
#[derive(Clone)]
struct Victim {
    device: Arc<Device>,
    zone: ZoneIndex,
}

impl Victim {
    fn holds(&self, place: &Place) -> bool {
        place.device == self.device.id() && place.zone == self.zone
    }
}

/// How emptying a zone ended.
struct Emptied {
    /// Something live could not be moved now.
    stays: bool,
    /// Readers may hold places in it.
    has_chunks: bool,
}

/// What a look at a zone found.
#[derive(Default)]
struct Look {
    /// Something live could not be moved now.
    stays: bool,
    /// Frames that were live when they were looked at.
    live: u64,
    /// Frames that can't be read: only what names them tells whether they are live.
    damaged: bool,
    /// Frames that are chunks, or may be: who reads a large object holds their places.
    has_chunks: bool,
    /// Named records to move.
    moves: Vec<(Record, Bytes, Place)>,
    /// Chunks to move, by the record that names them.
    chunks: BTreeMap<KeyHash, HashSet<Place>>,
}

/// What one cycle of collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub zones: u64,
    /// Bytes that these zones can hold.
    zone_bytes: u64,
    /// Bytes copied out of them.
    copied_bytes: u64,
}

impl Collected {
    /// Whether another cycle promises to gain something.
    pub fn is_worth_more(&self) -> bool {
        self.zones > 0 && self.zone_bytes.saturating_sub(self.copied_bytes) * 100 >= self.zone_bytes * MIN_GAIN_PERCENT
    }
}

impl Inner {
    /// Collects zones if devices run short of free ones.
    pub(crate) async fn collect(self: &Arc<Self>) -> Result<Collected, EngineError> {
        let mut collected = Collected::default();
        let copied_before = self.stats.relocated_bytes.get();
        let victims = self.choose();
        if victims.is_empty() {
            return Ok(collected);
        }
        let (mut emptied, mut read_by_some) = (Vec::new(), Vec::new());
        for victim in victims {
            // The copies must fit beside a zone for the checkpoint that makes them count, or nothing is ever freed again.
            let is_first = !emptied.iter().chain(&read_by_some).any(|other: &Victim| other.device.id() == victim.device.id());
            if !is_first && victim.device.usage().free_zones < FREE_ZONES_FOR_ANOTHER {
                continue;
            }
            // One zone that can't be emptied must not keep the others from it: the next cycle tries others first.
            match self.empty(&victim).await {
                Ok(Emptied { stays: false, has_chunks: false }) => emptied.push(victim),
                Ok(Emptied { stays: false, has_chunks: true }) => read_by_some.push(victim),
                Ok(Emptied { stays: true, .. }) => self.targets.note_setback(victim.device.id(), victim.zone),
                Err(error) => {
                    tracing::warn!(device = victim.device.id().0, zone = victim.zone.0, %error, "a zone can't be emptied now");
                    self.targets.note_setback(victim.device.id(), victim.zone);
                }
            }
        }
        if emptied.is_empty() && read_by_some.is_empty() {
            return Ok(collected);
        }
        self.checkpoint().await?;
        let mark = self.pins.mark();
        collected.copied_bytes = self.stats.relocated_bytes.get() - copied_before;
        // A slow reader of a large object holds up the zones with chunks alone.
        self.reset_dead(emptied, &mut collected).await?;
        if !read_by_some.is_empty() && self.pins_released(mark).await {
            self.reset_dead(read_by_some, &mut collected).await?;
        }
        Ok(collected)
    }

    /// Waits for pins older than the mark; false if some are still held.
    async fn pins_released(&self, mark: Stamp) -> bool {
        let deadline = self.env.now() + PIN_PATIENCE;
        while !self.pins.released_before(mark) {
            if self.env.now() >= deadline {
                return false;
            }
            self.env.sleep(PIN_LOOK).await;
        }
        true
    }

    /// Resets the zones in which nothing is live any more.
    async fn reset_dead(self: &Arc<Self>, victims: Vec<Victim>, collected: &mut Collected) -> Result<(), EngineError> {
        for victim in victims {
            let look = self.look(&victim, false).await?;
            if look.live > 0 || look.stays {
                self.targets.note_setback(victim.device.id(), victim.zone);
                continue;
            }
            self.reset(&victim).await?;
            collected.zones += 1;
            collected.zone_bytes += victim.device.usage().zone_bytes;
        }
        Ok(())
    }

    /// Whether a device has fewer free zones than are wanted.
    pub(crate) fn wants_zones(&self, device: &Device) -> bool {
        let usage = device.usage();
        usage.free_data_zones * 100 < usage.zones * u32::from(self.config.collect_below_free_percent)
    }

    /// A write was refused. What tombstones have filled of the reserve is needed no more once it is in a run: finishing it lets a
    /// checkpoint cover it, so that it can be reset without a copy.
    pub(crate) async fn finish_reserves(&self) {
        for device in self.targets.devices() {
            if let Err(error) = device.finish_reserved_zone().await {
                tracing::warn!(device = device.id().0, %error, "a zone of the reserve can't be finished");
            }
        }
    }

    /// The zones with the least live data on devices that run short of free ones.
    fn choose(&self) -> Vec<Victim> {
        let mut victims = Vec::new();
        for device in self.targets.devices() {
            if device.poisoned_by().is_some() || !self.wants_zones(device) {
                continue;
            }
            let usage = device.usage();
            let covered = self.targets.covered(device.id());
            // Against what the zone could hold, not what was written: a start seals zones that are nearly empty.
            let worth = usage.capacity_bytes / u64::from(usage.zones.max(1)) * MAX_LIVE_PERCENT / 100;
            let setbacks = |zone: &ZoneInfo| self.targets.setbacks(device.id(), zone.zone);
            let mut zones: Vec<(u64, ZoneInfo)> = device
                .zones()
                .into_iter()
                .filter(|zone| zone.state == Some(ZoneState::Finished))
                .filter(|zone| zone.stream == Some(ZoneStream::Meta) || zone.activation < covered.of(zone.stream).activation)
                .map(|zone| (self.targets.live_bytes(device.id(), zone.zone), zone))
                .filter(|(live, _)| *live < worth)
                .collect();
            zones.sort_by_key(|(live, zone)| (setbacks(zone), *live, zone.activation));
            let chosen = zones.into_iter().take(ZONES_PER_CYCLE);
            victims.extend(chosen.map(|(_, zone)| Victim { device: device.clone(), zone: zone.zone }));
        }
        victims
    }

    /// Moves everything live out of a zone.
    async fn empty(self: &Arc<Self>, victim: &Victim) -> Result<Emptied, EngineError> {
        let look = self.look(victim, true).await?;
        for (owner, places) in &look.chunks {
            self.move_chunks(owner, places).await?;
        }
        if look.damaged {
            self.repair(victim).await?;
        }
        Ok(Emptied { stays: look.stays, has_chunks: look.has_chunks || look.damaged })
    }

    /// Walks a zone and finds what is live. With `moving`, named records are moved on the way and chunks are gathered.
    async fn look(self: &Arc<Self>, victim: &Victim, moving: bool) -> Result<Look, EngineError> {
        let mut look = Look::default();
        let runs = self.run_places();
        // From before the owners are asked. A chunk's put is either here, or has ended, and then its owner tells. One that begins
        // later has nothing in a finished zone.
        let staged = self.staging.lock().clone();
        let mut owners = Owners::default();
        let mut walk = victim.device.walk_zone(victim.zone, false);
        let started = self.env.now();
        let mut walked = 0u64;
        loop {
            let (record, payload, place) = match walk.next().await {
                None => break,
                Some(WalkEvent::Frame(frame)) => {
                    let header = Bytes::copy_from_slice(frame.engine_header());
                    let record = Record::decode(&header).map_err(|error| EngineError::Corrupt { detail: error.to_string() })?;
                    walked += frame.view.frame_bytes() as u64;
                    let wanted = moving && record.chunk.is_none();
                    let payload = if wanted { Bytes::copy_from_slice(frame.payload()) } else { Bytes::new() };
                    (record, payload, frame.place)
                }
                Some(WalkEvent::Damaged { .. } | WalkEvent::Unreadable { .. }) => {
                    look.damaged = true;
                    continue;
                }
            };
            match record.kind {
                RecordKind::RunBlock | RecordKind::RunIndex => {
                    look.stays |= runs.contains(&place);
                    look.live += runs.contains(&place) as u64;
                }
                RecordKind::Chunk | RecordKind::DescriptorNode => {
                    look.has_chunks = true;
                    let chunk = record.chunk.expect("chunks and nodes name their owner");
                    match staged.contains(&chunk.put) {
                        true => look.stays = true,
                        false => self.look_at_chunk(&chunk, place, &mut owners, &mut look).await?,
                    }
                }
                _ => self.look_at_named(record, payload, place, moving, &mut look).await?,
            }
            self.pace(started, walked).await;
        }
        self.move_named(std::mem::take(&mut look.moves)).await?;
        if look.damaged && !moving {
            look.live += self.named_in(victim).await?.len() as u64;
        }
        look.stays |= look.damaged && self.may_hold_staged(victim, &staged);
        look.stays |= look.damaged && runs.iter().any(|place| victim.holds(place));
        Ok(look)
    }

    /// A damaged chunk that is staged is named by nothing yet. Only stagings that were there when the zone took appends can have
    /// chunks in it: those younger than the first look at the finished zone have none.
    fn may_hold_staged(&self, victim: &Victim, staged: &hashbrown::HashSet<WriteId>) -> bool {
        let first_look = self.targets.first_look(victim.device.id(), victim.zone, || self.sequences.draw());
        staged.iter().any(|put| put.sequence.0 < first_look)
    }

    /// What can't be read can't be copied from here. If it is live, another copy of it may do; else the zone stays, for whoever
    /// knows how to read it. Torn frames that a crash left are named by nothing.
    async fn repair(self: &Arc<Self>, victim: &Victim) -> Result<(), EngineError> {
        for (hash, places) in self.named_in(victim).await? {
            let Some(known) = self.shard(&hash).lock().index().newest(&hash) else { continue };
            if known.places.as_slice().iter().all(|place| !places.contains(place)) {
                self.move_chunks(&hash, &places).await?;
                continue;
            }
            let Some(frame) = self.read_copies(&known).await? else { continue };
            for place in places {
                self.move_copy(frame.record.clone(), frame.payload.clone(), place, &hash).await?;
            }
        }
        Ok(())
    }

    /// The places in a zone that live records have or name, by record. Reads every large object's list: for damaged zones only.
    async fn named_in(self: &Arc<Self>, victim: &Victim) -> Result<BTreeMap<KeyHash, HashSet<Place>>, EngineError> {
        let mut named: BTreeMap<KeyHash, HashSet<Place>> = BTreeMap::new();
        let mut large = Vec::new();
        for shard in &self.shards {
            for (hash, located) in shard.lock().index().iter().filter(|(_, located)| located.is_live()) {
                if let Some(place) = located.places.as_slice().iter().find(|place| victim.holds(place)) {
                    named.entry(hash).or_default().insert(*place);
                } else if located.large {
                    large.push(hash);
                }
            }
        }
        let mut owners = Owners::default();
        for hash in large {
            let places = owners.places(self, &hash).await?;
            let within: HashSet<Place> = places.iter().filter(|place| victim.holds(place)).copied().collect();
            if !within.is_empty() {
                named.insert(hash, within);
            }
        }
        Ok(named)
    }

    async fn look_at_named(
        self: &Arc<Self>,
        record: Record,
        payload: Bytes,
        place: Place,
        moving: bool,
        look: &mut Look,
    ) -> Result<(), EngineError> {
        let hash = record.hash;
        let known = self.shard(&hash).lock().index().newest(&hash);
        // A tombstone's record is not needed any more: it is in a run.
        let is_live = known.is_some_and(|known| known.is_live() && known.places.as_slice().contains(&place));
        if !is_live {
            return Ok(());
        }
        look.live += 1;
        if moving {
            // Walked without its payload's checksums, because most of a victim is garbage: what is copied is checked here.
            let frame = self.targets.read(&place, 0).await;
            let payload = frame.map_or(payload, |frame| frame.payload);
            look.moves.push((record, payload, place));
            if look.moves.len() >= MOVES_AT_ONCE {
                self.move_named(std::mem::take(&mut look.moves)).await?;
            }
        }
        Ok(())
    }

    async fn move_named(self: &Arc<Self>, moves: Vec<(Record, Bytes, Place)>) -> Result<(), EngineError> {
        let mut moving = tokio::task::JoinSet::new();
        if let Some((_, _, place)) = moves.first() {
            let bytes = moves.iter().map(|(_, payload, _)| payload.len() as u64 + COPY_EXTRA_BYTES).sum();
            self.check_room(place.device, bytes)?;
        }
        for (record, payload, place) in moves {
            let inner = self.clone();
            moving.spawn(async move {
                let hash = record.hash;
                inner.move_copy(record, payload, place, &hash).await
            });
        }
        let mut outcome = Ok(());
        while let Some(moved) = moving.join_next().await {
            let moved = moved.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() }));
            outcome = outcome.and(moved.map(|_| ()));
        }
        outcome
    }

    /// Whether so many bytes may be copied within a device: into the zone that is open for copies, and into others only as long as
    /// enough stay free.
    fn check_room(&self, device: DeviceId, bytes: u64) -> Result<(), EngineError> {
        let Some(device) = self.targets.device(device) else { return Ok(()) };
        let usage = device.usage();
        let beyond = bytes.saturating_sub(device.open_room(ZoneStream::Relocated));
        let zones = beyond.div_ceil(usage.capacity_bytes / u64::from(usage.zones.max(1))) as u32;
        match zones > 0 && usage.free_zones < FREE_ZONES_LEFT + zones {
            true => Err(EngineError::Full),
            false => Ok(()),
        }
    }

    /// A chunk is live when the object or the open part that it was written for names it.
    async fn look_at_chunk(
        self: &Arc<Self>,
        chunk: &ChunkOwner,
        place: Place,
        owners: &mut Owners,
        look: &mut Look,
    ) -> Result<(), EngineError> {
        let part = chunk.upload.and_then(|upload| {
            let open = self.open_uploads.lock();
            let name = open.get(&upload)?;
            let key = name.key().ok()?.into_owned();
            Some(EntryName::part(name.bucket, &key, upload, chunk.part).hash())
        });
        for owner in [Some(chunk.owner), part].into_iter().flatten() {
            if owners.places(self, &owner).await?.contains(&place) {
                look.live += 1;
                look.chunks.entry(owner).or_default().insert(place);
            }
        }
        Ok(())
    }

    /// Copies chunks of one record and gives the record a new list.
    async fn move_chunks(self: &Arc<Self>, owner: &KeyHash, moving: &HashSet<Place>) -> Result<(), EngineError> {
        let Some(known) = self.live_large(owner) else { return Ok(()) };
        let Some(frame) = self.read_copies(&known).await? else { return Ok(()) };
        let mut refs = collect_refs(self, &frame.payload, frame.record.tree_height, false).await?;
        for chunk in &mut refs {
            for replica in 0..chunk.places.len() {
                if moving.contains(&chunk.places.as_slice()[replica]) {
                    self.move_chunk(chunk, replica).await?;
                }
            }
        }
        let pin = self.pins.pin();
        let content = LogStaged::from_refs(self, *owner, refs, pin).into_content().await?;
        let payload = content.payload.concat();
        let mut record = frame.record;
        record.tree_height = content.tree_height;
        self.rewrite(record, Bytes::from(payload), (known.order, known.places)).await?;
        Ok(())
    }

    async fn move_chunk(self: &Arc<Self>, chunk: &mut ChunkRef, replica: usize) -> Result<(), EngineError> {
        let bytes = u64::from(chunk.payload_bytes) + COPY_EXTRA_BYTES;
        self.check_room(chunk.places.as_slice()[replica].device, bytes)?;
        let frame = self.read_chunk_frame(chunk).await?;
        let from = chunk.places.as_slice()[replica];
        let copy = crate::relocate::Recopy {
            record: frame.record,
            payload: frame.payload,
            order: None,
            replica,
            device: from.device,
            moved: true,
        };
        let appended = self.recopy(copy).await?;
        chunk.places.as_mut_slice()[replica] = appended.place;
        self.targets.add_live_chunk(&appended.place, appended.frame_bytes as u64);
        self.stats.relocated_bytes.add(appended.frame_bytes as u64);
        Ok(())
    }

    pub(crate) fn live_large(&self, hash: &KeyHash) -> Option<Located> {
        self.shard(hash).lock().index().newest(hash).filter(|known| known.is_live() && known.large)
    }

    fn run_places(&self) -> HashSet<Place> {
        let runs = self.names.layers().runs;
        runs.iter()
            .flat_map(|run| run.frames().collect::<Vec<_>>())
            .flat_map(|(places, _)| places.as_slice().to_vec())
            .collect()
    }

    /// Keeps collection to its share of bandwidth, unless free zones run out.
    async fn pace(&self, started: env::Instant, walked: u64) {
        let due = Duration::from_micros(walked.saturating_mul(1_000_000) / self.config.collect_bytes_per_second.max(1));
        let elapsed = self.env.now() - started;
        if elapsed < due && !self.is_pressed() {
            self.env.sleep(due - elapsed).await;
        }
    }

    fn is_pressed(&self) -> bool {
        self.targets.devices().any(|device| {
            let usage = device.usage();
            let wanted = usage.zones * u32::from(self.config.collect_below_free_percent) / 100;
            usage.free_data_zones <= (wanted / PRESSED_FACTOR).max(1)
        })
    }

    async fn reset(&self, victim: &Victim) -> Result<(), EngineError> {
        let reset = victim.device.reset(victim.zone).await;
        reset.map_err(|error| EngineError::Unavailable { reason: error.to_string() })?;
        self.targets.forget_zone(victim.device.id(), victim.zone);
        self.background.room.zone_freed();
        self.stats.collected_zones.add(1);
        Ok(())
    }
}

/// The chunks and nodes that records name, as far as this look has asked.
#[derive(Default)]
struct Owners(HashMap<KeyHash, HashSet<Place>>);

impl Owners {
    async fn places(&mut self, inner: &Arc<Inner>, owner: &KeyHash) -> Result<&HashSet<Place>, EngineError> {
        if !self.0.contains_key(owner) {
            let places = self.read(inner, owner).await?;
            self.0.insert(*owner, places);
        }
        Ok(&self.0[owner])
    }

    async fn read(&self, inner: &Arc<Inner>, owner: &KeyHash) -> Result<HashSet<Place>, EngineError> {
        let Some(known) = inner.live_large(owner) else { return Ok(HashSet::new()) };
        let Some(frame) = inner.read_copies(&known).await? else { return Ok(HashSet::new()) };
        let refs = collect_refs(inner, &frame.payload, frame.record.tree_height, true).await?;
        Ok(refs.iter().flat_map(|chunk| chunk.places.as_slice().to_vec()).collect())
    }
}
