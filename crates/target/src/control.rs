//! What a recovery's leader and the manager ask of a target.

use std::sync::Arc;

use env::Env;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use net::Caller;
use types::DeviceId;

use crate::limits::{CONTROL_DEADLINE, FENCES_AT_ONCE};
use crate::remote::Link;
use crate::wire::Ask;
use crate::{TargetFailure, Writer};

/// Fences one target, wherever it is.
pub struct TargetControl(Link);

impl TargetControl {
    pub fn new(env: &Env, caller: Arc<dyn Caller>, device: DeviceId) -> TargetControl {
        TargetControl(Link::new(env, caller, device))
    }

    /// [`crate::Target::raise_fence`].
    pub async fn raise_fence(&self, fence: Writer) -> Result<(), TargetFailure> {
        self.ask(Ask::RaiseFence { writer: fence }).await
    }

    /// The same of many, some at once: the target makes those durable together that wait at the same time.
    pub async fn raise_fences(&self, fences: &[Writer]) -> Result<(), TargetFailure> {
        let mut raising = FuturesUnordered::new();
        for fence in fences {
            if raising.len() >= FENCES_AT_ONCE {
                raising.try_next().await?;
            }
            raising.push(self.raise_fence(*fence));
        }
        raising.try_collect().await
    }

    /// [`crate::Target::load_fences`].
    pub async fn load_fences(&self, fences: Vec<Writer>) -> Result<(), TargetFailure> {
        self.ask(Ask::LoadFences { fences }).await
    }

    /// [`crate::Target::fence_and_drain`]: below these tokens nothing lands any more, and a walk sees all that did.
    pub async fn fence_and_drain(&self, fences: &[Writer]) -> Result<(), TargetFailure> {
        self.raise_fences(fences).await?;
        self.ask(Ask::Drain).await
    }

    async fn ask(&self, ask: Ask) -> Result<(), TargetFailure> {
        Ok(self.0.ask(ask, CONTROL_DEADLINE).await?)
    }
}
