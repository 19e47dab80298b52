//! What a copy of the state lacks of images, and the devices have.
//!
//! A copy may be a second older than the state that was lost. Images that were made in that second have no record in it, but their blobs say
//! what they are: image, part, layer, and the layer of the parent. So a state that is imported can get records for them. What no header says
//! is lost: names, sizes below the last blob, and where snapshots stood that no clone names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use types::{BLOB_BYTES, DeviceId, ImageEpoch, ImageId, Layer, LayerOf, Token};

use super::limits::{MAX_IMAGE_BYTES, MAX_IMAGE_COPIES};
use super::{ImageDevice, ImageRecord, Redundancy, SnapshotRecord};
use crate::snapshot::Snapshot;

/// What the devices have of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundImage {
    pub id: ImageId,
    /// Parts up to the last one that has a blob.
    pub parts: u32,
    /// The newest layer of a blob.
    pub layer: Layer,
    /// The latest of a blob.
    pub epoch: ImageEpoch,
    pub parent: Option<LayerOf>,
    /// On how many devices the blob is that is on most.
    pub copies: u8,
    /// Those with blobs.
    pub devices: BTreeSet<DeviceId>,
}

/// An image that has a record again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredImage {
    pub id: ImageId,
    pub name: String,
    pub size_bytes: u64,
    /// The image that it was a clone of, and is not any more: the state has no such image.
    pub lost_parent: Option<ImageId>,
}

type Images = BTreeMap<ImageId, Arc<ImageRecord>>;

impl Snapshot {
    /// Gives images records that the devices have, and a state that is about to be imported does not know. Known images get the devices and layers
    /// on which blobs of them are. `found` is ascending. The import checks the outcome.
    pub fn recover_images(&mut self, found: &[FoundImage], now_ms: u64) -> Vec<RecoveredImage> {
        let devices: Vec<DeviceId> = self.devices.keys().copied().collect();
        let next = self.images.next;
        let images = self.images.records_mut();
        let mut recovered = Vec::new();
        for found in found {
            if let Some(image) = images.get_mut(&found.id) {
                widen(Arc::make_mut(image), found, &devices);
            } else if found.id.0 >= next {
                recovered.push(recover(images, found, &devices, now_ms));
            }
        }
        if let Some(last) = recovered.last() {
            self.images.next = last.id.0 + 1;
        }
        recovered
    }
}

/// Devices are added to an image in sync, before the first blob is there.
fn widen(image: &mut ImageRecord, found: &FoundImage, devices: &[DeviceId]) {
    for device in devices.iter().copied().filter(|device| found.devices.contains(device)) {
        if let Err(at) = image.position(device) {
            image.devices.insert(at, ImageDevice { device, out_since: None });
        }
    }
    image.layer = image.layer.max(found.layer);
    image.epoch = image.epoch.max(found.epoch);
}

/// It may have had blobs on any device: one that is given up afterwards leaves it with losses.
fn recover(images: &mut Images, found: &FoundImage, devices: &[DeviceId], now_ms: u64) -> RecoveredImage {
    let is_taken = |name: &str| images.values().any(|image| image.removed_ms.is_none() && image.name == name);
    let name = free_name(&found.id, is_taken);
    let below = found.parent.filter(|parent| parent.image < found.id).and_then(|parent| keep_snapshot(images, parent, now_ms));
    let seen_bytes = u64::from(found.parts) * u64::from(BLOB_BYTES);
    let size_bytes = seen_bytes.max(below.unwrap_or_default()).min(MAX_IMAGE_BYTES);
    let parent = found.parent.filter(|_| below.is_some());
    let record = ImageRecord {
        id: found.id,
        name: name.clone(),
        size_bytes,
        created_ms: now_ms,
        layer: found.layer,
        branches: Vec::new(),
        snapshots: Vec::new(),
        parent,
        token: Token(0),
        holder: None,
        copies: found.copies.clamp(1, MAX_IMAGE_COPIES),
        devices: devices.iter().map(|device| ImageDevice { device: *device, out_since: None }).collect(),
        epoch: found.epoch,
        redundancy: Redundancy { hosts: 1, devices: 1 },
        short_hosts: Vec::new(),
        is_settled: false,
        removed_ms: None,
        has_losses: false,
        is_purging: false,
    };
    images.insert(found.id, Arc::new(record));
    let lost_parent = found.parent.filter(|_| parent.is_none()).map(|parent| parent.image);
    RecoveredImage { id: found.id, name, size_bytes, lost_parent }
}

/// Has the parent of a clone keep the layer that the clone begins with; what size it has. None if there is no such image.
fn keep_snapshot(images: &mut Images, layer: LayerOf, now_ms: u64) -> Option<u64> {
    let parent = images.get_mut(&layer.image).filter(|parent| parent.removed_ms.is_none())?;
    if let Some(snapshot) = parent.snapshots.iter().find(|snapshot| snapshot.layer == layer.layer) {
        return Some(snapshot.size_bytes);
    }
    let parent = Arc::make_mut(parent);
    let name = free_name(&layer.layer, |name| parent.snapshot(name).is_some());
    let size_bytes = parent.size_bytes;
    let at = parent.snapshots.partition_point(|snapshot| snapshot.layer < layer.layer);
    parent.snapshots.insert(at, SnapshotRecord { name, layer: layer.layer, size_bytes, created_ms: now_ms });
    parent.layer = parent.layer.max(Layer(layer.layer.0 + 1));
    Some(size_bytes)
}

/// `recovered-NUMBER`, or what is free with more behind it.
fn free_name(number: &impl std::fmt::Display, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = format!("recovered-{number}");
    while is_taken(&name) {
        name.push_str("-again");
    }
    name
}
