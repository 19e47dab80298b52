//! Where a baseline's parts stand on a disk: logs, then volumes.

use super::log::LogPlace;
use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskExt, Durability};

/// Logs that there is room for: as many as the baseline with the most needs.
const LOGS: u64 = 3;
/// Bytes of one write while a log is made empty.
const ZERO_BYTES: u64 = 1 << 20;

/// How a disk is cut.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub log_segment_bytes: u64,
    /// Of a volume with its header.
    pub slot_bytes: u64,
    pub slots: u32,
    /// Volumes that take needles at the same time: each has one write on its way.
    pub open_volumes: usize,
    /// A full volume is compacted when more than this share of it is garbage.
    pub garbage_share: f64,
}

impl Layout {
    pub fn log(&self, number: u64) -> LogPlace {
        assert!(number < LOGS, "log {number} has no place");
        let one = LogPlace { start: 0, segment_bytes: self.log_segment_bytes };
        LogPlace { start: number * one.end(), ..one }
    }

    pub fn slot_start(&self, slot: u32) -> u64 {
        self.log(LOGS - 1).end() + u64::from(slot) * self.slot_bytes
    }

    pub fn device_bytes(&self) -> u64 {
        self.slot_start(self.slots)
    }

    /// Makes a disk empty, whatever it holds.
    pub async fn clear(&self, disk: &dyn Disk) -> anyhow::Result<()> {
        let mut at = 0;
        while at < self.slot_start(0) {
            let length = ZERO_BYTES.min(self.slot_start(0) - at);
            disk.write(at, AlignedBuf::zeroed(length as usize), Durability::Volatile).await?;
            at += length;
        }
        for slot in 0..self.slots {
            disk.write(self.slot_start(slot), AlignedBuf::zeroed(BLOCK_BYTES), Durability::Volatile).await?;
        }
        Ok(disk.flush().await?)
    }
}
