//! How long the disk under a device has left requests without an answer. A disk that hangs fails nothing, so nothing else tells of it.
//!
//! Of what writes, flushes and reservations of space among it, the oldest request counts: a drain waits for each. Of reads it counts since when none has
//! ended: they come from clients without end, and where many queue up, each is old on a disk that is merely slow.
//!
//! The disk is asked nothing for this. Rejected: a small read now and then, as a probe. It wakes disks that sleep; and it is answered where only
//! writes hang (a frozen file system, the one command that a controller has lost, the half of a composed device).
//!
//! A request costs a reading of the clock and two atomic operations at its beginning, fewer at its end, and one small allocation: some 0.1 microseconds
//! of the 7 and more that it takes anyway (`disk::ring`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use disk::{Completion, Disk, DiskError, DiskStats, Done, Request};
use env::Env;

use crate::limits::{MAX_WATCHED_WRITES, WATCH_TRIES};

/// What is under way on one disk.
pub(crate) struct Answers {
    env: Env,
    reads: Reads,
    writes: Writes,
}

struct Reads {
    under_way: AtomicUsize,
    /// When the last one ended, or the first began after a time without any. Set before `under_way` says that there is one.
    moved_at: AtomicU64,
}

/// When each began, 0 for none. One that finds no room is not watched: those that took it are older.
struct Writes {
    began_at: Box<[AtomicU64]>,
    next: AtomicUsize,
}

/// One request under way; dropping it is the end.
struct UnderWay {
    answers: Arc<Answers>,
    slot: Slot,
}

enum Slot {
    Read,
    /// Where its beginning stands.
    Write(usize),
    Unwatched,
}

impl Answers {
    pub(crate) fn new(env: &Env) -> Answers {
        Answers {
            env: env.clone(),
            reads: Reads { under_way: AtomicUsize::new(0), moved_at: AtomicU64::new(0) },
            writes: Writes {
                began_at: (0..MAX_WATCHED_WRITES).map(|_| AtomicU64::new(0)).collect(),
                next: AtomicUsize::new(0),
            },
        }
    }

    /// For how long the disk has owed an answer; zero while nothing is under way.
    pub(crate) fn owed_for(&self) -> Duration {
        let oldest_write =
            self.writes.began_at.iter().map(|began_at| began_at.load(Ordering::Acquire)).filter(|at| *at > 0).min();
        let reads = &self.reads;
        let stuck_read = (reads.under_way.load(Ordering::Acquire) > 0).then(|| reads.moved_at.load(Ordering::Acquire));
        let since = oldest_write.into_iter().chain(stuck_read).min();
        // Read after them: what has begun since is not from the future.
        since.map_or(Duration::ZERO, |since| Duration::from_nanos(self.now().saturating_sub(since)))
    }

    fn begin(self: &Arc<Self>, request: &Request) -> UnderWay {
        let slot = match request {
            Request::Read { .. } => {
                self.reads.begin(self.now());
                Slot::Read
            }
            Request::Write { .. } | Request::Flush | Request::Allocate { .. } => self.writes.begin(self.now()),
            // They may take long: a disk that can't make zeros at once writes them.
            Request::WriteZeros { .. } | Request::Discard { .. } => Slot::Unwatched,
        };
        UnderWay { answers: self.clone(), slot }
    }

    fn now(&self) -> u64 {
        // 0 is nothing.
        self.env.now().as_nanos().max(1)
    }
}

impl Reads {
    fn begin(&self, now: u64) {
        if self.under_way.load(Ordering::Acquire) == 0 {
            self.moved_at.store(now, Ordering::Release);
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self, now: u64) {
        self.moved_at.store(now, Ordering::Release);
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Writes {
    fn begin(&self, now: u64) -> Slot {
        for _ in 0..WATCH_TRIES {
            let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.began_at.len();
            if self.began_at[slot].compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Slot::Write(slot);
            }
        }
        Slot::Unwatched
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let answers = &self.answers;
        match self.slot {
            Slot::Read => answers.reads.end(answers.now()),
            Slot::Write(slot) => answers.writes.began_at[slot].store(0, Ordering::Release),
            Slot::Unwatched => {}
        }
    }
}

/// A disk whose requests are watched.
pub(crate) struct WatchedDisk {
    below: Arc<dyn Disk>,
    answers: Arc<Answers>,
}

impl WatchedDisk {
    pub(crate) fn new(below: Arc<dyn Disk>, answers: Arc<Answers>) -> WatchedDisk {
        WatchedDisk { below, answers }
    }
}

impl Disk for WatchedDisk {
    fn describe(&self) -> String {
        self.below.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.below.capacity_bytes()
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        self.below.try_read_cached(offset, buf)
    }

    fn submit(&self, request: Request, done: Done) {
        let under_way = self.answers.begin(&request);
        let answered = move |completion: Completion| {
            // First: who hears the answer finds the request ended.
            drop(under_way);
            done(completion);
        };
        self.below.submit(request, Box::new(answered));
    }

    fn stats(&self) -> DiskStats {
        self.below.stats()
    }
}
