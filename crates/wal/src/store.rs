//! Where segments come from: files in a folder, or slices of one disk.
//!
//! A segment is made at its full size and written once over before it is used: the first sync of unwritten extents would
//! otherwise also commit the file system's metadata, in the middle of somebody's append.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use disk::{
    AlignedBuf, BLOCK_BYTES, Completion, Disk, DiskError, DiskErrorKind, DiskExt, DiskStats, Done, Durability, FileDisk,
    LOCK_PATIENCE, OpenOptions, Operation, ReadMode, Request,
};
use env::Env;
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::{INITIAL_SEGMENTS, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES};

const SEGMENT_SUFFIX: &str = "segment";

/// Bytes of zeros per write while a segment is prepared.
const PREPARE_WRITE_BYTES: usize = 1024 * 1024;

/// A future of a store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// One preallocated piece of a log.
#[derive(Clone)]
pub struct Segment {
    /// For errors.
    pub name: String,
    pub disk: Arc<dyn Disk>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.name)
    }
}

/// The segments of one log.
pub trait SegmentStore: Send + Sync + 'static {
    /// Bytes of every segment.
    fn segment_bytes(&self) -> u64;

    /// Opens the segments that exist, in any order.
    fn segments(&self) -> StoreFuture<'_, Vec<Segment>>;

    /// Makes one more: allocated, zeroed, durable.
    fn create(&self) -> StoreFuture<'_, Segment>;
}

/// Segments as files in a folder, which belongs to one log.
#[derive(Debug)]
pub struct FolderStore {
    env: Env,
    folder: PathBuf,
    segment_bytes: u64,
    /// The number of the next file. Set when the folder is read.
    next_file: Mutex<u64>,
}

impl FolderStore {
    /// The segments in `folder`, which is made if absent. `segment_bytes` is a multiple of a block, between
    /// [`MIN_SEGMENT_BYTES`] and [`MAX_SEGMENT_BYTES`].
    pub fn open(env: &Env, folder: &Path, segment_bytes: u64) -> Result<Self, StoreError> {
        check_segment_bytes(segment_bytes);
        std::fs::create_dir_all(folder).map_err(|cause| failed("make the folder", folder, cause))?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|cause| failed("make durable the folder", parent, cause))?;
        Ok(FolderStore { env: env.clone(), folder: folder.to_path_buf(), segment_bytes, next_file: Mutex::new(1) })
    }

    fn file_numbers(&self) -> Result<Vec<u64>, StoreError> {
        let mut numbers = Vec::new();
        let entries = std::fs::read_dir(&self.folder).map_err(|cause| failed("read the folder", &self.folder, cause))?;
        for entry in entries {
            let path = entry.map_err(|cause| failed("read the folder", &self.folder, cause))?.path();
            let is_segment = path.extension().is_some_and(|suffix| suffix == SEGMENT_SUFFIX);
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if let (true, Some(Ok(number))) = (is_segment, stem.map(str::parse)) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Apart: the disk may take long for a new file, or for ever, and whoever writes to the log does other things besides. A predecessor that was
    /// killed holds a segment until its last write to it has ended, and lets go of each at another moment.
    async fn open_file(&self, number: u64) -> Result<FileDisk, StoreError> {
        let path = self.path(number);
        let options = OpenOptions { create: true, capacity_bytes: Some(self.segment_bytes), direct: true };
        let opened = FileDisk::open_waiting(&self.env, &path, &options, LOCK_PATIENCE).await;
        opened.map_err(|cause| failed("open segment", &path, cause))
    }

    /// The segment in `disk`, which is made whole where its making was cut short.
    async fn whole(&self, number: u64, disk: FileDisk) -> Result<Segment, StoreError> {
        let path = self.path(number);
        let preparing = |cause| failed("prepare segment", &path, cause);
        if !self.is_prepared(&disk).await.map_err(preparing)? {
            prepare(&disk, self.segment_bytes).await.map_err(preparing)?;
        }
        Ok(Segment { name: path.display().to_string(), disk: Arc::new(disk) })
    }

    /// Removes a file that was never used. One that stays is made whole, or removed, when the folder is read again.
    fn unlink(&self, number: u64) {
        let path = self.path(number);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a log segment that could not be made stays");
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.{SEGMENT_SUFFIX}"))
    }

    /// A file whose making was cut short was never used: its header comes after its full size. One that has a header and is
    /// too short was cut by someone else; recovery must see it as it is.
    async fn is_prepared(&self, disk: &FileDisk) -> Result<bool, DiskError> {
        let size = disk.size_bytes();
        if size >= self.segment_bytes {
            return Ok(true);
        }
        if size < BLOCK_BYTES as u64 {
            return Ok(false);
        }
        let block = disk.read(0, BLOCK_BYTES, ReadMode::Direct).await?;
        Ok(block.iter().any(|byte| *byte != 0))
    }
}

impl SegmentStore for FolderStore {
    fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        Box::pin(async move {
            let numbers = self.file_numbers()?;
            let mut segments = Vec::with_capacity(numbers.len());
            for number in &numbers {
                let disk = self.open_file(*number).await?;
                match self.whole(*number, disk).await {
                    // It was being made when the file system got full, and holds nothing.
                    Err(error) if error.is_no_space() => self.unlink(*number),
                    whole => segments.push(whole?),
                }
            }
            *self.next_file.lock() = numbers.last().map_or(1, |last| last + 1);
            Ok(segments)
        })
    }

    fn create(&self) -> StoreFuture<'_, Segment> {
        Box::pin(async move {
            let number = {
                let mut next_file = self.next_file.lock();
                *next_file += 1;
                *next_file - 1
            };
            let disk = self.open_file(number).await.inspect_err(|error| {
                // Each try has a number of its own: a file that stayed would be one segment more at the next start. It may be there although
                // it could not be opened, for a disk takes two descriptors.
                if error.may_pass() {
                    self.unlink(number);
                }
            })?;
            let made = self.whole(number, disk).await;
            if made.is_err() {
                self.unlink(number);
            }
            made
        })
    }
}

/// Segments as equal slices of one disk: a region of a device, or a simulated disk, whose crashes then hit all of them at one
/// moment. The range holds nothing but zeros before its first log.
#[derive(Clone)]
pub struct RegionStore {
    disk: Arc<dyn Disk>,
    start: u64,
    segment_bytes: u64,
    segment_count: usize,
    waits_when_full: bool,
}

impl RegionStore {
    /// `segment_count` segments of `segment_bytes` each, from byte `start` of `disk` on.
    pub fn new(disk: Arc<dyn Disk>, start: u64, segment_bytes: u64, segment_count: usize) -> Self {
        check_segment_bytes(segment_bytes);
        assert!(segment_count >= INITIAL_SEGMENTS, "a log of {segment_count} segments");
        assert!(start.is_multiple_of(BLOCK_BYTES as u64), "a region that begins at byte {start}");
        RegionStore { disk, start, segment_bytes, segment_count, waits_when_full: false }
    }

    /// While all segments hold records that are still needed, the log waits until its owner gives some up, as it would wait for a full file system. Without
    /// this the log ends.
    #[must_use]
    pub fn waiting_when_full(self) -> Self {
        RegionStore { waits_when_full: true, ..self }
    }
}

impl SegmentStore for RegionStore {
    fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        let slice = |index: usize| {
            let name = format!("{index} of {}", self.disk.describe());
            let offset = self.start + index as u64 * self.segment_bytes;
            Segment { name, disk: Arc::new(Slice { disk: Arc::clone(&self.disk), offset, len: self.segment_bytes }) }
        };
        let segments = (0..self.segment_count).map(slice).collect();
        Box::pin(std::future::ready(Ok(segments)))
    }

    fn create(&self) -> StoreFuture<'_, Segment> {
        let describe = self.disk.describe();
        let (attempt, path) = ("make another segment in a region of", Path::new(&describe));
        let error = if self.waits_when_full {
            let (kind, operation, len) = (DiskErrorKind::NoSpace, Operation::Allocate, self.segment_bytes);
            failed(attempt, path, DiskError { kind, device: describe.as_str().into(), operation, offset: 0, len, cause: None })
        } else {
            failed(attempt, path, RegionFull { segment_count: self.segment_count })
        };
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A region has a fixed number of segments.
#[derive(Debug, thiserror::Error)]
#[error("all {segment_count} segments hold records that are still needed")]
struct RegionFull {
    segment_count: usize,
}

/// A range of a disk, as a disk.
struct Slice {
    disk: Arc<dyn Disk>,
    offset: u64,
    len: u64,
}

impl Slice {
    fn refusal(&self, operation: Operation, offset: u64, len: u64) -> Option<DiskError> {
        if offset.checked_add(len).is_some_and(|end| end <= self.len) {
            return None;
        }
        let device = self.disk.describe().into();
        Some(DiskError { kind: DiskErrorKind::OutOfRange, device, operation, offset, len, cause: None })
    }
}

impl Disk for Slice {
    fn describe(&self) -> String {
        format!("{} from byte {}", self.disk.describe(), self.offset)
    }

    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn capacity_bytes(&self) -> Option<u64> {
        Some(self.len)
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        match self.refusal(Operation::Read, offset, buf.len() as u64) {
            Some(error) => Err(error),
            None => self.disk.try_read_cached(self.offset + offset, buf),
        }
    }

    fn submit(&self, mut request: Request, done: Done) {
        let (offset, len) = request.range();
        if let Some(error) = self.refusal(request.operation(), offset, len) {
            return done(Completion { result: Err(error), buf: None });
        }
        match &mut request {
            Request::Read { offset, .. }
            | Request::Write { offset, .. }
            | Request::Allocate { offset, .. }
            | Request::WriteZeros { offset, .. }
            | Request::Discard { offset, .. } => *offset += self.offset,
            Request::Flush => {}
        }
        self.disk.submit(request, done);
    }

    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}

/// Gives a segment its blocks and its full size.
async fn prepare(disk: &dyn Disk, segment_bytes: u64) -> Result<(), DiskError> {
    disk.allocate(0, segment_bytes).await?;
    let mut offset = 0;
    while offset < segment_bytes {
        let length = (segment_bytes - offset).min(PREPARE_WRITE_BYTES as u64);
        disk.write(offset, AlignedBuf::zeroed(length as usize), Durability::Volatile).await?;
        offset += length;
    }
    disk.flush().await
}

fn check_segment_bytes(segment_bytes: u64) {
    assert!((MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment_bytes), "segments of {segment_bytes} bytes");
    assert!(segment_bytes.is_multiple_of(BLOCK_BYTES as u64), "segments of {segment_bytes} bytes");
}

fn failed(attempt: &'static str, path: &Path, cause: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError { attempt, path: path.to_path_buf(), cause: Box::new(cause) }
}
