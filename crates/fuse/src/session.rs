//! A session: the threads that serve a mount in this process.
//!
//! Each thread has a descriptor of its own, cloned from the mount's, and one buffer. Requests queue in the kernel; any thread reads the
//! next one. A reply goes out on the descriptor that its request was read from. Threads wait by epoll, each alone woken for a request, so
//! that a session can stop without one.
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | threads | [`MAX_THREADS`] | refused at the start |
//! | buffers | [`MAX_BUFFER_BYTES`], threads times the longest message | |
//! | requests under way | [`MAX_IN_FLIGHT`], and one for each thread | threads stop reading until others are answered |
//! | of these, waiting for locks | [`MAX_WAITING_LOCKS`] | ENOLCK |

mod core;
mod dispatch;
mod in_flight;
mod notifier;
mod reply;
mod worker;

pub use self::core::Delivery;
pub use self::notifier::Notifier;
pub use self::reply::Reply;

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use self::core::Core;
use crate::abi::init::{HAS_RESEND, WRITEBACK_CACHE};
use crate::device::Device;
use crate::file_system::FileSystem;
use crate::ids::SessionId;
use crate::init::{Capabilities, InitError, MAX_WRITE_BYTES, Negotiated, negotiate};
use crate::mount::{Mount, Unmount, UnmountError, unmount};
use crate::notify::Notification;
use crate::reply::{error_header, success_header};
use crate::request::{DecodeError, Operation, Request};

/// The most threads, and so descriptors, of a session.
pub const MAX_THREADS: usize = 32;

/// What a message has beside its data: header and arguments, in a page of its own as the kernel counts.
const MESSAGE_OVERHEAD_BYTES: usize = 4096;

/// The buffers of all threads together.
pub const MAX_BUFFER_BYTES: usize = MAX_THREADS * (MAX_WRITE_BYTES as usize + MESSAGE_OVERHEAD_BYTES);

/// The most requests under way. Each call of an application has one, and background requests have a limit of their own.
pub const MAX_IN_FLIGHT: usize = 4096;

/// The most calls that wait for locks. They leave room for the calls that unlock.
pub const MAX_WAITING_LOCKS: usize = 2048;

/// The kernel sends INIT while it mounts; longer than this is a mistake.
const INIT_PATIENCE: Duration = Duration::from_secs(10);

/// How much of the writes that the kernel buffers for all file systems may be those of a mount for which it buffers writes.
const BUFFERED_PERCENT: u32 = 25;

/// How a mount is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Given to the file system with each request.
    pub session: SessionId,
    /// Threads that read requests: 1 to [`MAX_THREADS`].
    pub threads: usize,
    pub capabilities: Capabilities,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { session: SessionId::default(), threads: 4, capabilities: Capabilities::default() }
    }
}

/// Why no session began.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("{threads} threads: choose 1 to {MAX_THREADS}")]
    Threads { threads: usize },
    #[error(transparent)]
    Init(#[from] InitError),
    #[error("the kernel's INIT can't be read: {0}")]
    InitRequest(#[from] DecodeError),
    #[error("the kernel's first request is not INIT: is the mount served by another process?")]
    NotInit,
    #[error("the kernel sent no INIT within {INIT_PATIENCE:?}")]
    NoInit,
    #[error("the kernel can't send unanswered requests again (that takes Linux 6.9): unmount, and mount anew")]
    CannotResend,
    #[error("the mount's device failed: {0}")]
    Device(Errno),
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
}

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Unmounted,
    Aborted,
    /// [`Session::stop`].
    Stopped,
    Failed(Errno),
}

/// A session that did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{threads} threads still serve requests; their handlers have not returned")]
pub struct StillBusy {
    pub threads: usize,
}

/// A mount that is being served. Dropping it changes nothing; its threads end with the mount, or by [`Session::stop`].
#[derive(Debug)]
pub struct Session {
    core: Arc<Core>,
    mount: Mount,
    negotiated: Negotiated,
}

impl Session {
    /// Begins to serve a mount: answers INIT, or, on a mount that was taken over, has unanswered requests sent again.
    ///
    /// If that fails, a fresh mount is unmounted; one that was taken over stays with those that have its descriptors.
    pub fn start<F: FileSystem>(mount: Mount, file_system: Arc<F>, options: &SessionOptions) -> Result<Self, SessionError> {
        Session::start_with(mount, file_system, options, |_| {})
    }

    /// As [`Session::start`]. `before_requests` is called when the mount has all of its descriptors, and before a request is read from any of
    /// them: if another process has them when it returns, no request dies with this one.
    pub fn start_with<F: FileSystem>(
        mount: Mount,
        file_system: Arc<F>,
        options: &SessionOptions,
        before_requests: impl FnOnce(&Session),
    ) -> Result<Self, SessionError> {
        let fresh = mount.negotiated.is_none().then(|| mount.point.clone());
        let begun = Session::begin(mount, file_system, options, before_requests);
        if let (Err(_), Some(point)) = (&begun, fresh)
            && let Err(error) = unmount(&point, Unmount::Detach)
        {
            tracing::warn!(%error, "a mount that can't be served stays");
        }
        begun
    }

    fn begin<F: FileSystem>(
        mut mount: Mount,
        file_system: Arc<F>,
        options: &SessionOptions,
        before_requests: impl FnOnce(&Session),
    ) -> Result<Self, SessionError> {
        let threads = options.threads;
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(SessionError::Threads { threads });
        }
        let device = mount.devices.first().ok_or(SessionError::Device(Errno::BADF))?;
        let taken_over = mount.negotiated;
        let negotiated = match taken_over {
            Some(negotiated) if negotiated.has(HAS_RESEND) => negotiated,
            Some(_) => return Err(SessionError::CannotResend),
            None => {
                let negotiated = shake_hands(device, &options.capabilities)?;
                if negotiated.max_readahead_bytes < options.capabilities.max_readahead_bytes {
                    mount.raise_readahead(options.capabilities.max_readahead_bytes);
                }
                if negotiated.has(WRITEBACK_CACHE) {
                    mount.raise_buffered(BUFFERED_PERCENT);
                }
                negotiated
            }
        };
        while mount.devices.len() < threads {
            let clone = mount.devices[0].clone_queue().map_err(SessionError::Device)?;
            mount.devices.push(clone);
        }
        for device in &mount.devices {
            device.set_nonblocking().map_err(SessionError::Device)?;
        }
        mount.negotiated = Some(negotiated);
        file_system.init(&negotiated);
        let devices = mount.devices.iter().map(Device::duplicate).collect::<Result<_, _>>().map_err(SessionError::Device)?;
        let core = Arc::new(Core::new(devices, options.session, threads).map_err(SessionError::Device)?);
        let session = Session { core, mount, negotiated };
        before_requests(&session);
        if taken_over.is_some() {
            // Before the first read: an interrupt of a request that is not known here would go back and forth.
            session.notifier().send(&Notification::Resend).map_err(SessionError::Device)?;
        }
        session.start_threads(threads, &file_system)?;
        Ok(session)
    }

    fn start_threads<F: FileSystem>(&self, threads: usize, file_system: &Arc<F>) -> Result<(), SessionError> {
        let buffer_bytes = self.negotiated.max_write_bytes as usize + MESSAGE_OVERHEAD_BYTES;
        for index in 0..threads {
            let (core, file_system) = (Arc::clone(&self.core), Arc::clone(file_system));
            let thread = std::thread::Builder::new().name(format!("fuse-{index}"));
            let started = thread.spawn(move || worker::run(&core, &*file_system, index, buffer_bytes));
            if let Err(error) = started {
                self.core.stop();
                for _missing in index..threads {
                    self.core.thread_ends(End::Stopped);
                }
                return Err(SessionError::Thread(error));
            }
        }
        Ok(())
    }

    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The mount, to be sent to a process that keeps it.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    pub fn notifier(&self) -> Notifier {
        Notifier::new(Arc::clone(&self.core))
    }

    /// Requests that were read and not answered.
    pub fn in_flight(&self) -> usize {
        self.core.in_flight()
    }

    /// Waits until the mount is gone.
    pub fn wait(&self) -> End {
        self.core.wait(None).unwrap_or(End::Stopped)
    }

    /// Waits until the mount is gone; None where it is still there after `patience`.
    pub fn wait_for(&self, patience: Duration) -> Option<End> {
        self.core.wait(Some(patience))
    }

    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        self.mount.unmount(how)
    }

    /// As the beginning of [`Session::stop`]: it has stopped when [`Session::wait_for`] says so.
    pub fn begin_to_stop(&self) {
        self.core.stop();
    }

    /// Leaves what is under way in a session that stops to the next one, which is sent it again; how many requests that are. An answer that comes
    /// later goes nowhere.
    pub fn abandon(&self) -> usize {
        self.core.abandon()
    }

    /// Stops to read requests, without unmounting. Calls on the mount wait for the next session: give it the mount that is returned.
    /// Replies that are given from now on still count, until the next session has requests sent again.
    pub fn stop(self, patience: Duration) -> Result<Mount, (Self, StillBusy)> {
        self.core.stop();
        match self.core.wait(Some(patience)) {
            Some(_) => Ok(self.mount),
            None => {
                let threads = self.core.running();
                Err((self, StillBusy { threads }))
            }
        }
    }
}

/// Reads INIT and answers it.
fn shake_hands(device: &Device, wanted: &Capabilities) -> Result<Negotiated, SessionError> {
    let mut buffer = vec![0; MAX_WRITE_BYTES as usize + MESSAGE_OVERHEAD_BYTES];
    loop {
        if !device.wait_readable(INIT_PATIENCE).map_err(SessionError::Device)? {
            return Err(SessionError::NoInit);
        }
        let read = device.read(&mut buffer).map_err(SessionError::Device)?;
        let request = Request::decode(&buffer[..read], SessionId::default())?;
        let Operation::Init(offer) = request.operation else { return Err(SessionError::NotInit) };
        let (answer, done) = match negotiate(&offer, wanted) {
            Ok(negotiated) => (negotiated.to_wire(), Some(negotiated)),
            Err(InitError::NewerMajor { .. }) => (Negotiated::other_major(), None),
            Err(error) => {
                device.write(&error_header(request.unique, Errno::PROTO), &[]).map_err(SessionError::Device)?;
                return Err(error.into());
            }
        };
        let parts = [zerocopy::IntoBytes::as_bytes(&answer)];
        device.write(&success_header(request.unique, &parts), &parts).map_err(SessionError::Device)?;
        if let Some(negotiated) = done {
            return Ok(negotiated);
        }
    }
}

#[cfg(test)]
mod tests;
