//! Measures the ways in which a durable write or a cold read can be done, for choosing the one that disks use.
//!
//! `cargo run -p disk --release --example io_paths -- FILE [OPERATIONS [PART]]` pre-writes FILE (512 MiB) and prints, for
//! each way whose label has PART in it, latency and CPU time per operation: this process's, and the whole machine's, which
//! includes the kernel's workers (and whatever else runs; measure on an idle machine).

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{AlignedBuf, Disk, DiskExt, Durability, FileDisk, OpenOptions, ReadMode, install_ring};
use env::{Env, Instant};
use hdrhistogram::Histogram;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};
use parking_lot::{Condvar, Mutex};
use rustix::event::EventfdFlags;
use rustix::io::ReadWriteFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const FILE_BYTES: u64 = 512 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Setup {
    Plain,
    Coop,
    Defer,
    PollRing,
    CoopPollRing,
    Linked,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("usage: io_paths FILE [OPERATIONS [PART]]"));
    let operations: u64 = arguments.next().map_or(4_000, |text| text.parse().expect("a number"));
    let part = arguments.next().unwrap_or_default();
    let report = |label: &str, measure: &mut dyn FnMut() -> Histogram<u64>| {
        if label.contains(&part) {
            report(label, measure);
        }
    };
    prewrite(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    println!("{:<44} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}", "way", "ops/s", "p50 us", "p99 us", "mean us", "CPU us", "busy us");
    for bytes in [4_096, 32_768] {
        for depth in [1, 8, 16] {
            let label = |way: &str| format!("write {bytes} QD{depth} {way}");
            for setup in [Setup::Plain, Setup::Coop, Setup::Defer, Setup::PollRing, Setup::CoopPollRing, Setup::Linked] {
                report(&label(&format!("ring {setup:?}")), &mut || {
                    runtime.block_on(ring_writes(&path, bytes, depth, operations, setup))
                });
            }
            report(&label("writer thread"), &mut || runtime.block_on(thread_writes(&path, bytes, depth, operations)));
            if depth == 1 {
                report(&label("blocking"), &mut || blocking_writes(&path, bytes, operations));
            }
            report(&label("FileDisk with ring"), &mut || {
                runtime.block_on(disk_operations(&path, bytes, depth, operations, true, Kind::Write))
            });
            report(&label("FileDisk with threads"), &mut || {
                runtime.block_on(disk_operations(&path, bytes, depth, operations, false, Kind::Write))
            });
        }
    }
    for depth in [1, 16] {
        for (kind, name) in [(Kind::ColdRead, "cold cached read"), (Kind::DirectRead, "direct read")] {
            for (ring, way) in [(true, "ring"), (false, "threads")] {
                report(&format!("{name} 4096 QD{depth} {way}"), &mut || {
                    runtime.block_on(disk_operations(&path, 4_096, depth, operations, ring, kind))
                });
            }
        }
    }
    report("hot try_read_cached 4096", &mut || hot_reads(&path, operations * 20));
}

fn report(label: &str, measure: &mut dyn FnMut() -> Histogram<u64>) {
    let (start, cpu_start, busy_start) = (now(), cpu_us(), machine_busy_us());
    let latencies = measure();
    let (elapsed, cpu, busy) = ((now() - start).as_secs_f64(), cpu_us() - cpu_start, machine_busy_us() - busy_start);
    let count = latencies.len() as f64;
    println!(
        "{label:<44} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1}",
        count / elapsed,
        latencies.value_at_quantile(0.5) as f64 / 1e3,
        latencies.value_at_quantile(0.99) as f64 / 1e3,
        latencies.mean() / 1e3,
        cpu as f64 / count,
        busy as f64 / count,
    );
}

/// CPU time of this process so far, its ended threads and the ring's workers included.
fn cpu_us() -> u64 {
    // SAFETY: an all-zero rusage is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Busy time of all cores so far, in ticks of 10 ms: everything that ran on the machine.
fn machine_busy_us() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").expect("stat");
    let line = text.lines().next().expect("the line of all cores");
    let fields: Vec<u64> = line.split_whitespace().skip(1).map(|field| field.parse().expect("a number")).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) * 10_000
}

fn now() -> Instant {
    thread_local!(static ENV: Env = Env::real());
    ENV.with(Env::now)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("bounds")
}

/// A cheap scatter of blocks over the file.
fn place(index: u64, bytes: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (FILE_BYTES / bytes) * bytes
}

fn prewrite(path: &Path) {
    let bytes = vec![1u8; 1 << 20];
    let file = File::create(path).expect("file");
    for index in 0..FILE_BYTES >> 20 {
        let offset = index << 20;
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, offset).expect("write");
    }
    file.sync_all().expect("sync");
    drop_cache(path);
}

fn drop_cache(path: &Path) {
    let file = File::open(path).expect("file");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
}

fn direct_file(path: &Path) -> File {
    File::options().write(true).custom_flags(libc::O_DIRECT).open(path).expect("direct file")
}

async fn ring_writes(path: &Path, bytes: usize, depth: u64, operations: u64, setup: Setup) -> Histogram<u64> {
    let file = direct_file(path);
    let mut uring = match setup {
        Setup::Coop | Setup::CoopPollRing => IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(64),
        Setup::Defer => IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(64),
        _ => IoUring::new(64),
    }
    .expect("ring");
    let signal: OwnedFd = if matches!(setup, Setup::PollRing | Setup::CoopPollRing) {
        rustix::io::dup(unsafe { std::os::fd::BorrowedFd::borrow_raw(uring.as_raw_fd()) }).expect("dup")
    } else {
        let signal = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
        uring.submitter().register_eventfd(signal.as_raw_fd()).expect("registers");
        signal
    };
    // SAFETY: the descriptor is owned by the AsyncFd.
    let signal = unsafe { AsyncFd::register_with_interest(signal, Interest::READABLE) }.expect("poller");
    let bufs: Vec<AlignedBuf> = (0..depth).map(|_| AlignedBuf::zeroed(bytes)).collect();
    let mut started = vec![now(); depth as usize];
    let (mut submitted, mut in_flight, mut latencies) = (0, 0, histogram());
    let mut to_start: VecDeque<u64> = (0..depth).collect();
    while latencies.len() < operations {
        while let Some(slot) = to_start.pop_front() {
            started[slot as usize] = now();
            let buf = &bufs[slot as usize];
            let linked = setup == Setup::Linked;
            let write = opcode::Write::new(Fd(file.as_raw_fd()), buf.as_ptr(), buf.len() as u32)
                .offset(place(submitted, bytes as u64))
                .rw_flags(if linked { 0 } else { libc::RWF_DSYNC })
                .build()
                .user_data(if linked { u64::MAX } else { slot });
            let sync = opcode::Fsync::new(Fd(file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build().user_data(slot);
            // SAFETY: the buffers outlive the ring's work: the loop ends with nothing in flight but what is drained below.
            unsafe {
                let mut queue = uring.submission();
                if linked {
                    queue.push(&write.flags(squeue::Flags::IO_LINK)).expect("room");
                    queue.push(&sync).expect("room");
                } else {
                    queue.push(&write).expect("room");
                }
            }
            submitted += 1;
            in_flight += if linked { 2 } else { 1 };
            uring.submit().expect("submit");
        }
        signal.readable().await.expect("signal").clear_ready();
        if setup == Setup::Defer {
            uring.submit().expect("task work");
        }
        for completion in uring.completion() {
            assert!(completion.result() >= 0, "{}", completion.result());
            in_flight -= 1;
            if completion.user_data() == u64::MAX {
                continue;
            }
            let slot = completion.user_data();
            latencies.record((now() - started[slot as usize]).as_nanos() as u64).expect("in bounds");
            to_start.push_back(slot);
        }
    }
    uring.submit_and_wait(in_flight).expect("drain");
    latencies
}

fn blocking_writes(path: &Path, bytes: usize, operations: u64) -> Histogram<u64> {
    let file = direct_file(path);
    let buf = AlignedBuf::zeroed(bytes);
    let mut latencies = histogram();
    for index in 0..operations {
        let start = now();
        let offset = place(index, bytes as u64);
        rustix::io::pwritev2(&file, &[IoSlice::new(&buf)], offset, ReadWriteFlags::DSYNC).expect("write");
        latencies.record((now() - start).as_nanos() as u64).expect("in bounds");
    }
    latencies
}

/// One thread that writes, as many askers as `depth`; each is woken through a channel of one.
async fn thread_writes(path: &Path, bytes: usize, depth: u64, operations: u64) -> Histogram<u64> {
    type Asked = (u64, tokio::sync::oneshot::Sender<()>);
    let queue: Arc<(Mutex<Option<VecDeque<Asked>>>, Condvar)> = Arc::new((Mutex::new(Some(VecDeque::new())), Condvar::new()));
    let writer = std::thread::spawn({
        let (queue, file) = (queue.clone(), direct_file(path));
        move || {
            let buf = AlignedBuf::zeroed(bytes);
            loop {
                let mut asked = queue.0.lock();
                let (offset, answer) = loop {
                    match asked.as_mut().map(VecDeque::pop_front) {
                        Some(Some(next)) => break next,
                        Some(None) => queue.1.wait(&mut asked),
                        None => return,
                    }
                };
                drop(asked);
                rustix::io::pwritev2(&file, &[IoSlice::new(&buf)], offset, ReadWriteFlags::DSYNC).expect("write");
                answer.send(()).expect("the asker waits");
            }
        }
    });
    let askers: Vec<_> = (0..depth)
        .map(|asker| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut latencies = histogram();
                for index in 0..operations / depth {
                    let start = now();
                    let (answer, receiver) = tokio::sync::oneshot::channel();
                    let offset = place(asker * operations + index, bytes as u64);
                    queue.0.lock().as_mut().expect("open").push_back((offset, answer));
                    queue.1.notify_one();
                    receiver.await.expect("answered");
                    latencies.record((now() - start).as_nanos() as u64).expect("in bounds");
                }
                latencies
            })
        })
        .collect();
    let mut latencies = histogram();
    for asker in askers {
        latencies.add(asker.await.expect("asker")).expect("same bounds");
    }
    *queue.0.lock() = None;
    queue.1.notify_all();
    writer.join().expect("writer");
    latencies
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Write,
    ColdRead,
    DirectRead,
}

async fn disk_operations(path: &Path, bytes: usize, depth: u64, operations: u64, ring: bool, kind: Kind) -> Histogram<u64> {
    let _ring = ring.then(|| install_ring().expect("ring"));
    drop_cache(path);
    let disk = Arc::new(FileDisk::open(path, &OpenOptions::default()).expect("disk"));
    assert!(disk.is_direct());
    let askers: Vec<_> = (0..depth)
        .map(|asker| {
            let disk = disk.clone();
            tokio::spawn(async move {
                let mut latencies = histogram();
                let mut buf = AlignedBuf::zeroed(bytes);
                for index in 0..operations / depth {
                    let offset = place(asker * operations + index, bytes as u64);
                    let start = now();
                    match kind {
                        Kind::Write => buf = disk.write(offset, buf, Durability::Durable).await.expect("write"),
                        Kind::ColdRead => drop(disk.read(offset, bytes, ReadMode::Cached).await.expect("read")),
                        Kind::DirectRead => drop(disk.read(offset, bytes, ReadMode::Direct).await.expect("read")),
                    }
                    latencies.record((now() - start).as_nanos() as u64).expect("in bounds");
                }
                latencies
            })
        })
        .collect();
    let mut latencies = histogram();
    for asker in askers {
        latencies.add(asker.await.expect("asker")).expect("same bounds");
    }
    latencies
}

fn hot_reads(path: &Path, operations: u64) -> Histogram<u64> {
    let disk = FileDisk::open(path, &OpenOptions::default()).expect("disk");
    let mut latencies = histogram();
    let mut buf = AlignedBuf::zeroed(4_096);
    File::open(path).and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 1 << 20], 0)).expect("warm");
    for index in 0..operations {
        let start = now();
        assert!(disk.try_read_cached(place(index, 4_096) % (1 << 20), &mut buf).expect("read"));
        latencies.record((now() - start).as_nanos() as u64).expect("in bounds");
    }
    latencies
}
