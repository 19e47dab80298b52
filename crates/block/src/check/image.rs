//! The blobs of one image, against its record.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use device::Volume;
use format::blob_header::BlobState;
use manager::ImageRecord;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageId, Layer, Pieces};

use super::{DeviceBlobs, Finding, ImageCount, Report};
use crate::image::lineage::{self, Held};
use crate::part::records::view_of;
use crate::store::table::Head;

/// A blob on a device.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    pub volume: &'a Volume,
    pub block: u32,
    pub head: &'a Head,
}

/// All that devices have of an image: its parts ascending, of each the newest layer first.
#[derive(Default)]
pub(super) struct Blobs<'a>(BTreeMap<(u32, Reverse<Layer>), Vec<Copy<'a>>>);

/// A blob, and the copies of it that count.
pub(super) struct Counted<'a> {
    pub id: BlobId,
    pub copies: Vec<Copy<'a>>,
}

impl<'a> Blobs<'a> {
    pub(super) fn add(&mut self, copy: Copy<'a>) {
        self.0.entry((copy.head.id.index, Reverse(copy.head.id.layer))).or_default().push(copy);
    }

    fn all(&self) -> impl Iterator<Item = &Copy<'a>> {
        self.0.values().flatten()
    }

    pub(super) fn count(&self, image: ImageId) -> ImageCount {
        let pieces = self.all().map(|copy| u64::from(copy.head.data.count())).sum();
        ImageCount { image, blobs: self.all().count() as u64, pieces }
    }

    /// Parts up to the last one.
    pub(super) fn parts(&self) -> u32 {
        self.0.keys().last().map_or(0, |(index, _)| index.saturating_add(1))
    }

    /// The blobs that have copies that count.
    pub(super) fn counted(&self, record: &ImageRecord) -> Vec<Counted<'a>> {
        let counted = self.0.values().map(|copies| Counted {
            id: copies[0].head.id,
            copies: copies.iter().filter(|copy| counts(record, copy)).copied().collect(),
        });
        counted.filter(|blob| !blob.copies.is_empty()).collect()
    }
}

impl Counted<'_> {
    /// A piece counts only if all copies have it.
    pub(super) fn pieces(&self) -> (Pieces, Pieces) {
        let all = (Pieces::ALL, Pieces::ALL);
        self.copies.iter().fold(all, |(owned, data), copy| (owned & copy.head.owned, data & copy.head.data))
    }
}

fn counts(record: &ImageRecord, copy: &Copy<'_>) -> bool {
    let is_in_sync = record.device(copy.volume.device()).is_some_and(|used| used.out_since.is_none());
    is_in_sync && copy.head.state == BlobState::Whole
}

/// Whether the last holder closed the image in order, with equal copies.
pub(super) fn was_closed(record: &ImageRecord) -> bool {
    record.is_settled && record.holder.is_none()
}

/// Whether writes to a layer may have been under way when the last holder ended.
pub(super) fn may_be_unfinished(record: &ImageRecord, layer: Layer) -> bool {
    !was_closed(record) && record.snapshots.last().is_none_or(|newest| newest.layer < layer)
}

pub(super) fn check(record: &ImageRecord, blobs: &Blobs<'_>, devices: &[DeviceBlobs], report: &mut Report) {
    let image = record.id;
    if record.is_purging {
        report.add(Finding::Purging { image });
    }
    check_places(record, blobs, report);
    let (needed, unneeded) = by_need(record, blobs.counted(record));
    if unneeded > 0 {
        report.add(Finding::Unneeded { image, blobs: unneeded });
    }
    let ends = record.snapshots.iter().map(|snapshot| snapshot.size_bytes).chain([record.size_bytes]);
    let parts = ends.max().unwrap_or_default().div_ceil(u64::from(BLOB_BYTES));
    let is_beyond = |blob: &&Counted<'_>| u64::from(blob.id.index) >= parts && !blob.pieces().1.is_empty();
    let beyond = needed.iter().filter(is_beyond).count() as u64;
    if beyond > 0 {
        report.add(Finding::BeyondEnd { image, blobs: beyond });
    }
    // What is on a device that was not looked at can't be counted.
    let was_looked_at = |device: DeviceId| devices.iter().any(|found| found.device() == device);
    if record.devices.iter().all(|used| used.out_since.is_some() || was_looked_at(used.device)) {
        check_copies(record, &needed, report);
    }
}

/// Where blobs are, and in which layers.
fn check_places(record: &ImageRecord, blobs: &Blobs<'_>, report: &mut Report) {
    let image = record.id;
    let mut strangers: BTreeMap<DeviceId, u64> = BTreeMap::new();
    let mut uncounted = 0;
    for copy in blobs.all() {
        let (device, id) = (copy.volume.device(), copy.head.id);
        if record.device(device).is_none() {
            *strangers.entry(device).or_default() += 1;
        } else if !counts(record, copy) {
            uncounted += 1;
        } else if id.layer > record.layer {
            report.add(Finding::LaterLayer { id, device, newest: record.layer });
        }
    }
    for (device, blobs) in strangers {
        report.add(Finding::UnusedDevice { image, device, blobs });
    }
    if uncounted > 0 {
        report.add(Finding::Uncounted { image, copies: uncounted });
    }
}

/// The blobs that a view needs, and how many others there are.
fn by_need<'a>(record: &ImageRecord, counted: Vec<Counted<'a>>) -> (Vec<Counted<'a>>, u64) {
    let views = lineage::views(&view_of(record));
    let mut parts: BTreeMap<u32, Vec<Held>> = BTreeMap::new();
    for blob in &counted {
        let (owned, data) = blob.pieces();
        parts.entry(blob.id.index).or_default().push(Held { layer: blob.id.layer, owned, data });
    }
    let all = counted.len();
    let is_needed = |blob: &Counted<'_>| {
        // The record does not know its layer: that was said.
        blob.id.layer > record.layer || lineage::is_needed(blob.id.layer, &parts[&blob.id.index], &views)
    };
    let needed: Vec<Counted<'a>> = counted.into_iter().filter(is_needed).collect();
    let unneeded = (all - needed.len()) as u64;
    (needed, unneeded)
}

fn check_copies(record: &ImageRecord, needed: &[Counted<'_>], report: &mut Report) {
    let mut wanting = 0;
    for Counted { id, copies } in needed {
        let (found, least) = (u8::try_from(copies.len()).unwrap_or(u8::MAX), record.redundancy.devices);
        if found < least {
            report.add(Finding::FewCopies { id: *id, found, least, may_be: may_be_unfinished(record, id.layer) });
        } else if found < record.copies {
            wanting += 1;
        }
    }
    if wanting > 0 {
        report.add(Finding::Wanting { image: record.id, blobs: wanting, wanted: record.copies });
    }
}
