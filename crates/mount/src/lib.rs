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
//! - A request is answered from the session's thread or from a task, and never waits for another request of the mount.
//! - fcntl and flock locks are the tree's: they hold among all mounts of the volume.
//! - What the kernel has of a file that another client changed is dropped before the kernel is told attributes that are newer.
#![forbid(unsafe_code)]

mod answer;
mod caches;
mod convert;
mod ending;
mod errno;
mod file_system;
mod listing;
mod locks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filesystem::client::{Client, NAMES_VALID};
use fuse::{Capabilities, Mount, MountError, MountOptions, Session, SessionError, SessionId, SessionOptions};
use tokio::runtime::Handle;

pub use fuse::{End, MAX_THREADS, Unmount, UnmountError, unmount};

use crate::caches::Caches;
use crate::convert::Validity;
use crate::ending::Ending;
use crate::file_system::Volume;

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

/// A mounted volume. Dropping it changes nothing: the mount is served until it is unmounted or the process ends.
#[derive(Debug)]
pub struct ServedMount {
    session: Session,
    ending: Arc<Ending>,
}

/// Mounts a volume on `point`, an existing directory, and serves it from threads of its own and tasks of `runtime`.
///
/// The client is the mount's alone: its session is closed when the mount is gone.
pub fn serve(client: Arc<Client>, point: &Path, options: &ServeOptions, runtime: Handle) -> Result<ServedMount, ServeError> {
    let mount_options = MountOptions {
        source: options.source.clone(),
        allow_other: options.allow_other,
        read_only: options.read_only,
        nosuid: options.nosuid,
        nodev: options.nodev,
        ..MountOptions::default()
    };
    let session_options = SessionOptions {
        session: SessionId(client.session().0),
        threads: options.threads,
        capabilities: Capabilities { posix_locks: true, flock_locks: true, ..Capabilities::default() },
    };
    let validity = Validity { names: options.names_valid.min(NAMES_VALID), attributes: options.attributes_valid };
    let mount = Mount::new(point, &mount_options)?;
    let ending = Arc::new(Ending::default());
    let caches = Arc::new(Caches::default());
    let volume = Volume::new(client, runtime, validity, Arc::clone(&caches), Arc::clone(&ending));
    let session = Session::start(mount, Arc::new(volume), &session_options)?;
    caches.serve(session.notifier());
    Ok(ServedMount { session, ending })
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

    /// Waits until the mount is gone, however it ends, and the client's session is closed. It blocks the thread.
    pub fn wait(&self) -> End {
        let end = self.session.wait();
        self.ending.wait(None);
        end
    }

    /// As [`ServedMount::wait`]; None where it is not over after `patience`.
    pub fn wait_for(&self, patience: Duration) -> Option<End> {
        let end = self.session.wait_for(patience)?;
        self.ending.wait(Some(patience)).then_some(end)
    }
}
