//! The fences on the device. One record has those of all shards, so that what several blocks ask for at once goes into one write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use device::Volume;
use format::chunk_fences::{ChunkFences, FENCES_AREA_BYTES, FENCES_SLOTS, MAX_FENCED_SHARDS, ShardFence};
use format::chunk_id::ShardId;
use types::DeviceUuid;

use super::error::WriteError;
use super::layout::padded;
use crate::message::Resolved;

/// Fences by shard.
pub type FenceTable = BTreeMap<ShardId, Resolved>;

pub struct Fences {
    volume: Volume,
    /// They stand on the device.
    are_begun: AtomicBool,
    /// What was asked for.
    wanted: parking_lot::Mutex<FenceTable>,
    /// Held during a write.
    durable: tokio::sync::Mutex<Durable>,
}

struct Durable {
    table: FenceTable,
    /// None if none were ever written.
    sequence: Option<u64>,
}

impl Fences {
    /// What stands on the device, under which number.
    pub fn new(volume: Volume, table: FenceTable, sequence: Option<u64>) -> Fences {
        let wanted = parking_lot::Mutex::new(table.clone());
        let are_begun = AtomicBool::new(sequence.is_some());
        Fences { volume, are_begun, wanted, durable: tokio::sync::Mutex::new(Durable { table, sequence }) }
    }

    /// Raises a shard's fence, durably; returns whether that took a write of its own.
    pub async fn raise(&self, shard: ShardId, resolved: Resolved) -> Result<bool, WriteError> {
        {
            let mut wanted = self.wanted.lock();
            if wanted.len() >= MAX_FENCED_SHARDS && !wanted.contains_key(&shard) {
                return Err(WriteError::TooManyShards);
            }
            let fence = wanted.entry(shard).or_default();
            *fence = fence.raised(resolved);
        }
        let mut durable = self.durable.lock().await;
        if durable.table.get(&shard).is_some_and(|fence| fence.raised(resolved) == *fence) {
            return Ok(false);
        }
        let before = begun(&self.volume, &mut durable).await?;
        let (table, sequence) = (self.wanted.lock().clone(), before + 1);
        // A write that fails is repeated under the same number, into the same slot: never into the good one.
        write(&self.volume, &table, sequence).await?;
        *durable = Durable { table, sequence: Some(sequence) };
        Ok(true)
    }

    /// Has the fences stand in both slots before the first block is used: without them a start can't tell that they were lost.
    pub async fn begin(&self) -> Result<(), WriteError> {
        if !self.are_begun.load(Ordering::Acquire) {
            begun(&self.volume, &mut *self.durable.lock().await).await?;
            self.are_begun.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// The number of the newest fences; they are written now if they never were.
async fn begun(volume: &Volume, durable: &mut Durable) -> Result<u64, WriteError> {
    if let Some(sequence) = durable.sequence {
        return Ok(sequence);
    }
    volume.reserve(0, FENCES_AREA_BYTES).await?;
    for sequence in 0..FENCES_SLOTS {
        write(volume, &durable.table, sequence).await?;
    }
    let last = FENCES_SLOTS - 1;
    durable.sequence = Some(last);
    Ok(last)
}

/// Writes the record of this number.
pub async fn write(volume: &Volume, table: &FenceTable, sequence: u64) -> Result<(), WriteError> {
    let fence =
        |(shard, resolved): (&ShardId, &Resolved)| ShardFence { shard: *shard, puts: resolved.puts, moves: resolved.moves };
    let fences = table.iter().map(fence).collect();
    let record = ChunkFences { device_uuid: volume.device_uuid(), sequence, fences };
    Ok(volume.write(record.offset(), padded(&record.encode())).await?)
}

/// What a believed record says.
pub fn table_of(record: &ChunkFences) -> FenceTable {
    let resolved = |fence: &ShardFence| Resolved { puts: fence.puts, moves: fence.moves };
    record.fences.iter().map(|fence| (fence.shard, resolved(fence))).collect()
}

/// Whether a record that was found at a slot was meant for it.
pub fn is_own(record: &ChunkFences, device_uuid: DeviceUuid, slot_offset: u64) -> bool {
    record.device_uuid == device_uuid && record.offset() == slot_offset
}
