//! A target as the log engine sees it: one writer's hold on one device's log, here or on another node.
//!
//! Whoever implements this knows in whose name it writes ([`Writer`]): every append, reset and seal shows the writer's token to
//! the target's fences.
//!
//! What a target tells about itself without waiting (zones, usage, room) are hints: they may be as old as the last answer of a node
//! far away. What decides is decided by the target: an append may find no room, a reset may find another activation.

mod local;
mod own;
mod walk;

use std::sync::Arc;

use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, Appended, Device, LogVector, PieceOfFrame, Usage, ZoneInfo, ZoneStream};
use disk::DiskErrorKind;
use format::frame::FrameView;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use types::{Activation, DeviceId, ErrorKind, Place, Token, ZoneIndex};

use crate::{FenceKey, FenceKind};

pub use crate::log::local::LocalTarget;
pub(crate) use crate::log::own::OwnAppends;
pub use crate::log::walk::{LogEvent, LogFrame, LogWalk, WalkRange};

/// Who writes, and under which token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    pub key: FenceKey,
    pub token: Token,
}

impl Writer {
    /// The writer of a process that is a cell of its own. Nobody ever fences it.
    pub const ALONE: Writer = Writer { key: FenceKey { kind: FenceKind::Gateway, scope: 0 }, token: Token(0) };
}

/// One append.
pub struct LogAppend {
    pub class: AppendClass,
    /// Length of the frame that is composed for it.
    pub frame_bytes: usize,
    pub done: Arc<dyn AppendDone>,
    /// Given back with the answer.
    pub tag: u64,
}

/// One writer's hold on one target.
pub trait LogTarget: Send + Sync {
    fn id(&self) -> DeviceId;

    /// Whether the device is this process's own: then a read crosses no network.
    fn is_here(&self) -> bool {
        self.local().is_some()
    }

    /// The device itself, if it is this process's own: for scrubs.
    fn local(&self) -> Option<&Arc<Device>>;

    /// Appends one frame. `compose` fills exactly `frame_bytes` with [`format::frame::compose`], here and now, at most once;
    /// `done` hears the outcome exactly once, later or before this returns. An error means that nothing was appended and `done`
    /// will not be called. Never waits.
    fn append(&self, append: LogAppend, compose: &mut dyn FnMut(&mut [u8])) -> Result<(), AppendError>;

    /// Reads the frame at `place` into `buf` without waiting, and tells where its parts are. None if that can't be done: the page
    /// cache lacks it, `buf` is too short, anything is unusual about it, or the target is on another node.
    fn try_read(&self, place: Place, buf: &mut [u8]) -> Option<FrameView>;

    /// Reads the frame at `place`, checked. `expected_bytes` is a guess of its length.
    fn read(&self, place: Place, expected_bytes: usize) -> BoxFuture<'_, Result<FrameRead, ReadFailure>>;

    /// Reads a piece of the payload of the frame at `place`, checked.
    fn read_piece(&self, place: Place, wanted: PieceOfFrame) -> BoxFuture<'_, Result<PieceRead, ReadFailure>>;

    /// Walks a part of the log. With `verify_payload` each payload is checked too.
    fn walk(&self, range: WalkRange, verify_payload: bool) -> LogWalk;

    /// [`device::Device::log_floor`] of this moment, never an earlier one.
    fn log_floor(&self) -> BoxFuture<'_, Result<LogVector, TargetFailure>>;

    /// All zones. A hint.
    fn zones(&self) -> Vec<ZoneInfo>;

    /// How full the device is. A hint.
    fn usage(&self) -> Usage;

    /// Bytes that the open zone of a stream still takes. A hint.
    fn open_room(&self, stream: ZoneStream) -> u64;

    /// Whether the device takes writes, as far as is known. False once a write on it has failed, and while its disk hangs, unless nobody else
    /// writes to it; the target being out of reach says nothing about it.
    fn is_writable(&self) -> bool;

    /// Makes a finished zone free, durably, if it still is in this activation.
    fn reset(&self, zone: ZoneIndex, activation: Activation) -> BoxFuture<'_, Result<(), TargetFailure>>;

    /// Waits until nothing that this writer has sent before is under way: what has not landed by then never does.
    fn settle(&self) -> BoxFuture<'_, Result<(), TargetFailure>>;

    /// [`device::Device::finish_reserved_zone`].
    fn finish_reserved_zone(&self) -> BoxFuture<'_, Result<(), TargetFailure>>;

    /// [`device::Device::finish_open_zones`].
    fn finish_open_zones(&self) -> BoxFuture<'_, Result<(), TargetFailure>>;
}

/// A frame that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameRead {
    pub engine_header: Bytes,
    pub payload: Bytes,
}

/// A piece of a frame that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceRead {
    pub engine_header: Bytes,
    /// Of the whole payload.
    pub payload_bytes: usize,
    pub piece: Bytes,
}

/// Why a frame could not be read from one target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// Its zone was reset: look the place up again.
    #[error("the record has moved")]
    Moved,
    /// What stands there is not what was written.
    #[error("{0}")]
    Corrupt(String),
    /// The disk can't read what stands there.
    #[error("{0}")]
    Unreadable(String),
    /// The device could not be asked, or not now.
    #[error("{0}")]
    Unavailable(String),
}

impl ReadFailure {
    /// Whether the copy is lost there: another try promises nothing.
    pub fn is_damage(&self) -> bool {
        matches!(self, ReadFailure::Corrupt(_) | ReadFailure::Unreadable(_))
    }
}

impl From<device::ReadError> for ReadFailure {
    fn from(error: device::ReadError) -> Self {
        match error {
            device::ReadError::Stale { .. } => ReadFailure::Moved,
            device::ReadError::Corrupt { .. } => ReadFailure::Corrupt(error.to_string()),
            device::ReadError::Disk(cause) if cause.kind == DiskErrorKind::Failed => ReadFailure::Unreadable(cause.to_string()),
            error => ReadFailure::Unavailable(error.to_string()),
        }
    }
}

/// Why a target did not do what it was asked, or could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TargetFailure {
    /// [`ErrorKind::Denied`]: the writer is fenced. [`ErrorKind::Conflict`]: the zone is not what it was thought to be.
    pub kind: ErrorKind,
    pub reason: String,
}

impl TargetFailure {
    pub(crate) fn new(kind: ErrorKind, reason: impl ToString) -> TargetFailure {
        TargetFailure { kind, reason: reason.to_string() }
    }
}

/// [`LogTarget::append`], started at once and then awaited. Dropping the future does not take the append back.
pub fn append_wait(
    target: &dyn LogTarget,
    class: AppendClass,
    frame_bytes: usize,
    compose: &mut dyn FnMut(&mut [u8]),
) -> impl Future<Output = Result<Appended, AppendError>> + Send + use<> {
    let (tell, told) = oneshot::channel();
    let done = Arc::new(Tell(Mutex::new(Some(tell))));
    let started = target.append(LogAppend { class, frame_bytes, done, tag: 0 }, compose);
    let device = target.id();
    async move {
        started?;
        let dropped = |_| Err(AppendError::Unanswered { device, reason: "the target was closed first".into() });
        told.await.unwrap_or_else(dropped)
    }
}

/// Hands one answer to a future.
struct Tell(Mutex<Option<oneshot::Sender<Result<Appended, AppendError>>>>);

impl AppendDone for Tell {
    fn appended(&self, _tag: u64, result: Result<Appended, AppendError>) {
        if let Some(tell) = self.0.lock().take() {
            // The future may have been dropped.
            drop(tell.send(result));
        }
    }
}
