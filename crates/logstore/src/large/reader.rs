//! Reading ranges of a large object.

use super::tree::{decode, decode_top};
use crate::pins::Pin;
use crate::store::Inner;
use crate::targets::RecordFrame;
use bytes::Bytes;
use engine::{ContentReader, EngineError, EngineFuture, ObjectKey};
use format::chunk_ref::ChunkRef;
use format::part_table::PartTable;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use types::{KeyHash, Order, Place};

/// One version of a large object. The pin keeps its chunks where they are, or at least readable there, for as long as this gateway is a member of its cell: after
/// each read it is asked whether it still was ([`Inner::pins_counted`]).
pub(crate) struct LargeReader {
    inner: Arc<Inner>,
    key: ObjectKey,
    owner: KeyHash,
    order: Order,
    length: u64,
    height: u8,
    /// The descriptor's own list.
    top: Vec<ChunkRef>,
    /// The leaf list that holds the place last read, so that sequential reads decode each list once.
    leaf: Mutex<Option<Arc<Leaf>>>,
    /// Bytes of content below the nodes that were read, so that none is read again only to be passed.
    covers: Mutex<HashMap<Place, u64>>,
    parts: Option<PartTable>,
    _pin: Pin,
}

/// The chunks under one lowest list, and where its content starts in the object.
struct Leaf {
    start: u64,
    /// Chunk and the offset of its end within the object.
    chunks: Vec<(ChunkRef, u64)>,
}

impl Leaf {
    fn new(start: u64, list: &[ChunkRef]) -> Self {
        let mut end = start;
        let chunks = list
            .iter()
            .map(|chunk| {
                end += chunk.payload_bytes as u64;
                (*chunk, end)
            })
            .collect();
        Leaf { start, chunks }
    }

    fn end(&self) -> u64 {
        self.chunks.last().map_or(self.start, |(_, end)| *end)
    }

    fn holds(&self, offset: u64) -> bool {
        (self.start..self.end()).contains(&offset)
    }
}

impl LargeReader {
    pub fn new(inner: &Arc<Inner>, key: ObjectKey, order: Order, frame: &RecordFrame, pin: Pin) -> Result<Self, EngineError> {
        let (top, parts) = decode_top(&frame.payload)?;
        Ok(LargeReader {
            inner: inner.clone(),
            key,
            owner: frame.record.hash,
            order,
            length: frame.record.length,
            height: frame.record.tree_height,
            top,
            leaf: Mutex::new(None),
            covers: Mutex::default(),
            parts,
            _pin: pin,
        })
    }

    /// The lowest list that holds the byte at `offset`.
    async fn leaf_at(&self, offset: u64) -> Result<Arc<Leaf>, EngineError> {
        let cached = self.leaf.lock().clone();
        if let Some(leaf) = cached.filter(|leaf| leaf.holds(offset)) {
            return Ok(leaf);
        }
        let mut start = 0;
        let mut list = self.top.clone();
        for _ in 1..self.height {
            list = self.descend(list, &mut start, offset).await?;
        }
        let leaf = Arc::new(Leaf::new(start, &list));
        *self.leaf.lock() = Some(leaf.clone());
        Ok(leaf)
    }

    /// The list of the node that holds `offset`; `start` moves to where its content begins.
    async fn descend(&self, nodes: Vec<ChunkRef>, start: &mut u64, offset: u64) -> Result<Vec<ChunkRef>, EngineError> {
        for node in &nodes {
            let known = self.covers.lock().get(&node.places.primary()).copied();
            if let Some(covers) = known.filter(|covers| *start + covers <= offset) {
                *start += covers;
                continue;
            }
            let read = self.inner.read_node(&self.owner, node).await;
            self.inner.pins_counted().await?;
            let frame = read?;
            self.covers.lock().insert(node.places.primary(), frame.record.length);
            if offset < *start + frame.record.length {
                return decode(&frame.payload);
            }
            *start += frame.record.length;
        }
        Err(EngineError::Corrupt { detail: format!("the descriptor of {:?} covers less than its length", self.key.as_str()) })
    }

    async fn read_at(&self, range: Range<u64>) -> Result<Bytes, EngineError> {
        if range.start >= range.end || range.end > self.length {
            return Err(EngineError::Invalid { reason: format!("range {range:?} of an object of {} bytes", self.length) });
        }
        let leaf = self.leaf_at(range.start).await?;
        let at = leaf.chunks.partition_point(|(_, end)| *end <= range.start);
        let (chunk, end) = leaf.chunks.get(at).copied().ok_or_else(|| EngineError::Corrupt {
            detail: format!("no chunk of {:?} (order {:?}) holds byte {}", self.key.as_str(), self.order, range.start),
        })?;
        let chunk_start = end - chunk.payload_bytes as u64;
        let within = (range.start - chunk_start) as usize..(range.end.min(end) - chunk_start) as usize;
        let read = self.inner.read_chunk(&self.owner, &chunk, within).await;
        // Also if it failed: what is found where nothing was kept says nothing of the object.
        self.inner.pins_counted().await?;
        read
    }
}

impl ContentReader for LargeReader {
    fn read(&self, range: Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(self.read_at(range))
    }

    fn parts(&self) -> Option<&PartTable> {
        self.parts.as_ref()
    }
}
