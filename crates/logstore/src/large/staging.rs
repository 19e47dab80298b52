//! Appending the chunks of a large object or part.

use crate::append::{LooseAppend, LooseRecord, Unnamed};
use crate::large::tree;
use crate::pins::Pin;
use crate::room::Patience;
use crate::store::Inner;
use crate::targets::LiveCount;
use bytes::Bytes;
use device::AppendClass;
use engine::{EngineError, Payload, Staged};
use format::chunk_ref::ChunkRef;
use format::part_table::PartTable;
use format::record::{ChunkOwner, EntryName, RecordKind, Space, WriteId};
use smallvec::smallvec;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use types::limits::CHUNK_BYTES;
use types::{BucketId, Epoch, KeyHash, UploadId};

/// Chunks of one object on their way at a time. Four of 1 MiB keep a device busy; more only cost memory.
const MAX_CHUNKS_IN_FLIGHT: usize = 4;

/// The upload and part number for which chunks are staged.
pub(crate) type PartOf = Option<(UploadId, u16)>;

/// Chunks staged so far, in order. While it lives, garbage collection leaves the zones alone that may hold them.
pub(crate) struct LogStaged {
    inner: Arc<Inner>,
    owner: KeyHash,
    part: PartOf,
    put: WriteId,
    next_index: u32,
    in_flight: VecDeque<Chunk>,
    refs: Vec<ChunkRef>,
    /// Of the object, if it is made by parts.
    parts: Option<PartTable>,
    /// What was appended here, nodes too: garbage, if it is given up.
    unnamed: Unnamed,
    length: u64,
    pin: Option<Pin>,
    staging: Staging,
    class: AppendClass,
    /// Where a device is full it waits for collection. Who has a pin must not: collection waits for that.
    waits_for_room: bool,
}

/// A chunk or a node on its way.
struct Chunk {
    kind: RecordKind,
    index: u32,
    /// Of the content that it holds, or that the node is above.
    length: u64,
    append: LooseAppend,
}

/// The payload of the record that makes staged chunks an object or part.
pub(crate) struct StagedContent {
    pub payload: Payload,
    pub tree_height: u8,
    pub length: u64,
    pub kept: Arc<Kept>,
}

/// Keeps chunks until the record over them is published or given up: the write of that record holds it, whoever else goes away. If no record can
/// name them then, those that were appended for it count as live no longer.
pub(crate) struct Kept {
    /// Of the chunks.
    owner: KeyHash,
    pin: Option<Pin>,
    staging: Staging,
    unnamed: Unnamed,
    /// Records over them that stand, or may: those that were sent to the targets, and not refused there.
    records: AtomicU32,
}

impl Kept {
    /// A record over them is sent.
    pub fn record_sent(&self) {
        self.records.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a record of this epoch over them stands is not known: until a checkpoint has covered it, a recovery may find it, and they are to be there then.
    pub fn record_is_unknown(&self, epoch: Epoch) {
        if let Some(pin) = &self.pin {
            let mut unknown = self.staging.inner.unknown_pins.lock();
            let (until, held) = unknown.entry(self.owner).or_insert_with(|| (epoch, pin.again_of(self.owner)));
            *until = epoch.max(*until);
            // Outcomes come in another order than pins.
            held.hold_as_long_as(pin, self.owner);
        }
    }

    /// No target has taken it.
    pub fn record_refused(&self) {
        let before = self.records.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a record is sent before it is refused");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if *self.records.get_mut() > 0 {
            self.unnamed.keep();
        }
    }
}

/// Says that chunks of a write are named by no record yet: collection leaves their zones alone. No pin is needed beside it, and none
/// may be held: collection waits for pins, and a put on a full device waits for collection.
struct Staging {
    inner: Arc<Inner>,
    put: WriteId,
}

impl Staging {
    /// Names the write. Under the lock, so that no chunk is written under a number that was passed over when the first one was looked up.
    fn new(inner: &Arc<Inner>) -> Self {
        let mut staging = inner.staging.lock();
        let put = inner.next_write_id();
        staging.insert(put);
        drop(staging);
        Staging { inner: inner.clone(), put }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.inner.staging.lock().remove(&self.put);
    }
}

impl Staged for LogStaged {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl LogStaged {
    /// Chunks belong to the incarnation of a gateway that has staged them: when that has left its cell, collection takes them for garbage.
    pub fn check_engine(&self, inner: &Arc<Inner>) -> Result<(), EngineError> {
        let has_left = self.inner.member.as_ref().is_some_and(|member| member.is_deposed());
        match has_left && !Arc::ptr_eq(&self.inner, inner) {
            false => Ok(()),
            true => Err(EngineError::Unavailable {
                reason: "its chunks were staged by a gateway that has left the cell; put it again".to_owned(),
            }),
        }
    }

    pub fn new(inner: &Arc<Inner>, owner: KeyHash, part: PartOf) -> Self {
        let staging = Staging::new(inner);
        LogStaged {
            inner: inner.clone(),
            owner,
            part,
            put: staging.put,
            staging,
            next_index: 0,
            in_flight: VecDeque::new(),
            refs: Vec::new(),
            parts: None,
            unnamed: Unnamed::new(inner, LiveCount::Chunks),
            length: 0,
            pin: None,
            class: AppendClass::Data,
            waits_for_room: true,
        }
    }

    /// The same for who has a pin.
    pub fn beside_pin(inner: &Arc<Inner>, owner: KeyHash, part: PartOf) -> Self {
        LogStaged { waits_for_room: false, ..LogStaged::new(inner, owner, part) }
    }

    /// Chunks that are durable already: the parts of an upload, some of them `unnamed`. `pin` was taken before they were looked up.
    pub fn from_refs(inner: &Arc<Inner>, owner: KeyHash, refs: Vec<ChunkRef>, unnamed: Unnamed, pin: Pin) -> Self {
        let length = refs.iter().map(|chunk| chunk.payload_bytes as u64).sum();
        LogStaged { refs, unnamed, length, pin: Some(pin), ..LogStaged::beside_pin(inner, owner, None) }
    }

    /// Chunks that collection moved: the nodes above them use the room that is kept for copies, and wait for none.
    pub fn from_moved(inner: &Arc<Inner>, owner: KeyHash, refs: Vec<ChunkRef>, pin: Pin) -> Self {
        let unnamed = Unnamed::new(inner, LiveCount::Chunks);
        LogStaged { class: AppendClass::Relocation, ..LogStaged::from_refs(inner, owner, refs, unnamed, pin) }
    }

    /// With the parts of the object that the chunks make.
    pub fn with_parts(self, parts: Option<PartTable>) -> Self {
        LogStaged { parts, ..self }
    }

    /// Longest list of a descriptor or node.
    pub fn refs_per_list(&self) -> usize {
        self.inner.config.refs_per_list
    }

    /// Waits for all chunks; no record is built over them here.
    pub async fn into_refs(mut self) -> Result<(Vec<ChunkRef>, Unnamed), EngineError> {
        while !self.in_flight.is_empty() {
            self.settle_one().await?;
        }
        self.check_not_gone(&self.refs)?;
        Ok((self.refs, self.unnamed))
    }

    /// Appends the next chunk; waits for an earlier one when enough are on their way.
    pub async fn push(&mut self, chunk: Payload) -> Result<(), EngineError> {
        let length: usize = chunk.iter().map(Bytes::len).sum();
        if length == 0 || length > CHUNK_BYTES {
            return Err(EngineError::Invalid { reason: format!("a chunk has 1 to {CHUNK_BYTES} bytes, not {length}") });
        }
        while self.in_flight.len() >= MAX_CHUNKS_IN_FLIGHT {
            self.settle_one().await?;
        }
        self.length += length as u64;
        self.append(RecordKind::Chunk, chunk, length as u64);
        Ok(())
    }

    /// Waits for all chunks and writes what the tree needs above them.
    pub async fn into_content(mut self) -> Result<StagedContent, EngineError> {
        while !self.in_flight.is_empty() {
            self.settle_one().await?;
        }
        let refs = std::mem::take(&mut self.refs);
        self.check_not_gone(&refs)?;
        let (length, parts) = (self.length, self.parts.take());
        let tree::Built { payload, height: tree_height } = tree::build(&mut self, refs, parts).await?;
        let LogStaged { owner, pin, staging, unnamed, .. } = self;
        let kept = Arc::new(Kept { owner, pin, staging, unnamed, records: AtomicU32::new(0) });
        Ok(StagedContent { payload, tree_height, length, kept })
    }

    /// Refuses what is to be acknowledged and is lost already: while chunks are named by no record, nobody asks for them before a device is given up for good. What
    /// collection moves was acknowledged before.
    fn check_not_gone(&self, refs: &[ChunkRef]) -> Result<(), EngineError> {
        let is_gone = |chunk: &ChunkRef| self.inner.targets.are_gone(&chunk.places);
        match self.class != AppendClass::Relocation && refs.iter().any(is_gone) {
            false => Ok(()),
            true => Err(EngineError::Unavailable {
                reason: "a part of it was written to devices that have been given up meanwhile; put it again".to_owned(),
            }),
        }
    }

    /// Appends an inner node of the tree and waits for it. `covers` is the length of the content below it.
    pub async fn push_node(&mut self, payload: Bytes, covers: u64) -> Result<ChunkRef, EngineError> {
        assert!(self.in_flight.is_empty(), "nodes follow their chunks");
        self.append(RecordKind::DescriptorNode, smallvec![payload], covers);
        self.settle_one().await?;
        Ok(self.refs.pop().expect("the node just settled"))
    }

    fn append(&mut self, kind: RecordKind, payload: Payload, length: u64) {
        let index = self.next_index;
        self.next_index += 1;
        let append = self.start(kind, index, payload, length);
        self.in_flight.push_back(Chunk { kind, index, length, append });
    }

    fn start(&self, kind: RecordKind, index: u32, payload: Payload, length: u64) -> LooseAppend {
        // Chunks of one object spread over all devices: each is placed by a hash of its own.
        let record = LooseRecord {
            kind,
            write: self.put,
            hash: chunk_hash(self.put, index),
            length,
            chunk: Some(ChunkOwner {
                owner: self.owner,
                upload: self.part.map(|(upload, _)| upload),
                part: self.part.map_or(0, |(_, number)| number),
                index,
                put: self.put,
            }),
        };
        LooseAppend::start(&self.inner, record, self.class, payload)
    }

    async fn settle_one(&mut self) -> Result<(), EngineError> {
        let mut patience = Patience::default();
        while let Some(oldest) = self.in_flight.front() {
            match oldest.append.finished().await {
                Ok(landed) => {
                    let payload_bytes = oldest.append.payload_bytes();
                    self.in_flight.pop_front();
                    self.unnamed.add(&landed);
                    self.refs.push(ChunkRef { places: landed.places, payload_bytes });
                    return Ok(());
                }
                Err(EngineError::Full) if self.waits_for_room && patience.wait(&self.inner).await => {
                    let again = self.start(oldest.kind, oldest.index, oldest.append.payload(), oldest.length);
                    self.in_flight.front_mut().expect("looked at above").append = again;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A chunk's own hash: no name leads to it, so it is made of the write and the chunk's number.
fn chunk_hash(put: WriteId, index: u32) -> KeyHash {
    let mut name = [0u8; 14];
    name[..2].copy_from_slice(&put.gateway.0.to_le_bytes());
    name[2..10].copy_from_slice(&put.sequence.0.to_le_bytes());
    name[10..].copy_from_slice(&index.to_le_bytes());
    EntryName { bucket: BucketId(0), space: Space::Part, name: Bytes::copy_from_slice(&name) }.hash()
}
