//! The stores of this node's devices, called directly.

use crate::image::Placement;
use crate::store::BlobStore;
use crate::stores::{Admission, Asked, BlobAt, BlobRow, BlobSums, Change, NewBlob, StoreError, Stores};
use bytes::Bytes;
use manager::Manager;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BlobId, DeviceId, ImageId, NodeId};

/// Stores by device.
pub struct LocalStores {
    manager: Arc<Manager>,
    stores: BTreeMap<DeviceId, Arc<BlobStore>>,
}

impl LocalStores {
    pub fn new(manager: Arc<Manager>, stores: BTreeMap<DeviceId, Arc<BlobStore>>) -> LocalStores {
        LocalStores { manager, stores }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<BlobStore>> {
        self.stores.values()
    }

    pub fn get(&self, device: DeviceId) -> Option<&Arc<BlobStore>> {
        self.stores.get(&device)
    }

    pub fn devices(&self) -> Vec<DeviceId> {
        self.stores.keys().copied().collect()
    }

    fn ask<'a, T: Send + 'a, F>(&'a self, device: DeviceId, ask: impl FnOnce(&'a BlobStore) -> F) -> Asked<'a, T>
    where
        F: Future<Output = Result<T, StoreError>> + Send + 'a,
    {
        match self.stores.get(&device) {
            Some(store) => Box::pin(ask(store)),
            None => Box::pin(std::future::ready(Err(StoreError::Failed(format!("device {device} is not on this node"))))),
        }
    }

    /// Bytes for which blobs could get space now.
    pub fn room_bytes(&self) -> u64 {
        self.stores.values().map(|store| u64::from(store.room()) * u64::from(types::BLOB_BYTES)).sum()
    }

    /// What the images have on these devices, one copy counted: bytes of blocks, and of pieces with content.
    pub fn usage(&self) -> BTreeMap<ImageId, (u64, u64)> {
        let mut usage: BTreeMap<ImageId, (u64, u64)> = BTreeMap::new();
        for found in self.stores.values().flat_map(|store| store.images()) {
            let (allocated_bytes, data_bytes) = usage.entry(found.image).or_default();
            *allocated_bytes += u64::from(found.blocks) * u64::from(types::BLOB_BYTES);
            *data_bytes += found.pieces * u64::from(types::PIECE_BYTES);
        }
        usage
    }

    /// Whether the manager's state here names the token of an admission.
    fn is_known(&self, admission: &Admission) -> bool {
        self.manager.snapshot().image(admission.image).is_some_and(|image| image.token == admission.token)
    }

    /// Whether a blob belongs to a layer that has ended. Only those may be read by others than the holder.
    fn has_ended(&self, blob: &BlobId) -> bool {
        self.manager.snapshot().image(blob.image).is_some_and(|image| blob.layer < image.layer)
    }
}

impl Stores for LocalStores {
    fn enter(&self, device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>> {
        if !self.is_known(&admission) {
            return Box::pin(std::future::ready(Err(StoreError::Unknown)));
        }
        self.ask(device, move |store| store.enter(admission))
    }

    fn create(&self, device: DeviceId, admission: Admission, blob: NewBlob, change: Change) -> Asked<'_, u32> {
        self.ask(device, move |store| store.create(admission, blob, change))
    }

    fn change(&self, device: DeviceId, admission: Admission, at: BlobAt, change: Change) -> Asked<'_, ()> {
        self.ask(device, move |store| store.change(admission, at, change))
    }

    fn complete(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        self.ask(device, move |store| store.complete(admission, at))
    }

    fn read(&self, device: DeviceId, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Asked<'_, Bytes> {
        if admission.is_none() && !self.has_ended(&at.id) {
            let why = StoreError::Invalid("only a holder reads a layer that has not ended".to_owned());
            return Box::pin(std::future::ready(Err(why)));
        }
        self.ask(device, move |store| store.read(admission, at, offset, length))
    }

    fn sums(&self, device: DeviceId, admission: Admission, id: BlobId) -> Asked<'_, BlobSums> {
        self.ask(device, move |store| store.sums(admission, id))
    }

    fn free(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        self.ask(device, move |store| store.free(admission, at))
    }

    fn flush(&self, device: DeviceId) -> Asked<'_, ()> {
        self.ask(device, move |store| store.flush())
    }
}

impl Placement for LocalStores {
    fn devices(&self) -> Vec<DeviceId> {
        self.stores.keys().copied().collect()
    }

    fn host_of(&self, device: DeviceId) -> Option<NodeId> {
        self.manager.snapshot().device(device).and_then(|record| record.node)
    }

    fn is_here(&self, device: DeviceId) -> bool {
        self.stores.contains_key(&device)
    }

    /// The device with most room.
    fn places(&self, _: BlobId, _: usize, _: &[DeviceId], without: &[DeviceId]) -> SmallVec<[DeviceId; 3]> {
        let usable = self.stores.values().filter(|store| !store.is_stuck() && !without.contains(&store.device()));
        usable.max_by_key(|store| store.room()).map(|store| store.device()).into_iter().collect()
    }
}
