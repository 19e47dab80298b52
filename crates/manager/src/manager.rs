//! The manager, as its users see it: reads of the newest state, and commands that go through whatever lies beneath.
//!
//! ```text
//!   Manager ─┬─▶ Alone       its own log (wal) and state (kv)        one member
//!            └─▶ Replicated  a group of `consensus`, state in memory  several members
//! ```
//!
//! Invariants, of either backing:
//! - A reply comes after the snapshot that holds its effect was published: who got a reply reads its own write.
//! - A proposal whose future is dropped runs to its end all the same.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use disk::{SimDisk, SimOptions};
use env::Env;
use env::watch;
use kv::{FjallKv, Kv, MemoryKv};
use net::BoxFuture;
use types::DeviceId;
use wal::{FolderStore, Lsn, RegionStore, SegmentStore};

use crate::alone::Alone;
use crate::error::{ImportError, ImportReplicatedError, ManagerError, OpenError, OpenReplicatedError, ProposeError};
use crate::export::DecodeExportError;
use crate::limits::LOG_SEGMENT_BYTES;
use crate::modules::bucket::BucketRecord;
use crate::modules::node::NodeRecord;
use crate::operation::Operation;
use crate::published::Published;
use crate::replicated::{Replicated, ReplicatedOptions};
use crate::snapshot::{CommandIndex, Snapshot};
use crate::table;

/// Folders within the manager's folder.
const LOG_FOLDER: &str = "log";
const STATE_FOLDER: &str = "state";

/// How often a member looks whether it leads.
const LEAD_LOOK: Duration = Duration::from_millis(10);

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
    published: Arc<Published>,
    pub(crate) backing: Backing,
    pub(crate) asked: Asked,
}

/// What this process has asked of the manager since it was opened: everything but looks at its own copy of the state.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub proposals: AtomicU64,
    pub freshenings: AtomicU64,
}

/// What a manager's commands go through.
pub(crate) enum Backing {
    Alone(Arc<Alone>),
    Replicated(Arc<Replicated>),
}

impl Manager {
    /// Opens the manager in `folder`, which is made if absent.
    pub fn open<'a>(env: &'a Env, folder: &'a Path) -> BoxFuture<'a, Result<Manager, OpenError>> {
        Box::pin(async move { Manager::open_on(env, open_log(env, folder)?, open_state(folder)?).await })
    }

    /// A manager that ends with its process, for tests.
    pub fn open_in_memory(env: &Env) -> BoxFuture<'_, Result<Manager, OpenError>> {
        Box::pin(async move {
            let size_bytes = LOG_SEGMENT_BYTES * MEMORY_LOG_SEGMENTS as u64;
            let options = SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() };
            let disk = Arc::new(SimDisk::new(env, options));
            let store = RegionStore::new(disk, 0, LOG_SEGMENT_BYTES, MEMORY_LOG_SEGMENTS);
            Manager::open_on(env, Arc::new(store), Arc::new(MemoryKv::new())).await
        })
    }

    /// Opens the manager on a log and a state: reads the state, then applies what the log has beyond it.
    pub fn open_on(env: &Env, store: Arc<dyn SegmentStore>, kv: Arc<dyn Kv>) -> BoxFuture<'_, Result<Manager, OpenError>> {
        Box::pin(async move {
            let state = table::load(kv.as_ref())?;
            Ok(Manager::alone(env, Alone::start(env, store, kv, state, Lsn::FIRST).await?))
        })
    }

    /// Makes a manager in an empty `folder` from a copy of a state ([`Snapshot::export`]).
    pub fn import<'a>(env: &'a Env, folder: &'a Path, copy: &'a [u8]) -> BoxFuture<'a, Result<Manager, ImportError>> {
        Box::pin(async move { Manager::import_on(env, open_log(env, folder)?, open_state(folder)?, copy).await })
    }

    /// As [`Manager::import`], on an empty log and an empty state.
    pub fn import_on<'a>(
        env: &'a Env,
        store: Arc<dyn SegmentStore>,
        kv: Arc<dyn Kv>,
        copy: &'a [u8],
    ) -> BoxFuture<'a, Result<Manager, ImportError>> {
        Box::pin(async move {
            let found = table::load(kv.as_ref()).map_err(OpenError::from)?;
            if found != Snapshot::default() {
                return Err(ImportError::NotEmpty { applied: found.applied });
            }
            let state = Snapshot::from_export(copy)?.skip_lost().map_err(DecodeExportError::from)?;
            // The log comes first: one that begins after the copy, with an empty state beside it, is refused by `open`, and
            // importing again goes on from there. The other way round a state would stand beside a log that lacks its past.
            let next = Lsn(state.applied.0).next();
            let imported = table::batch(&state, table::all_entries(&state));
            let manager = Manager::alone(env, Alone::start(env, store, Arc::clone(&kv), state, next).await?);
            kv.commit(imported).map_err(OpenError::from)?;
            kv.persist().map_err(OpenError::from)?;
            Ok(manager)
        })
    }

    /// Opens this member of a manager whose members agree through consensus, on the node that holds its log. Its state is that of
    /// some moment of the past until the leader has been heard: [`Manager::fresh`] waits for more.
    ///
    /// A new group waits for [`Manager::form`] on one of its first members, or [`Manager::join`] on those that come later. Whatever serves
    /// the node's address must serve [`Manager::service`] too.
    pub fn open_replicated<'a>(
        env: &'a Env,
        node: &'a consensus::Node,
        options: ReplicatedOptions,
    ) -> BoxFuture<'a, Result<Manager, OpenReplicatedError>> {
        Box::pin(async move { Ok(Manager::of_group(env, Replicated::open(env, node, options, Snapshot::default()).await?)) })
    }

    /// Makes a manager of one member on a node whose log is empty, from a copy of a state ([`Snapshot::export`]). Returns when a start of
    /// that node finds the state in its log.
    pub fn import_replicated<'a>(
        env: &'a Env,
        node: &'a consensus::Node,
        options: ReplicatedOptions,
        address: &'a str,
        copy: &'a [u8],
    ) -> BoxFuture<'a, Result<Manager, ImportReplicatedError>> {
        Box::pin(async move {
            let state = Snapshot::from_export(copy)?.skip_lost().map_err(DecodeExportError::from)?;
            let replicated = Replicated::open(env, node, options, state).await?;
            replicated.form(&[(node.id(), address.to_owned())].into()).await?;
            let manager = Manager::of_group(env, Arc::clone(&replicated));
            while manager.fresh().await.is_err() {
                env.sleep(LEAD_LOOK).await;
            }
            replicated.snapshot_now().await;
            Ok(manager)
        })
    }

    fn of_group(env: &Env, replicated: Arc<Replicated>) -> Manager {
        let published = Arc::clone(replicated.published());
        let inner = Inner { env: env.clone(), published, backing: Backing::Replicated(replicated), asked: Asked::default() };
        Manager { inner: Arc::new(inner) }
    }

    fn alone(env: &Env, alone: Arc<Alone>) -> Manager {
        let published = Arc::clone(alone.published());
        let inner = Inner { env: env.clone(), published, backing: Backing::Alone(alone), asked: Asked::default() };
        Manager { inner: Arc::new(inner) }
    }

    /// The newest state that this member has applied.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.published.load()
    }

    /// The node that has a device, if there is one. Costs as little as [`Manager::bucket`].
    pub fn node_of(&self, device: DeviceId) -> Option<Arc<NodeRecord>> {
        self.inner.published.look(|state| state.node(state.device(device)?.node?).cloned())
    }

    /// A bucket by its name, without holding a snapshot: no lock, no waiting, no copy of anything but the record's pointer.
    pub fn bucket(&self, name: &str) -> Option<Arc<BucketRecord>> {
        self.inner.published.look(|state| state.bucket(name).cloned())
    }

    /// Counts the commands that are in [`Manager::snapshot`]: wakes whoever waits for a change.
    pub fn changes(&self) -> watch::Receiver<CommandIndex> {
        self.inner.published.changes()
    }

    /// How often this process has put an operation through the log, refused ones included, and how often it has waited for the
    /// newest state.
    pub fn asked(&self) -> (u64, u64) {
        let asked = &self.inner.asked;
        (asked.proposals.load(Ordering::Relaxed), asked.freshenings.load(Ordering::Relaxed))
    }

    /// Makes the state durable by itself and shortens the log. Nothing depends on it; a start after it replays less.
    pub fn persist(&self) -> BoxFuture<'_, Result<(), ProposeError>> {
        Box::pin(async move {
            match &self.inner.backing {
                Backing::Alone(alone) => alone.persist().await,
                Backing::Replicated(replicated) => {
                    replicated.persist().await;
                    Ok(())
                }
            }
        })
    }

    /// Why a manager that is alone takes no more commands until it is opened anew, if so. Of one of several members
    /// [`Manager::replication`] tells.
    pub fn failure(&self) -> Option<ProposeError> {
        match &self.inner.backing {
            Backing::Alone(alone) => alone.failure(),
            Backing::Replicated(_) => None,
        }
    }

    /// Puts an operation through the log and answers with what it did.
    pub(crate) async fn propose<O: Operation>(&self, operation: O) -> Result<O::Reply, ManagerError<O::Refusal>> {
        self.inner.asked.proposals.fetch_add(1, Ordering::Relaxed);
        match &self.inner.backing {
            Backing::Alone(alone) => alone.propose(operation).await,
            Backing::Replicated(replicated) => replicated.propose(operation).await,
        }
    }
}

fn open_log(env: &Env, folder: &Path) -> Result<Arc<dyn SegmentStore>, OpenError> {
    // It holds secret keys.
    let made =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::set_permissions(folder, Permissions::from_mode(OWNER_ONLY)));
    made.map_err(|cause| OpenError::Folder { path: folder.to_path_buf(), cause })?;
    Ok(Arc::new(FolderStore::open(env, &folder.join(LOG_FOLDER), LOG_SEGMENT_BYTES)?))
}

fn open_state(folder: &Path) -> Result<Arc<dyn Kv>, OpenError> {
    Ok(Arc::new(FjallKv::open(&folder.join(STATE_FOLDER))?))
}
