//! Walking a zone and finding what in it is live: by what owns it, never by counts.

use super::copy::MOVES_AT_ONCE;
use super::owners::Owners;
use super::{Emptied, Victim};
use crate::store::Inner;
use bytes::Bytes;
use device::Gaps;
use engine::EngineError;
use format::record::{ChunkOwner, Record, RecordKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use target::{LogEvent, WalkRange};
use types::{KeyHash, Place};

/// Copying is not held back any more when free zones are fewer than the wanted ones by this factor.
const PRESSED_FACTOR: u32 = 4;

/// What a look at a zone found.
#[derive(Default)]
pub(super) struct Look {
    /// Something live could not be moved now.
    pub stays: bool,
    /// Frames that were live when they were looked at; without those that can't be read.
    pub live: u64,
    /// Some of these are a run's.
    pub holds_runs: bool,
    /// Frames that can't be read: only what names them tells whether they are live.
    pub damaged: bool,
    /// The objects for which chunks and nodes in it were written: who reads one of them may hold their places.
    pub chunks_of: BTreeSet<KeyHash>,
    /// What replaced some record, or where it was moved to, is in no checkpoint yet.
    pub has_unsaved: bool,
    /// Named records to move.
    pub moves: Vec<(Record, Bytes, Place)>,
    /// Chunks to move, by the record that names them.
    pub chunks: BTreeMap<KeyHash, BTreeSet<Place>>,
}

impl Look {
    /// How the zone is, now that what was live in it has been moved.
    pub fn emptied(self) -> Emptied {
        match self {
            Look { stays: true, .. } => Emptied::Stays,
            Look { damaged: true, .. } => Emptied::ReadBy(None),
            Look { chunks_of, .. } if chunks_of.is_empty() => Emptied::Unread,
            Look { chunks_of, .. } => Emptied::ReadBy(Some(chunks_of)),
        }
    }

    /// Nothing in the zone is live, and the last checkpoint says the same.
    pub fn is_dead_as_written_down(&self) -> bool {
        self.live == 0 && !self.stays && !self.damaged && self.chunks_of.is_empty() && !self.has_unsaved
    }
}

impl Inner {
    /// Walks a zone and finds what is live. With `moving`, named records are moved on the way and chunks are gathered.
    pub(super) async fn look(self: &Arc<Self>, victim: &Victim, moving: bool) -> Result<Look, EngineError> {
        let mut look = Look::default();
        let runs = self.run_places();
        // From before the owners are asked. A chunk's put is either here, or has ended, and then its owner tells. One that begins
        // later has nothing in a finished zone.
        let staged = self.staging.lock().clone();
        let mut owners = Owners::default();
        let mut walk = victim.device.walk(WalkRange::Zone(victim.zone), false);
        let started = self.env.now();
        let (mut walked, mut gaps) = (0u64, Gaps::of_zone());
        loop {
            let next = walk.next().await.map_err(|error| EngineError::Unavailable { reason: error.reason })?;
            let (record, place, frame_bytes) = match next {
                None => break,
                Some(LogEvent::Frame(frame)) => {
                    let header = Bytes::copy_from_slice(frame.engine_header);
                    let record = Record::decode(&header).map_err(|error| EngineError::Corrupt { detail: error.to_string() })?;
                    walked += frame.frame_bytes as u64;
                    gaps.frame(frame.place.offset.bytes(), frame.frame_bytes as u64);
                    (record, frame.place, frame.frame_bytes as u32)
                }
                Some(LogEvent::Damaged { .. } | LogEvent::Unreadable { .. }) => {
                    look.damaged = true;
                    gaps.damage();
                    continue;
                }
            };
            match record.kind {
                RecordKind::RunBlock | RecordKind::RunIndex => {
                    look.holds_runs |= runs.contains(&place);
                    look.live += runs.contains(&place) as u64;
                }
                RecordKind::Chunk | RecordKind::DescriptorNode => {
                    let chunk = record.chunk.expect("chunks and nodes name their owner");
                    look.chunks_of.insert(chunk.owner);
                    match staged.contains(&chunk.put) || self.may_be_staged_elsewhere(&chunk.put) {
                        true => look.stays = true,
                        false => self.look_at_chunk(&chunk, place, &mut owners, &mut look).await?,
                    }
                }
                _ => self.look_at_named(record, (place, frame_bytes), moving, &mut look).await?,
            }
            self.pace(started, walked).await;
        }
        self.move_named(std::mem::take(&mut look.moves)).await?;
        look.damaged |= gaps.until(victim.end()) > 0;
        // Before it is looked who names what: whatever was staged there has been named by then, or never will be.
        look.stays |= look.damaged && self.may_hold_staged(victim, &staged);
        look.stays |= look.damaged && runs.iter().any(|place| victim.holds(place));
        Ok(look)
    }

    async fn look_at_named(
        self: &Arc<Self>,
        record: Record,
        (place, frame_bytes): (Place, u32),
        moving: bool,
        look: &mut Look,
    ) -> Result<(), EngineError> {
        let hash = record.hash;
        let (known, is_unsaved) = {
            let keys = self.shard(&hash).lock();
            (keys.index().newest(&hash), keys.index().unsaved_epoch(&hash).is_some())
        };
        // A tombstone's record is not needed any more: it is in a run.
        let is_live = known.is_some_and(|known| known.is_live() && known.places.as_slice().contains(&place));
        if !is_live {
            look.has_unsaved |= is_unsaved;
            return Ok(());
        }
        look.live += 1;
        if moving {
            // The walk has not looked at payloads, because most of a victim is garbage: what is copied is read and checked here. A
            // copy gets checksums of its own, so that one of a damaged payload would pass for a good one.
            let Ok(frame) = self.targets.read(&place, frame_bytes).await else {
                look.damaged = true;
                return Ok(());
            };
            look.moves.push((record, frame.payload, place));
            if look.moves.len() >= MOVES_AT_ONCE {
                self.move_named(std::mem::take(&mut look.moves)).await?;
            }
        }
        Ok(())
    }

    /// A chunk is live when the object or the open part that it was written for names it.
    async fn look_at_chunk(
        self: &Arc<Self>,
        chunk: &ChunkOwner,
        place: Place,
        owners: &mut Owners,
        look: &mut Look,
    ) -> Result<(), EngineError> {
        for owner in self.owners_of(chunk) {
            if owners.places(self, &owner).await?.contains(&place) {
                look.live += 1;
                look.chunks.entry(owner).or_default().insert(place);
            }
        }
        Ok(())
    }

    /// Where the frames of all runs stand.
    pub(crate) fn run_places(&self) -> BTreeSet<Place> {
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
        self.targets.in_use().any(|device| {
            let usage = device.usage();
            let wanted = usage.log_zones() * u32::from(self.config.collect_below_free_percent) / 100;
            usage.free_data_zones <= (wanted / PRESSED_FACTOR).max(1) || usage.is_lending_refused
        })
    }
}
