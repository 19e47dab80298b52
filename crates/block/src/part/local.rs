//! The stores of this node's devices, called directly.

use crate::store::BlobStore;
use crate::stores::{Admission, Asked, BlobAt, BlobRow, BlobSums, Change, NewBlob, StoreError, Stores};
use crate::wire::{MAX_USES, NodeUse, Usage};
use bytes::Bytes;
use manager::Manager;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BlobId, DeviceId, ImageId};

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

    pub fn has(&self, device: DeviceId) -> bool {
        self.stores.contains_key(&device)
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

    /// What the images have on these devices. Images beyond the limit of a message are not told of; the manager knows no more than that.
    pub fn usage(&self) -> Usage {
        let mut images: BTreeMap<ImageId, NodeUse> = BTreeMap::new();
        for found in self.stores.values().flat_map(|store| store.images()) {
            let used = images.entry(found.image).or_insert(NodeUse { image: found.image, blocks: 0, pieces: 0 });
            used.blocks += u64::from(found.blocks);
            used.pieces += found.pieces;
        }
        let room_bytes = self.stores.values().map(|store| u64::from(store.room()) * u64::from(types::BLOB_BYTES)).sum();
        Usage { room_bytes, images: images.into_values().take(MAX_USES).collect() }
    }

    /// As [`Stores::enter`], with a page of the rows.
    pub fn enter_page(
        &self,
        device: DeviceId,
        admission: Admission,
        after: Option<BlobId>,
        most: usize,
    ) -> Asked<'_, Vec<BlobRow>> {
        if let Err(error) = self.admits(&admission) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.ask(device, move |store| store.enter_page(admission, after, most))
    }

    /// What the manager's state here says of the token of an admission. Tokens rise, so a greater one ends all before it.
    fn admits(&self, admission: &Admission) -> Result<(), StoreError> {
        match self.manager.snapshot().image(admission.image).map(|image| image.token.cmp(&admission.token)) {
            Some(Ordering::Equal) => Ok(()),
            Some(Ordering::Greater) => Err(StoreError::Superseded),
            Some(Ordering::Less) | None => Err(StoreError::Unknown),
        }
    }

    /// Whether a blob belongs to a layer that has ended. Only those may be read by others than the holder.
    fn has_ended(&self, blob: &BlobId) -> bool {
        self.manager.snapshot().image(blob.image).is_some_and(|image| blob.layer < image.layer)
    }
}

impl Stores for LocalStores {
    fn enter(&self, device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>> {
        self.enter_page(device, admission, None, usize::MAX)
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
