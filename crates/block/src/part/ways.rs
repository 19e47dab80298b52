//! Ways to the nodes that serve devices, and how many requests go to a device of another node at once.

use crate::stores::StoreError;
use crate::wire::{self, Request, ToDevice, Usage, Wire};
use env::Env;
use manager::NodeRecord;
use net::{CallError, Caller, ServiceTag};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use subsystem::Surroundings;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use types::limits::BLOCK_BYTES;
use types::{BLOB_BYTES, DeviceId, NodeId};

/// How long the store of another node may take for a request.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
/// The same where the device may have to lend space first.
pub const CREATE_PATIENCE: Duration = Duration::from_secs(2);
/// The same where it reads a whole blob, tells a page of rows, or waits for what former holders have under way.
pub const LONG_PATIENCE: Duration = Duration::from_secs(4);
/// Requests to one device of another node that wait for answers; others wait for one of them. Eight devices fill a connection.
pub const CALLS_AT_ONCE: usize = 32;
/// Content that they send or fetch together: it passes a link of 1 Gbit/s in a tenth of a second.
pub const BYTES_AT_ONCE: usize = 8 << 20;

const _: () = assert!(8 * CALLS_AT_ONCE <= net::MAX_CALLS_IN_FLIGHT);
const _: () = assert!(BYTES_AT_ONCE >= BLOB_BYTES as usize);

/// Finds the services that serve blobs.
pub trait Ways: Send + Sync {
    /// The service of the node that serves a device.
    fn to_device(&self, device: DeviceId) -> Result<Arc<dyn Caller>, StoreError>;

    /// The services of all other nodes with devices.
    fn to_others(&self) -> Vec<(Arc<NodeRecord>, Arc<dyn Caller>)>;

    /// Nodes that do not answer.
    fn is_silent(&self, node: NodeId) -> bool;
}

impl Ways for Surroundings {
    fn to_device(&self, device: DeviceId) -> Result<Arc<dyn Caller>, StoreError> {
        let state = self.manager.snapshot();
        let failed = |reason: &str| StoreError::Failed(format!("device {device} {reason}"));
        let record = state.device(device).ok_or_else(|| failed("is no part of the cluster any more"))?;
        let node = record.node.and_then(|node| state.node(node)).ok_or_else(|| failed("is on no node"))?;
        if node.id == self.me {
            return Err(failed("is not on this node now"));
        }
        Ok(self.callers.to_node(node, ServiceTag::BLOBS))
    }

    fn to_others(&self) -> Vec<(Arc<NodeRecord>, Arc<dyn Caller>)> {
        let state = self.manager.snapshot();
        let has_devices = |node: &&Arc<NodeRecord>| state.devices().any(|device| device.node == Some(node.id));
        let others = state.nodes().filter(|node| node.id != self.me).filter(has_devices);
        others.map(|node| (node.clone(), self.callers.to_node(node, ServiceTag::BLOBS))).collect()
    }

    fn is_silent(&self, node: NodeId) -> bool {
        (self.silent)().contains(&node)
    }
}

/// The requests to one device of another node.
pub struct Gate {
    calls: Semaphore,
    /// In blocks of [`BLOCK_BYTES`].
    content: Semaphore,
    /// A request was not answered: those that wait for their turn are not sent.
    went_silent: Notify,
}

impl Default for Gate {
    fn default() -> Gate {
        let content = Semaphore::new(BYTES_AT_ONCE / BLOCK_BYTES);
        Gate { calls: Semaphore::new(CALLS_AT_ONCE), content, went_silent: Notify::new() }
    }
}

impl Gate {
    /// Asks the device when it is its turn. The time of the answer is counted from there.
    pub async fn ask<T: Wire>(
        &self,
        env: &Env,
        caller: &dyn Caller,
        (device, asked): (DeviceId, ToDevice),
        patience: Duration,
    ) -> Result<T, StoreError> {
        let _turn = self.turn(device, content_bytes(&asked)).await?;
        let request = wire::encode_request(&Request::Device(device, asked));
        let answer = call(env, caller, request, patience).await;
        if matches!(answer, Err(StoreError::Silent(_))) {
            self.went_silent.notify_waiters();
        }
        answer?
    }

    async fn turn(
        &self,
        device: DeviceId,
        content_bytes: usize,
    ) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), StoreError> {
        let blocks = content_bytes.min(BYTES_AT_ONCE).div_ceil(BLOCK_BYTES) as u32;
        let mut went_silent = pin!(self.went_silent.notified());
        went_silent.as_mut().enable();
        let closed = "the semaphores are never closed";
        let turn = async {
            let call = self.calls.acquire().await.expect(closed);
            (call, self.content.acquire_many(blocks).await.expect(closed))
        };
        tokio::select! {
            biased;
            () = went_silent => Err(StoreError::Silent(format!("device {device} has left an earlier request unanswered"))),
            turn = turn => Ok(turn),
        }
    }
}

/// Content that a request sends or fetches.
fn content_bytes(asked: &ToDevice) -> usize {
    match asked {
        ToDevice::Create { change, .. } | ToDevice::Change { change, .. } => change.content.len(),
        ToDevice::Read { length, .. } => *length as usize,
        ToDevice::Enter { .. } | ToDevice::Rows { .. } => wire::MAX_PAGE_BYTES,
        ToDevice::Complete { .. } | ToDevice::Sums { .. } | ToDevice::Free { .. } | ToDevice::Flush => 0,
    }
}

/// What another node's devices have.
pub async fn usage(env: &Env, caller: &dyn Caller) -> Result<Usage, StoreError> {
    call(env, caller, wire::encode_request(&Request::Usage), REQUEST_PATIENCE).await?
}

async fn call<T: Wire>(
    env: &Env,
    caller: &dyn Caller,
    request: bytes::Bytes,
    patience: Duration,
) -> Result<Result<T, StoreError>, StoreError> {
    let answer = caller.call(request, env.now() + patience).await;
    // A service that refuses is not there yet, or has begun nothing.
    let answer = answer.map_err(|error: CallError| StoreError::Silent(error.to_string()))?;
    wire::decode_answer(&answer).map_err(|error| StoreError::Failed(error.to_string()))
}
