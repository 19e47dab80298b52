use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::IoUring;
use tempfile::TempDir;

use super::{RING, RING_ENTRIES, Ring, with_ring};
use crate::{Disk, FileDisk, OpenOptions, Request};

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
