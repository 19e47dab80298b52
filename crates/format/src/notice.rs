//! What the gateways of a cell tell each other (zstore.md, required 7 to 9, decisions 10, 18 and 19).
//!
//! ```text
//! 0        24
//! ├─ head ─┼─ notice ─┼─ notice ─┼─ …        notice: kind (1 byte), then what the kind has
//! ```
//!
//! Batches between two gateways are numbered; a batch is resent after a reconnect until it is acknowledged, and a number seen
//! before is dropped. A batch of another view than the receiver's is void.
//!
//! | kind | notice | fields |
//! |---|---|---|
//! | 1 | announce | write, hash |
//! | 2 | publish | entry |
//! | 3 | publish with version | entry, entry of the version |
//! | 4 | void | write, hash |
//! | 5 | acknowledge | number of the batch |
//! | 6 | ask | question, hash |
//! | 7 | answer: nothing | question |
//! | 8 | answer | question, entry |
//! | 9 | freeze | freeze, hash |
//! | 10 | freeze granted: nothing | freeze, hash |
//! | 11 | freeze granted | freeze, hash, entry |
//! | 12 | freeze released | freeze, hash |
//! | 13 | epoch announced | epoch |
//! | 14 | epoch acknowledged | epoch |
//! | 15 | relocate | hash, order, place, place |
//!
//! A write or freeze is gateway (2 bytes) and sequence (8); a question, a batch number and an epoch have 8 bytes; hash, order,
//! place and entry stand as in an entry.

use types::{Epoch, GatewayId, KeyHash, Order, Place, Sequence, ViewNumber};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::{DecodeError, Fault, Reader};
use crate::entry::{ENTRY_BYTES, Entry};
use crate::layout::fixed_layout;
use crate::record::{OrderLayout, WriteId};
use crate::replicas::PlaceLayout;

/// Version written; 1: the first.
pub const NOTICE_VERSION: u8 = 1;

/// Most notices of one batch.
pub const MAX_NOTICES_PER_BATCH: usize = 4096;

/// Longest batch.
pub const MAX_BATCH_BYTES: usize = size_of::<NoticeBatchLayout>() + MAX_NOTICES_PER_BATCH * MAX_NOTICE_BYTES;

const BATCH: &str = "notice batch";
/// The shortest notice, kind and 8 bytes, bounds what a count may claim.
const MIN_NOTICE_BYTES: usize = 9;
/// The longest notice publishes two entries.
const MAX_NOTICE_BYTES: usize = 1 + 2 * ENTRY_BYTES;

/// Numbers the batches from one gateway to another, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamSequence(pub u64);

/// Joins an answer to its question; the asking gateway's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// One thing that a gateway tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Phase 1: a write of this name has begun.
    Announce { write: WriteId, hash: KeyHash },
    /// Phase 2: the write is durable. A versioned write has two entries, applied together (decision 20).
    Publish { entry: Entry, version: Option<Box<Entry>> },
    /// Phase 2 of a write that did not happen.
    Void { write: WriteId, hash: KeyHash },
    /// The receiver's batches up to this one are applied.
    Acknowledge { through: StreamSequence },
    /// A read of a name that the asked gateway has announced.
    Ask { ask: AskId, hash: KeyHash },
    /// The newest entry, after every member held the notice.
    Answer { ask: AskId, entry: Option<Entry> },
    /// Stop writing this name: from the requester to the name's home, and from there to every member.
    Freeze { freeze: WriteId, hash: KeyHash },
    /// Own writes have drained; the newest entry. From a member to the home, and from there to the requester.
    FreezeGranted { freeze: WriteId, hash: KeyHash, entry: Option<Entry> },
    /// Ends a freeze whose condition did not hold; otherwise the write's phase 2 ends it.
    FreezeReleased { freeze: WriteId, hash: KeyHash },
    /// A checkpoint begins: new writes belong to this epoch.
    EpochAnnounced { epoch: Epoch },
    /// No write of an earlier epoch is outstanding here.
    EpochAcknowledged { epoch: Epoch },
    /// If the entry still has this order and a copy at `from`, that copy is now at `to`.
    Relocate { hash: KeyHash, order: Order, from: Place, to: Place },
}

/// Notices that travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeBatch {
    pub from: GatewayId,
    pub view: ViewNumber,
    pub sequence: StreamSequence,
    /// At most [`MAX_NOTICES_PER_BATCH`].
    pub notices: Vec<Notice>,
}

fixed_layout! {
    pub(crate) struct NoticeBatchLayout: 24 {
        0 version: u8,
        1 reserved: u8,
        2 from: U16,
        4 count: U32,
        8 view: U64,
        16 sequence: U64,
    }
}

impl NoticeBatch {
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.notices.len() <= MAX_NOTICES_PER_BATCH);
        let head = NoticeBatchLayout {
            version: NOTICE_VERSION,
            reserved: 0,
            from: self.from.0.into(),
            count: (self.notices.len() as u32).into(),
            view: self.view.0.into(),
            sequence: self.sequence.0.into(),
        };
        out.extend_from_slice(head.as_bytes());
        for notice in &self.notices {
            notice.encode(out);
        }
    }

    /// Reads a batch that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<NoticeBatch, DecodeError> {
        let mut reader = Reader::new(BATCH, bytes);
        let head: &NoticeBatchLayout = reader.fixed("head")?;
        reader.check_version(0, head.version, NOTICE_VERSION)?;
        let count = head.count.get() as usize;
        reader.check_count(4, count, MIN_NOTICE_BYTES, "count")?;
        if count > MAX_NOTICES_PER_BATCH {
            let fault = Fault::OutOfRange { least: 0, most: MAX_NOTICES_PER_BATCH as u64, found: count as u64 };
            return Err(reader.error_at(4, "count", fault));
        }
        let mut notices = Vec::with_capacity(count);
        for _ in 0..count {
            notices.push(Notice::read(&mut reader)?);
        }
        reader.finish()?;
        Ok(NoticeBatch {
            from: GatewayId(head.from.get()),
            view: ViewNumber(head.view.get()),
            sequence: StreamSequence(head.sequence.get()),
            notices,
        })
    }
}

impl Notice {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Notice::Announce { write, hash } => write_and_hash(1, *write, hash, out),
            Notice::Publish { entry, version: None } => {
                out.push(2);
                entry.encode_into(out);
            }
            Notice::Publish { entry, version: Some(version) } => {
                out.push(3);
                entry.encode_into(out);
                version.encode_into(out);
            }
            Notice::Void { write, hash } => write_and_hash(4, *write, hash, out),
            Notice::Acknowledge { through } => number(5, through.0, out),
            Notice::Ask { ask, hash } => {
                number(6, ask.0, out);
                out.extend_from_slice(hash.as_bytes());
            }
            Notice::Answer { ask, entry: None } => number(7, ask.0, out),
            Notice::Answer { ask, entry: Some(entry) } => {
                number(8, ask.0, out);
                entry.encode_into(out);
            }
            Notice::Freeze { freeze, hash } => write_and_hash(9, *freeze, hash, out),
            Notice::FreezeGranted { freeze, hash, entry: None } => write_and_hash(10, *freeze, hash, out),
            Notice::FreezeGranted { freeze, hash, entry: Some(entry) } => {
                write_and_hash(11, *freeze, hash, out);
                entry.encode_into(out);
            }
            Notice::FreezeReleased { freeze, hash } => write_and_hash(12, *freeze, hash, out),
            Notice::EpochAnnounced { epoch } => number(13, epoch.0, out),
            Notice::EpochAcknowledged { epoch } => number(14, epoch.0, out),
            Notice::Relocate { hash, order, from, to } => {
                out.push(15);
                out.extend_from_slice(hash.as_bytes());
                out.extend_from_slice(OrderLayout::new(*order).as_bytes());
                out.extend_from_slice(PlaceLayout::new(*from).as_bytes());
                out.extend_from_slice(PlaceLayout::new(*to).as_bytes());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Notice, DecodeError> {
        let at = reader.offset();
        Ok(match reader.u8("notice kind")? {
            1 => Notice::Announce { write: write_id(reader)?, hash: hash(reader)? },
            2 => Notice::Publish { entry: Entry::read(reader)?, version: None },
            3 => Notice::Publish { entry: Entry::read(reader)?, version: Some(Box::new(Entry::read(reader)?)) },
            4 => Notice::Void { write: write_id(reader)?, hash: hash(reader)? },
            5 => Notice::Acknowledge { through: StreamSequence(reader.u64("batch number")?) },
            6 => Notice::Ask { ask: ask(reader)?, hash: hash(reader)? },
            7 => Notice::Answer { ask: ask(reader)?, entry: None },
            8 => Notice::Answer { ask: ask(reader)?, entry: Some(Entry::read(reader)?) },
            9 => Notice::Freeze { freeze: write_id(reader)?, hash: hash(reader)? },
            10 => Notice::FreezeGranted { freeze: write_id(reader)?, hash: hash(reader)?, entry: None },
            11 => {
                let (freeze, hash) = (write_id(reader)?, hash(reader)?);
                Notice::FreezeGranted { freeze, hash, entry: Some(Entry::read(reader)?) }
            }
            12 => Notice::FreezeReleased { freeze: write_id(reader)?, hash: hash(reader)? },
            13 => Notice::EpochAnnounced { epoch: Epoch(reader.u64("epoch")?) },
            14 => Notice::EpochAcknowledged { epoch: Epoch(reader.u64("epoch")?) },
            15 => Notice::Relocate {
                hash: hash(reader)?,
                order: reader.fixed::<OrderLayout>("order")?.get(),
                from: reader.fixed::<PlaceLayout>("old place")?.get(),
                to: reader.fixed::<PlaceLayout>("new place")?.get(),
            },
            found => return Err(reader.error_at(at, "notice kind", Fault::Unknown { found: u64::from(found) })),
        })
    }
}

fn write_and_hash(kind: u8, write: WriteId, hash: &KeyHash, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&write.gateway.0.to_le_bytes());
    out.extend_from_slice(&write.sequence.0.to_le_bytes());
    out.extend_from_slice(hash.as_bytes());
}

fn number(kind: u8, number: u64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_id(reader: &mut Reader<'_>) -> Result<WriteId, DecodeError> {
    let gateway = GatewayId(reader.u16("gateway")?);
    Ok(WriteId { gateway, sequence: Sequence(reader.u64("sequence")?) })
}

fn hash(reader: &mut Reader<'_>) -> Result<KeyHash, DecodeError> {
    Ok(KeyHash::from_bytes(reader.array("hash")?))
}

fn ask(reader: &mut Reader<'_>) -> Result<AskId, DecodeError> {
    Ok(AskId(reader.u64("question")?))
}

#[cfg(test)]
mod tests;
