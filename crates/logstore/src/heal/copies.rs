//! Making one copy again, of a good one: of a record, of what is below a large object, of a run.

use crate::collect::{COPY_EXTRA_BYTES, Owners};
use crate::store::Inner;
use engine::EngineError;
use format::replicas::Places;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, KeyHash, Place};

impl Inner {
    /// Makes the copies at these places again that this record has or names; how many. What it has or names no more is passed over: it was
    /// overwritten, deleted or moved since it was read there.
    pub(super) async fn heal_record(self: &Arc<Self>, hash: &KeyHash, damaged: &BTreeSet<Place>) -> Result<u64, EngineError> {
        let newest = self.shard(hash).lock().index().newest(hash);
        let Some(known) = newest.filter(|known| known.is_live()) else { return Ok(0) };
        let own: Vec<Place> = known.places.as_slice().iter().filter(|place| damaged.contains(place)).copied().collect();
        let mut healed = 0;
        if !own.is_empty() {
            let Some(frame) = self.read_copies(&known).await? else { return Err(moved_meanwhile()) };
            if frame.record.hash != *hash {
                return Err(moved_meanwhile());
            }
            for place in own {
                let bytes = frame.payload.len() as u64 + COPY_EXTRA_BYTES;
                let to = self.device_for(hash, &known.places, place.device, bytes)?;
                let is_made = self.replace_copy(frame.record.clone(), frame.payload.clone(), (place, to), hash).await?;
                healed += u64::from(is_made);
            }
        }
        match known.large {
            true => Ok(healed + self.heal_below(hash, damaged).await?),
            false => Ok(healed),
        }
    }

    /// The same for the chunks and nodes below a large object's record, which gets another list of them.
    async fn heal_below(self: &Arc<Self>, hash: &KeyHash, damaged: &BTreeSet<Place>) -> Result<u64, EngineError> {
        let mut owners = Owners::default();
        let below: BTreeSet<Place> = owners.places(self, hash).await?.intersection(damaged).copied().collect();
        if below.is_empty() {
            return Ok(0);
        }
        let inner = self.clone();
        let to = move |chunk: &format::chunk_ref::ChunkRef, device: DeviceId| {
            inner.device_for(hash, &chunk.places, device, u64::from(chunk.payload_bytes) + COPY_EXTRA_BYTES)
        };
        match self.move_chunks(hash, &below, to).await? {
            true => Ok(below.len() as u64),
            false => Ok(0),
        }
    }

    /// Writes the runs anew that have frames at these places; how many of the places that were.
    pub(super) async fn heal_runs(self: &Arc<Self>, damaged: &BTreeSet<Place>) -> Result<u64, EngineError> {
        let mut healed = 0;
        for run in self.names.layers().runs {
            let is_damaged = |place: &&Place| damaged.contains(place);
            let within =
                run.frames().map(|(places, _)| places.as_slice().iter().filter(is_damaged).count() as u64).sum::<u64>();
            if within > 0 {
                env::mark("engine: a run with a damaged copy is written anew");
                let level = run.level();
                self.merge(vec![run], level).await?;
                healed += within;
            }
        }
        Ok(healed)
    }

    /// Where a copy is made again: where it was, so that it stays in its failure domain; elsewhere if that device takes no writes or has no
    /// room.
    fn device_for(&self, hash: &KeyHash, places: &Places, own: DeviceId, bytes: u64) -> Result<DeviceId, EngineError> {
        let table = self.targets.table();
        let takes_it = |device: DeviceId| self.targets.is_writable(device) && self.check_room(device, bytes).is_ok();
        if table.devices().contains(&own) && takes_it(own) {
            return Ok(own);
        }
        let has: SmallVec<[DeviceId; MAX_REPLICAS]> = places.as_slice().iter().map(|place| place.device).collect();
        table.another(hash, &has, takes_it).ok_or(EngineError::Full)
    }
}

fn moved_meanwhile() -> EngineError {
    EngineError::Unavailable { reason: "the record moved while a copy of it was to be made again".to_owned() }
}
