//! A placement group's log: what several members will agree on. With one member it is a write-ahead log on owned units.
//!
//! The rest of the engine sees five things of it: room for a record, a record's number and when it is durable, up to where all is settled, how full it is, and that its
//! first records are given up.

use std::sync::Arc;

use device::{Volume, VolumeDisk, VolumeError};
use disk::BLOCK_BYTES;
use env::Env;
use wal::{AppendError, Lsn, OpenError, OpenOptions, Pending, RegionStore, Reservation, Settling, Wal};

use crate::limits::{LOG_SEGMENTS, LOG_SHARE, MAX_LOG_SEGMENT_BYTES, MIN_LOG_SEGMENT_BYTES};
use crate::name::Opseq;
use crate::superblock::SUPERBLOCK_SLOTS;

/// The volumes that a flush has to reach: contents stand on all of them.
pub struct Volumes {
    pub all: Vec<Option<Volume>>,
    pub settling: Settling,
}

impl Volumes {
    /// Has all that was done before stand on the medium.
    pub async fn settle(&self) -> Result<(), VolumeError> {
        let done_before = self.settling.done_below();
        for volume in self.all.iter().flatten() {
            volume.flush().await?;
        }
        self.settling.note_flushed(done_before);
        Ok(())
    }

    /// Mutations below this number are resolved: their records and contents are written.
    pub fn note_done(&self, below: Opseq) {
        self.settling.note_done(below.0);
    }

    /// Mutations below this number are resolved, and stand on the medium.
    pub fn settled_below(&self) -> Opseq {
        Opseq(self.settling.settled_below())
    }
}

/// Where the log's segments stand on the home volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    pub segment_bytes: u64,
}

impl LogPlace {
    pub fn of(volume_bytes: u64) -> LogPlace {
        let block = BLOCK_BYTES as u64;
        let share = volume_bytes / LOG_SHARE / LOG_SEGMENTS as u64 / block * block;
        LogPlace { segment_bytes: share.clamp(MIN_LOG_SEGMENT_BYTES, MAX_LOG_SEGMENT_BYTES) }
    }

    /// The first byte of a segment.
    pub fn segment_start(&self, index: usize) -> u64 {
        SUPERBLOCK_SLOTS * BLOCK_BYTES as u64 + index as u64 * self.segment_bytes
    }

    /// Blocks of the superblock and the log.
    pub fn fixed_blocks(&self) -> u64 {
        self.segment_start(LOG_SEGMENTS) / BLOCK_BYTES as u64
    }
}

/// The log.
pub struct PgLog {
    wal: Wal,
}

impl PgLog {
    /// Opens the log on a volume, or begins it, and hands out its records.
    pub async fn open(
        env: &Env,
        volumes: Arc<Volumes>,
        home: Volume,
        place: LogPlace,
        keep_from: Opseq,
        replay: &mut (dyn FnMut(Opseq, &[u8]) + Send),
    ) -> Result<PgLog, OpenError> {
        let store = segments(volumes, home, place);
        let options = OpenOptions { keep_from: Lsn(keep_from.0), begin_at: Lsn::FIRST };
        let wal = Wal::open(env, Arc::new(store), options, &mut |lsn, bytes| replay(Opseq(lsn.0), bytes)).await?;
        Ok(PgLog { wal })
    }

    /// Longest record.
    pub fn max_record_bytes(&self) -> usize {
        self.wal.max_record_bytes()
    }

    /// Waits for room for a record.
    pub async fn reserve(&self, bytes: usize) -> Result<Reservation, AppendError> {
        self.wal.reserve(bytes).await
    }

    /// Takes a record. Its number is fixed now; it is durable when what is returned is ready.
    pub fn append(&self, room: Reservation, record: Vec<u8>) -> Result<(Opseq, Pending), AppendError> {
        let pending = room.append(record)?;
        Ok((Opseq(pending.lsn().0), pending))
    }

    /// Segments that hold records which are needed.
    pub fn live_segments(&self) -> usize {
        self.wal.live_segment_count()
    }

    /// Gives up the records before this one.
    pub fn truncate_before(&self, opseq: Opseq) {
        self.wal.truncate_before(Lsn(opseq.0));
    }
}

/// The segments: a fixed number, at the start of the home volume. The log waits for a dump. Its flushes reach all volumes.
fn segments(volumes: Arc<Volumes>, home: Volume, place: LogPlace) -> RegionStore {
    let settle = move || {
        let volumes = volumes.clone();
        Box::pin(async move { volumes.settle().await }) as _
    };
    let disk = Arc::new(VolumeDisk::new(home, Arc::new(settle)));
    RegionStore::new(disk, place.segment_start(0), place.segment_bytes, LOG_SEGMENTS).waiting_when_full()
}
