//! The shell: it carries out what the machine decides.
//!
//! Invariants:
//! - The lock of the state is never held during I/O.
//! - What was begun goes on if its caller waits for it no more.
//! - After a write that failed nothing more is written: the next start finds what the medium holds.
//! - A group without a mutation has no space.

mod checking;
mod committing;
mod dumping;
mod filling;
mod founding;
mod held;
mod latches;
mod load;
mod maintain;
mod mutations;
mod reading;
mod rooming;
mod uploads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::engine::{EngineError, ListPage, ListQuery, UploadPage, UploadQuery};
use device::Finishing;
use env::Env;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use types::limits::BLOCK_BYTES;
use types::{BucketId, ErrorKind};

use crate::blocks::BlockError;
use crate::limits::MAX_REQUESTS;
use crate::medium::Medium;
use crate::mirror::Mirror;
use crate::name::Opseq;
use crate::pg::Pg;
use crate::seat::Seat;
use crate::superblock::Superblock;

pub use checking::CheckReport;
pub use held::StagedContent;
use latches::Latches;
pub use mutations::Rule;
pub use reading::Pinned;
pub use uploads::PartBytes;

const NO_LEASE: &str = "this node waits to hear that it is still the primary of the placement group";

/// The objects of a placement group at its primary. Clones are the same ones.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    medium: Medium,
    /// Never held during I/O.
    state: Mutex<State>,
    latches: Latches,
    seat: Seat,
    /// Held while units of the volume get or lose their space.
    growing: tokio::sync::Mutex<()>,
    /// Held over a dump.
    dumping: tokio::sync::Mutex<()>,
    is_growing_ahead: AtomicBool,
    /// A dump is wanted or under way.
    is_dump_due: AtomicBool,
    /// Something ended for which requests may wait.
    changed: Notify,
    requests: Arc<Semaphore>,
    counters: Counters,
}

struct State {
    pg: Pg,
    /// None before the first mutation.
    superblock: Option<Superblock>,
    /// The last mutation with content, and what the last record says is settled.
    last_content: Opseq,
    told_settled: Opseq,
    is_closed: bool,
    /// Why nothing is written any more.
    failure: Option<String>,
}

#[derive(Default)]
struct Counters {
    mutations: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    damaged: AtomicU64,
    dumps: AtomicU64,
    dump_bytes: AtomicU64,
    revoked: AtomicU64,
}

/// What was done since the store was opened, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub mutations: u64,
    /// Content, in whole blocks.
    pub written_bytes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    /// Reads that found bytes which do not match their sums.
    pub damaged: u64,
    pub dumps: u64,
    pub dump_bytes: u64,
    /// Mutations whose content the last start has not found.
    pub revoked: u64,
    pub objects: u64,
    /// Of blocks that have an owner.
    pub used_bytes: u64,
    pub limbo_bytes: u64,
}

impl Store {
    /// Opens the objects of a group: what its volume has, and the entries of its log. `next` is the number of the next one.
    pub async fn open(
        env: &Env,
        volume: Mirror,
        seat: Seat,
        entries: Vec<(Opseq, bytes::Bytes)>,
        next: Opseq,
    ) -> Result<Store, EngineError> {
        let load::Loaded { medium, state, revoked } = load::load(volume, entries, next).await?;
        let counters = Counters::default();
        counters.revoked.store(revoked.len() as u64, Ordering::Relaxed);
        let inner = Arc::new(Inner {
            env: env.clone(),
            medium,
            state: Mutex::new(state),
            latches: Latches::default(),
            seat,
            growing: tokio::sync::Mutex::default(),
            dumping: tokio::sync::Mutex::default(),
            is_growing_ahead: AtomicBool::new(false),
            is_dump_due: AtomicBool::new(false),
            changed: Notify::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            counters,
        });
        inner.begin(revoked).await?;
        Ok(Store { inner })
    }

    /// What has been done, and what there is.
    pub fn stats(&self) -> StoreStats {
        let inner = &self.inner;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &inner.counters;
        let state = inner.state.lock();
        StoreStats {
            mutations: read(&counters.mutations),
            written_bytes: read(&counters.written_bytes),
            reads: read(&counters.reads),
            read_bytes: read(&counters.read_bytes),
            damaged: read(&counters.damaged),
            dumps: read(&counters.dumps),
            dump_bytes: read(&counters.dump_bytes),
            revoked: read(&counters.revoked),
            objects: state.pg.object_count() as u64,
            used_bytes: state.pg.used_blocks() * BLOCK_BYTES as u64,
            limbo_bytes: state.pg.limbo_blocks() * BLOCK_BYTES as u64,
        }
    }

    /// A page of names.
    pub fn list(&self, query: &ListQuery) -> Result<ListPage, EngineError> {
        self.inner.look(|state| state.pg.list(query))
    }

    /// A page of open uploads.
    pub fn list_uploads(&self, query: &UploadQuery) -> Result<UploadPage, EngineError> {
        self.inner.look(|state| state.pg.list_uploads(query))
    }

    /// Whether a bucket has no object and no upload.
    pub fn is_empty(&self, bucket: BucketId) -> Result<bool, EngineError> {
        self.inner.look(|state| state.pg.is_empty(bucket))
    }

    /// The fsck: what is wrong with the owners of blocks, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.inner.state.lock().pg.check()
    }

    /// Whether it is the same one.
    pub fn is(&self, other: &Store) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Refuses what would write from now on, and returns when all that was begun has ended.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.state.lock().is_closed = true;
        inner.changed.notify_waiters();
        drop(inner.requests.acquire_many(MAX_REQUESTS as u32).await);
        drop(inner.dumping.lock().await);
        drop(inner.growing.lock().await);
    }

    /// Carries out a request, which goes on if its caller is gone.
    fn on_its_own<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Finishing<Result<T, EngineError>> {
        let inner = self.inner.clone();
        let work = async move {
            let turn = inner.requests.clone().acquire_owned().await.expect("the semaphore is never closed");
            let outcome = request.await;
            drop(turn);
            outcome
        };
        Finishing::new(&self.inner.env, work)
    }
}

impl Inner {
    /// Looks at the state. That counts only if this node may answer, and still may after the look.
    fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, EngineError> {
        let seen = look(&mut self.state.lock());
        match self.seat.may_read() {
            true => Ok(seen),
            false => Err(unavailable(NO_LEASE.to_owned())),
        }
    }

    /// What a request is told of an error of the volume. A copy that fails ends all writing: the next view goes on without it.
    fn refuse(&self, error: &BlockError) -> EngineError {
        match error.kind() {
            ErrorKind::Full => EngineError::Full,
            ErrorKind::Busy => refusal(error),
            _ => self.fail(error),
        }
    }

    /// Ends all writing under this view: what the medium holds is known again when the group is opened anew.
    fn fail(&self, error: &(dyn std::error::Error + 'static)) -> EngineError {
        let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
        unavailable(self.stop_writing(causes.collect::<Vec<_>>().join(": ")))
    }

    /// Ends all writing, for a reason. The first one counts.
    fn stop_writing(&self, reason: String) -> String {
        let failure = {
            let mut state = self.state.lock();
            if state.failure.is_none() {
                let group = self.seat.group.number;
                tracing::error!(reason, group, "objects of a placement group of volume buckets are only read from now on");
            }
            state.failure.get_or_insert(reason).clone()
        };
        self.changed.notify_waiters();
        failure
    }
}

impl State {
    /// Refuses what writes, if nothing is written any more.
    fn check_writable(&self) -> Result<(), EngineError> {
        match &self.failure {
            Some(failure) => Err(unavailable(failure.clone())),
            None if self.is_closed => Err(unavailable("the server stops".to_owned())),
            None => Ok(()),
        }
    }
}

fn unavailable(reason: String) -> EngineError {
    EngineError::Unavailable { reason }
}

/// What a request is told of an error of a volume.
fn refusal(error: &BlockError) -> EngineError {
    match error.kind() {
        ErrorKind::Full => EngineError::Full,
        ErrorKind::Busy => EngineError::Busy { reason: error.to_string() },
        _ => unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub use tests::support as test_support;
