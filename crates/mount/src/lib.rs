//! A file volume behind a mount: FUSE requests to calls of the file system's client, and its errors to errno. Translation and nothing else.
//!
//! ```text
//!  kernel ── crate fuse ── Volume::operation ─► Client (crate filesystem) ─► meta partition, data partition
//!                             │
//!                 errno  ◄────┘ only here
//! ```
//!
//! Invariants
//! - No state of the volume is kept here. What the kernel refers to, and what is open, is in the client's table.
//! - Errors become errno in one file, and nowhere else.
//! - A mount that is kept outlives this process: the mount keeper has its descriptors before a request is read.
//! - A request is answered from the session's thread or from a task, and never waits for another request of the mount.
//! - fcntl and flock locks are the tree's: they hold among all mounts of the volume.
//! - What the kernel has of a file that another client changed is dropped before the kernel is told attributes that are newer.
//! - The kernel of an exclusive mount buffers writes: sizes, times and locks are its own, and nothing that it has is ever dropped.
#![forbid(unsafe_code)]

mod answer;
mod buffered;
mod caches;
mod convert;
mod ending;
mod errno;
mod file_system;
pub mod keeper;
mod listing;
mod locks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filesystem::client::{Client, NAMES_VALID};
use filesystem::ids::Ino;
use fuse::{
    Capabilities, Errno, Mount, MountError, MountOptions, NodeId, Notification, Notifier, Session, SessionError, SessionId,
    SessionOptions,
};
use tokio::runtime::Handle;

pub use fuse::{End, MAX_THREADS, Unmount, UnmountError, is_mounted, remount, unmount};

use crate::caches::Caches;
use crate::convert::Validity;
use crate::ending::Ending;
use crate::file_system::Volume;
use crate::keeper::{Held, Keeper, KeeperError};

/// How a volume is mounted and served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// What `/proc/mounts` and `df` show as the source.
    pub source: String,
    /// Users other than the one that mounts may use the mount. Without root it takes `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    pub read_only: bool,
    /// Set-user-id programs run without it. Without root it is always set.
    pub nosuid: bool,
    /// Device files can't be opened. Without root it is always set.
    pub nodev: bool,
    /// Threads that read requests: 1 to [`fuse::MAX_THREADS`].
    pub threads: usize,
    /// For how long the kernel may use a name without asking, while no other mount uses the volume. At most [`NAMES_VALID`].
    pub names_valid: Duration,
    /// The same for attributes, however many mounts there are.
    pub attributes_valid: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        ServeOptions {
            source: "trilith".to_owned(),
            allow_other: false,
            read_only: false,
            nosuid: true,
            nodev: true,
            threads: 4,
            names_valid: NAMES_VALID,
            attributes_valid: second,
        }
    }
}

/// Why a volume is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// How a mount outlives this process.
#[derive(Clone)]
pub struct Keeping {
    pub keeper: Arc<Keeper>,
    /// What the next process needs to know of the mount.
    pub label: Vec<u8>,
}

/// A mounted volume. Dropping it changes nothing: the mount is served until it is unmounted or the process ends.
pub struct ServedMount {
    session: Session,
    ending: Arc<Ending>,
    client: Arc<Client>,
    runtime: Handle,
    /// Set while the keeper has the mount, under this key.
    kept: Option<(Arc<Keeper>, u64)>,
}

/// Mounts a volume on `point`, an existing directory, and serves it from threads of its own and tasks of `runtime`.
///
/// The client is the mount's alone: its session is closed when the mount is gone. A mount that is to be kept needs a client with a record.
pub fn serve(
    client: Arc<Client>,
    point: &Path,
    options: &ServeOptions,
    runtime: Handle,
    keeping: Option<&Keeping>,
) -> Result<ServedMount, ServeError> {
    let mount_options = MountOptions {
        source: options.source.clone(),
        allow_other: options.allow_other,
        read_only: options.read_only,
        nosuid: options.nosuid,
        nodev: options.nodev,
        ..MountOptions::default()
    };
    let mount = Mount::new(point, &mount_options)?;
    start(mount, client, options, runtime, keeping)
}

/// Goes on serving a mount that outlived the process that served it. The client was resumed with the mount's record. A mount that can't be served
/// is ended: its calls fail.
pub fn resume(
    held: Held,
    client: &Arc<Client>,
    options: &ServeOptions,
    runtime: Handle,
    keeper: &Arc<Keeper>,
) -> Result<ServedMount, ServeError> {
    let keeping = Keeping { keeper: Arc::clone(keeper), label: held.label.clone() };
    let started = held.mount.try_clone().map_err(|errno| SessionError::Device(errno).into());
    let started = started.and_then(|mount| start(mount, Arc::clone(client), options, runtime, Some(&keeping)));
    started.inspect_err(|_| give_up(&held, keeper))
}

/// Asks the kernel whether it has an inode. Its pages stay; its attributes are asked for anew.
fn kernel_refers(notifier: &Notifier, ino: Ino) -> bool {
    let look = Notification::InvalidateInode { node: NodeId(ino.0), offset: -1, length: 0 };
    notifier.send(&look) != Err(Errno::NOENT)
}

/// What is asked of the kernel. It buffers writes and has the locks where no other mount can use the volume.
fn capabilities(is_exclusive: bool) -> Capabilities {
    let (posix_locks, flock_locks) = (!is_exclusive, !is_exclusive);
    Capabilities { posix_locks, flock_locks, writeback_cache: is_exclusive, ..Capabilities::default() }
}

fn start(
    mount: Mount,
    client: Arc<Client>,
    options: &ServeOptions,
    runtime: Handle,
    keeping: Option<&Keeping>,
) -> Result<ServedMount, ServeError> {
    let session_options = SessionOptions {
        session: SessionId(client.session().0),
        threads: options.threads,
        capabilities: capabilities(client.is_exclusive()),
    };
    let validity = Validity { names: options.names_valid.min(NAMES_VALID), attributes: options.attributes_valid };
    let ending = Arc::new(Ending::default());
    let caches = Arc::new(Caches::default());
    let volume = Volume::new(Arc::clone(&client), runtime.clone(), validity, Arc::clone(&caches), Arc::clone(&ending));
    let mut kept = None;
    let before_requests = |session: &Session| {
        let notifier = session.notifier();
        client.ask_kernel(Box::new(move |ino| kernel_refers(&notifier, ino)));
        caches.serve(session.notifier());
        kept = keeping.and_then(|keeping| keep(session.mount(), &client, keeping));
    };
    let session = Session::start_with(mount, Arc::new(volume), &session_options, before_requests)?;
    Ok(ServedMount { session, ending, client, runtime, kept })
}

/// Gives a mount to the keeper. One that is not kept is served all the same, and dies with this process.
fn keep(mount: &Mount, client: &Client, keeping: &Keeping) -> Option<(Arc<Keeper>, u64)> {
    let point = mount.point().display();
    if !mount.can_be_taken_over() {
        tracing::warn!(%point, "the kernel can't send calls again (that takes Linux 6.9): the mount ends with this server");
        return None;
    }
    let key = client.session().0;
    let record = client.record().ok_or(KeeperError::NoRecord);
    let held = record.and_then(|record| Held::new(key, &keeping.label, record, mount));
    match held.and_then(|held| keeping.keeper.keep(held)) {
        Ok(()) => Some((Arc::clone(&keeping.keeper), key)),
        Err(error) => {
            tracing::warn!(%point, %error, "the mount ends with this server: nothing keeps it");
            None
        }
    }
}

/// Ends a mount that is not taken over: its calls fail.
pub fn give_up(held: &Held, keeper: &Keeper) {
    if held.is_in_place()
        && let Err(error) = held.mount.unmount(Unmount::Abort)
    {
        tracing::warn!(point = %held.mount.point().display(), %error, "a mount that is not served any more is still there");
    }
    keeper.release(held.key);
}

impl ServedMount {
    /// Where it is mounted, without symbolic links.
    pub fn point(&self) -> PathBuf {
        self.session.mount().point().to_owned()
    }

    /// Requests that were read and not answered.
    pub fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// Takes the mount away; see [`Unmount`] for the ways.
    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        self.session.unmount(how)
    }

    /// Whether the mount still lies on its folder: one that was detached lives on without it.
    pub fn is_in_place(&self) -> bool {
        fuse::is_mounted(self.session.mount().point()).unwrap_or(true)
    }

    /// Whether the mount goes on when this process ends.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Reads no more requests: calls wait for the next process. [`ServedMount::wait_for`] says when the last one was read.
    pub fn stop(&self) {
        self.session.begin_to_stop();
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move {
            if let Err(error) = client.tell_all_times().await {
                tracing::warn!(%error, "some files keep the times from before their last write");
            }
        });
    }

    /// Leaves the calls under way to the next process; how many they are.
    pub fn abandon(&self) -> usize {
        self.session.abandon()
    }

    /// Waits until the mount is gone, however it ends, and the client's session is closed. It blocks the thread.
    pub fn wait(&self) -> End {
        let end = self.session.wait();
        self.ending.wait(None);
        self.ended(&end);
        end
    }

    /// As [`ServedMount::wait`]; None where it is not over after `patience`.
    pub fn wait_for(&self, patience: Duration) -> Option<End> {
        let end = self.session.wait_for(patience)?;
        let is_over = self.ending.wait(Some(patience));
        is_over.then(|| self.ended(&end))?;
        Some(end)
    }

    /// A mount that only stopped stays with the keeper.
    fn ended(&self, end: &End) {
        if let Some((keeper, key)) = self.kept.as_ref().filter(|_| *end != End::Stopped) {
            keeper.release(*key);
        }
    }
}
