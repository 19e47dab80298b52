//! Small writes of one device that are under way together: their bytes share durable writes.
//!
//! ```text
//!   write of a few blocks ─┬─ few others are under way ─► its place, durable ─► answered
//!                          └─ many are ─► record, with others in one durable write ─► answered
//!                                            └─► later, neighbours together, its place ─► the record is given up
//! ```
//!
//! Invariants:
//! - Writes of one block take effect in the order in which they were asked for: one that overlaps a record which a start would carry out waits until that is
//!   given up.
//! - A read finds what was answered: bytes that are not in their place yet come from memory.
//! - A record is given up when its bytes are durable in their place: the device's region says so durably, then its space is used again.
//! - The journal does not fill up: beyond its bounds writes go to their places.
//!
//! A record is the part (u16), the offset (u64), both little endian, and the bytes.

mod entries;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use device::{Volume, VolumeError};
use disk::{AlignedBuf, DiskError, DiskErrorKind, Operation};
use env::Env;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use wal::{AppendError, Lsn, OpenOptions, RegionStore, Wal};

use crate::blocks::Way;
use crate::limits::{JOURNAL_PAUSE, JOURNALED_BYTES, MAX_PENDING_BYTES, URGENT_PENDING_BYTES};
use crate::members::Region;
use entries::{Entries, Run, Spot};

const HEAD_BYTES: usize = 10;
/// Segments that are left free: what is queued finds room there.
const SPARE_SEGMENTS: usize = 3;

/// The journal of a device.
pub struct Journal {
    env: Env,
    region: Arc<Region>,
    wal: Wal,
    segments: usize,
    /// Writes under way from which on they are journaled.
    from_writes: usize,
    entries: Mutex<Entries>,
    under_way: AtomicUsize,
    /// Writes that wait until a record is given up.
    waiting: AtomicUsize,
    wanted: Notify,
    urgent: Notify,
    /// Records were given up, or nothing is placed any more.
    changed: Notify,
    /// One round of placing at a time.
    placing: tokio::sync::Mutex<()>,
    is_closed: AtomicBool,
    journaled: AtomicU64,
    placed: AtomicU64,
}

/// One of those that are counted, while it exists.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// With how many there are now.
    fn one_more(of: &'a AtomicUsize) -> (Counted<'a>, usize) {
        let before = of.fetch_add(1, Ordering::SeqCst);
        (Counted(of), before + 1)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Journal {
    /// Opens a device's journal, or begins it. What it has goes to its places when it is run, and is read from memory until then.
    pub async fn open(
        env: &Env,
        region: Arc<Region>,
        store: RegionStore,
        (segments, from_writes): (usize, usize),
        keep_from: Lsn,
    ) -> Result<Journal, String> {
        let mut entries = Entries::default();
        let mut is_whole = true;
        let mut replay = |lsn: Lsn, record: &[u8]| match decode(record) {
            Some((spot, bytes)) => entries.insert(spot, lsn, bytes),
            None => is_whole = false,
        };
        let options = OpenOptions { keep_from, ..OpenOptions::default() };
        let opened = Wal::open(env, Arc::new(store), options, &mut replay).await;
        let wal = opened.map_err(|error| crate::members::causes(&error))?;
        if !is_whole {
            return Err("the journal of small writes has a record that is none".to_owned());
        }
        if !entries.is_empty() {
            env::mark("volume engine: a start has found small writes");
        }
        let wanted = Notify::new();
        wanted.notify_one();
        Ok(Journal {
            env: env.clone(),
            region,
            wal,
            segments,
            from_writes,
            entries: Mutex::new(entries),
            under_way: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            wanted,
            urgent: Notify::new(),
            changed: Notify::new(),
            placing: tokio::sync::Mutex::new(()),
            is_closed: AtomicBool::new(false),
            journaled: AtomicU64::new(0),
            placed: AtomicU64::new(0),
        })
    }

    /// Writes that were journaled, and writes by which their bytes went to their places.
    pub fn counts(&self) -> (u64, u64) {
        (self.journaled.load(Ordering::Relaxed), self.placed.load(Ordering::Relaxed))
    }

    /// Writes whole blocks of a part.
    pub async fn write(&self, volume: &Volume, part: u16, offset: u64, bytes: AlignedBuf) -> Result<(), VolumeError> {
        let (_counted, under_way) = Counted::one_more(&self.under_way);
        let (spot, len) = ((part, offset), bytes.len() as u64);
        let record = loop {
            self.wait_for_order(volume, spot, len).await?;
            if under_way < self.from_writes
                || !volume.writes_are_durable()
                || !self.takes(bytes.len())
                || !volume.is_reserved(offset, len)
            {
                return volume.write(offset, bytes).await;
            }
            let record = encode(spot, &bytes);
            let reserved = self.wal.reserve(record.len()).await.map_err(|error| self.failed(&error))?;
            let mut entries = self.entries.lock();
            // Another write of these blocks may have come meanwhile.
            if !entries.overlaps(spot, len) {
                let record = reserved.append(record).map_err(|error| self.failed(&error))?;
                entries.insert(spot, record.lsn(), bytes);
                if entries.pending_bytes() >= URGENT_PENDING_BYTES {
                    self.urgent.notify_one();
                }
                break record;
            }
        };
        self.wanted.notify_one();
        self.journaled.fetch_add(1, Ordering::Relaxed);
        env::mark("volume engine: a write was journaled");
        record.await.map(drop).map_err(|error| self.failed(&error))
    }

    /// Reads whole blocks of a part.
    pub async fn read(&self, volume: &Volume, part: u16, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, VolumeError> {
        // Looked at before the medium is: what goes to its place meanwhile is in what was found here, or on the medium.
        let pending = self.entries.lock().pending_in((part, offset), len as u64);
        let end = offset + len as u64;
        if let [(at, bytes)] = &pending[..]
            && *at <= offset
            && at + bytes.len() as u64 >= end
        {
            let from = (offset - at) as usize;
            return Ok(AlignedBuf::copy_of(&bytes[from..from + len]));
        }
        let mut read = match way {
            Way::Cached => volume.read(offset, len).await?,
            Way::Medium => volume.read_medium(offset, len).await?,
        };
        for (at, bytes) in pending {
            let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(end));
            read[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
        Ok(read)
    }

    /// Brings bytes to their places, for as long as the device takes writes.
    pub async fn run(&self) -> VolumeError {
        loop {
            self.wanted.notified().await;
            if self.waiting.load(Ordering::SeqCst) == 0 {
                tokio::select! {
                    () = self.env.sleep(JOURNAL_PAUSE) => {}
                    () = self.urgent.notified() => {}
                }
            }
            if let Err(error) = self.place(false).await {
                self.is_closed.store(true, Ordering::SeqCst);
                self.changed.notify_waiters();
                return error;
            }
        }
    }

    /// Brings all bytes to their places, and gives all records up.
    pub async fn empty(&self) -> Result<(), VolumeError> {
        loop {
            self.place(true).await?;
            if self.entries.lock().is_empty() {
                return Ok(());
            }
            self.env.sleep(JOURNAL_PAUSE).await;
        }
    }

    /// Journals nothing more; what it has goes to its places.
    pub async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Err(error) = self.empty().await {
            tracing::warn!(%error, device = %self.home().device(), "small writes of volume buckets stay in the journal until the next start");
        }
        self.changed.notify_waiters();
    }

    /// Waits until no record has any of these bytes.
    async fn wait_for_order(&self, volume: &Volume, spot: Spot, len: u64) -> Result<(), VolumeError> {
        while self.entries.lock().overlaps(spot, len) {
            env::mark("volume engine: a write waited for the journal");
            let changed = self.changed.notified();
            let waiting = Counted::one_more(&self.waiting);
            self.wanted.notify_one();
            self.urgent.notify_one();
            if self.is_closed.load(Ordering::SeqCst) {
                self.empty().await?;
            } else if self.entries.lock().overlaps(spot, len) {
                changed.await;
            }
            drop(waiting);
            if let Some(cause) = volume.poisoned_by() {
                return Err(VolumeError::Poisoned { device: volume.device(), cause });
            }
        }
        Ok(())
    }

    /// Whether a write of so many bytes may be a record.
    fn takes(&self, bytes: usize) -> bool {
        bytes <= JOURNALED_BYTES
            && !self.is_closed.load(Ordering::SeqCst)
            && self.wal.live_segment_count() + SPARE_SEGMENTS <= self.segments
            && self.entries.lock().pending_bytes() < MAX_PENDING_BYTES
    }

    /// Brings what is durable to its place, and gives up what that makes needless: whole segments, or all where somebody waits.
    async fn place(&self, is_waited_for: bool) -> Result<(), VolumeError> {
        let _placing = self.placing.lock().await;
        if let Some(cause) = self.home().poisoned_by() {
            return Err(VolumeError::Poisoned { device: self.home().device(), cause });
        }
        // Before the records are looked at: later ones are in the log when it is.
        let durable = self.wal.durable_lsn();
        let runs = self.entries.lock().runs(durable);
        let placed: Vec<_> = join_all(runs.iter().map(|run| self.place_run(run))).await;
        let floor = {
            let mut entries = self.entries.lock();
            runs.iter().zip(&placed).filter(|(_, placed)| placed.is_ok()).for_each(|(run, _)| entries.placed(run));
            if entries.pending_bytes() > 0 {
                self.wanted.notify_one();
            }
            entries.first_pending().unwrap_or(durable.next()).min(durable.next())
        };
        placed.into_iter().collect::<Result<(), _>>()?;
        let is_waited_for = is_waited_for || self.waiting.load(Ordering::SeqCst) > 0;
        if is_waited_for || self.wal.second_segment_lsn().is_some_and(|second| second <= floor) {
            self.give_up_before(floor).await?;
        }
        Ok(())
    }

    async fn place_run(&self, run: &Run) -> Result<(), VolumeError> {
        let (part, offset) = run.spot;
        self.placed.fetch_add(1, Ordering::Relaxed);
        match self.home().part(part).write(offset, run.joined()).await {
            // The space was given back: no name has anything there.
            Err(VolumeError::NotReserved { .. }) => Ok(()),
            written => written,
        }
    }

    async fn give_up_before(&self, floor: Lsn) -> Result<(), VolumeError> {
        self.region.keep_journal_from(floor).await?;
        env::mark("volume engine: records of small writes were given up");
        self.wal.truncate_before(floor);
        self.entries.lock().forget_before(floor);
        self.changed.notify_waiters();
        Ok(())
    }

    fn home(&self) -> &Volume {
        self.region.home()
    }

    /// The error of a write whose record did not become durable.
    fn failed(&self, error: &AppendError) -> VolumeError {
        let cause = self.home().poisoned_by().unwrap_or_else(|| {
            let cause = Some(Arc::new(std::io::Error::other(error.to_string())));
            let (kind, operation, device) = (DiskErrorKind::Failed, Operation::Write, self.home().describe().into());
            Arc::new(DiskError { kind, device, operation, offset: 0, len: 0, cause })
        });
        VolumeError::Disk { device: self.home().device(), cause }
    }
}

fn encode((part, offset): Spot, bytes: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
    record.extend_from_slice(&part.to_le_bytes());
    record.extend_from_slice(&offset.to_le_bytes());
    record.extend_from_slice(bytes);
    record
}

fn decode(record: &[u8]) -> Option<(Spot, AlignedBuf)> {
    let (part, rest) = record.split_first_chunk()?;
    let (offset, bytes) = rest.split_first_chunk()?;
    let is_whole = !bytes.is_empty() && bytes.len() <= JOURNALED_BYTES && bytes.len().is_multiple_of(disk::BLOCK_BYTES);
    is_whole.then(|| ((u16::from_le_bytes(*part), u64::from_le_bytes(*offset)), AlignedBuf::copy_of(bytes)))
}

#[cfg(test)]
mod tests;
