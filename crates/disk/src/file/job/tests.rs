use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::super::{FileDisk, OpenOptions};
use super::{Call, INTERRUPTION_LIMIT, Job, Step};
use crate::{AlignedBuf, BLOCK_BYTES, Completion, Disk, DiskErrorKind, Durability, MAX_REQUEST_BYTES, ReadMode, Request};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A disk whose jobs are led by hand, with made-up results of system calls.
struct Bench {
    _folder: TempDir,
    disk: FileDisk,
    answer: Arc<Mutex<Option<Completion>>>,
}

impl Bench {
    fn new(direct: bool) -> Bench {
        let folder = TempDir::new().expect("temporary folder");
        let path: PathBuf = folder.path().join("disk");
        let options = OpenOptions { create: true, direct, ..OpenOptions::default() };
        let disk = FileDisk::open(&path, &options).expect("opens");
        disk.medium.size.store(1 << 30, std::sync::atomic::Ordering::Release);
        Bench { _folder: folder, disk, answer: Arc::default() }
    }

    fn job(&self, request: Request) -> Job {
        let answer = self.answer.clone();
        Job::new(self.disk.medium.clone(), request, Box::new(move |completion| *answer.lock() = Some(completion)))
    }

    /// Ends the job as `step` says; the kind of the error it ended with, if any.
    fn end(&self, job: Job, step: Step) -> Option<DiskErrorKind> {
        let Step::Finished(result) = step else { panic!("the job goes on") };
        job.finish(result);
        let completion = self.answer.lock().take().expect("answered");
        completion.result.err().map(|error| error.kind)
    }

    fn is_poisoned(&self) -> bool {
        self.disk.medium.refusal(&Request::Flush).is_some_and(|error| error.kind == DiskErrorKind::Poisoned)
    }
}

fn write(blocks: usize, durability: Durability) -> Request {
    Request::Write { offset: 8 * BLOCK, buf: AlignedBuf::zeroed(blocks * BLOCK_BYTES), durability }
}

fn failed(errno: i32) -> io::Result<usize> {
    Err(io::Error::from_raw_os_error(errno))
}

/// Offset, length and durability of the next call, which has to be a write.
fn next_write(job: &mut Job) -> (u64, usize, bool) {
    match job.next_call() {
        Call::Write { buf, offset, durable, .. } => (offset, buf.len(), durable),
        _ => panic!("not a write"),
    }
}

#[test]
fn a_short_direct_write_goes_on_at_the_block_it_broke_in() {
    let bench = Bench::new(true);
    let mut job = bench.job(write(4, Durability::Durable));
    assert_eq!(next_write(&mut job), (8 * BLOCK, 4 * BLOCK_BYTES, true));
    assert!(matches!(job.advance(Ok(BLOCK_BYTES + 512)), Step::Again));
    assert_eq!(next_write(&mut job), (9 * BLOCK, 3 * BLOCK_BYTES, true));
    assert!(matches!(job.advance(Ok(2 * BLOCK_BYTES)), Step::Again));
    assert_eq!(next_write(&mut job), (11 * BLOCK, BLOCK_BYTES, true));
    let step = job.advance(Ok(BLOCK_BYTES));
    assert_eq!(bench.end(job, step), None);
}

#[test]
fn a_durable_write_through_the_cache_ends_with_a_sync() {
    let bench = Bench::new(false);
    let mut job = bench.job(write(1, Durability::Durable));
    assert_eq!(next_write(&mut job), (8 * BLOCK, BLOCK_BYTES, false));
    assert!(matches!(job.advance(Ok(100)), Step::Again));
    assert_eq!(next_write(&mut job), (8 * BLOCK + 100, BLOCK_BYTES - 100, false));
    assert!(matches!(job.advance(Ok(BLOCK_BYTES - 100)), Step::Again));
    assert!(matches!(job.next_call(), Call::Sync { .. }));
    let step = job.advance(Ok(0));
    assert_eq!(bench.end(job, step), None);
    assert!(!bench.is_poisoned());

    let mut job = bench.job(write(1, Durability::Durable));
    assert!(matches!(job.advance(Ok(BLOCK_BYTES)), Step::Again));
    let step = job.advance(failed(libc::EIO));
    assert_eq!(bench.end(job, step), Some(DiskErrorKind::Failed));
    assert!(bench.is_poisoned());
}

/// The kernel tells of a failed write-back once: the second sync finds nothing to write, and no error.
#[test]
fn a_sync_through_the_cache_that_ends_well_after_one_that_failed_promises_nothing() {
    let bench = Bench::new(false);
    let mut write = bench.job(write(1, Durability::Durable));
    assert!(matches!(write.advance(Ok(BLOCK_BYTES)), Step::Again));
    assert!(matches!(write.next_call(), Call::Sync { .. }));
    let (mut first, mut second) = (bench.job(Request::Flush), bench.job(Request::Flush));
    let step = first.advance(failed(libc::EIO));
    assert_eq!(bench.end(first, step), Some(DiskErrorKind::Failed));
    let step = write.advance(Ok(0));
    assert_eq!(bench.end(write, step), Some(DiskErrorKind::Poisoned));
    let step = second.advance(Ok(0));
    assert_eq!(bench.end(second, step), Some(DiskErrorKind::Poisoned));
}

/// Without FUA a durable write is a write and a flush of the drive's cache, and the drive tells of a sector that it lost once.
#[test]
fn a_direct_write_that_ends_well_after_a_flush_that_failed_promises_nothing() {
    let bench = Bench::new(true);
    let (mut flush, mut job) = (bench.job(Request::Flush), bench.job(write(1, Durability::Durable)));
    let (mut second, mut volatile) = (bench.job(Request::Flush), bench.job(write(1, Durability::Volatile)));
    let step = flush.advance(failed(libc::EIO));
    assert_eq!(bench.end(flush, step), Some(DiskErrorKind::Failed));
    let step = job.advance(Ok(BLOCK_BYTES));
    assert_eq!(bench.end(job, step), Some(DiskErrorKind::Poisoned));
    let step = second.advance(Ok(0));
    assert_eq!(bench.end(second, step), Some(DiskErrorKind::Poisoned));
    let step = volatile.advance(Ok(BLOCK_BYTES));
    assert_eq!(bench.end(volatile, step), None, "it promises nothing in any case");
}

/// The disk has learnt of a failed sync before the next one may begin, not only when somebody is told.
#[test]
fn the_disk_is_poisoned_with_the_failed_call() {
    let bench = Bench::new(false);
    let mut job = bench.job(Request::Flush);
    let step = job.advance(failed(libc::EIO));
    assert!(bench.is_poisoned());
    assert_eq!(bench.end(job, step), Some(DiskErrorKind::Failed));
}

/// They wait for one another.
#[test]
fn syncs_of_the_page_cache_go_to_threads() {
    assert!(Bench::new(false).job(Request::Flush).syncs_page_cache());
    assert!(!Bench::new(true).job(Request::Flush).syncs_page_cache());
    for (direct, request, suits) in [
        (false, Request::Flush, false),
        (false, write(1, Durability::Durable), false),
        (false, write(1, Durability::Volatile), true),
        (true, Request::Flush, true),
        (true, write(1, Durability::Durable), true),
    ] {
        let bench = Bench::new(direct);
        assert_eq!(bench.disk.medium.suits_a_ring(&request), suits, "{request:?}, direct: {direct}");
    }
}

#[test]
fn a_volatile_write_through_the_cache_ends_without() {
    let bench = Bench::new(false);
    let mut job = bench.job(write(1, Durability::Volatile));
    let step = job.advance(Ok(BLOCK_BYTES));
    assert_eq!(bench.end(job, step), None);
}

#[test]
fn a_short_cached_read_goes_on_at_the_byte() {
    let bench = Bench::new(true);
    let mut job = bench.job(Request::Read { offset: 5, buf: AlignedBuf::for_read(100), mode: ReadMode::Cached });
    assert!(matches!(job.advance(Ok(33)), Step::Again));
    let Call::Read { buf, offset, .. } = job.next_call() else { panic!("not a read") };
    assert_eq!((buf.len(), offset), (67, 38));
}

#[test]
fn interruptions_are_endured_up_to_the_limit() {
    for errno in [libc::EINTR, libc::EAGAIN] {
        let bench = Bench::new(true);
        let mut job = bench.job(write(1, Durability::Volatile));
        for _ in 0..INTERRUPTION_LIMIT {
            assert!(matches!(job.advance(failed(errno)), Step::Again));
        }
        let step = job.advance(failed(errno));
        assert_eq!(bench.end(job, step), Some(DiskErrorKind::Failed));
    }
    let bench = Bench::new(true);
    let mut job = bench.job(Request::Read { offset: 0, buf: AlignedBuf::for_read(8), mode: ReadMode::Cached });
    for _ in 0..INTERRUPTION_LIMIT {
        assert!(matches!(job.advance(Ok(0)), Step::Again));
    }
    let step = job.advance(Ok(0));
    assert_eq!(bench.end(job, step), Some(DiskErrorKind::OutOfRange), "the file was cut short behind our back");
}

#[test]
fn what_poisons_and_what_does_not() {
    use DiskErrorKind::{Failed, NoSpace};
    let (durable, volatile) = (Durability::Durable, Durability::Volatile);
    let allocate = || Request::Allocate { offset: 0, len: BLOCK };
    for (direct, request, errno, kind, poisons) in [
        (true, write(1, durable), libc::EIO, Failed, true),
        (true, write(1, durable), libc::EROFS, Failed, true),
        (true, write(1, durable), libc::ENOSPC, NoSpace, false),
        (false, write(1, durable), libc::ENOSPC, NoSpace, true),
        (true, write(1, volatile), libc::EIO, Failed, false),
        (true, Request::Flush, libc::EIO, Failed, true),
        (true, Request::Flush, libc::ENOSPC, NoSpace, true),
        (true, allocate(), libc::ENOSPC, NoSpace, false),
        (true, allocate(), libc::EIO, Failed, false),
    ] {
        let bench = Bench::new(direct);
        let case = format!("{request:?} with {errno}");
        let mut job = bench.job(request);
        let step = job.advance(failed(errno));
        assert_eq!(bench.end(job, step), Some(kind), "{case}");
        assert_eq!(bench.is_poisoned(), poisons, "{case}");
        assert_eq!(bench.disk.stats().failures, 1);
    }
}

#[test]
fn a_job_that_waited_while_the_disk_was_poisoned_does_not_start() {
    let bench = Bench::new(true);
    let waiting = bench.job(write(1, Durability::Durable));
    let reading = bench.job(Request::Read { offset: 0, buf: AlignedBuf::for_read(8), mode: ReadMode::Cached });
    assert!(waiting.refusal().is_none());
    let mut failing = bench.job(Request::Flush);
    let step = failing.advance(failed(libc::EIO));
    assert_eq!(bench.end(failing, step), Some(DiskErrorKind::Failed));
    assert_eq!(waiting.refusal().map(|error| error.kind), Some(DiskErrorKind::Poisoned));
    assert!(reading.refusal().is_none());
}

/// Lengths travel to the ring as 32 bits, and one call moves at most 2 GiB less a page.
#[test]
fn one_request_fits_one_call() {
    const { assert!(MAX_REQUEST_BYTES < (2 << 30) - BLOCK_BYTES) };
}
