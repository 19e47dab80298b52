//! The shell: it carries out what the machine decides.
//!
//! Invariants:
//! - The lock of the state is never held during I/O.
//! - What was begun goes on if its caller waits for it no more.
//! - After a write that failed nothing more is written: the next start finds what the medium holds.
//! - A store without a mutation has no space.

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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ::engine::{EngineError, ListPage, ListQuery, UploadPage, UploadQuery};
use device::{Finishing, Volume};
use env::Env;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use types::limits::BLOCK_BYTES;
use types::{BucketId, DeviceId, ErrorKind};

use crate::blocks::{BlockError, LogicalVolume};
use crate::content::VolumeIndex;
use crate::limits::MAX_REQUESTS;
use crate::log::{LogPlace, PgLog, Volumes};
use crate::name::Opseq;
use crate::pg::Pg;
use crate::superblock::Superblock;

pub use held::StagedContent;
use latches::Latches;
pub use mutations::Rule;
pub use reading::Pinned;
pub use uploads::PartBytes;

/// Whether a store may be founded; the reason why not.
pub struct Founding {
    /// As far as this node knows.
    pub check: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// From now on nobody else founds one.
    pub claim: Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
}

impl Founding {
    /// Nobody else may have a store.
    pub fn free() -> Founding {
        Founding { check: Box::new(|| Ok(())), claim: Box::new(|| Box::pin(async { Ok(()) })) }
    }
}

const NO_LEASE: &str = "this node waits to hear that it is still the primary of the placement group";

/// The objects of a server, or of a placement group, being served. Clones are the same one.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    volumes: Arc<Volumes>,
    /// Why the store can't be used at all, for this process.
    obstacle: Option<EngineError>,
    founding: Founding,
    /// Never held during I/O.
    state: Mutex<State>,
    latches: Latches,
    /// None before the first mutation.
    log: OnceLock<PgLog>,
    /// Held while units of volumes get or lose their space.
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
    pub log_live_segments: u64,
}

impl Store {
    /// Opens what stands on the volumes. Where that fails the store answers with the reason, and what else the node runs is served.
    pub async fn open(env: &Env, volumes: Vec<Volume>, founding: Founding) -> Store {
        let loaded = load::load(env, volumes, &founding).await;
        if let Some(error) = &loaded.obstacle {
            tracing::error!(%error, "the objects of volume buckets can't be used");
        }
        Store::begin(env, loaded, founding).await
    }

    async fn begin(env: &Env, loaded: load::Loaded, founding: Founding) -> Store {
        let counters = Counters::default();
        counters.revoked.store(loaded.revoked.len() as u64, Ordering::Relaxed);
        let log = OnceLock::new();
        loaded.log.into_iter().for_each(|found| drop(log.set(found)));
        let inner = Arc::new(Inner {
            env: env.clone(),
            volumes: loaded.volumes,
            obstacle: loaded.obstacle,
            founding,
            state: Mutex::new(loaded.state),
            latches: Latches::default(),
            log,
            growing: tokio::sync::Mutex::default(),
            dumping: tokio::sync::Mutex::default(),
            is_growing_ahead: AtomicBool::new(false),
            is_dump_due: AtomicBool::new(false),
            changed: Notify::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            counters,
        });
        inner.begin(loaded.revoked).await;
        Store { inner }
    }

    /// What has been done, and what there is.
    pub fn stats(&self) -> StoreStats {
        let inner = &self.inner;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &inner.counters;
        let log_live_segments = inner.log.get().map_or(0, |log| log.live_segments() as u64);
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
            log_live_segments,
        }
    }

    /// The objects of a placement group, at its primary: what the group's volume has, and the entries of its log. `next` is the number of the next one.
    pub async fn open_group(
        env: &Env,
        volume: LogicalVolume,
        log: PgLog,
        entries: Vec<(Opseq, bytes::Bytes)>,
        next: Opseq,
    ) -> Result<Store, EngineError> {
        let loaded = load::load_group(volume, log, entries, next).await?;
        Ok(Store::begin(env, loaded, Founding::free()).await)
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

    /// Whether a device's loss would lose anything.
    pub fn needs_device(&self, device: DeviceId) -> bool {
        let Some(index) = self.inner.index_of(device) else { return false };
        let state = self.inner.state.lock();
        state.pg.home() == Some(index) || state.pg.has_content_on(index)
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
    /// Refuses everything where the store can't be opened, or may not be here.
    fn check_usable(&self) -> Result<(), EngineError> {
        if let Some(obstacle) = &self.obstacle {
            return Err(obstacle.clone());
        }
        match self.log.get() {
            Some(_) => Ok(()),
            None => (self.founding.check)().map_err(|reason| EngineError::DeviceMissing { reason }),
        }
    }

    /// Looks at the state. In a cluster that counts only if this node may answer, and still may after the look.
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, EngineError> {
        self.check_usable()?;
        let seen = look(&self.state.lock());
        match self.log.get().is_none_or(PgLog::may_read) {
            true => Ok(seen),
            false => Err(unavailable(NO_LEASE.to_owned())),
        }
    }

    fn is_mirrored(&self) -> bool {
        matches!(self.log.get(), Some(PgLog::Replicated(_)))
    }

    fn index_of(&self, device: DeviceId) -> Option<VolumeIndex> {
        let at = |volume: &Option<LogicalVolume>| volume.as_ref().is_some_and(|volume| volume.device() == device);
        self.volumes.all.iter().position(at).map(|index| VolumeIndex(index as u16))
    }

    fn home(&self) -> LogicalVolume {
        let home = self.state.lock().pg.home().expect("a store that is founded has a home");
        self.volumes.all[usize::from(home.0)].clone().expect("the home device is there")
    }

    fn log(&self) -> &PgLog {
        self.log.get().expect("a store that is founded has a log")
    }

    /// What a request is told of an error of a volume. A copy that fails ends all writing: the next view goes on without it.
    fn refuse(&self, error: &BlockError) -> EngineError {
        match error {
            BlockError::Copy { kind, .. } if *kind != ErrorKind::Full => self.fail(error),
            BlockError::Volume(_) if error.kind() != ErrorKind::Full && self.is_mirrored() => self.fail(error),
            _ => refusal(error),
        }
    }

    /// Ends all writing: what the medium holds is known again after the next start.
    fn fail(&self, error: &(dyn std::error::Error + 'static)) -> EngineError {
        let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
        let reason = causes.collect::<Vec<_>>().join(": ");
        let failure = {
            let mut state = self.state.lock();
            if state.failure.is_none() {
                tracing::error!(reason, "objects of volume buckets are only read from now on");
            }
            state.failure.get_or_insert(reason).clone()
        };
        self.changed.notify_waiters();
        unavailable(failure)
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

/// Where the log stands on a volume.
fn log_place(volume: &LogicalVolume) -> LogPlace {
    LogPlace::of(volume.byte_count())
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
