//! The FUSE kernel protocol: a file system in this process becomes a mount.
//!
//! ```text
//!  application ── kernel ── /dev/fuse ──┐
//!                                       ▼
//!   Session: one thread per cloned descriptor, each with one buffer
//!     read ─► Request::decode ─► FileSystem::operation(caller, request, reply)
//!                                       │  now, or later from another thread
//!     writev ◄─ Body::encode ◄──────────┘  Reply::send
//! ```
//!
//! Wire, negotiation and the table of requests under way are plain functions and machines without I/O; `device`, `mount` and
//! `session` are the shell. Why not an existing crate stands in RFD 20.
//!
//! Invariants
//! - A request is answered once: a [`Reply`] that is dropped answers EIO, or leaves the request to the next session where this one stops. A request that can't be decoded is answered EIO, an operation that is
//!   not known ENOSYS.
//! - A reply goes out on the descriptor that the request was last read from: the kernel looks for it there and nowhere else.
//! - A request that is sent again while it is under way here is not carried out a second time.
//! - An INTERRUPT reaches the handler of its request, or goes back to the kernel with EAGAIN until the request is known here.
//! - No wait has no end: a read ends with the mount, waits for room end with it too, and no call here waits for a handler without a limit.
//! - This crate never uses the mount that it serves: paths are resolved before mounting, and state is read from `/proc`.
#![deny(unsafe_code)]

pub mod abi;
mod attributes;
mod clone_ioctl;
mod device;
mod file_system;
mod handover;
mod ids;
pub mod init;
mod lock;
mod mount;
mod notify;
pub mod reply;
pub mod request;
mod session;

pub use crate::attributes::{Attributes, AttributesFor, Entry, FileSystemState, StatxAttributes, Timestamp};
pub use crate::file_system::FileSystem;
pub use crate::handover::{HandoverError, receive_descriptors, send_descriptors};
pub use crate::ids::{FileHandle, LockOwner, NodeId, RequestId, SessionId};
pub use crate::init::{Capabilities, Negotiated};
pub use crate::lock::{Lock, LockKind};
pub use crate::mount::{Mount, MountError, MountOptions, Unmount, UnmountError, is_mounted, remount, unmount};
pub use crate::notify::Notification;
pub use crate::request::Caller;
pub use crate::session::{
    Delivery, End, MAX_BUFFER_BYTES, MAX_IN_FLIGHT, MAX_THREADS, MAX_WAITING_LOCKS, Notifier, Reply, Session, SessionError,
    SessionOptions, StillBusy,
};

/// Errors that a file system answers with.
pub use rustix::io::Errno;
