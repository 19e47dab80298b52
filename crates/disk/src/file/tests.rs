use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tempfile::{NamedTempFile, TempDir};

use super::{FileDisk, OpenError, OpenOptions};
use crate::{
    AlignedBuf, BLOCK_BYTES, Disk, DiskErrorKind, DiskExt, Durability, MAX_REQUEST_BYTES, ReadMode, Request, install_ring,
    ring_is_installed,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How the requests of a test travel.
#[derive(Clone, Copy, Debug)]
enum Way {
    Ring,
    Threads,
    ThreadsThroughCache,
}

const WAYS: [Way; 3] = [Way::Ring, Way::Threads, Way::ThreadsThroughCache];

impl Way {
    fn options(self) -> OpenOptions {
        OpenOptions { create: true, direct: !matches!(self, Way::ThreadsThroughCache), ..OpenOptions::default() }
    }

    /// Runs `test` on a current-thread runtime, with a ring if this way has one. Where the system forbids rings the threads
    /// stand in; `a_ring_can_be_installed_here` tells.
    fn run<F: Future<Output = ()>>(self, test: impl FnOnce(PathBuf, OpenOptions) -> F) {
        let folder = TempDir::new().expect("temporary folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let _ring = matches!(self, Way::Ring).then(install_ring);
            test(folder.path().join("disk"), self.options()).await;
        });
    }
}

fn filled(blocks: usize, byte: u8) -> AlignedBuf {
    AlignedBuf::copy_of(&vec![byte; blocks * BLOCK_BYTES])
}

#[test]
fn a_ring_can_be_installed_here() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let guard = match install_ring() {
            Ok(guard) => guard,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        assert!(ring_is_installed());
        assert!(matches!(install_ring(), Err(crate::RingError::Installed)));
        drop(guard);
        assert!(!ring_is_installed());
        drop(install_ring().expect("a second ring after the first"));
    });
}

#[test]
fn a_ring_needs_a_current_thread_runtime() {
    assert!(matches!(install_ring(), Err(crate::RingError::WrongRuntime)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
    runtime.block_on(async { assert!(matches!(install_ring(), Err(crate::RingError::WrongRuntime))) });
}

#[test]
fn what_is_written_is_read_back_by_every_way() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            assert_eq!(disk.size_bytes(), 0);
            disk.write(0, filled(2, 1), Durability::Durable).await.expect("durable write");
            let buf = disk.write(2 * BLOCK, filled(1, 2), Durability::Volatile).await.expect("volatile write");
            assert_eq!(buf[..], [2; BLOCK_BYTES], "{way:?} gives the buffer back");
            disk.flush().await.expect("flush");
            assert_eq!(disk.size_bytes(), 3 * BLOCK);

            let direct = disk.read(BLOCK, 2 * BLOCK_BYTES, ReadMode::Direct).await.expect("direct read");
            assert_eq!((direct[0], direct[BLOCK_BYTES]), (1, 2), "{way:?}");
            let cached = disk.read(2 * BLOCK - 3, 6, ReadMode::Cached).await.expect("cached read");
            assert_eq!(cached[..], [1, 1, 1, 2, 2, 2], "{way:?}");
            let mut buf = [0; 6];
            assert!(disk.try_read_cached(2 * BLOCK - 3, &mut buf).expect("no error"), "{way:?}: it was just read");
            assert_eq!(buf, [1, 1, 1, 2, 2, 2]);

            let stats = disk.stats();
            assert_eq!((stats.writes, stats.durable_writes, stats.write_bytes), (2, 1, 3 * BLOCK));
            assert_eq!((stats.reads, stats.read_bytes, stats.cache_hits), (2, 2 * BLOCK + 6, 1));
            assert_eq!((stats.flushes, stats.failures), (1, 0));
            drop(disk);
            let again = FileDisk::open(&path, &options).expect("opens again");
            assert_eq!(again.read(0, BLOCK_BYTES, ReadMode::Direct).await.expect("read")[..], [1; BLOCK_BYTES]);
        });
    }
}

#[test]
fn bad_requests_are_refused_and_harm_nothing() {
    for way in WAYS {
        way.run(|path, options| async move {
            let options = OpenOptions { capacity_bytes: Some(8 * BLOCK), ..options };
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(4, 1), Durability::Durable).await.expect("write");
            let kind = |outcome: Result<AlignedBuf, crate::DiskError>| outcome.expect_err("refused").kind;
            let durable = Durability::Durable;
            assert_eq!(kind(disk.write(512, filled(1, 2), durable).await), DiskErrorKind::Misaligned);
            assert_eq!(kind(disk.write(0, AlignedBuf::zeroed(100), durable).await), DiskErrorKind::Misaligned);
            assert_eq!(kind(disk.write(0, AlignedBuf::zeroed(0), durable).await), DiskErrorKind::BadLength);
            assert_eq!(kind(disk.write(8 * BLOCK, filled(1, 2), durable).await), DiskErrorKind::OutOfRange);
            assert_eq!(kind(disk.write(u64::MAX - 4095, filled(1, 2), durable).await), DiskErrorKind::OutOfRange);
            assert_eq!(kind(disk.read(3 * BLOCK, 2 * BLOCK_BYTES, ReadMode::Direct).await), DiskErrorKind::OutOfRange);
            assert_eq!(kind(disk.read(1, BLOCK_BYTES, ReadMode::Direct).await), DiskErrorKind::Misaligned);
            assert_eq!(kind(disk.read(0, MAX_REQUEST_BYTES + BLOCK_BYTES, ReadMode::Direct).await), DiskErrorKind::BadLength);
            let refused = disk.allocate(0, 9 * BLOCK).await.expect_err("beyond the capacity");
            assert_eq!(refused.kind, DiskErrorKind::OutOfRange);
            let text = refused.to_string();
            assert!(text.contains("disk: allocation of 36864 bytes at offset 0"), "{text}");
            assert!(!disk.try_read_cached(4 * BLOCK - 1, &mut [0; 2]).expect("no error"), "{way:?}: past the end");
            disk.write(4 * BLOCK, filled(4, 3), durable).await.expect("none of it poisons");
            assert_eq!(disk.stats().failures, 9);
        });
    }
}

#[test]
fn allocation_grows_the_file_and_reads_zeros() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(1, 7), Durability::Durable).await.expect("write");
            disk.allocate(0, 64 * BLOCK).await.expect("allocation");
            assert_eq!(disk.size_bytes(), 64 * BLOCK);
            assert_eq!(std::fs::metadata(&path).expect("metadata").len(), 64 * BLOCK);
            let read = disk.read(0, 64 * BLOCK_BYTES, ReadMode::Direct).await.expect("read");
            assert_eq!((read[0], read[BLOCK_BYTES]), (7, 0), "{way:?}");
        });
    }
}

#[test]
fn many_requests_at_once_all_complete_and_land_where_they_belong() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = Arc::new(FileDisk::open(&path, &options).expect("opens"));
            // More than a ring's entries, so that some wait for a place.
            let count = 600u64;
            disk.allocate(0, count * BLOCK).await.expect("allocation");
            let writes: Vec<_> = (0..count)
                .map(|index| {
                    let disk = disk.clone();
                    tokio::spawn(async move { disk.write(index * BLOCK, filled(1, index as u8), Durability::Volatile).await })
                })
                .collect();
            for write in writes {
                write.await.expect("task").expect("write");
            }
            disk.flush().await.expect("flush");
            for index in 0..count {
                let read = disk.read(index * BLOCK, BLOCK_BYTES, ReadMode::Direct).await.expect("read");
                assert!(read.iter().all(|byte| *byte == index as u8), "{way:?}: block {index}");
            }
        });
    }
}

#[test]
fn a_dropped_future_leaves_the_operation_and_its_buffer_alone() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.allocate(0, 16 * BLOCK).await.expect("allocation");
            for round in 0..50u8 {
                let given_up = tokio::time::timeout(Duration::ZERO, disk.write(0, filled(16, round), Durability::Durable));
                drop(given_up.await);
                // Memory of the given-up request must not serve the next buffer while the kernel reads it.
                drop(filled(16, 0xFF));
            }
            disk.flush().await.expect("flush");
            disk.write(0, filled(1, 0xEE), Durability::Durable).await.expect("write");
            let read = disk.read(0, 16 * BLOCK_BYTES, ReadMode::Direct).await.expect("read");
            assert!(read.iter().all(|byte| *byte < 50 || *byte == 0xEE), "{way:?}");
        });
    }
}

/// A direct write, once complete, is never hidden by cached pages, however reads and writes overlapped before.
#[test]
fn cached_reads_of_a_file_are_never_older_than_a_completed_write() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            assert_cached_reads_are_fresh(disk, way).await;
        });
    }
}

/// A block device over a file, gone again with the value.
struct LoopDevice {
    path: PathBuf,
    _file: NamedTempFile,
}

impl LoopDevice {
    /// `None` where the system gives none: without root's rights, or in a container without loop devices.
    fn attach(bytes: u64) -> Option<Self> {
        let file = NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(bytes).expect("a sparse file");
        let attached = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let path = String::from_utf8(attached.stdout).expect("a path");
        attached.status.success().then(|| LoopDevice { path: path.trim_end().into(), _file: file })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(detached.is_ok_and(|status| status.success()), "{} is still attached", self.path.display());
    }
}

/// The same on a block device, whose page cache the kernel treats otherwise.
#[test]
fn cached_reads_of_a_block_device_are_never_older_than_a_completed_write() {
    let Some(device) = LoopDevice::attach(64 * BLOCK) else {
        return eprintln!("SKIPPED: losetup attaches no file here");
    };
    for way in [Way::Ring, Way::Threads] {
        let device = device.path.clone();
        way.run(|_, options| async move {
            let disk = FileDisk::open(&device, &options).expect("opens");
            assert!(disk.is_block_device() && disk.is_direct());
            assert_eq!(disk.capacity_bytes(), Some(disk.size_bytes()));
            let end = disk.size_bytes();
            let beyond = disk.write(end, filled(1, 0), Durability::Durable).await.expect_err("beyond the device");
            assert_eq!(beyond.kind, DiskErrorKind::OutOfRange);
            disk.allocate(0, end).await.expect("a block device has its space");
            let second = FileDisk::open(&device, &options);
            assert!(matches!(second, Err(OpenError::Locked { .. })));
            assert_cached_reads_are_fresh(disk, way).await;
        });
    }
}

async fn assert_cached_reads_are_fresh(disk: FileDisk, way: Way) {
    let rounds: u64 = if std::env::var_os("TRILITH_SOAK").is_some() { 200_000 } else { 3_000 };
    let disk = Arc::new(disk);
    disk.write(0, AlignedBuf::zeroed(4 * BLOCK_BYTES), Durability::Durable).await.expect("write");
    // The newest version that is complete; every 8 bytes of a version hold its number.
    let completed = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (disk, completed, stop) = (disk.clone(), completed.clone(), stop.clone());
            std::thread::spawn(move || read_until(&stop, reader, &disk, &completed))
        })
        .collect();
    for version in 1..=rounds {
        let bytes: Vec<u8> = version.to_le_bytes().repeat(4 * BLOCK_BYTES / 8);
        disk.write(0, AlignedBuf::copy_of(&bytes), Durability::Volatile).await.expect("write");
        completed.store(version, Ordering::SeqCst);
        if version % 4 == 0 {
            let read = disk.read_cached(BLOCK, 8).await.expect("read");
            assert_eq!(u64::from_le_bytes(read[..].try_into().expect("8 bytes")), version, "{way:?}");
        }
    }
    stop.store(true, Ordering::SeqCst);
    let reads: u64 = readers.into_iter().map(|reader| reader.join().expect("reader")).sum();
    assert!(reads > 0);
}

fn read_until(stop: &AtomicBool, reader: u64, disk: &FileDisk, completed: &AtomicU64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let mut reads = 0;
    while !stop.load(Ordering::SeqCst) {
        let at_least = completed.load(Ordering::SeqCst);
        let offset = (reads * 7 + reader) % 4 * BLOCK + 1_024;
        let read = runtime.block_on(disk.read_cached(offset, 8)).expect("read");
        let version = u64::from_le_bytes(read[..].try_into().expect("8 bytes"));
        assert!(version >= at_least, "read version {version} though {at_least} was complete");
        reads += 1;
    }
    reads
}

/// What a failed write-back has left there looks like any other page.
#[test]
fn a_disk_without_direct_io_starts_with_an_empty_page_cache() {
    Way::ThreadsThroughCache.run(|path, options| async move {
        std::fs::write(&path, vec![7; 64 * BLOCK_BYTES]).expect("writes");
        let cached = |file: std::fs::File| super::page_cache::holds_any(&file.into(), 0, 64 * BLOCK);
        match cached(std::fs::File::open(&path).expect("opens")) {
            Ok(true) => {}
            other => return eprintln!("SKIPPED: the page cache can't be asked here: {other:?}"),
        }
        let disk = FileDisk::open(&path, &options).expect("opens");
        assert!(!cached(std::fs::File::open(&path).expect("opens")).expect("as before"));
        assert_eq!(disk.read(0, BLOCK_BYTES, ReadMode::Cached).await.expect("reads")[..], [7; BLOCK_BYTES]);
    });
}

#[test]
fn a_disk_has_one_user_and_the_error_names_it() {
    Way::Threads.run(|path, options| async move {
        let disk = FileDisk::open(&path, &options).expect("opens");
        let refused = || match FileDisk::open(&path, &options) {
            Err(OpenError::Locked { holder, .. }) => holder,
            _ => panic!("a second user got the disk"),
        };
        // The kernel tells /proc/locks in pieces: an entry can be missed while others go.
        let holder = (0..100).find_map(|_| refused()).expect("/proc/locks names the holder");
        assert_eq!(holder.pid, std::process::id());
        assert!(holder.command.is_some());
        let text = OpenError::Locked { path: "x".into(), holder: Some(holder) }.to_string();
        assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");

        let env = Env::real();
        let patience = Duration::from_millis(120);
        let before = env.now();
        let refused = FileDisk::open_waiting(&env, &path, &options, patience).await;
        assert!(matches!(refused, Err(OpenError::Locked { .. })));
        assert!(env.now() - before >= patience);

        let waiting = tokio::spawn({
            let (env, path, options) = (env.clone(), path.clone(), options.clone());
            async move { FileDisk::open_waiting(&env, &path, &options, Duration::from_secs(60)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(disk);
        waiting.await.expect("task").expect("free now");
    });
}

/// Whoever gets the disk next finds all that was in flight when the handle went.
#[test]
fn the_lock_outlives_the_handle_while_operations_are_in_flight() {
    for way in [Way::Ring, Way::Threads] {
        way.run(|path, options| async move {
            for round in 1..=20u8 {
                let disk = FileDisk::open(&path, &options).expect("opens");
                let buf = filled(1_024, round);
                let request = Request::Write { offset: 0, buf, durability: Durability::Durable };
                disk.submit(request, Box::new(|completion| completion.result.expect("write")));
                drop(disk);
                let patience = Duration::from_secs(10);
                let next = FileDisk::open_waiting(&Env::real(), &path, &options, patience).await.expect("free now");
                let read = next.read(0, 1_024 * BLOCK_BYTES, ReadMode::Direct).await.expect("read");
                assert!(read.iter().all(|byte| *byte == round), "{way:?}: a write went on after the lock was free");
            }
        });
    }
}

#[test]
fn what_is_no_disk_is_refused() {
    Way::Threads.run(|path, _| async move {
        let missing = FileDisk::open(&path, &OpenOptions::default());
        assert!(matches!(missing, Err(OpenError::Open { .. })));
        assert!(!path.exists(), "nothing is created unasked");
        let folder = FileDisk::open(path.parent().expect("folder"), &OpenOptions::default());
        assert!(folder.is_err());
        let null = FileDisk::open("/dev/null".as_ref(), &OpenOptions { direct: false, ..OpenOptions::default() });
        assert!(matches!(null, Err(OpenError::NotADisk { .. })), "{:?}", null.err());
    });
}

/// How many cache flushes the device under `path` has done, if it has a cache to flush and tells.
fn device_flushes(path: &std::path::Path) -> Option<u64> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    let sys = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let read = |name: &str| std::fs::read_to_string(format!("{sys}/{name}")).ok();
    let needs_flushes = read("queue/write_cache")?.trim() == "write back" && read("queue/fua")?.trim() == "0";
    // The sixteenth field (Documentation/block/stat.rst).
    needs_flushes.then(|| read("stat")?.split_whitespace().nth(15)?.parse().ok())?
}

/// Durability can't be seen without a power cut, but the flush that it takes can. Others' flushes may hide a missing one.
#[test]
fn each_durable_write_and_each_flush_reaches_the_device() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(64, 1), Durability::Durable).await.expect("write");
            let Some(before) = device_flushes(&path) else { return eprintln!("SKIPPED: no flush counter here") };
            for block in 0..32 {
                disk.write(block * BLOCK, filled(1, 2), Durability::Durable).await.expect("write");
            }
            let after_writes = device_flushes(&path).expect("as before");
            assert!(after_writes - before >= 32, "{way:?}: {} flushes for 32 durable writes", after_writes - before);
            for block in 0..32 {
                disk.write(block * BLOCK, filled(1, 3), Durability::Volatile).await.expect("write");
                disk.flush().await.expect("flush");
            }
            let flushes = device_flushes(&path).expect("as before") - after_writes;
            assert!(flushes >= 32, "{way:?}: {flushes} device flushes for 32 flushes");
        });
    }
}

#[test]
fn requests_beyond_the_queue_are_refused_and_the_rest_completes() {
    for way in [Way::Ring, Way::Threads] {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(1, 1), Durability::Durable).await.expect("write");
            let (refused, completed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            // More than both queues and all that can be in flight besides.
            let asked = 20_000;
            for _ in 0..asked {
                let (refused, completed) = (refused.clone(), completed.clone());
                let request = Request::Read { offset: 0, buf: AlignedBuf::for_read(8), mode: ReadMode::Cached };
                disk.submit(
                    request,
                    Box::new(move |completion| match completion.result {
                        Ok(()) => drop(completed.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => {
                            assert_eq!(error.kind, DiskErrorKind::Overloaded);
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                    }),
                );
            }
            while refused.load(Ordering::SeqCst) + completed.load(Ordering::SeqCst) < asked {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(completed.load(Ordering::SeqCst) >= 4_096, "{way:?}");
            if ring_is_installed() {
                // Nothing is taken out of a ring while its thread submits.
                assert_eq!(completed.load(Ordering::SeqCst), 64 + 4_096);
            }
            disk.write(0, filled(1, 2), Durability::Durable).await.expect("overload harms nothing");
        });
    }
}

/// A device whose header or frame is refused takes no more writes: reads must not be able to do that to it.
#[test]
fn a_queue_full_of_reads_takes_writes_flushes_and_allocations() {
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(1, 1), Durability::Durable).await.expect("write");
            let (gate, is_full) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
            // Threads stop at the first answer that they give, so that the queue stays full.
            let closed = gate.lock();
            while !is_full.load(Ordering::SeqCst) {
                let (gate, is_full) = (gate.clone(), is_full.clone());
                let request = Request::Read { offset: 0, buf: AlignedBuf::for_read(8), mode: ReadMode::Cached };
                disk.submit(
                    request,
                    Box::new(move |completion| match completion.result {
                        Ok(()) => drop(gate.lock()),
                        Err(_) => is_full.store(true, Ordering::SeqCst),
                    }),
                );
            }
            let requests = [
                Request::Write { offset: 0, buf: filled(1, 2), durability: Durability::Durable },
                Request::Write { offset: BLOCK, buf: filled(1, 3), durability: Durability::Volatile },
                Request::Flush,
                Request::Allocate { offset: 0, len: 8 * BLOCK },
            ];
            let answers = requests.map(|request| {
                let (tell, told) = tokio::sync::oneshot::channel();
                disk.submit(request, Box::new(move |completion| tell.send(completion.result).expect("it is awaited")));
                told
            });
            drop(closed);
            for answer in answers {
                answer.await.expect("answered").unwrap_or_else(|error| panic!("{way:?}: {error}"));
            }
            let read = disk.read(0, 2 * BLOCK_BYTES, ReadMode::Direct).await.expect("read");
            assert_eq!((read[0], read[BLOCK_BYTES]), (2, 3), "{way:?}");
        });
    }
}

#[test]
fn a_ring_that_goes_waits_for_its_operations_and_answers_them() {
    let folder = TempDir::new().expect("temporary folder");
    let path = folder.path().join("disk");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let Ok(guard) = install_ring() else { return eprintln!("SKIPPED: no ring here") };
        let disk = Arc::new(FileDisk::open(&path, &Way::Ring.options()).expect("opens"));
        let answered = Arc::new(AtomicU64::new(0));
        for block in 0..400 {
            let answered = answered.clone();
            let buf = filled(1, 1);
            let request = Request::Write { offset: block * BLOCK, buf, durability: Durability::Volatile };
            disk.submit(
                request,
                Box::new(move |completion| {
                    completion.result.expect("write");
                    answered.fetch_add(1, Ordering::SeqCst);
                }),
            );
        }
        drop(guard);
        assert_eq!(answered.load(Ordering::SeqCst), 400);
        disk.write(0, filled(1, 2), Durability::Durable).await.expect("threads take over");
    });
}

#[test]
fn a_failed_durable_write_poisons_and_reads_go_on() {
    // A file that shrank behind our back fails no write, so the failure is made where it is decided: in the job.
    for way in WAYS {
        way.run(|path, options| async move {
            let disk = FileDisk::open(&path, &options).expect("opens");
            disk.write(0, filled(1, 1), Durability::Durable).await.expect("write");
            disk.medium.poison.set(&disk.medium.error(
                DiskErrorKind::Failed,
                crate::Operation::Flush,
                0,
                0,
                Some(std::io::Error::from_raw_os_error(libc::EIO)),
            ));
            let refused = disk.write(0, filled(1, 2), Durability::Volatile).await.expect_err("poisoned");
            assert_eq!(refused.kind, DiskErrorKind::Poisoned);
            assert!(refused.to_string().contains("Input/output error"), "{refused}");
            assert_eq!(disk.flush().await.expect_err("poisoned").kind, DiskErrorKind::Poisoned);
            assert_eq!(disk.allocate(0, BLOCK).await.expect_err("poisoned").kind, DiskErrorKind::Poisoned);
            assert_eq!(disk.read(0, BLOCK_BYTES, ReadMode::Direct).await.expect("reads go on")[..], [1; BLOCK_BYTES]);
            drop(disk);
            let again = FileDisk::open(&path, &options).expect("opens again");
            again.write(0, filled(1, 3), Durability::Durable).await.expect("sound again");
        });
    }
}
