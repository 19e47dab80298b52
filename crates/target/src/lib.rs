//! The target: serves one device to those who write to it, and keeps out those who may no longer.
//!
//! A writer is named by a fence key (a gateway of a cell, a placement group, ...) and shows the token under which it writes.
//! Raising a fence to a token refuses every older one from then on, durably, before the raise is acknowledged. Recovery of a
//! writer is: raise its fence, drain, walk (RFD 2, decision 7); [`Target::fence_and_drain`] does the first two.
//!
//! Invariants:
//! - An append is checked against its fence after it has been counted as admitted. So once a raise and a drain that started
//!   after it have returned, nothing of an older token will ever land.
//! - The same holds for what gives zones up or ends them: a reset of a deposed writer is refused like its appends.
//! - A deadline is checked when an append is admitted and again when its write is submitted.
//! - Tokens permit writes, nothing else: reads are not fenced.
//! - A target of a cluster takes no writes before it was told all fences: some may have been raised while it was away.
//!
//! [`LogTarget`] is what the log engine sees of it: by direct call, or over the network.
//!
//! ```text
//!   LogTarget ── LocalTarget ────────────────────────────────────────────► Target ──► Device
//!       └─────── RemoteTarget ── net::Caller ─ wire ─► TargetService ──────┘ │
//!                TargetControl ─ net::Caller ─ wire ─────┘   fence, drain, load fences
//! ```
#![forbid(unsafe_code)]

mod control;
mod error;
mod fences;
pub mod limits;
mod log;
mod remote;
mod service;
pub mod wire;

use std::sync::Arc;

use device::admission::{Admissions, Ticket};
use device::{
    AppendClass, AppendDone, AppendError, AppendOrder, Device, FrameBuf, LogVector, NotesKind, ReadError, ResetError, Tried,
    Walk,
};
use disk::DiskError;
use env::{Env, Instant};
use format::frame::Seal;
use net::BoxFuture;
use types::{Activation, ErrorKind, Place, Token, ZoneIndex};

pub use crate::control::TargetControl;
pub use crate::error::{AppendRefused, FenceError, TargetOpenError};
use crate::fences::{Fences, Turn};
use crate::limits::OWN_APPEND_DEADLINE;
use crate::log::OwnAppends;
pub use crate::log::{
    FrameRead, LocalTarget, LogAppend, LogEvent, LogFrame, LogTarget, LogWalk, PieceRead, ReadFailure, TargetFailure,
    WalkRange, Writer, append_wait,
};
pub use crate::remote::RemoteTarget;
pub use crate::service::TargetService;
pub use format::superblock::fences::{FenceKey, FenceKind};

/// Serves one device by direct call.
pub struct Target {
    device: Arc<Device>,
    env: Env,
    fences: Fences,
    admissions: Admissions,
    own_appends: Arc<OwnAppends>,
    /// The last turn of those whose fences are durable. One at a time writes: the table is written whole.
    durable: tokio::sync::Mutex<Turn>,
    /// One reset at a time: between the look at a zone's activation and its reset no other one fits.
    resetting: tokio::sync::Mutex<()>,
}

/// When a target begins to take writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At once.
    AtOnce,
    /// When [`Target::load_fences`] has told it what was raised while it was away.
    WithFences,
}

/// One append, as its writer asks for it.
pub struct AppendCall {
    pub class: AppendClass,
    /// Length of the frame that `compose` will write.
    pub frame_bytes: usize,
    /// Who writes, and under which token.
    pub writer: FenceKey,
    pub token: Token,
    /// Not submitted to the disk after this.
    pub deadline: Option<Instant>,
    pub done: Arc<dyn AppendDone>,
    /// Given back with the answer.
    pub tag: u64,
}

impl Target {
    /// Serves a device under the fences that were raised on it.
    pub fn open(device: Arc<Device>, env: &Env, begin: Begin) -> BoxFuture<'_, Result<Target, TargetOpenError>> {
        Box::pin(async move {
            let table = match device.notes(NotesKind::Fences).await? {
                Some(bytes) => format::superblock::fences::decode(&bytes)
                    .map_err(|cause| TargetOpenError::Fences { device: device.id(), cause })?,
                None => Vec::new(),
            };
            Ok(Target::with(device, env, Fences::new(table, begin == Begin::AtOnce)))
        })
    }

    /// Serves a device to a process that is the only one that ever writes to it.
    pub fn unfenced(device: Arc<Device>, env: &Env) -> Target {
        Target::with(device, env, Fences::new(Vec::new(), true))
    }

    fn with(device: Arc<Device>, env: &Env, fences: Fences) -> Target {
        Target {
            device,
            env: env.clone(),
            fences,
            admissions: Admissions::default(),
            own_appends: Arc::default(),
            durable: tokio::sync::Mutex::default(),
            resetting: tokio::sync::Mutex::default(),
        }
    }

    /// The device, for whatever is no concern of a target's: zones, notes, scrubs, counters.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Appends a frame if its writer's token is not fenced and its deadline not past. The rest is [`Device::append`].
    pub fn append(&self, call: AppendCall, compose: impl FnOnce(&mut [u8])) -> Result<(), AppendRefused> {
        let AppendCall { class, frame_bytes, writer, token, deadline, done, tag } = call;
        // First in, then checked: see the invariants.
        let ticket = self.admissions.enter();
        self.fences.check(writer, token)?;
        if deadline.is_some_and(|deadline| deadline <= self.env.now()) {
            return Err(AppendRefused::DeadlinePassed);
        }
        let order = AppendOrder { done, token: tag, deadline, ticket: Some(ticket) };
        self.device.append_order(class, frame_bytes, compose, order)?;
        Ok(())
    }

    /// Answers the appends of this process's own gateway that have waited too long for a disk that hangs: nobody knows whether they will land.
    pub fn give_up_own_appends(&self) {
        if self.device.hangs() {
            let reason = format!("its disk has not answered for {} s", OWN_APPEND_DEADLINE.as_secs());
            let error = AppendError::Unanswered { device: self.device.id(), reason: reason.into() };
            self.own_appends.give_up(self.env.now(), &error);
        }
    }

    /// [`Device::try_read`].
    pub fn try_read(&self, place: Place, buf: &mut [u8]) -> Result<Tried, ReadError> {
        self.device.try_read(place, buf)
    }

    /// [`Device::read`].
    pub async fn read(&self, place: Place, expected_bytes: usize) -> Result<FrameBuf, ReadError> {
        self.device.read(place, expected_bytes).await
    }

    /// [`Device::walk`].
    pub fn walk(&self, from: &LogVector, verify_payload: bool) -> Walk {
        self.device.walk(from, verify_payload)
    }

    /// The token below which a writer is refused; none if it never was fenced here.
    pub fn fence(&self, writer: FenceKey) -> Option<Token> {
        self.fences.get(writer)
    }

    /// Refuses tokens of `writer` older than `token`, durably. What was admitted before may still land: drain.
    ///
    /// After an error the fence holds in this process, but perhaps not in the next.
    pub async fn raise_fence(&self, writer: FenceKey, token: Token) -> Result<(), FenceError> {
        self.raise_fences(&[(writer, token)]).await
    }

    /// As [`Target::raise_fence`], of many with one durable write: there are those of all nodes that ever were.
    pub async fn raise_fences(&self, fences: &[(FenceKey, Token)]) -> Result<(), FenceError> {
        for (writer, token) in fences {
            self.fences.raise(*writer, *token)?;
        }
        self.make_fences_durable().await
    }

    /// Returns when the fences are durable that were raised by now: by a write that begins after this call, which serves all others that wait for one.
    async fn make_fences_durable(&self) -> Result<(), FenceError> {
        let turn = self.fences.take_turn();
        let mut durable = self.durable.lock().await;
        if *durable >= turn {
            env::mark("target: a fence was durable with others");
            return Ok(());
        }
        let (table, last) = self.fences.encode();
        self.device.write_notes(NotesKind::Fences, &table).await?;
        *durable = last;
        Ok(())
    }

    /// Raises many fences at once: what the manager knows, before a target that was away serves again. Older ones than those
    /// in force are passed over.
    pub async fn load_fences(&self, fences: &[(FenceKey, Token)]) -> Result<(), FenceError> {
        for (writer, token) in fences {
            match self.fences.raise(*writer, *token) {
                Ok(()) | Err(FenceError::Older { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.make_fences_durable().await?;
        self.fences.set_loaded();
        Ok(())
    }

    /// [`Device::reset`], if the writer is not fenced and the zone is in the activation that it means.
    pub async fn reset(&self, writer: Writer, zone: ZoneIndex, activation: Activation) -> Result<(), TargetFailure> {
        let _one_at_a_time = self.resetting.lock().await;
        let _ticket = self.admit(writer)?;
        let found = self.device.zones().get(zone.0 as usize).map(|info| info.activation);
        if found != Some(activation) {
            let found = found.map_or("nothing".to_owned(), |found| found.0.to_string());
            let reason = format!("zone {} is in activation {found}, expected {}", zone.0, activation.0);
            return Err(TargetFailure::new(ErrorKind::Conflict, reason));
        }
        self.device.reset(zone).await.map_err(|error| TargetFailure::new(reset_kind(&error), error))
    }

    /// [`Device::finish_reserved_zone`], if the writer is not fenced.
    pub async fn finish_reserved_zone(&self, writer: Writer) -> Result<(), TargetFailure> {
        let _ticket = self.admit(writer)?;
        self.device.finish_reserved_zone().await.map_err(unavailable)
    }

    /// [`Device::finish_open_zones`], if the writer is not fenced.
    pub async fn finish_open_zones(&self, writer: Writer) -> Result<(), TargetFailure> {
        let _ticket = self.admit(writer)?;
        self.device.finish_open_zones().await.map_err(unavailable)
    }

    /// In, then checked, as an append is.
    pub(crate) fn admit(&self, writer: Writer) -> Result<Ticket, TargetFailure> {
        let ticket = self.admissions.enter();
        match self.fences.check(writer.key, writer.token) {
            Ok(()) => Ok(ticket),
            Err(refused) => Err(TargetFailure::new(refused.kind(), refused)),
        }
    }

    /// Waits until everything admitted before this call has been answered.
    pub async fn drain(&self) {
        self.admissions.drain().await;
    }

    /// What comes before the walk of dead writers' logs (RFD 2, decision 7). What they wrote changes no more then, wherever open zones go on
    /// growing: none is ended early (docs/rfd/0005, rule 4).
    pub fn fence_and_drain<'a>(&'a self, fences: &'a [(FenceKey, Token)]) -> BoxFuture<'a, Result<(), FenceError>> {
        Box::pin(async move {
            self.raise_fences(fences).await?;
            self.drain().await;
            Ok(())
        })
    }

    /// Ends the service: everything admitted is answered, and the device is sealed for good.
    pub fn close(&self) -> BoxFuture<'_, Result<(), Arc<DiskError>>> {
        Box::pin(async move {
            self.drain().await;
            self.device.seal().await
        })
    }
}

/// What frames are sealed for while they are on their way to the target that gives them their place.
pub(crate) const NOWHERE: Seal =
    Seal { device: types::DeviceId(0), seed: 0, activation: Activation(0), offset: types::ZoneOffset(0) };

fn reset_kind(error: &ResetError) -> ErrorKind {
    match error {
        ResetError::NoSuchZone { .. } | ResetError::NotFinished { .. } => ErrorKind::Conflict,
        ResetError::Poisoned { .. } | ResetError::Disk(_) => ErrorKind::Unavailable,
    }
}

fn unavailable(error: Arc<DiskError>) -> TargetFailure {
    TargetFailure::new(ErrorKind::Unavailable, error)
}

#[cfg(test)]
mod tests;
