//! A log whose records are needed until what they announce is done.

use anyhow::Context;
use disk::Disk;
use env::Env;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use wal::{Lsn, OpenOptions, RegionStore, Wal};

/// Segments of each log.
const SEGMENTS: usize = 8;
/// Records are given up when so many segments hold some that are needed.
const FILLING_SEGMENTS: usize = SEGMENTS / 2;

/// Where a log stands on a disk.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace {
    pub start: u64,
    pub segment_bytes: u64,
}

impl LogPlace {
    pub fn end(&self) -> u64 {
        self.start + SEGMENTS as u64 * self.segment_bytes
    }
}

/// A log with group commit.
pub struct Log {
    wal: Wal,
    open: Mutex<Open>,
}

struct Open {
    records: BTreeSet<Lsn>,
    next: Lsn,
}

impl Log {
    /// Opens what stands on a disk, or begins where there are zeros.
    pub async fn open(
        env: &Env,
        disk: Arc<dyn Disk>,
        place: LogPlace,
        keep_from: Lsn,
        mut replay: impl FnMut(&[u8]) + Send,
    ) -> anyhow::Result<Log> {
        let store = RegionStore::new(disk, place.start, place.segment_bytes, SEGMENTS).waiting_when_full();
        let options = OpenOptions { keep_from, begin_at: Lsn::FIRST };
        let mut take = |_: Lsn, bytes: &[u8]| replay(bytes);
        let wal = Wal::open(env, Arc::new(store), options, &mut take).await.context("opening a log")?;
        let open = Mutex::new(Open { records: BTreeSet::new(), next: wal.durable_lsn().next() });
        Ok(Log { wal, open })
    }

    /// Makes a record durable. It is needed until [`Log::close`].
    pub async fn append(&self, record: Vec<u8>) -> anyhow::Result<Lsn> {
        let room = self.wal.reserve(record.len()).await?;
        let pending = {
            let mut open = self.open.lock();
            let pending = room.append(record)?;
            open.records.insert(pending.lsn());
            open.next = pending.lsn().next();
            pending
        };
        Ok(pending.await?)
    }

    /// What a record announced is done.
    pub fn close(&self, lsn: Lsn) {
        self.open.lock().records.remove(&lsn);
    }

    /// The first record that is needed.
    pub fn keep_from(&self) -> Lsn {
        let open = self.open.lock();
        open.records.first().copied().unwrap_or(open.next)
    }

    /// Whether records should be given up.
    pub fn is_filling(&self) -> bool {
        self.wal.live_segment_count() >= FILLING_SEGMENTS
    }

    /// Gives up the records before this one.
    pub fn truncate_before(&self, lsn: Lsn) {
        self.wal.truncate_before(lsn);
    }
}
