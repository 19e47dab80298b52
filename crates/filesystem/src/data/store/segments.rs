//! The journal's segments: places of the volume.
//!
//! The log tells a torn tail from damage by the order in which its writes became durable. So a write of the journal is durable before the next
//! one in every mode of the device: it ends with a flush, which costs nothing where writes are durable at once. What was complete before such a flush is
//! durable behind it: that is noted, for blocks are used again only then ([`super::space`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use device::{Volume, VolumeError};
use disk::{Completion, Disk, DiskError, DiskErrorKind, DiskStats, Done, Durability, Operation, ReadMode, Request};
use env::Env;
use wal::{Segment, SegmentStore, StoreError, StoreFuture};

use super::layout::Layout;
use super::limits::JOURNAL_SEGMENTS;

/// Up to which record all is done.
#[derive(Debug, Default)]
pub struct Settling {
    /// Records below this number are durable and their content is written.
    done_below: AtomicU64,
    /// Records below this number are durable, and so is their content.
    settled_below: AtomicU64,
}

impl Settling {
    pub fn note_done(&self, below: u64) {
        self.done_below.store(below, Ordering::Release);
    }

    pub fn done_below(&self) -> u64 {
        self.done_below.load(Ordering::Acquire)
    }

    /// What was done before a flush began is settled when it has ended.
    pub fn note_flushed(&self, done_before: u64) {
        self.settled_below.fetch_max(done_before, Ordering::AcqRel);
    }

    pub fn settled_below(&self) -> u64 {
        self.settled_below.load(Ordering::Acquire)
    }
}

/// The segments of a volume's journal.
pub struct VolumeSegments {
    pub env: Env,
    pub volume: Volume,
    pub layout: Layout,
    pub settling: Arc<Settling>,
}

impl SegmentStore for VolumeSegments {
    fn segment_bytes(&self) -> u64 {
        self.layout.segment_bytes
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        let segment = |index: usize| {
            let disk = SegmentDisk {
                env: self.env.clone(),
                volume: self.volume.clone(),
                start: self.layout.segment_start(index),
                len: self.layout.segment_bytes,
                settling: self.settling.clone(),
            };
            Segment { name: format!("{index} of the journal of files on {}", self.volume.describe()), disk: Arc::new(disk) }
        };
        let segments = (0..JOURNAL_SEGMENTS).map(segment).collect();
        Box::pin(std::future::ready(Ok(segments)))
    }

    /// There is a fixed number. The log waits for a checkpoint, as it would wait for a full file system.
    fn create(&self) -> StoreFuture<'_, Segment> {
        let (kind, operation) = (DiskErrorKind::NoSpace, Operation::Allocate);
        let device = self.volume.describe().into();
        let cause = DiskError { kind, device, operation, offset: 0, len: self.layout.segment_bytes, cause: None };
        let path = PathBuf::from(self.volume.describe());
        let error = StoreError { attempt: "make another segment in the journal of files on", path, cause: Box::new(cause) };
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A range of the volume, as a disk.
struct SegmentDisk {
    env: Env,
    volume: Volume,
    start: u64,
    len: u64,
    settling: Arc<Settling>,
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
        format!("{} from byte {} of the volume for files", self.volume.describe(), self.start)
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
        let (volume, settling, place) = (self.volume.clone(), self.settling.clone(), self.start + offset);
        let name = self.describe();
        let work = async move {
            let outcome = carry_out(&volume, &settling, place, request).await;
            let completion = match outcome {
                Ok(buf) => Completion { result: Ok(()), buf },
                Err((operation, error)) => {
                    Completion { result: Err(disk_error(name, operation, (offset, len), error)), buf: None }
                }
            };
            done(completion);
        };
        drop(self.env.spawn(work));
    }

    fn stats(&self) -> DiskStats {
        DiskStats::default()
    }
}

type Outcome = Result<Option<disk::AlignedBuf>, (Operation, VolumeError)>;

async fn carry_out(volume: &Volume, settling: &Settling, place: u64, request: Request) -> Outcome {
    let operation = request.operation();
    let failed = |error| (operation, error);
    match request {
        Request::Read { buf, mode, .. } => {
            let read = match mode {
                ReadMode::Cached => volume.read(place, buf.len()).await,
                ReadMode::Direct => volume.read_medium(place, buf.len()).await,
            };
            read.map(Some).map_err(failed)
        }
        Request::Write { buf, durability, .. } => {
            volume.write(place, buf).await.map_err(failed)?;
            if durability == Durability::Durable {
                flush(volume, settling).await.map_err(failed)?;
            }
            Ok(Some(disk::AlignedBuf::with_capacity(0)))
        }
        Request::Flush => flush(volume, settling).await.map(|()| None).map_err(failed),
        Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => Ok(None),
    }
}

/// Has all that was done before stand on the medium.
pub async fn flush(volume: &Volume, settling: &Settling) -> Result<(), VolumeError> {
    let done_before = settling.done_below();
    volume.flush().await?;
    settling.note_flushed(done_before);
    Ok(())
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
