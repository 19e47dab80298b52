//! A check of the blobs that stand on the devices of a server that is stopped, against the manager's records (docs/rfd/0024).
//!
//! ```text
//!   volumes ─► headers: what each device has ─┬─► what of it no record explains
//!   records ──────────────────────────────────┴─► copies: too few, or different from each other
//! ```
//!
//! Nothing is changed. What a power cut or a kill may leave, and the next opening of an image mends, is a note. Everything else is wrong.
//!
//! The copies of a layer may differ, or be fewer, only while its writes may have been under way: the image was not closed in order, and no
//! snapshot has ended the layer.

mod contents;
mod finding;
mod headers;
mod image;

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Volume, VolumeError};
use manager::{ImageRecord, Snapshot};
use types::{DeviceId, ImageId, PIECE_BYTES};

use crate::store::layout::block_count;
use crate::store::load::{self, Loaded};
use image::Blobs;

pub use finding::Finding;
pub use headers::found_images;

/// Findings that are kept one by one; more are counted.
pub const MAX_FINDINGS: usize = 1_000;

/// What the manager knows of images.
pub struct Known {
    pub records: BTreeMap<ImageId, Arc<ImageRecord>>,
    /// The lowest id that no image has had.
    pub next: ImageId,
}

/// What the headers of a device say.
pub struct DeviceBlobs {
    volume: Volume,
    loaded: Loaded,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// The images that have blobs or a record, ascending.
    pub images: Vec<ImageCount>,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// How many findings are wrong, those among them that are not kept.
    pub wrong: u64,
    /// Findings that are not kept.
    pub untold: u64,
    /// Bytes of content that were read, to compare copies.
    pub compared_bytes: u64,
}

/// What the devices have of an image, all copies counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageCount {
    pub image: ImageId,
    pub blobs: u64,
    /// Pieces with content.
    pub pieces: u64,
}

impl ImageCount {
    /// Bytes of content.
    pub fn bytes(&self) -> u64 {
        self.pieces * u64::from(PIECE_BYTES)
    }
}

impl Known {
    pub fn of(state: &Snapshot) -> Known {
        Known { records: state.images().map(|record| (record.id, record.clone())).collect(), next: state.next_image() }
    }
}

impl DeviceBlobs {
    /// Reads the headers of a device's volume of images.
    pub async fn read(volume: Volume) -> Result<DeviceBlobs, VolumeError> {
        let loaded = load::load(&volume, block_count(volume.byte_count())).await?;
        Ok(DeviceBlobs { volume, loaded })
    }

    pub fn device(&self) -> DeviceId {
        self.volume.device()
    }
}

/// Compares what devices have with the records, and copies with each other. Each device is given once.
pub async fn check(known: &Known, devices: &[DeviceBlobs]) -> Report {
    let mut report = Report::default();
    for device in devices {
        headers::check(known, device, &mut report);
    }
    let mut images: BTreeMap<ImageId, Blobs<'_>> = known.records.keys().map(|id| (*id, Blobs::default())).collect();
    for device in devices {
        for copy in device.copies() {
            images.entry(copy.head.id.image).or_default().add(copy);
        }
    }
    for (id, blobs) in &images {
        let count = blobs.count(*id);
        report.images.push(count);
        match known.records.get(id) {
            Some(record) => {
                image::check(record, blobs, devices, &mut report);
                contents::check(record, blobs, &mut report).await;
            }
            None if *id < known.next => report.add(Finding::Purged(count)),
            None => report.add(Finding::Unrecorded { parts: blobs.parts(), count }),
        }
    }
    report
}

impl Report {
    fn add(&mut self, finding: Finding) {
        self.wrong += u64::from(finding.is_wrong());
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.untold += 1;
        }
    }
}

#[cfg(test)]
mod tests;
