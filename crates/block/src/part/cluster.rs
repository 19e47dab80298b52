//! The stores of all nodes: those of this node's devices are called directly, others over the network.

use super::local::LocalStores;
use super::ways::{self, CREATE_PATIENCE, Gate, LONG_PATIENCE, REQUEST_PATIENCE, Ways};
use crate::stores::{Admission, Asked, BlobAt, BlobRow, BlobSums, Change, NewBlob, StoreError, Stores};
use crate::wire::{MAX_PAGE_ROWS, ToDevice, Usage, Wire};
use bytes::Bytes;
use env::Env;
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageId, PIECE_BYTES};

/// For how long a store is asked to admit a token that the manager's state at its node does not name yet.
const ADMIT_PATIENCE: Duration = Duration::from_secs(4);
/// Between two such attempts.
const ADMIT_PAUSE: Duration = Duration::from_millis(100);

/// Stores by device.
pub struct ClusterStores {
    env: Env,
    local: Arc<LocalStores>,
    ways: Arc<dyn Ways>,
    /// Of devices of other nodes. Devices that left stay: a cluster gives few numbers for all times.
    gates: Mutex<BTreeMap<DeviceId, Arc<Gate>>>,
}

/// What the images have on all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterUsage {
    pub room_bytes: u64,
    /// Bytes of blocks, and of pieces with content; all copies count.
    pub images: BTreeMap<ImageId, (u64, u64)>,
    /// Names of nodes with devices that did not answer.
    pub silent: Vec<String>,
}

impl ClusterStores {
    pub fn new(env: &Env, local: Arc<LocalStores>, ways: Arc<dyn Ways>) -> ClusterStores {
        ClusterStores { env: env.clone(), local, ways, gates: Mutex::default() }
    }

    async fn ask<T: Wire>(&self, device: DeviceId, asked: ToDevice, patience: Duration) -> Result<T, StoreError> {
        let caller = self.ways.to_device(device)?;
        let gate = self.gates.lock().entry(device).or_default().clone();
        gate.ask(&self.env, &*caller, (device, asked), patience).await
    }

    /// All pages of rows.
    async fn pages(&self, device: DeviceId, asked: impl Fn(Option<BlobId>) -> ToDevice) -> Result<Vec<BlobRow>, StoreError> {
        let mut rows: Vec<BlobRow> = Vec::new();
        loop {
            let after = rows.last().map(|row| row.at.id);
            let page: Vec<BlobRow> = self.ask(device, asked(after), LONG_PATIENCE).await?;
            if !page.iter().map(|row| Some(row.at.id)).is_sorted() || page.first().is_some_and(|row| Some(row.at.id) <= after) {
                return Err(StoreError::Failed(format!("device {device} tells blobs out of order")));
            }
            let is_last = page.len() < MAX_PAGE_ROWS;
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }

    /// What a device has of an image now, without entering it: for layers that have ended.
    pub async fn rows(&self, device: DeviceId, image: ImageId) -> Result<Vec<BlobRow>, StoreError> {
        match self.local.get(device) {
            Some(store) => Ok(store.rows_of(image)),
            None => self.pages(device, |after| ToDevice::Rows { image, after }).await,
        }
    }

    /// Enters a device by a token that the manager has just given: waits until the device's node knows it.
    pub async fn enter_new(&self, device: DeviceId, admission: Admission) -> Result<Vec<BlobRow>, StoreError> {
        let deadline = self.env.now() + ADMIT_PATIENCE;
        loop {
            match self.enter(device, admission).await {
                Err(StoreError::Unknown) if self.env.now() < deadline => self.env.sleep(ADMIT_PAUSE).await,
                entered => return entered,
            }
        }
    }

    /// Asks all nodes what their devices have.
    pub async fn usage(&self) -> ClusterUsage {
        let others = self.ways.to_others();
        let asked = others.iter().map(|(node, caller)| async move {
            if self.ways.is_silent(node.id) {
                return Err(node.name.clone());
            }
            ways::usage(&self.env, &**caller).await.map_err(|error| {
                tracing::debug!(node = node.name, %error, "a node does not tell what its devices have of images");
                node.name.clone()
            })
        });
        let mut told = join_all(asked).await;
        told.push(Ok(self.local.usage()));
        let mut usage = ClusterUsage::default();
        for told in told {
            match told {
                Ok(node) => usage.add(node),
                Err(name) => usage.silent.push(name),
            }
        }
        usage
    }
}

impl ClusterUsage {
    fn add(&mut self, node: Usage) {
        self.room_bytes = self.room_bytes.saturating_add(node.room_bytes);
        for used in node.images {
            let (allocated_bytes, data_bytes) = self.images.entry(used.image).or_default();
            *allocated_bytes = allocated_bytes.saturating_add(used.blocks.saturating_mul(u64::from(BLOB_BYTES)));
            *data_bytes = data_bytes.saturating_add(used.pieces.saturating_mul(u64::from(PIECE_BYTES)));
        }
    }
}

impl Stores for ClusterStores {
    fn enter(&self, device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>> {
        match self.local.has(device) {
            true => self.local.enter(device, admission),
            false => Box::pin(self.pages(device, move |after| ToDevice::Enter { admission, after })),
        }
    }

    fn create(&self, device: DeviceId, admission: Admission, blob: NewBlob, change: Change) -> Asked<'_, u32> {
        match self.local.has(device) {
            true => self.local.create(device, admission, blob, change),
            false => Box::pin(self.ask(device, ToDevice::Create { admission, blob, change }, CREATE_PATIENCE)),
        }
    }

    fn change(&self, device: DeviceId, admission: Admission, at: BlobAt, change: Change) -> Asked<'_, ()> {
        match self.local.has(device) {
            true => self.local.change(device, admission, at, change),
            false => Box::pin(self.ask(device, ToDevice::Change { admission, at, change }, REQUEST_PATIENCE)),
        }
    }

    fn complete(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        match self.local.has(device) {
            true => self.local.complete(device, admission, at),
            false => Box::pin(self.ask(device, ToDevice::Complete { admission, at }, REQUEST_PATIENCE)),
        }
    }

    fn read(&self, device: DeviceId, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Asked<'_, Bytes> {
        if self.local.has(device) {
            return self.local.read(device, admission, at, offset, length);
        }
        Box::pin(async move {
            let read: Bytes = self.ask(device, ToDevice::Read { admission, at, offset, length }, REQUEST_PATIENCE).await?;
            match read.len() == length as usize {
                true => Ok(read),
                false => Err(StoreError::Failed(format!("device {device} read {} bytes instead of {length}", read.len()))),
            }
        })
    }

    fn sums(&self, device: DeviceId, admission: Admission, id: BlobId) -> Asked<'_, BlobSums> {
        match self.local.has(device) {
            true => self.local.sums(device, admission, id),
            false => Box::pin(self.ask(device, ToDevice::Sums { admission, id }, LONG_PATIENCE)),
        }
    }

    fn free(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        match self.local.has(device) {
            true => self.local.free(device, admission, at),
            false => Box::pin(self.ask(device, ToDevice::Free { admission, at }, REQUEST_PATIENCE)),
        }
    }

    fn flush(&self, device: DeviceId) -> Asked<'_, ()> {
        match self.local.has(device) {
            true => self.local.flush(device),
            false => Box::pin(self.ask(device, ToDevice::Flush, REQUEST_PATIENCE)),
        }
    }
}

#[cfg(test)]
mod tests;
