//! A disk that is a block device or a file.
//!
//! Two descriptors: one with O_DIRECT for writes and direct reads, one through the page cache for cached reads, without
//! readahead. How the two agree is told in `page_cache`.
//!
//! The first descriptor holds the lock that makes this process the disk's only user. Rings and pool threads work on that
//! very descriptor, so the lock outlives the last operation in flight, even that of a killed process.

mod job;
mod lock;
mod medium;
mod page_cache;
mod pool;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use env::Env;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};

pub(crate) use self::job::{Call, DiskKey, Job, Step};
pub use self::lock::LockHolder;
use self::medium::Medium;
use crate::apart;
use crate::error::DiskError;
use crate::request::{Completion, Done, Request};
use crate::stats::DiskStats;
use crate::{BLOCK_BYTES, Disk, ring};

/// How long a start waits for what a predecessor holds that was killed, or is ending.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often a locked disk is tried again while `open_waiting` waits for it.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// How to open a [`FileDisk`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Make an empty file if there is none.
    pub create: bool,
    /// The most bytes a file may grow to; only the file system limits it if none. A block device has its size.
    pub capacity_bytes: Option<u64>,
    /// Go around the page cache. Without it, or where the file system refuses it, writes go through the cache and durable
    /// ones are followed by fdatasync.
    pub direct: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { create: false, capacity_bytes: None, direct: true }
    }
}

/// Why a disk could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is in use{}", path.display(), lock::holder_text(holder))]
    Locked { path: PathBuf, holder: Option<LockHolder> },
    #[error("{} is neither a block device nor a regular file", path.display())]
    NotADisk { path: PathBuf },
    #[error("{} was replaced by another file while it was opened", path.display())]
    Replaced { path: PathBuf },
}

/// A block device or a file, exclusively ours while this lives.
pub struct FileDisk {
    medium: Arc<Medium>,
}

impl FileDisk {
    /// Opens and locks the disk at `path`.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<FileDisk, OpenError> {
        let failed = |source: rustix::io::Errno| OpenError::Open { path: path.to_owned(), source: source.into() };
        let existed = path.exists();
        let (writer, direct) = open_writer(path, options)?;
        lock::lock(path, &writer)?;
        let stat = rustix::fs::fstat(&writer).map_err(failed)?;
        let is_block_device = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => true,
            FileType::RegularFile => false,
            _ => return Err(OpenError::NotADisk { path: path.to_owned() }),
        };
        let reader = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let reader_stat = rustix::fs::fstat(&reader).map_err(failed)?;
        if (stat.st_dev, stat.st_ino) != (reader_stat.st_dev, reader_stat.st_ino) {
            return Err(OpenError::Replaced { path: path.to_owned() });
        }
        // Readahead would fill the cache with neighbours that nobody asked for, and race with direct writes there.
        rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::Random).map_err(failed)?;
        if options.create && !existed {
            sync_parent(path).map_err(|source| OpenError::Open { path: path.to_owned(), source })?;
        }
        let size = rustix::fs::seek(&writer, SeekFrom::End(0)).map_err(failed)?;
        let capacity = if is_block_device { Some(size) } else { options.capacity_bytes.map(|most| most.max(size)) };
        let mut medium = Medium::new(path, writer, reader, is_block_device, size, capacity);
        medium.direct = direct && medium.direct_read_works();
        if !medium.direct {
            medium.empty_page_cache().map_err(failed)?;
        }
        Ok(FileDisk { medium: Arc::new(medium) })
    }

    /// As [`FileDisk::open`], on a thread of its own: a disk that hangs is waited for without holding anything else up. While another
    /// process holds the disk it is tried again, for `patience` at most. A predecessor that was killed holds it until its last write has
    /// ended.
    pub async fn open_waiting(
        env: &Env,
        path: &Path,
        options: &OpenOptions,
        patience: Duration,
    ) -> Result<FileDisk, OpenError> {
        let deadline = env.now() + patience;
        loop {
            match open_apart(path, options).await {
                Err(OpenError::Locked { .. }) if env.now() < deadline => env.sleep(LOCK_RETRY).await,
                outcome => return outcome,
            }
        }
    }

    /// Whether writes go around the page cache. If not, the file system refused it, or the options did.
    pub fn is_direct(&self) -> bool {
        self.medium.direct
    }

    /// Whether this is a block device, whose size is fixed.
    pub fn is_block_device(&self) -> bool {
        self.medium.is_block_device
    }
}

impl Disk for FileDisk {
    fn describe(&self) -> String {
        let how = if self.medium.direct { "" } else { " (through the page cache)" };
        format!("{}{how}", self.medium.name)
    }

    fn size_bytes(&self) -> u64 {
        self.medium.size.load(Ordering::Acquire)
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.medium.capacity
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        let outcome = self.medium.read_without_waiting(offset, buf);
        match &outcome {
            Ok(served) => self.medium.counters.count_cached(*served),
            Err(_) => self.medium.counters.count_failure(),
        }
        outcome
    }

    fn submit(&self, request: Request, done: Done) {
        if let Some(error) = self.medium.refusal(&request) {
            self.medium.counters.count_failure();
            return done(Completion { result: Err(error), buf: request.into_buf() });
        }
        self.medium.counters.count_request(&request);
        let suits_a_ring = self.medium.suits_a_ring(&request);
        let job = Job::new(self.medium.clone(), request, done);
        let left = if suits_a_ring { ring::submit(job) } else { Some(job) };
        if let Some(job) = left {
            job.go_to_pool();
        }
    }

    fn stats(&self) -> DiskStats {
        self.medium.counters.snapshot()
    }
}

#[cfg(test)]
impl FileDisk {
    /// A disk that answers no read before the other end of this pipe is closed.
    pub(crate) fn that_hangs(pipe: OwnedFd) -> FileDisk {
        let writer = pipe.try_clone().expect("a descriptor");
        FileDisk { medium: Arc::new(Medium::new(Path::new("pipe"), writer, pipe, false, 1 << 30, None)) }
    }
}

/// When nobody waits any more the disk is closed again.
async fn open_apart(path: &Path, options: &OpenOptions) -> Result<FileDisk, OpenError> {
    let (here, how) = (path.to_owned(), options.clone());
    // Where no thread is to be had: here.
    apart(move || FileDisk::open(&here, &how)).await.unwrap_or_else(|_| FileDisk::open(path, options))
}

/// The descriptor for writes, and whether it goes around the page cache.
fn open_writer(path: &Path, options: &OpenOptions) -> Result<(OwnedFd, bool), OpenError> {
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::stat(path) {
        // On a block device O_EXCL alone means: not while it is mounted, or part of something that is.
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_block_device() => flags |= OFlags::EXCL,
        Ok(_) => {}
        Err(_) if options.create => flags |= OFlags::CREATE,
        Err(source) => return Err(OpenError::Open { path: path.to_owned(), source: source.into() }),
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = if options.direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
            Err(rustix::io::Errno::INVAL) => rustix::fs::open(path, flags, mode).map(|writer| (writer, false)),
            outcome => outcome.map(|writer| (writer, true)),
        }
    } else {
        rustix::fs::open(path, flags, mode).map(|writer| (writer, false))
    };
    match opened {
        Err(rustix::io::Errno::BUSY) => Err(OpenError::Locked { path: path.to_owned(), holder: lock::holder_of_path(path) }),
        Err(source) => Err(OpenError::Open { path: path.to_owned(), source: source.into() }),
        Ok(opened) => Ok(opened),
    }
}

/// A new file survives a power cut only when its folder's entry does.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

const _: () = assert!(BLOCK_BYTES.is_power_of_two());

#[cfg(test)]
mod tests;
