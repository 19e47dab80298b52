//! The blocks of a device, in memory: a row of some 100 bytes for each that was ever used and has space.
//!
//! ```text
//!   without space ── reserve ─► ready ── take ─► taken ── header durable ─► a blob's ── leave, header durable ─► ready
//!        ▲                        │               ├── content failed ─► ready
//!        │                        │               └── header failed ─► in doubt until the next start
//!        └────── give back ───────┘
//! ```
//!
//! Invariants:
//! - A row says what is durable, nothing more; that of a blob in doubt says what may be.
//! - A blob has one block, a block one blob.
//! - A block without a row has zeros where its header stands.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use format::blob_header::{BlobHeader, BlobState};
use types::{BlobId, DeviceUuid, ImageEpoch, ImageId, Layer, LayerOf, Pieces, Token};

use super::headers::Lane;
use crate::stores::{BlobAt, BlobRow};

/// What the header of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub serial: u64,
    pub state: BlobState,
    pub id: BlobId,
    pub token: Token,
    pub epoch: ImageEpoch,
    pub owned: Pieces,
    pub data: Pieces,
    pub parent: Option<LayerOf>,
}

impl Head {
    /// Of a block in which nothing is.
    pub fn free(serial: u64) -> Head {
        let id = BlobId { image: ImageId(0), index: 0, layer: Layer(0) };
        let (owned, data) = (Pieces::NONE, Pieces::NONE);
        Head { serial, state: BlobState::Free, id, token: Token(0), epoch: ImageEpoch(0), owned, data, parent: None }
    }

    pub fn of(header: &BlobHeader) -> Head {
        let BlobHeader { serial, state, id, token, epoch, owned, data, parent, .. } = *header;
        Head { serial, state, id, token, epoch, owned, data, parent }
    }

    pub fn header(&self, device_uuid: DeviceUuid, block: u32) -> BlobHeader {
        let Head { serial, state, id, token, epoch, owned, data, parent } = *self;
        BlobHeader { device_uuid, block, serial, state, id, token, epoch, owned, data, parent }
    }

    pub fn row(&self, block: u32) -> BlobRow {
        let Head { state, id, token, epoch, owned, data, parent, .. } = *self;
        BlobRow { at: BlobAt { block, id }, state, token, epoch, owned, data, parent }
    }
}

struct Row {
    head: Head,
    /// Requests under way.
    pins: u32,
    /// The block is being freed. New requests wait for the outcome.
    is_leaving: bool,
    /// While requests are under way that change the header.
    lane: Option<Arc<Lane>>,
}

/// 26 MB for 1 TiB of images.
const _: () = assert!(size_of::<Row>() <= 104);

/// What a request finds in a block.
pub enum Pinned {
    Head(Head),
    /// It is being freed: the request waits.
    Leaving,
    /// The block is damaged.
    Damaged,
    Absent,
}

pub struct Table {
    block_count: u32,
    rows: BTreeMap<u32, Row>,
    blobs: BTreeMap<BlobId, u32>,
    /// No header of them can be believed, or the write of the first one failed. They are left alone until the next start.
    damaged: BTreeSet<u32>,
    /// With space, and free.
    ready: BTreeSet<u32>,
    /// Blobs are being made in them.
    taken: BTreeSet<u32>,
    /// Free blocks whose units may perhaps be given back.
    vacant: BTreeSet<u32>,
    /// Below it there is no free block without space.
    search_from: u32,
}

impl Table {
    /// What stands on the device.
    pub fn new(block_count: u32, heads: Vec<(u32, Head)>, damaged: BTreeSet<u32>) -> Table {
        let blobs =
            heads.iter().filter(|(_, head)| head.state != BlobState::Free).map(|(block, head)| (head.id, *block)).collect();
        let row = |(block, head)| (block, Row { head, pins: 0, is_leaving: false, lane: None });
        let rows = heads.into_iter().map(row).collect();
        let (ready, taken, vacant) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Table { block_count, rows, blobs, damaged, ready, taken, vacant, search_from: 0 }
    }

    pub fn block_of(&self, id: BlobId) -> Option<u32> {
        self.blobs.get(&id).copied()
    }

    /// What a block's header says, or would say had it one.
    pub fn head(&self, block: u32) -> Head {
        self.rows.get(&block).map_or(Head::free(0), |row| row.head)
    }

    /// A header that is durable now.
    pub fn set_head(&mut self, block: u32, head: Head) {
        self.rows.get_mut(&block).expect("a pinned block has a row").head = head;
    }

    /// The rows of an image.
    pub fn rows_of(&self, image: ImageId) -> Vec<BlobRow> {
        self.rows_behind(image, None, usize::MAX)
    }

    /// At most so many rows of an image, those behind a blob if one is given, in the order of their ids.
    pub fn rows_behind(&self, image: ImageId, after: Option<BlobId>, most: usize) -> Vec<BlobRow> {
        let first = Included(BlobId { image, index: 0, layer: Layer(0) });
        let last = BlobId { image, index: u32::MAX, layer: Layer(u32::MAX) };
        let behind = match after.filter(|after| after.image == image) {
            Some(after) if after < last => Excluded(after),
            Some(_) => return Vec::new(),
            None => first,
        };
        let found = self.blobs.range((behind, Included(last))).take(most);
        found.map(|(_, block)| self.head(*block).row(*block)).collect()
    }

    /// All blobs with their headers, ascending.
    pub fn heads(&self) -> impl Iterator<Item = Head> {
        self.blobs.values().map(|block| self.head(*block))
    }

    /// Keeps a blob's block the blob's until [`Table::unpin`]. A request that frees it keeps all later ones waiting.
    pub fn pin(&mut self, at: BlobAt, leaves: bool) -> Pinned {
        if self.damaged.contains(&at.block) {
            return Pinned::Damaged;
        }
        let row = self.rows.get_mut(&at.block).filter(|row| row.head.state != BlobState::Free && row.head.id == at.id);
        let Some(row) = row else { return Pinned::Absent };
        if row.is_leaving {
            return Pinned::Leaving;
        }
        row.pins += 1;
        row.is_leaving = leaves;
        Pinned::Head(row.head)
    }

    /// Whether a request that waits may want to know.
    pub fn unpin(&mut self, block: u32) -> bool {
        let row = self.rows.get_mut(&block).expect("a pinned block has a row");
        row.pins -= 1;
        if row.pins == 0 {
            row.lane = None;
        }
        row.is_leaving
    }

    /// Whether the only request under way is the one that frees the block.
    pub fn is_alone(&self, block: u32) -> bool {
        self.rows[&block].pins == 1
    }

    /// The way to the header of a pinned block.
    pub fn lane(&mut self, block: u32) -> Arc<Lane> {
        self.rows.get_mut(&block).expect("a pinned block has a row").lane.get_or_insert_default().clone()
    }

    /// The lowest block that is free and has space.
    pub fn take_ready(&mut self) -> Option<u32> {
        let block = self.ready.pop_first()?;
        self.taken.insert(block);
        Some(block)
    }

    /// The lowest free block that has not all of its space.
    pub fn lowest_without_space(&mut self) -> Option<u32> {
        let found = (self.search_from..self.block_count).find(|block| self.is_free(*block) && !self.ready.contains(block));
        self.search_from = found.unwrap_or(self.block_count);
        found
    }

    pub fn is_free(&self, block: u32) -> bool {
        let is_used = self.rows.get(&block).is_some_and(|row| row.head.state != BlobState::Free);
        !is_used && !self.taken.contains(&block) && !self.damaged.contains(&block)
    }

    /// A free block has all of its space.
    pub fn make_ready(&mut self, block: u32) {
        assert!(self.is_free(block), "block {block} is not free");
        self.ready.insert(block);
    }

    /// A taken block has a blob, durably.
    pub fn put(&mut self, block: u32, head: Head) {
        assert!(self.taken.remove(&block), "block {block} was not taken");
        let former = self.rows.insert(block, Row { head, pins: 0, is_leaving: false, lane: None });
        assert!(former.is_none_or(|row| row.pins == 0), "block {block} is in use");
        let other = self.blobs.insert(head.id, block);
        assert!(other.is_none(), "blob {} has block {other:?} already", head.id);
    }

    /// The write of a blob's first header in a taken block failed: it is there after the next start, or not. The rows tell of the blob, so that it is not made
    /// elsewhere; nothing can be done with it.
    pub fn put_in_doubt(&mut self, block: u32, head: Head) {
        self.put(block, head);
        self.damaged.insert(block);
    }

    /// No blob was made in a taken block.
    pub fn put_back(&mut self, block: u32) {
        assert!(self.taken.remove(&block), "block {block} was not taken");
        self.make_ready(block);
        self.vacant.insert(block);
    }

    /// Ends what a request that frees began. It is no more under way in the block; with a header, the block is free, durably.
    pub fn left(&mut self, block: u32, head: Option<Head>) {
        let row = self.rows.get_mut(&block).expect("a pinned block has a row");
        row.pins -= 1;
        row.is_leaving = false;
        let Some(head) = head else { return };
        assert!(row.pins == 0, "block {block} is in use");
        row.lane = None;
        let id = std::mem::replace(&mut row.head, head).id;
        self.blobs.remove(&id);
        self.make_ready(block);
        self.vacant.insert(block);
    }

    /// The units of a free block may perhaps be given back.
    pub fn note_vacant(&mut self, block: u32) {
        self.vacant.insert(block);
    }

    pub fn take_vacant(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.vacant)
    }

    /// Whether a block has never had a header where it stands now.
    pub fn is_blank(&self, block: u32) -> bool {
        !self.rows.contains_key(&block)
    }

    /// A free block is in a unit that is given back: nothing is made in it.
    pub fn lose_space(&mut self, block: u32) {
        assert!(self.is_free(block), "block {block} is not free");
        self.ready.remove(&block);
        self.search_from = self.search_from.min(block);
    }

    /// The unit with a free block's header was given back: the block begins anew.
    pub fn forget(&mut self, block: u32) {
        assert!(self.is_free(block), "block {block} is not free");
        self.rows.remove(&block);
    }
}
