//! One io_uring per runtime thread.
//!
//! Invariants
//! - A job is in the ring's table from before its submission until its completion was taken out: the table owns the buffer
//!   and, through the job, the descriptor that the kernel works on. Nothing takes a job out earlier.
//! - The ring is dropped when the table is empty, or with what it holds left to the kernel for good ([`Ring::give_up`]).
//! - At most `RING_ENTRIES` jobs are with the kernel, so neither queue of the ring can overflow, and at most `DISK_ENTRIES` of
//!   one disk, so that one that hangs keeps no other from its work; up to `DISK_QUEUE_LIMIT` more of each wait here, and reads
//!   beyond those are refused.
//! - No callback runs while the ring is borrowed: it may submit.
//!
//! The kernel signals completions through an eventfd in tokio's poller; a task on this thread takes them out and calls back,
//! so a request's whole life is on one thread.
//!
//! A durable write is one write with RWF_DSYNC. Measured by `examples/io_paths` (reference machine, ext4, written blocks,
//! 4 KiB; latency p50 and this process's CPU time for one operation, in microseconds):
//!
//! | way                               | QD1 latency | CPU     | QD16 latency | CPU    | QD16 writes/s      |
//! |-----------------------------------|-------------|---------|--------------|--------|--------------------|
//! | ring, RWF_DSYNC                   | 104 to 112  | 17 - 20 | 610 to 700   | 7 - 10 | 20 to 23 thousand  |
//! | ring, write linked to fdatasync   | 130 to 134  | 45      | 680          | 30     | 17 thousand        |
//! | writer thread, pwritev2 RWF_DSYNC | 121 to 137  | 46 - 52 |              |        | as at QD1          |
//! | blocking pwritev2 RWF_DSYNC       | 104 to 116  | 28 - 37 |              |        | as at QD1          |
//!
//! The linked fdatasync always goes to a thread of the kernel's, and that thread's wake-ups are the difference. Blocking costs
//! the runtime thread its other connections. Task work deferred or cooperative, an eventfd or the ring's own descriptor in
//! the poller: no difference beyond the noise.

mod shares;

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::error::DiskError;
use crate::file::{Call, Job, Step};
use crate::ring::shares::Shares;

/// Most jobs of one thread that are with the kernel at once.
const RING_ENTRIES: u32 = 512;
/// Most of them that are one disk's: more than it takes to keep it busy. A disk that hangs ends none of its own.
const DISK_ENTRIES: usize = 64;
/// Most jobs of one thread and one disk that wait for one of those to end; reads beyond those are refused.
const DISK_QUEUE_LIMIT: usize = 4096;
/// How long a thread that ends waits for the next completion, before it leaves what is in flight to the kernel.
const END_PATIENCE: Duration = Duration::from_secs(4);
/// How long after a submission that the kernel had no memory for it is tried again.
const SUBMIT_RETRY: Duration = Duration::from_millis(1);

/// Why this thread has no ring. Disks then use their threads.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    #[error("the system gives us no io_uring: {0}")]
    Refused(#[source] io::Error),
    #[error("a ring belongs on the thread of a current-thread tokio runtime with I/O enabled")]
    WrongRuntime,
    #[error("this thread has a ring already")]
    Installed,
}

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// Keeps this thread's ring. Dropping it waits for the operations in flight, whose callbacks still run, except for those of a disk
/// that does not answer; later requests of this thread go to the disks' threads.
#[derive(Debug)]
pub struct RingGuard {
    reaper: AbortHandle,
    /// A ring is its thread's.
    not_send: PhantomData<*const ()>,
}

/// Gives this thread a ring. Call it on the thread of a current-thread runtime, inside it.
pub fn install_ring() -> Result<RingGuard, RingError> {
    let handle = Handle::try_current().map_err(|_| RingError::WrongRuntime)?;
    if handle.runtime_flavor() != RuntimeFlavor::CurrentThread {
        return Err(RingError::WrongRuntime);
    }
    if ring_is_installed() {
        return Err(RingError::Installed);
    }
    let ring = Ring::new().map_err(RingError::Refused)?;
    let signal = ring.signal.try_clone().map_err(RingError::Refused)?;
    // Never read: the poller reports each new signal (edge-triggered), whatever the count.
    // SAFETY: the AsyncFd owns this descriptor, so it stays open and the same until the AsyncFd goes.
    let signal = unsafe { AsyncFd::register_with_interest(signal, Interest::READABLE) }
        .map_err(|error| RingError::Refused(error.into()))?;
    RING.with(|slot| *slot.borrow_mut() = Some(ring));
    let reaper = handle.spawn(reap(signal)).abort_handle();
    Ok(RingGuard { reaper, not_send: PhantomData })
}

/// Whether requests of this thread go through a ring.
pub fn ring_is_installed() -> bool {
    RING.try_with(|slot| slot.borrow().is_some()).unwrap_or(false)
}

/// Starts `job` on this thread's ring; gives it back if there is none.
pub(crate) fn submit(job: Job) -> Option<Job> {
    let mut job = Some(job);
    let refused = RING.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        let ring = slot.as_mut()?;
        let refused = ring.push(job.take()?);
        ring.enter();
        if ring.is_stuck() {
            ring.wake_reaper();
        }
        refused
    });
    if let Ok(Some(refused)) = refused {
        refused.finish_overloaded();
    }
    job
}

impl Drop for RingGuard {
    fn drop(&mut self) {
        self.reaper.abort();
        while let Some(finished) = with_ring(|ring| ring.wait_for_some()).flatten() {
            finished.into_iter().for_each(Finished::tell);
        }
        // Callbacks above may have submitted more, which the loop has waited for too: the table is empty now, or given up.
        let ring = RING.with(|slot| slot.borrow_mut().take());
        drop(ring);
    }
}

/// Takes completions out and calls back, until the ring goes.
async fn reap(signal: AsyncFd<OwnedFd>) {
    while let Some(is_stuck) = with_ring(|ring| ring.is_stuck()) {
        let ready = if is_stuck {
            tokio::time::timeout(SUBMIT_RETRY, signal.readable()).await.ok()
        } else {
            Some(signal.readable().await)
        };
        match ready {
            // Cleared before the queue is emptied: a completion in between signals anew.
            Some(Ok(mut ready)) => ready.clear_ready(),
            Some(Err(_)) => return,
            None => {}
        }
        let Some(finished) = with_ring(Ring::turn) else { return };
        finished.into_iter().for_each(Finished::tell);
    }
}

fn with_ring<T>(action: impl FnOnce(&mut Ring) -> T) -> Option<T> {
    RING.try_with(|slot| slot.borrow_mut().as_mut().map(action)).ok().flatten()
}

/// A job that has its result and leaves the ring.
struct Finished {
    job: Job,
    result: Result<(), DiskError>,
}

impl Finished {
    fn tell(self) {
        self.job.finish_from_ring(self.result);
    }
}

struct Ring {
    uring: IoUring,
    signal: OwnedFd,
    /// Jobs with the kernel, by the number that their entry carries.
    table: Vec<Option<Job>>,
    free: Vec<usize>,
    /// What each disk has of the table, and its jobs that wait for a place there.
    shares: Shares,
    /// Entries written for the kernel that it has not taken yet.
    unsubmitted: usize,
}

impl Ring {
    fn new() -> io::Result<Ring> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(RING_ENTRIES)
            // Kernels before 6.0 know no single issuer.
            .or_else(|_| IoUring::new(RING_ENTRIES))?;
        Ring::over(uring)
    }

    fn over(uring: IoUring) -> io::Result<Ring> {
        let signal = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        uring.submitter().register_eventfd(signal.as_raw_fd())?;
        Ok(Ring {
            uring,
            signal,
            table: (0..RING_ENTRIES).map(|_| None).collect(),
            free: (0..RING_ENTRIES as usize).rev().collect(),
            shares: Shares::default(),
            unsubmitted: 0,
        })
    }

    /// Takes a job in, as an entry or into its disk's queue; gives a read back if both are full.
    fn push(&mut self, job: Job) -> Option<Job> {
        if !self.free.is_empty() && self.shares.begin(job.disk()) {
            self.start(job);
            return None;
        }
        self.shares.wait(job)
    }

    /// Gives the kernel a job for which there is a free place.
    fn start(&mut self, job: Job) {
        let place = self.free.pop().expect("there is a free place");
        self.table[place] = Some(job);
        self.write_entry(place);
    }

    /// Writes the entry for the next call of the job at `place`.
    fn write_entry(&mut self, place: usize) {
        let job = self.table[place].as_mut().expect("an entry is written for a job in the table");
        let entry = entry_for(job.next_call()).user_data(place as u64);
        // SAFETY: the entry's buffer and descriptor belong to the job, which stays in the table, untouched, until this
        // entry's completion is taken out; moving the table's elements does not move a buffer.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        assert!(pushed.is_ok(), "there are as many entries as places in the table");
        self.unsubmitted += 1;
    }

    /// Hands the written entries to the kernel.
    fn enter(&mut self) {
        while self.unsubmitted > 0 {
            match self.uring.submit() {
                Ok(taken) => self.unsubmitted -= taken.min(self.unsubmitted),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // No memory, or completions to be taken out first: the reaper tries again.
                Err(_) => return,
            }
        }
    }

    /// Lets the reaper see that entries wait. Not for the reaper itself, which sees it and pauses: a signal would end that pause at once.
    fn wake_reaper(&self) {
        let one = 1u64.to_ne_bytes();
        // All that can be wrong is a counter at its end, and that is a signal too.
        rustix::io::write(&self.signal, &one).ok();
    }

    /// Whether entries wait that the kernel would not take.
    fn is_stuck(&self) -> bool {
        self.unsubmitted > 0
    }

    /// Takes all completions out, continues what is not finished and starts what waits.
    fn turn(&mut self) -> Vec<Finished> {
        let mut finished = Vec::new();
        loop {
            let completion = self.uring.completion().next();
            let Some(completion) = completion else { break };
            let place = completion.user_data() as usize;
            let outcome = match completion.result() {
                code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                count => Ok(count as usize),
            };
            let job = self.table[place].as_mut().expect("a completion is for a job in the table");
            match job.advance(outcome) {
                Step::Again => self.write_entry(place),
                Step::Finished(result) => {
                    let job = self.table[place].take().expect("checked above");
                    self.free.push(place);
                    self.shares.end(job.disk());
                    finished.push(Finished { job, result });
                }
            }
        }
        while !self.free.is_empty() {
            let Some(job) = self.shares.begin_next() else { break };
            match job.refusal() {
                Some(error) => {
                    self.shares.end(job.disk());
                    finished.push(Finished { job, result: Err(error) });
                }
                None => self.start(job),
            }
        }
        self.enter();
        finished
    }

    /// Waits for completions and takes them out; none if nothing is in flight, or a disk does not answer.
    fn wait_for_some(&mut self) -> Option<Vec<Finished>> {
        if self.free.len() == self.table.len() {
            // What waits in a queue waits for a place, so there is none.
            assert!(!self.shares.is_any_waiting(), "jobs wait though nothing is in flight");
            return None;
        }
        // What came before the look below signals no more; what comes after it does.
        let mut count = [0; 8];
        rustix::io::read(&self.signal, &mut count).ok();
        let finished = self.turn();
        if !finished.is_empty() {
            return Some(finished);
        }
        let patience = Timespec { tv_sec: END_PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let signalled = rustix::event::poll(&mut [PollFd::new(&self.signal, PollFlags::IN)], Some(&patience));
        match signalled {
            // An interruption is the kernel's way to have completions taken in.
            Ok(1..) | Err(Errno::INTR) => Some(self.turn()),
            Ok(0) | Err(_) => {
                self.give_up();
                None
            }
        }
    }

    /// Leaves what is in flight, and what waits behind it, with their memory: a disk that does not answer may do so as long as the process lives. Nobody hears
    /// how that ends.
    fn give_up(&mut self) {
        std::mem::forget(std::mem::take(&mut self.table));
        std::mem::forget(std::mem::take(&mut self.shares));
        self.free.clear();
    }
}

impl Drop for Ring {
    /// A ring that is dropped with its thread, its guard forgotten, still must not free what the kernel works on.
    fn drop(&mut self) {
        while let Some(finished) = self.wait_for_some() {
            finished.into_iter().for_each(Finished::tell);
        }
    }
}

fn entry_for(call: Call<'_>) -> squeue::Entry {
    match call {
        Call::Read { file, buf, offset } => {
            opcode::Read::new(Fd(file.as_raw_fd()), buf.as_mut_ptr(), buf.len() as u32).offset(offset).build()
        }
        Call::Write { file, buf, offset, durable } => opcode::Write::new(Fd(file.as_raw_fd()), buf.as_ptr(), buf.len() as u32)
            .offset(offset)
            .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
            .build(),
        Call::Sync { file } => opcode::Fsync::new(Fd(file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build(),
        Call::Allocate { file, offset, len } => opcode::Fallocate::new(Fd(file.as_raw_fd()), len).offset(offset).build(),
        Call::WriteZeros { .. } | Call::Discard { .. } => unreachable!("the pool carries these out"),
    }
}

#[cfg(test)]
mod tests;
