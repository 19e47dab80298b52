//! The blobs of an image, as its devices told them when the holder entered.
//!
//! The map claims nothing that was not answered: a piece is owned here only after all copies in sync said so. After a request with an unknown
//! effect, the holder enters the device again and takes over what stands there ([`Map::reconcile`]), before it serves any request.

use std::collections::HashMap;
use std::ops::Range;

use format::blob_header::BlobState;
use smallvec::SmallVec;
use types::{BLOB_BYTES, DeviceId, Layer, PIECE_BYTES, Pieces};

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
    pub(crate) copies: Copies,
    /// It was asked to be freed: that a device does not have it any more is no damage.
    pub(crate) freeing: bool,
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
            map.reconcile(device, rows);
        }
        map
    }

    /// Takes over what a device has. A piece of a blob with other copies counts only if all of them have it.
    ///
    /// A copy that is gone stays in the map unless it was being freed: reading it fails, while forgetting it would show zeros.
    pub(crate) fn reconcile(&mut self, device: DeviceId, rows: &[BlobRow]) {
        let mut found: HashMap<(u32, Layer), u32> = HashMap::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.state == BlobState::Whole) {
            found.insert((row.at.id.index, row.at.id.layer), row.at.block);
            self.take(device, row);
        }
        for (index, blobs) in &mut self.parts {
            for blob in blobs.iter_mut().filter(|blob| blob.freeing) {
                blob.copies.retain(|place| place.device != device || found.contains_key(&(*index, blob.layer)));
            }
            blobs.retain(|blob| !blob.copies.is_empty());
        }
        self.parts.retain(|_, blobs| !blobs.is_empty());
    }

    fn take(&mut self, device: DeviceId, row: &BlobRow) {
        let place = Place { device, block: row.at.block };
        let Some(blob) = self.blob_mut(row.at.id.index, row.at.id.layer) else {
            let copies = SmallVec::from_slice(&[place]);
            let blob = Blob { layer: row.at.id.layer, owned: row.owned, data: row.data, copies, freeing: false };
            self.insert(row.at.id.index, blob);
            return;
        };
        match blob.copies.iter_mut().find(|copy| copy.device == device) {
            Some(copy) => *copy = place,
            None => blob.copies.push(place),
        }
        let is_only_copy = blob.copies.len() == 1;
        blob.owned = if is_only_copy { row.owned } else { blob.owned & row.owned };
        blob.data = if is_only_copy { row.data } else { blob.data & row.data };
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

    pub(crate) fn blob(&self, index: u32, layer: Layer) -> Option<&Blob> {
        self.parts.get(&index)?.iter().find(|blob| blob.layer == layer)
    }

    pub(crate) fn blob_mut(&mut self, index: u32, layer: Layer) -> Option<&mut Blob> {
        self.parts.get_mut(&index)?.iter_mut().find(|blob| blob.layer == layer)
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
