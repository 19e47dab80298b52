//! The blobs of an image, as its devices told them when the holder entered.
//!
//! The map claims nothing that was not answered: a piece is owned here only after all copies in sync said so. After a request with an unknown
//! effect, the holder enters the device again and takes over what stands there ([`Map::reconcile`]), before it serves any request.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use format::blob_header::BlobState;
use manager::Redundancy;
use smallvec::SmallVec;
use types::{BLOB_BYTES, DeviceId, ImageEpoch, Layer, NodeId, PIECE_BYTES, Pieces};

use super::below::Below;
use super::limits::BLOCK_BYTES;
use super::lineage::{Held, Lineage};
use crate::stores::BlobRow;

/// Where a copy of a blob stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    pub(crate) block: u32,
}

pub(crate) type Copies = SmallVec<[Place; 2]>;

/// A blob with its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) layer: Layer,
    pub(crate) owned: Pieces,
    pub(crate) data: Pieces,
    /// Those in sync.
    pub(crate) copies: Copies,
    /// Copies on devices that are out, and that take all changes from now on. They serve nothing.
    pub(crate) following: Copies,
    /// The newest that a header of a copy in sync has.
    pub(crate) epoch: ImageEpoch,
    /// All copies hold the same. Otherwise they are compared before anything else touches the blob.
    pub(crate) is_equal: bool,
    /// It was asked to be freed: that a device does not have it any more is no damage.
    pub(crate) freeing: bool,
}

impl Blob {
    pub(crate) fn new(layer: Layer, (owned, data): (Pieces, Pieces), copies: Copies, epoch: ImageEpoch) -> Blob {
        Blob { layer, owned, data, copies, following: Copies::new(), epoch, is_equal: true, freeing: false }
    }

    /// What a device has of it. Of a blob with other copies only the place: its copies are compared.
    fn take(&mut self, device: DeviceId, row: &BlobRow) {
        let is_only_copy = self.copies.len() == 1;
        for copy in self.copies.iter_mut().filter(|copy| copy.device == device) {
            copy.block = row.at.block;
        }
        if is_only_copy {
            (self.owned, self.data) = (row.owned, row.data);
        }
    }

    /// All that take changes.
    pub(crate) fn changed_places(&self) -> Copies {
        self.copies.iter().chain(&self.following).copied().collect()
    }

    pub(crate) fn is_on(&self, device: DeviceId) -> bool {
        self.copies.iter().any(|place| place.device == device)
    }
}

/// All blobs of an image.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// Of each part, the newest first.
    parts: HashMap<u32, SmallVec<[Blob; 1]>>,
}

/// Where a range is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Blob(Layer, Copies),
    Zeros,
    /// The parent image.
    Below,
}

pub(crate) type Sources = SmallVec<[(Range<u32>, Source); 1]>;

impl Map {
    /// The map that the devices' rows make.
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = (DeviceId, &'a [BlobRow])>) -> Map {
        let mut map = Map::default();
        for (device, rows) in rows {
            map.load(device, rows);
        }
        map
    }

    /// Takes over what a device in sync has when the image is opened. A piece counts only if all copies have it.
    pub(crate) fn load(&mut self, device: DeviceId, rows: &[BlobRow]) {
        for row in rows.iter().filter(|row| row.state == BlobState::Whole) {
            let (id, place) = (row.at.id, Place { device, block: row.at.block });
            match self.blob_mut(id.index, id.layer) {
                Some(blob) => {
                    blob.copies.push(place);
                    blob.owned = blob.owned & row.owned;
                    blob.data = blob.data & row.data;
                    blob.epoch = blob.epoch.max(row.epoch);
                }
                None => {
                    self.insert(id.index, Blob::new(id.layer, (row.owned, row.data), SmallVec::from_slice(&[place]), row.epoch))
                }
            }
        }
    }

    /// Takes over what a device has of the blobs that have copies there, after a change of unknown effect.
    ///
    /// A copy that is gone stays in the map unless it was being freed: reading it fails, while forgetting it would show zeros.
    pub(crate) fn reconcile(&mut self, device: DeviceId, rows: &[BlobRow]) {
        let whole = rows.iter().filter(|row| row.state == BlobState::Whole);
        let found: HashMap<(u32, Layer), &BlobRow> = whole.map(|row| ((row.at.id.index, row.at.id.layer), row)).collect();
        for (index, blobs) in &mut self.parts {
            for blob in blobs.iter_mut().filter(|blob| blob.copies.iter().any(|place| place.device == device)) {
                match found.get(&(*index, blob.layer)) {
                    Some(row) => blob.take(device, row),
                    None if blob.freeing => blob.copies.retain(|place| place.device != device),
                    None => {}
                }
            }
            blobs.retain(|blob| !blob.freeing || !blob.copies.is_empty());
        }
        self.parts.retain(|_, blobs| !blobs.is_empty());
    }

    /// Adds a blob; one that is there gets the pieces and the copies.
    pub(crate) fn insert(&mut self, index: u32, blob: Blob) {
        let blobs = self.parts.entry(index).or_default();
        let at = blobs.iter().position(|other| other.layer <= blob.layer).unwrap_or(blobs.len());
        if at < blobs.len() && blobs[at].layer == blob.layer {
            blobs[at] = blob;
        } else {
            blobs.insert(at, blob);
        }
    }

    pub(crate) fn remove(&mut self, index: u32, layer: Layer) {
        if let Some(blobs) = self.parts.get_mut(&index) {
            blobs.retain(|blob| blob.layer != layer);
            if blobs.is_empty() {
                self.parts.remove(&index);
            }
        }
    }

    /// The blobs of a part, the newest first.
    pub(crate) fn blobs_of(&self, index: u32) -> &[Blob] {
        self.parts.get(&index).map(|blobs| blobs.as_slice()).unwrap_or_default()
    }

    pub(crate) fn blob(&self, index: u32, layer: Layer) -> Option<&Blob> {
        self.parts.get(&index)?.iter().find(|blob| blob.layer == layer)
    }

    pub(crate) fn blob_mut(&mut self, index: u32, layer: Layer) -> Option<&mut Blob> {
        self.parts.get_mut(&index)?.iter_mut().find(|blob| blob.layer == layer)
    }

    /// All blobs, with their parts.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = (u32, &Blob)> {
        self.parts.iter().flat_map(|(index, blobs)| blobs.iter().map(|blob| (*index, blob)))
    }

    fn blobs_mut(&mut self) -> impl Iterator<Item = &mut Blob> {
        self.parts.values_mut().flatten()
    }

    /// The parts whose copies are to be compared, ascending.
    pub(crate) fn unequal(&self) -> Vec<u32> {
        let mut parts: Vec<u32> = self.blobs().filter(|(_, blob)| !blob.is_equal).map(|(index, _)| index).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    pub(crate) fn has_unequal(&self, index: u32) -> bool {
        self.parts.get(&index).is_some_and(|blobs| blobs.iter().any(|blob| !blob.is_equal))
    }

    /// The copies of a layer may differ: its last holder did not close the image.
    pub(crate) fn doubt_layer(&mut self, layer: Layer) {
        for blob in self.blobs_mut().filter(|blob| blob.layer == layer) {
            blob.is_equal = false;
        }
    }

    /// Copies on a device count no more, nor follow.
    pub(crate) fn forget(&mut self, device: DeviceId) {
        for blob in self.blobs_mut() {
            blob.copies.retain(|place| place.device != device);
            blob.following.retain(|place| place.device != device);
        }
    }

    pub(crate) fn unfollow(&mut self, device: DeviceId) {
        self.blobs_mut().for_each(|blob| blob.following.retain(|place| place.device != device));
    }

    /// The copies of a device that follow count from now on.
    pub(crate) fn promote(&mut self, device: DeviceId) {
        for blob in self.blobs_mut() {
            let (joins, stays): (Copies, Copies) = blob.following.iter().copied().partition(|place| place.device == device);
            blob.copies.extend(joins);
            blob.following = stays;
        }
    }

    /// Blobs that are being freed count for nothing.
    fn counted(&self) -> impl Iterator<Item = (u32, &Blob)> {
        self.blobs().filter(|(_, blob)| !blob.freeing)
    }

    /// The least number of copies that a blob on this device would have without it; none if no blob is there.
    pub(crate) fn least_without(&self, device: DeviceId) -> Option<usize> {
        self.counted().filter(|(_, blob)| blob.is_on(device)).map(|(_, blob)| blob.copies.len() - 1).min()
    }

    /// What every blob has. An image without blobs has all that it wants.
    pub(crate) fn redundancy(&self, wanted: u8, host_of: impl Fn(DeviceId) -> Option<NodeId>) -> Redundancy {
        let of = |(_, blob): (u32, &Blob)| redundancy_of(blob.copies.iter().map(|place| place.device), wanted, &host_of);
        let all = Redundancy { hosts: wanted, devices: wanted };
        self.counted().map(of).fold(all, lesser)
    }

    /// The least number of hosts beside this one that a blob has copies on; none if there are no blobs.
    pub(crate) fn least_hosts_beside(&self, host: NodeId, host_of: impl Fn(DeviceId) -> Option<NodeId>) -> Option<usize> {
        let beside = |(_, blob): (u32, &Blob)| hosts_beside(blob.copies.iter().map(|place| place.device), &[host], &host_of);
        self.counted().map(beside).min()
    }

    /// The newest layer that a blob has.
    pub(crate) fn newest_layer(&self) -> Option<Layer> {
        self.parts.values().filter_map(|blobs| blobs.first()).map(|blob| blob.layer).max()
    }

    /// The parts that have blobs, ascending.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let mut indices: Vec<u32> = self.parts.keys().copied().collect();
        indices.sort_unstable();
        indices
    }

    /// The blobs of a part, the newest first.
    pub(crate) fn held(&self, index: u32) -> SmallVec<[Held; 4]> {
        let blobs = self.parts.get(&index).map(|blobs| blobs.as_slice()).unwrap_or_default();
        blobs.iter().map(|blob| Held { layer: blob.layer, owned: blob.owned, data: blob.data }).collect()
    }

    /// Blocks, and pieces with content, of all layers.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let blobs = self.parts.values().flatten();
        blobs.fold((0, 0), |(blocks, pieces), blob| (blocks + blob.copies.len() as u64, pieces + u64::from(blob.data.count())))
    }

    fn visible<'a>(&'a self, index: u32, lineage: &'a Lineage) -> impl Iterator<Item = &'a Blob> {
        let blobs = self.parts.get(&index).map(|blobs| blobs.as_slice()).unwrap_or_default();
        blobs.iter().filter(|blob| lineage.contains(blob.layer))
    }

    /// Where the bytes of a range of a part come from, in a view: consecutive ranges.
    pub(crate) fn sources(&self, index: u32, range: &Range<u32>, lineage: &Lineage, has_below: bool) -> Sources {
        let mut left = Pieces::touched(range.clone());
        let mut zeros = Pieces::NONE;
        let mut sources = Sources::new();
        let mut add = |pieces: Pieces, source: Source| {
            let runs = pieces.runs().map(|run| (run.start.max(range.start)..run.end.min(range.end), source.clone()));
            sources.extend(runs);
        };
        for blob in self.visible(index, lineage) {
            if left.is_empty() {
                break;
            }
            add(left & blob.data, Source::Blob(blob.layer, blob.copies.clone()));
            zeros = zeros | (left & blob.owned & !blob.data);
            left = left & !blob.owned;
        }
        if has_below {
            add(left, Source::Below);
        } else {
            zeros = zeros | left;
        }
        add(zeros, Source::Zeros);
        sources.sort_unstable_by_key(|(run, _)| run.start);
        sources
    }

    /// Which pieces of a part anything in the view or below owns, and which of these have content.
    pub(crate) fn seen(&self, index: u32, lineage: &Lineage, below: Option<&dyn Below>) -> (Pieces, Pieces) {
        merge(self.visible(index, lineage), index, below)
    }

    /// As [`Map::seen`], without the blob of `layer`.
    pub(crate) fn seen_under(
        &self,
        index: u32,
        layer: Layer,
        lineage: &Lineage,
        below: Option<&dyn Below>,
    ) -> (Pieces, Pieces) {
        merge(self.visible(index, lineage).filter(|blob| blob.layer != layer), index, below)
    }
}

fn merge<'a>(blobs: impl Iterator<Item = &'a Blob>, index: u32, below: Option<&dyn Below>) -> (Pieces, Pieces) {
    let (mut owned, mut data) = (Pieces::NONE, Pieces::NONE);
    for blob in blobs {
        data = data | (blob.data & !owned);
        owned = owned | blob.owned;
    }
    if let Some(below) = below {
        let (below_owned, below_data) = below.pieces(index);
        data = data | (below_data & !owned);
        owned = owned | below_owned;
    }
    (owned, data)
}

/// What holds of both.
pub(crate) fn lesser(one: Redundancy, other: Redundancy) -> Redundancy {
    Redundancy { hosts: one.hosts.min(other.hosts), devices: one.devices.min(other.devices) }
}

/// On how many hosts and devices a blob is, no more than wanted.
pub(crate) fn redundancy_of(
    devices: impl Iterator<Item = DeviceId>,
    wanted: u8,
    host_of: impl Fn(DeviceId) -> Option<NodeId>,
) -> Redundancy {
    let (mut hosts, mut count): (SmallVec<[NodeId; 4]>, usize) = (SmallVec::new(), 0);
    for host in devices.filter_map(host_of) {
        count += 1;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    let limited = |found: usize| found.clamp(1, usize::from(wanted)) as u8;
    Redundancy { hosts: limited(hosts.len()), devices: limited(count) }
}

/// On how many hosts devices are, those on some hosts not counted.
pub(crate) fn hosts_beside(
    devices: impl Iterator<Item = DeviceId>,
    without: &[NodeId],
    host_of: impl Fn(DeviceId) -> Option<NodeId>,
) -> usize {
    let hosts: BTreeSet<NodeId> = devices.filter_map(host_of).filter(|host| !without.contains(host)).collect();
    hosts.len()
}

/// The blocks of 4 KiB that a range touches.
pub(crate) fn blocks_around(range: &Range<u32>) -> Range<u32> {
    range.start / BLOCK_BYTES * BLOCK_BYTES..range.end.next_multiple_of(BLOCK_BYTES)
}

/// The range that a write replaces: blocks where a piece has content, whole pieces where it has none.
pub(crate) fn written_range(range: &Range<u32>, data: Pieces) -> Range<u32> {
    let blocks = blocks_around(range);
    let (first, last) = (range.start / PIECE_BYTES, (range.end - 1) / PIECE_BYTES);
    let start = if data.contains(first) { blocks.start } else { first * PIECE_BYTES };
    let end = if data.contains(last) { blocks.end } else { (last + 1) * PIECE_BYTES };
    assert!(end <= BLOB_BYTES, "a write lies in one blob");
    start..end
}
