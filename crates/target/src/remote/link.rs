//! Questions to one device's target.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use net::{CallError, Caller};
use types::{DeviceId, ErrorKind};

use crate::wire::{Ask, Failure, Fault, Request, Wire, WireError, decode_answer};
use crate::{ReadFailure, TargetFailure};

/// The way to one device's target.
#[derive(Clone)]
pub(crate) struct Link {
    pub env: Env,
    pub caller: Arc<dyn Caller>,
    pub device: DeviceId,
}

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("an answer that can't be read: {0}")]
    Wire(#[from] WireError),
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl AskError {
    /// Whether it is certain that nothing was done and nothing will be.
    pub fn is_definite(&self) -> bool {
        match self {
            AskError::Call(error) => error.is_definite(),
            AskError::Wire(_) => false,
            AskError::Failed(failure) => failure.fault != Fault::Unknown,
        }
    }

    pub fn kind(&self) -> ErrorKind {
        match self {
            AskError::Failed(Failure { fault: Fault::Refused(kind), .. }) => *kind,
            AskError::Failed(Failure { fault: Fault::OtherSession, .. }) => ErrorKind::Conflict,
            error if error.is_definite() => ErrorKind::Unavailable,
            _ => ErrorKind::Timeout,
        }
    }
}

impl From<AskError> for TargetFailure {
    fn from(error: AskError) -> Self {
        TargetFailure::new(error.kind(), error)
    }
}

impl From<AskError> for ReadFailure {
    fn from(error: AskError) -> Self {
        let is_answer = matches!(error, AskError::Failed(_));
        match error.kind() {
            ErrorKind::NotFound if is_answer => ReadFailure::Moved,
            ErrorKind::Corrupt if is_answer => ReadFailure::Corrupt(error.to_string()),
            ErrorKind::Unavailable if is_answer => ReadFailure::Unreadable(error.to_string()),
            _ => ReadFailure::Unavailable(error.to_string()),
        }
    }
}

impl Link {
    pub fn new(env: &Env, caller: Arc<dyn Caller>, device: DeviceId) -> Link {
        Link { env: env.clone(), caller, device }
    }

    /// Asks and waits for the answer, at most so long.
    pub async fn ask<T: Wire>(&self, ask: Ask, limit: Duration) -> Result<T, AskError> {
        let request = Request { device: self.device, ask }.encode();
        self.send(request, self.env.now() + limit).await
    }

    pub async fn send<T: Wire>(&self, request: Bytes, deadline: Instant) -> Result<T, AskError> {
        let answer = self.caller.call(request, deadline).await?;
        Ok(decode_answer(answer)??)
    }
}
