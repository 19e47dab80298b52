//! The shell around the state machine: log, apply, publish, materialise.
//!
//! ```text
//!   propose ─▶ wal (durable) ─▶ apply in order ─▶ kv batch with the index ─▶ published snapshot ─▶ reply
//!                                                     │ every so often
//!                                                     └─▶ kv.persist ─▶ wal.truncate_before
//! ```
//!
//! Invariants:
//! - Nothing is applied before it is durable, and everything is applied in the order of the log.
//! - A reply comes after the snapshot that holds its effect was published: who got a reply reads its own write.
//! - The log is shortened only up to a command whose effect a persist has covered.
//! - A proposal whose future is dropped runs to its end all the same.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use disk::{SimDisk, SimOptions};
use env::Env;
use kv::{FjallKv, Kv, MemoryKv};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use wal::{AppendError, FolderStore, Lsn, OpenOptions, RegionStore, SegmentStore, Wal};

use crate::command::{Command, apply_noting, replay};
use crate::error::{ImportError, ManagerError, OpenError, ProposeError};
use crate::export::DecodeExportError;
use crate::limits::{LOG_SEGMENT_BYTES, PERSIST_INTERVAL_COMMANDS, PERSIST_INTERVAL_SEGMENTS};
use crate::operation::Operation;
use crate::record::BucketRecord;
use crate::snapshot::{CommandIndex, RecordKey, Snapshot};
use crate::table;

/// Folders within the manager's folder.
const LOG_FOLDER: &str = "log";
const STATE_FOLDER: &str = "state";

/// Permissions of the manager's folder.
const OWNER_ONLY: u32 = 0o700;

/// Segments of the log of a manager in memory: two in use, two being given up, some more for commands on their way.
const MEMORY_LOG_SEGMENTS: usize = 8;

/// The manager of a cluster. Clones share it.
#[derive(Clone)]
pub struct Manager {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    wal: Wal,
    kv: Arc<dyn Kv>,
    published: ArcSwap<Snapshot>,
    changes: watch::Sender<CommandIndex>,
    core: Mutex<Core>,
}

struct Core {
    state: Snapshot,
    /// Commands in the log that are not applied yet, in its order.
    waiting: VecDeque<Waiting>,
    /// Commands applied since the last persist began.
    unpersisted: u64,
    is_persisting: bool,
    failure: Option<ProposeError>,
}

struct Waiting {
    index: CommandIndex,
    carry_out: CarryOut,
}

/// Applies a command of ours and returns how to tell its proposer, once the effect can be seen.
type CarryOut = Box<dyn FnOnce(&mut Vec<RecordKey>, &mut Snapshot) -> Tell + Send>;
type Tell = Box<dyn FnOnce() + Send>;

impl Manager {
    /// Opens the manager in `folder`, which is made if absent.
    pub async fn open(env: &Env, folder: &Path) -> Result<Manager, OpenError> {
        Manager::open_on(env, open_log(folder)?, open_state(folder)?).await
    }

    /// A manager that ends with its process, for tests.
    pub async fn open_in_memory(env: &Env) -> Result<Manager, OpenError> {
        let size_bytes = LOG_SEGMENT_BYTES * MEMORY_LOG_SEGMENTS as u64;
        let options = SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() };
        let disk = Arc::new(SimDisk::new(env, options));
        let store = RegionStore::new(disk, 0, LOG_SEGMENT_BYTES, MEMORY_LOG_SEGMENTS);
        Manager::open_on(env, Arc::new(store), Arc::new(MemoryKv::new())).await
    }

    /// Opens the manager on a log and a state: reads the state, then applies what the log has beyond it.
    pub async fn open_on(env: &Env, store: Arc<dyn SegmentStore>, kv: Arc<dyn Kv>) -> Result<Manager, OpenError> {
        let state = table::load(kv.as_ref())?;
        Manager::start(env, store, kv, state, Lsn::FIRST).await
    }

    /// Makes a manager in an empty `folder` from a copy of a state ([`Snapshot::export`]).
    pub async fn import(env: &Env, folder: &Path, copy: &[u8]) -> Result<Manager, ImportError> {
        Manager::import_on(env, open_log(folder)?, open_state(folder)?, copy).await
    }

    /// As [`Manager::import`], on an empty log and an empty state.
    pub async fn import_on(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        kv: Arc<dyn Kv>,
        copy: &[u8],
    ) -> Result<Manager, ImportError> {
        let found = table::load(kv.as_ref()).map_err(OpenError::from)?;
        if found != Snapshot::default() {
            return Err(ImportError::NotEmpty { applied: found.applied });
        }
        let state = Snapshot::from_export(copy)?.skip_lost().map_err(DecodeExportError::from)?;
        // The log comes first: one that begins after the copy, with an empty state beside it, is refused by `open`, and
        // importing again goes on from there. The other way round a state would stand beside a log that lacks its past.
        let next = Lsn(state.applied.0).next();
        let imported = table::batch(&state, table::all_records(&state));
        let manager = Manager::start(env, store, Arc::clone(&kv), state, next).await?;
        kv.commit(imported).map_err(OpenError::from)?;
        kv.persist().map_err(OpenError::from)?;
        Ok(manager)
    }

    async fn start(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        kv: Arc<dyn Kv>,
        mut state: Snapshot,
        begin_at: Lsn,
    ) -> Result<Manager, OpenError> {
        let options = OpenOptions { keep_from: Lsn(state.applied.0).next(), begin_at };
        let mut touched = Vec::new();
        let mut replayed = 0;
        let mut refused = None;
        let mut replay_record = |Lsn(index): Lsn, bytes: &[u8]| {
            let index = CommandIndex(index);
            replayed += 1;
            match Command::decode(bytes) {
                Ok(command) if refused.is_none() => replay(index, &command, &mut touched, &mut state),
                Ok(_) => {}
                Err(cause) => drop(refused.get_or_insert(OpenError::Command { index, cause })),
            }
        };
        let wal = Wal::open(env, store, options, &mut replay_record).await?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        if replayed > 0 {
            // Durable at once: the log may have been left with no room for another command.
            kv.commit(table::batch(&state, touched))?;
            kv.persist()?;
            wal.truncate_before(Lsn(state.applied.0).next());
        }
        let inner = Inner {
            env: env.clone(),
            wal,
            kv,
            published: ArcSwap::from_pointee(state.clone()),
            changes: watch::Sender::new(state.applied),
            core: Mutex::new(Core { state, waiting: VecDeque::new(), unpersisted: 0, is_persisting: false, failure: None }),
        };
        Ok(Manager { inner: Arc::new(inner) })
    }

    /// The newest state.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.published.load_full()
    }

    /// A bucket by its name, without holding a snapshot: no lock, no waiting, no copy of anything but the record's pointer.
    pub fn bucket(&self, name: &str) -> Option<Arc<BucketRecord>> {
        self.inner.published.load().bucket(name).cloned()
    }

    /// Counts the commands that are in [`Manager::snapshot`]: wakes whoever waits for a change.
    pub fn changes(&self) -> watch::Receiver<CommandIndex> {
        self.inner.changes.subscribe()
    }

    /// Makes the state durable by itself and shortens the log. Nothing depends on it; a start after it replays less.
    pub async fn persist(&self) -> Result<(), ProposeError> {
        self.inner.persist().await
    }

    /// Puts an operation through the log and answers with what it did.
    pub(crate) async fn propose<O: Operation>(&self, operation: O) -> Result<O::Reply, ManagerError<O::Refusal>> {
        let command: Command = operation.clone().into();
        let bytes = command.encode();
        let room = self.inner.wal.reserve(bytes.len()).await.map_err(propose_error)?;
        let (reply, replied) = oneshot::channel();
        let pending = {
            let mut core = self.inner.core.lock();
            if let Some(failure) = &core.failure {
                return Err(failure.clone().into());
            }
            let pending = room.append(bytes).map_err(propose_error)?;
            let index = CommandIndex(pending.lsn().0);
            let carry_out: CarryOut = Box::new(move |touched, state| {
                let outcome = apply_noting(index, touched, state, |edit| operation.apply(index, edit));
                // The proposer may have lost interest.
                Box::new(move || drop(reply.send(outcome)))
            });
            core.waiting.push_back(Waiting { index, carry_out });
            pending
        };
        let inner = Arc::clone(&self.inner);
        self.inner.env.spawn(async move {
            match pending.await {
                Ok(_) => inner.apply_durable(),
                Err(error) => inner.fail(propose_error(error)),
            }
        });
        match replied.await {
            Ok(outcome) => outcome.map_err(ManagerError::Refused),
            Err(_) => Err(self.inner.core.lock().failure.clone().unwrap_or(ProposeError::Abandoned).into()),
        }
    }
}

impl Inner {
    /// Applies all commands that are durable by now.
    fn apply_durable(self: &Arc<Self>) {
        let mut tell = Vec::new();
        let mut core = self.core.lock();
        if core.failure.is_some() {
            return;
        }
        let durable = CommandIndex(self.wal.durable_lsn().0);
        let mut touched = Vec::new();
        while core.waiting.front().is_some_and(|next| next.index <= durable) {
            let next = core.waiting.pop_front().expect("there is a front");
            core.unpersisted += 1;
            tell.push((next.carry_out)(&mut touched, &mut core.state));
        }
        if tell.is_empty() {
            return;
        }
        if let Err(cause) = self.kv.commit(table::batch(&core.state, touched)) {
            return fail(&mut core, ProposeError::Commit(Arc::new(cause)));
        }
        self.published.store(Arc::new(core.state.clone()));
        self.changes.send_replace(core.state.applied);
        let log_is_long = self.wal.live_segment_count() > PERSIST_INTERVAL_SEGMENTS;
        let is_due = log_is_long || core.unpersisted >= PERSIST_INTERVAL_COMMANDS;
        if is_due && !std::mem::replace(&mut core.is_persisting, true) {
            let inner = Arc::clone(self);
            self.env.spawn(async move {
                let outcome = inner.persist().await;
                inner.core.lock().is_persisting = false;
                if let Err(failure) = outcome {
                    tracing::error!(%failure, "the manager takes no more commands");
                }
            });
        }
        drop(core);
        for tell in tell {
            tell();
        }
    }

    async fn persist(self: &Arc<Self>) -> Result<(), ProposeError> {
        let covered = {
            let mut core = self.core.lock();
            core.unpersisted = 0;
            core.state.applied
        };
        let outcome = if self.kv.persist_waits() {
            let kv = Arc::clone(&self.kv);
            tokio::task::spawn_blocking(move || kv.persist()).await.map_err(|_| ProposeError::Abandoned)?
        } else {
            self.kv.persist()
        };
        if let Err(cause) = outcome {
            let failure = ProposeError::Persist(Arc::new(cause));
            self.fail(failure.clone());
            return Err(failure);
        }
        self.wal.truncate_before(Lsn(covered.0).next());
        Ok(())
    }

    fn fail(&self, failure: ProposeError) {
        fail(&mut self.core.lock(), failure);
    }
}

/// Ends the taking of commands. Who waits for a reply learns it by the end of the channel.
fn fail(core: &mut Core, failure: ProposeError) {
    core.failure.get_or_insert(failure);
    core.waiting.clear();
}

fn propose_error(error: AppendError) -> ProposeError {
    match error {
        AppendError::RecordLength { found, most } => ProposeError::Length { found, most },
        error @ AppendError::Poisoned(_) => ProposeError::Log(error),
    }
}

fn open_log(folder: &Path) -> Result<Arc<dyn SegmentStore>, OpenError> {
    // It holds secret keys.
    let made =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::set_permissions(folder, Permissions::from_mode(OWNER_ONLY)));
    made.map_err(|cause| OpenError::Folder { path: folder.to_path_buf(), cause })?;
    Ok(Arc::new(FolderStore::open(&folder.join(LOG_FOLDER), LOG_SEGMENT_BYTES)?))
}

fn open_state(folder: &Path) -> Result<Arc<dyn Kv>, OpenError> {
    Ok(Arc::new(FjallKv::open(&folder.join(STATE_FOLDER))?))
}
