//! A placement group's log: what several members will agree on. With one member it is a write-ahead log on owned units.
//!
//! The rest of the engine sees five things of it: room for a record, a record's number and when it is durable, up to where all is settled, how full it is, and that its
//! first records are given up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use device::{Volume, VolumeError};
use disk::{
    AlignedBuf, BLOCK_BYTES, Completion, Disk, DiskError, DiskErrorKind, DiskStats, Done, Durability, Operation, ReadMode,
    Request,
};
use env::Env;
use wal::{
    AppendError, Lsn, OpenError, OpenOptions, Pending, Reservation, Segment, SegmentStore, StoreError, StoreFuture, Wal,
};

use crate::limits::{LOG_SEGMENTS, LOG_SHARE, MAX_LOG_SEGMENT_BYTES, MIN_LOG_SEGMENT_BYTES};
use crate::name::Opseq;
use crate::superblock::SUPERBLOCK_SLOTS;

/// Up to which mutation all is done, and settled.
#[derive(Debug, Default)]
pub struct Settling {
    done_below: AtomicU64,
    settled_below: AtomicU64,
}

impl Settling {
    /// Mutations below this number are resolved: their records and contents are written.
    pub fn note_done(&self, below: Opseq) {
        self.done_below.store(below.0, Ordering::Release);
    }

    fn done_below(&self) -> Opseq {
        Opseq(self.done_below.load(Ordering::Acquire))
    }

    /// Mutations below this number are resolved, and stand on the medium.
    pub fn settled_below(&self) -> Opseq {
        Opseq(self.settled_below.load(Ordering::Acquire))
    }

    fn note_settled(&self, below: Opseq) {
        self.settled_below.fetch_max(below.0, Ordering::AcqRel);
    }
}

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
        self.settling.note_settled(done_before);
        Ok(())
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
        let store = Segments { env: env.clone(), volumes, home, place };
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

/// The segments: a fixed number, at the start of the home volume.
struct Segments {
    env: Env,
    volumes: Arc<Volumes>,
    home: Volume,
    place: LogPlace,
}

impl SegmentStore for Segments {
    fn segment_bytes(&self) -> u64 {
        self.place.segment_bytes
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        let segment = |index: usize| {
            let disk = SegmentDisk {
                env: self.env.clone(),
                volumes: self.volumes.clone(),
                home: self.home.clone(),
                start: self.place.segment_start(index),
                len: self.place.segment_bytes,
            };
            Segment { name: format!("{index} of the log of objects on {}", self.home.describe()), disk: Arc::new(disk) }
        };
        Box::pin(std::future::ready(Ok((0..LOG_SEGMENTS).map(segment).collect())))
    }

    /// The log waits for a dump, as it would wait for a full file system.
    fn create(&self) -> StoreFuture<'_, Segment> {
        let (kind, operation) = (DiskErrorKind::NoSpace, Operation::Allocate);
        let device = self.home.describe().into();
        let cause = DiskError { kind, device, operation, offset: 0, len: self.place.segment_bytes, cause: None };
        let path = PathBuf::from(self.home.describe());
        let error = StoreError { attempt: "make another segment in the log of objects on", path, cause: Box::new(cause) };
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A segment, as a disk. A durable write ends with a flush in every mode of the device: it costs nothing where writes are durable at once.
struct SegmentDisk {
    env: Env,
    volumes: Arc<Volumes>,
    home: Volume,
    start: u64,
    len: u64,
}

impl SegmentDisk {
    fn refusal(&self, operation: Operation, offset: u64, len: u64) -> Option<DiskError> {
        let kind = match operation {
            Operation::Read | Operation::Write | Operation::Flush => DiskErrorKind::OutOfRange,
            // The segments have their space and their zeros; the log asks for neither.
            Operation::Allocate | Operation::WriteZeros | Operation::Discard => DiskErrorKind::Failed,
        };
        let is_within = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if is_within && kind == DiskErrorKind::OutOfRange {
            return None;
        }
        Some(DiskError { kind, device: self.describe().into(), operation, offset, len, cause: None })
    }
}

impl Disk for SegmentDisk {
    fn describe(&self) -> String {
        format!("{} from byte {} of the volume for objects", self.home.describe(), self.start)
    }

    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn capacity_bytes(&self) -> Option<u64> {
        Some(self.len)
    }

    fn try_read_cached(&self, _offset: u64, _buf: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }

    fn submit(&self, request: Request, done: Done) {
        let (offset, len) = request.range();
        if let Some(error) = self.refusal(request.operation(), offset, len) {
            return done(Completion { result: Err(error), buf: None });
        }
        let (volumes, home, place) = (self.volumes.clone(), self.home.clone(), self.start + offset);
        let name = self.describe();
        let work = async move {
            let operation = request.operation();
            let completion = match carry_out(&volumes, &home, place, request).await {
                Ok(buf) => Completion { result: Ok(()), buf },
                Err(error) => Completion { result: Err(disk_error(name, operation, (offset, len), error)), buf: None },
            };
            done(completion);
        };
        drop(self.env.spawn(work));
    }

    fn stats(&self) -> DiskStats {
        DiskStats::default()
    }
}

async fn carry_out(volumes: &Volumes, home: &Volume, place: u64, request: Request) -> Result<Option<AlignedBuf>, VolumeError> {
    match request {
        Request::Read { buf, mode: ReadMode::Cached, .. } => home.read(place, buf.len()).await.map(Some),
        Request::Read { buf, mode: ReadMode::Direct, .. } => home.read_medium(place, buf.len()).await.map(Some),
        Request::Write { buf, durability, .. } => {
            home.write(place, buf).await?;
            if durability == Durability::Durable {
                volumes.settle().await?;
            }
            Ok(Some(AlignedBuf::with_capacity(0)))
        }
        Request::Flush => volumes.settle().await.map(|()| None),
        Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => Ok(None),
    }
}

fn disk_error(device: String, operation: Operation, (offset, len): (u64, u64), error: VolumeError) -> DiskError {
    match error {
        VolumeError::Disk { cause, .. } => DiskError { offset, len, ..(*cause).clone() },
        VolumeError::Poisoned { .. } => {
            DiskError { kind: DiskErrorKind::Poisoned, device: device.into(), operation, offset, len, cause: None }
        }
        other => {
            let cause = Some(Arc::new(std::io::Error::other(other.to_string())));
            DiskError { kind: DiskErrorKind::Failed, device: device.into(), operation, offset, len, cause }
        }
    }
}
