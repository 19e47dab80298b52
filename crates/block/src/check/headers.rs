//! What the headers of one device say by themselves, and what the headers of all say of images.

use std::collections::{BTreeMap, BTreeSet};

use format::blob_header::BlobState;
use manager::{FoundImage, ImageRecord};
use types::{BlobId, DeviceId, ImageId};

use super::image::{Copy, was_closed};
use super::{DeviceBlobs, Finding, Known, Report};
use crate::store::table::Head;

impl DeviceBlobs {
    /// All blobs that count on the device.
    pub(super) fn copies(&self) -> impl Iterator<Item = Copy<'_>> {
        let blobs = self.loaded.heads.iter().filter(|(_, head)| head.state != BlobState::Free);
        blobs.map(|(block, head)| Copy { volume: &self.volume, block: *block, head })
    }
}

/// Headers that can't be believed, and blocks with the same blob.
pub(super) fn check(known: &Known, found: &DeviceBlobs, report: &mut Report) {
    let (device, loaded) = (found.device(), &found.loaded);
    for block in loaded.damaged.iter().copied() {
        report.add(match loaded.doubles.get(&block) {
            Some(id) => Finding::Double { device, block, id: *id },
            None => Finding::Damaged { device, block },
        });
    }
    for (block, head) in loaded.heads.iter().filter(|(block, _)| loaded.fallen_back.contains(block)) {
        let id = (head.state != BlobState::Free).then_some(head.id);
        let is_rot = id.and_then(|id| known.records.get(&id.image)).is_some_and(|record| was_seen_through(record, head));
        report.add(Finding::FellBack { device, block: *block, id, is_rot });
    }
}

/// Whether no write of the header can have been torn: the holder whose token it has was the last one, and closed the image in order.
fn was_seen_through(record: &ImageRecord, head: &Head) -> bool {
    was_closed(record) && record.token == head.token
}

/// What devices have of each image, ascending: for a state that may lack the records of some ([`manager::Snapshot::recover_images`]).
pub fn found_images(devices: &[DeviceBlobs]) -> Vec<FoundImage> {
    let mut images: BTreeMap<ImageId, FoundImage> = BTreeMap::new();
    let mut copies: BTreeMap<BlobId, BTreeSet<DeviceId>> = BTreeMap::new();
    for device in devices {
        for Copy { head, .. } in device.copies() {
            let on = copies.entry(head.id).or_default();
            on.insert(device.device());
            let image = images.entry(head.id.image).or_insert_with(|| FoundImage {
                id: head.id.image,
                parts: 0,
                layer: head.id.layer,
                epoch: head.epoch,
                parent: None,
                copies: 0,
                devices: BTreeSet::new(),
            });
            image.parts = image.parts.max(head.id.index.saturating_add(1));
            image.layer = image.layer.max(head.id.layer);
            image.epoch = image.epoch.max(head.epoch);
            image.parent = image.parent.or(head.parent);
            image.copies = image.copies.max(u8::try_from(on.len()).unwrap_or(u8::MAX));
            image.devices.insert(device.device());
        }
    }
    images.into_values().collect()
}
