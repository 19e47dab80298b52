//! Threads that make the system calls of jobs, for threads without a ring and where the system forbids rings.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::{Call, Job, Step};
use crate::error::DiskErrorKind;

/// Most threads of one disk. They start when there is work for them and end with the disk.
const POOL_THREADS: usize = 8;
/// Most jobs of one disk that wait for a thread; reads beyond those are refused.
const POOL_QUEUE_LIMIT: usize = 4096;

/// The threads of one disk. Dropping it lets them finish what waits, then end.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn new() -> Pool {
        let state = State { queue: VecDeque::new(), threads: 0, idle: 0, closed: false };
        Pool { shared: Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() }) }
    }

    /// Takes a job in, or refuses a read if too many wait.
    pub(super) fn submit(&self, job: Job) {
        let state = self.shared.state.lock();
        if state.queue.len() >= POOL_QUEUE_LIMIT && job.may_be_refused() {
            drop(state);
            return job.finish_overloaded();
        }
        self.take_in(state, job);
    }

    /// Takes in a job that is half done. Those are bounded by the rings they come from.
    pub(super) fn submit_beyond_limit(&self, job: Job) {
        self.take_in(self.shared.state.lock(), job);
    }

    fn take_in(&self, mut state: MutexGuard<'_, State>, job: Job) {
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.shared.wake.notify_one();
        } else if state.threads < POOL_THREADS {
            state.threads += 1;
            let shared = self.shared.clone();
            let spawned = thread::Builder::new().name("disk-io".to_owned()).spawn(move || work(&shared));
            if let Err(cause) = spawned {
                state.threads -= 1;
                let orphan = if state.threads == 0 { state.queue.pop_back() } else { None };
                drop(state);
                if let Some(orphan) = orphan {
                    let error = orphan.failure(DiskErrorKind::Failed, cause);
                    orphan.finish(Err(error));
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            drop(state);
            run(job);
            state = shared.state.lock();
        } else if state.closed {
            state.threads -= 1;
            return;
        } else {
            state.idle += 1;
            shared.wake.wait(&mut state);
            state.idle -= 1;
        }
    }
}

/// Carries out a job to its end.
fn run(mut job: Job) {
    if let Some(error) = job.refusal() {
        return job.finish(Err(error));
    }
    let medium = job.medium();
    loop {
        let turn = job.syncs_page_cache().then(|| medium.syncing.lock());
        let outcome = make(job.next_call());
        let step = job.advance(outcome);
        drop(turn);
        if let Step::Finished(result) = step {
            // Before the answer: whoever has the last one may open the disk anew.
            drop(medium);
            return job.finish(result);
        }
    }
}

fn make(call: Call<'_>) -> io::Result<usize> {
    match call {
        Call::Read { file, buf, offset } => Ok(rustix::io::pread(file, buf, offset)?),
        Call::Write { file, buf, offset, durable: true } => {
            Ok(rustix::io::pwritev2(file, &[IoSlice::new(buf)], offset, ReadWriteFlags::DSYNC)?)
        }
        Call::Write { file, buf, offset, durable: false } => Ok(rustix::io::pwrite(file, buf, offset)?),
        Call::Sync { file } => Ok(rustix::fs::fdatasync(file).map(|()| 0)?),
        Call::Allocate { file, offset, len } => match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
            // A block device has its space; elsewhere the range has to exist at least.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => extend(file, offset + len).map(|()| 0),
            outcome => Ok(outcome.map(|()| 0)?),
        },
        Call::WriteZeros { file, offset, len } => {
            Ok(rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, offset, len).map(|()| 0)?)
        }
        Call::Discard { file, offset, len } => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(file, flags, offset, len).map(|()| 0)?)
        }
    }
}

fn extend(file: std::os::fd::BorrowedFd<'_>, end: u64) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    if is_file && (stat.st_size as u64) < end {
        rustix::fs::ftruncate(file, end)?;
    }
    Ok(())
}
