use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use io_uring::IoUring;
use tempfile::TempDir;

use super::{DISK_ENTRIES, END_PATIENCE, RING, RING_ENTRIES, Ring, install_ring, with_ring};
use crate::aligned::AlignedBuf;
use crate::{BLOCK_BYTES, Disk, DiskExt, Durability, FileDisk, OpenOptions, ReadMode, Request};

/// How often the reaper was signalled since the last look.
fn signals(signal: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(signal, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(rustix::io::Errno::AGAIN) => 0,
        Err(error) => panic!("{error}"),
    }
}

/// A signal of its own would end its pause between two tries, and the core would do nothing else.
#[test]
fn a_reaper_that_can_not_submit_is_not_woken_by_itself() {
    // A ring that is not enabled takes no entries, as one that the kernel has no memory for.
    let Ok(uring) = IoUring::builder().setup_r_disabled().build(RING_ENTRIES) else {
        return eprintln!("SKIPPED: no ring here");
    };
    let ring = Ring::over(uring).expect("a ring");
    let signal = ring.signal.try_clone().expect("a descriptor");
    RING.with(|slot| *slot.borrow_mut() = Some(ring));
    let folder = TempDir::new().expect("temporary folder");
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let disk = FileDisk::open(&folder.path().join("disk"), &options).expect("opens");
    assert!(disk.is_direct(), "syncs of the page cache go to threads");
    let is_answered = Arc::new(AtomicBool::new(false));
    let answered = is_answered.clone();
    disk.submit(Request::Flush, Box::new(move |completion| answered.store(completion.result.is_ok(), Ordering::SeqCst)));
    let of_submission = signals(&signal);
    let finished = [(); 3].map(|()| with_ring(Ring::turn).expect("a ring").len());
    let is_stuck = with_ring(|ring| ring.is_stuck());
    let of_turns = signals(&signal);
    // Before anything may fail: a ring ends when its last operation has.
    with_ring(|ring| ring.uring.submitter().register_enable_rings()).expect("a ring").expect("it is enabled");
    drop(RING.with(|slot| slot.borrow_mut().take()));
    assert!(is_answered.load(Ordering::SeqCst));
    assert_eq!((finished, is_stuck), ([0; 3], Some(true)), "nothing can be submitted");
    assert_eq!(of_submission, 1, "the reaper is to try again");
    assert_eq!(of_turns, 0, "it pauses by itself");
}

/// A disk that answers nothing, with reads of it under way, and what keeps it from answering.
fn hanging(reads: usize, answered: &Arc<AtomicUsize>) -> (FileDisk, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let disk = FileDisk::that_hangs(reader.into());
    for _ in 0..reads {
        let answered = answered.clone();
        let request = Request::Read { offset: 0, buf: AlignedBuf::for_read(8), mode: ReadMode::Cached };
        disk.submit(request, Box::new(move |_| count(&answered, true)));
    }
    (disk, writer.into())
}

fn count(counter: &AtomicUsize, counts: bool) {
    counter.fetch_add(usize::from(counts), Ordering::SeqCst);
}

fn on_a_thread_with_a_ring(work: impl AsyncFnOnce() -> Option<OwnedFd>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let Ok(ring) = install_ring() else { return eprintln!("SKIPPED: no ring here") };
        let open = work().await;
        drop(ring);
        drop(open);
    });
}

#[test]
fn a_disk_that_hangs_does_not_keep_others_from_the_ring() {
    on_a_thread_with_a_ring(async || {
        let answered = Arc::new(AtomicUsize::new(0));
        // More than the ring has room for, of several disks.
        let hung: Vec<_> = (0..5).map(|_| hanging(2 * RING_ENTRIES as usize, &answered)).collect();
        let folder = TempDir::new().expect("temporary folder");
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let disk = FileDisk::open(&folder.path().join("disk"), &options).expect("opens");
        let buf = AlignedBuf::zeroed(BLOCK_BYTES);
        let healthy = async {
            disk.write(0, buf, Durability::Durable).await.expect("a write");
            let done = Arc::new(AtomicUsize::new(0));
            // More than it may have in the ring.
            for _ in 0..3 * DISK_ENTRIES {
                let (done, buf) = (done.clone(), AlignedBuf::for_read(BLOCK_BYTES));
                let request = Request::Read { offset: 0, buf, mode: ReadMode::Direct };
                disk.submit(request, Box::new(move |read| count(&done, read.result.is_ok())));
            }
            while done.load(Ordering::SeqCst) < 3 * DISK_ENTRIES {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), healthy).await.expect("the others are answered");
        assert_eq!(answered.load(Ordering::SeqCst), 0);
        let reads = hung.len() * 2 * RING_ENTRIES as usize;
        let (disks, open): (Vec<_>, Vec<_>) = hung.into_iter().unzip();
        drop((disks, open));
        let all = async {
            while answered.load(Ordering::SeqCst) < reads {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("what waited is answered when they answer");
        None
    });
}

#[test]
fn a_thread_that_ends_does_not_wait_for_a_disk_that_hangs() {
    let answered = Arc::new(AtomicUsize::new(0));
    let (told, ended) = std::sync::mpsc::sync_channel(1);
    let of_thread = answered.clone();
    std::thread::spawn(move || {
        on_a_thread_with_a_ring(async || {
            let (disk, open) = hanging(2 * DISK_ENTRIES, &of_thread);
            drop(disk);
            Some(open)
        });
        told.send(()).expect("it is awaited");
    });
    ended.recv_timeout(2 * END_PATIENCE).expect("it ends");
    assert_eq!(answered.load(Ordering::SeqCst), 0, "nobody knows how they end");
}
