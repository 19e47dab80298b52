//! Reading: find the newest record, read one copy of it, prove that it is the one (paper section 3.2; RFD 2, decisions 1, 12).
//!
//! A lookup and the read after it are not atomic: the record may be relocated and its zone reset in between. What is read there
//! is then another record, or nothing, and never passes for the one that was looked up, because the record carries its name;
//! the reader looks up again. A copy that is corrupt or on a failed device is replaced by the next copy, and made again ([`crate::heal`]).

mod piece;

use crate::index::Located;
use crate::large::LargeReader;
use crate::pins::Pin;
use crate::store::Inner;
use crate::targets::{ReadFailure, RecordFrame};
use bytes::Bytes;
use engine::{Content, EngineError, Found, ObjectInfo, ObjectKey};
use format::attributes::Attributes;
use format::chunk_ref::ChunkRef;
use format::entry::EntryState;
use format::record::{EntryName, Record};
use format::replicas::Places;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use types::limits::MAX_REPLICAS;
use types::{KeyHash, Order, Place};

/// How often a read looks up again because the record moved under it. Each time needs a relocation and a zone reset between
/// two steps of one read.
const MAX_LOOKUPS: usize = 8;

impl Inner {
    /// Finds and reads on the caller's thread, if the page cache holds the record. Anything unusual is left to
    /// [`Inner::read_newest`], which can wait, try other copies and look up again.
    pub(crate) fn read_cached(&self, name: &EntryName, hash: &KeyHash) -> Option<Result<(Located, RecordFrame), EngineError>> {
        let located = match self.look_up(hash) {
            Ok(newest) => newest?.filter(Located::is_live),
            Err(error) => return Some(Err(error)),
        };
        let Some(located) = located else { return Some(Err(EngineError::NotFound)) };
        let frame = self.targets.try_read(&self.targets.nearest(&located.places)[0], located.frame_bytes)?;
        is_it(&frame.record, name).then_some(Ok((located, frame)))
    }

    /// Finds and reads the newest record of a name.
    pub(crate) async fn read_newest(
        self: &Arc<Self>,
        name: &EntryName,
        hash: &KeyHash,
    ) -> Result<(Located, RecordFrame), EngineError> {
        for _ in 0..MAX_LOOKUPS {
            let located = self.locate(hash).await?;
            match self.read_copies(&located).await {
                Ok(Some(frame)) if is_it(&frame.record, name) => return Ok((located, frame)),
                Ok(_) => {
                    self.stats.stale_reads.add(1);
                    self.disprove(name, hash, &located).await?;
                }
                Err(error) => {
                    // A failure counts only if the record is this key's, still the newest and still there.
                    if !self.disprove(name, hash, &located).await? && self.locate(hash).await? == located {
                        return Err(error);
                    }
                }
            }
        }
        Err(EngineError::Busy { reason: "the object kept moving while it was read".to_owned() })
    }

    /// [`Inner::read_newest`], with a pin on the chunks if there are any.
    pub(crate) async fn read_pinned(
        self: &Arc<Self>,
        name: &EntryName,
        hash: &KeyHash,
    ) -> Result<(Located, RecordFrame, Option<Pin>), EngineError> {
        for _ in 0..MAX_LOOKUPS {
            let (located, frame) = self.read_newest(name, hash).await?;
            if let Some(pin) = self.pin_content(hash, &located, &frame) {
                return Ok((located, frame, pin?));
            }
        }
        Err(EngineError::Busy { reason: "the object kept moving while it was read".to_owned() })
    }

    /// Pins the chunks that a descriptor names. Collection moves chunks, publishes the new list, and then waits for the pins that
    /// are older: so a list is good from here on if it is still the published one after the pin was taken. `None`: it is not.
    pub(crate) fn pin_content(
        &self,
        hash: &KeyHash,
        located: &Located,
        frame: &RecordFrame,
    ) -> Option<Result<Option<Pin>, EngineError>> {
        if frame.record.tree_height == 0 {
            return Some(Ok(None));
        }
        // What its reader reads was written for this object: `check_chunk` looks.
        let pin = self.pins.pin_of(frame.record.hash);
        if let Err(error) = self.check_decidable(hash) {
            return Some(Err(error));
        }
        // What another gateway told may be newer than what is known here; then nothing of it has been moved.
        let is_good = match self.shard(hash).lock().index().newest(hash) {
            Some(now) => now == *located || now.order < located.order,
            None => !self.is_alone(),
        };
        is_good.then_some(Ok(Some(pin)))
    }

    /// Reads the first good copy. `Ok(None)`: its zone was reset, look up again.
    pub(crate) async fn read_copies(&self, located: &Located) -> Result<Option<RecordFrame>, EngineError> {
        let frame_bytes = located.frame_bytes;
        let read = |place: Place| async move { self.targets.read(&place, frame_bytes).await };
        self.first_good(&located.places, read, |frame| &frame.record).await
    }

    /// What `read` gives of the first copy of which it gives something. `Ok(None)`: nothing, and a zone was reset. Copies that are damaged
    /// are made again, if another one is good.
    async fn first_good<T, R>(
        &self,
        places: &Places,
        read: impl Fn(Place) -> R,
        record: impl Fn(&T) -> &Record,
    ) -> Result<Option<T>, EngineError>
    where
        R: Future<Output = Result<T, ReadFailure>>,
    {
        let (mut failure, mut moved) = (None, false);
        let mut damaged: SmallVec<[Place; MAX_REPLICAS]> = SmallVec::new();
        for place in &self.targets.nearest(places) {
            match read(*place).await {
                Ok(found) => {
                    if failure.is_some() {
                        self.stats.repaired_reads.add(1);
                    }
                    if !damaged.is_empty() {
                        self.note_damaged(record(&found), &damaged);
                    }
                    return Ok(Some(found));
                }
                // The other copies may still stand where they were.
                Err(ReadFailure::Moved) => {
                    moved = true;
                    // Unless it has not moved, and its zone was cut short by a start that could not read its end.
                    damaged.push(*place);
                }
                Err(other) => {
                    self.stats.failed_copies.add(1);
                    damaged.extend(other.is_damage().then_some(*place));
                    tracing::warn!(device = place.device.0, zone = place.zone.0, offset = place.offset.bytes(), error = %other, "a copy can't be read");
                    failure = Some(other);
                }
            }
        }
        if moved {
            return Ok(None);
        }
        Err(match failure.expect("a record has at least one copy") {
            ReadFailure::Corrupt(detail) => EngineError::Corrupt { detail },
            ReadFailure::Unreadable(reason) | ReadFailure::Unavailable(reason) => EngineError::Unavailable { reason },
            ReadFailure::Moved => unreachable!("noted above"),
        })
    }

    /// Reads a record that no name leads to: a run's block or index, a chunk, a node.
    pub(crate) async fn read_loose(&self, places: &Places, frame_bytes: u32) -> Result<RecordFrame, EngineError> {
        let located = Located { order: Order::default(), places: *places, frame_bytes, state: EntryState::Live, large: false };
        match self.read_copies(&located).await? {
            Some(frame) => Ok(frame),
            None => Err(nothing_stands_at(places)),
        }
    }

    /// Reads a chunk or a node.
    pub(crate) async fn read_chunk_frame(&self, chunk: &ChunkRef) -> Result<RecordFrame, EngineError> {
        let frame_bytes = chunk_frame_bytes(chunk.payload_bytes);
        if let Some(frame) = self.targets.try_read(&self.targets.nearest(&chunk.places)[0], frame_bytes) {
            return Ok(frame);
        }
        self.read_loose(&chunk.places, frame_bytes).await
    }

    /// Reads a node that was written for the object `owner`.
    pub(crate) async fn read_node(&self, owner: &KeyHash, node: &ChunkRef) -> Result<RecordFrame, EngineError> {
        let frame = self.read_chunk_frame(node).await?;
        check_chunk(owner, node, &frame.record, frame.payload.len())?;
        Ok(frame)
    }

    /// Reads a range of the bytes of a chunk that was written for the object `owner`.
    pub(crate) async fn read_chunk(
        &self,
        owner: &KeyHash,
        chunk: &ChunkRef,
        within: Range<usize>,
    ) -> Result<Bytes, EngineError> {
        if within.len() < chunk.payload_bytes as usize {
            return self.read_chunk_piece(owner, chunk, within).await;
        }
        let frame = self.read_chunk_frame(chunk).await?;
        check_chunk(owner, chunk, &frame.record, frame.payload.len())?;
        Ok(frame.payload.slice(within))
    }

    /// Makes an answer of a record.
    pub(crate) fn found(
        self: &Arc<Self>,
        key: &ObjectKey,
        order: Order,
        frame: RecordFrame,
        pin: Option<Pin>,
    ) -> Result<Found, EngineError> {
        let info = info_of(&frame.record, order)?;
        let content = match pin {
            None => Content::Whole(frame.payload),
            Some(pin) => Content::Chunked(Box::new(LargeReader::new(self, key.clone(), info.order, &frame, pin)?)),
        };
        Ok(Found { info, content })
    }
}

/// What stands there is a chunk of this object, as long as its list says. Pins see to that; but should one ever fail to, a reader gets
/// an error, not another object's bytes.
fn check_chunk(owner: &KeyHash, chunk: &ChunkRef, found: &Record, payload_bytes: usize) -> Result<(), EngineError> {
    if payload_bytes != chunk.payload_bytes as usize {
        let detail = format!("chunk of {payload_bytes} bytes, expected {}", chunk.payload_bytes);
        return Err(EngineError::Corrupt { detail });
    }
    match found.chunk.is_some_and(|found| found.owner == *owner) {
        true => Ok(()),
        false => {
            Err(EngineError::Corrupt { detail: format!("a chunk of another object stands at {:?}", chunk.places.primary()) })
        }
    }
}

fn nothing_stands_at(places: &Places) -> EngineError {
    EngineError::Corrupt { detail: format!("nothing stands at {:?} any more", places.primary()) }
}

/// Whether a record is the one that the name means. Its order need not be compared: a name's older record is never looked up.
fn is_it(record: &Record, name: &EntryName) -> bool {
    record.name == *name
}

/// What a record's header says of its object.
pub(crate) fn info_of(record: &Record, order: Order) -> Result<ObjectInfo, EngineError> {
    let attributes = Attributes::decode(record.attributes.clone())
        .map_err(|error| EngineError::Corrupt { detail: format!("attributes of {:?}: {error}", record.name.name) })?;
    Ok(ObjectInfo { length: record.length, attributes, order })
}

/// Bytes of a chunk record's header: it has no name, no attributes and no order.
pub(crate) const CHUNK_HEADER_BYTES: usize = 84 + 52;

/// Bytes of a chunk's frame: what one read gets. A wrong guess would cost a second read, no more.
pub(crate) fn chunk_frame_bytes(payload_bytes: u32) -> u32 {
    format::frame::frame_bytes(CHUNK_HEADER_BYTES, payload_bytes as usize) as u32
}
