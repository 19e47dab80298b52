//! What members of a group tell each other.
//!
//! The carrier has checksums. Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | `version` | [`MESSAGE_VERSION`] |
//! | 1 | 1 | `kind` | the row of the table below |
//! | 2 | 2 | reserved | zero |
//! | 4 | 4 | `group` | |
//! | 8 | 8 | `view` | |
//! | 16 | | body | |
//!
//! | kind | message | body |
//! |---|---|---|
//! | 1 | `Report` | session u64, number u64, loading u8 (0 or 1), released u64, count u32, then view u64 and opseq u64 of each |
//! | 2 | `Fetch` | opseq u64 |
//! | 3 | `Fetched` | entries, as in a record |
//! | 4 | `Append` | keeps u8 (0 or 1); if 1: session u64, number u64, opseq u64. Then view u64 and opseq u64 of the position before, commit u64, trim u64, entries |
//! | 5 | `Ack` | durable u64, released u64, commit u64 |
//! | 6 | `DumpOffer` | session u64, number u64, dump u64, view u64, opseq u64 |
//! | 7 | `DumpWant` | dump u64, chunk u32 |
//! | 8 | `DumpChunk` | dump u64, chunk u32, last u8 (0 or 1), the bytes of the chunk |

use bytes::Bytes;
use format::decode::{DecodeError, Fault, Reader};
use types::ViewNumber;

use crate::id::{DumpId, GroupId, OpSeq, Position, ReportId};
use crate::limits::{MAX_DUMP_CHUNK_BYTES, MAX_LOG_ENTRIES};
use crate::log::{Entry, Views};
use crate::record::{read_entries, read_head, read_opseq, read_position, read_view, write_entries, write_position};

/// The newest version: the first one.
pub const MESSAGE_VERSION: u8 = 1;

const MESSAGE: &str = "allack message";

/// One message. A receiver that has promised another view ignores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub group: GroupId,
    pub view: ViewNumber,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Member to primary: the view is promised, and this is my log.
    Report { id: ReportId, log: Reported },
    /// Primary to member: the entries after this.
    Fetch { after: OpSeq },
    /// Member to primary: they are these.
    Fetched { entries: Vec<Entry> },
    /// Primary to member.
    Append { keep: Option<Keep>, after: Position, entries: Vec<Entry>, commit: OpSeq, trim: OpSeq },
    /// Member to primary: all of the primary's log through `durable` is durable, all through `released` is needed no more, and all through
    /// `commit` is known to be committed.
    Ack { durable: OpSeq, released: OpSeq, commit: OpSeq },
    /// Primary to member: there is nothing in common; load this.
    DumpOffer { report: ReportId, dump: DumpId, at: Position },
    /// Member to primary.
    DumpWant { dump: DumpId, chunk: u32 },
    /// Primary to member.
    DumpChunk { dump: DumpId, chunk: u32, last: bool, bytes: Bytes },
}

/// A member's log without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    pub views: Views,
    /// The log is void, because a dump was not loaded to its end.
    pub loading: bool,
    pub released: OpSeq,
}

impl Reported {
    pub fn last(&self) -> Position {
        *self.views.last().expect("a log has a base")
    }
}

/// The receiver's log, as it reported it, is the primary's through this opseq. It gives up what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub report: ReportId,
    pub through: OpSeq,
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Report { .. } => 1,
            Body::Fetch { .. } => 2,
            Body::Fetched { .. } => 3,
            Body::Append { .. } => 4,
            Body::Ack { .. } => 5,
            Body::DumpOffer { .. } => 6,
            Body::DumpWant { .. } => 7,
            Body::DumpChunk { .. } => 8,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Body::Report { id, log } => {
                write_report_id(out, *id);
                out.push(u8::from(log.loading));
                out.extend_from_slice(&log.released.0.to_le_bytes());
                out.extend_from_slice(&(log.views.len() as u32).to_le_bytes());
                log.views.iter().for_each(|row| write_position(out, *row));
            }
            Body::Fetch { after } => out.extend_from_slice(&after.0.to_le_bytes()),
            Body::Fetched { entries } => write_entries(out, entries),
            Body::Append { keep, after, entries, commit, trim } => {
                out.push(u8::from(keep.is_some()));
                if let Some(Keep { report, through }) = keep {
                    write_report_id(out, *report);
                    out.extend_from_slice(&through.0.to_le_bytes());
                }
                write_position(out, *after);
                out.extend_from_slice(&commit.0.to_le_bytes());
                out.extend_from_slice(&trim.0.to_le_bytes());
                write_entries(out, entries);
            }
            Body::Ack { durable, released, commit } => {
                out.extend_from_slice(&durable.0.to_le_bytes());
                out.extend_from_slice(&released.0.to_le_bytes());
                out.extend_from_slice(&commit.0.to_le_bytes());
            }
            Body::DumpOffer { report, dump, at } => {
                write_report_id(out, *report);
                out.extend_from_slice(&dump.0.to_le_bytes());
                write_position(out, *at);
            }
            Body::DumpWant { dump, chunk } => {
                out.extend_from_slice(&dump.0.to_le_bytes());
                out.extend_from_slice(&chunk.to_le_bytes());
            }
            Body::DumpChunk { dump, chunk, last, bytes } => {
                assert!(bytes.len() <= MAX_DUMP_CHUNK_BYTES, "a chunk of {} bytes", bytes.len());
                out.extend_from_slice(&dump.0.to_le_bytes());
                out.extend_from_slice(&chunk.to_le_bytes());
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
            }
        }
    }
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![MESSAGE_VERSION, self.body.kind(), 0, 0];
        out.extend_from_slice(&self.group.0.to_le_bytes());
        out.extend_from_slice(&self.view.0.to_le_bytes());
        self.body.write(&mut out);
        out
    }

    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &Bytes) -> Result<Message, DecodeError> {
        let mut reader = Reader::new(MESSAGE, bytes);
        let (kind, group) = read_head(&mut reader, MESSAGE_VERSION)?;
        let view = read_view(&mut reader)?;
        let body = match kind {
            1 => Body::Report { id: read_report_id(&mut reader)?, log: read_reported(&mut reader)? },
            2 => Body::Fetch { after: read_opseq(&mut reader)? },
            3 => Body::Fetched { entries: read_entries(&mut reader, bytes)? },
            4 => read_append(&mut reader, bytes)?,
            5 => {
                let durable = read_opseq(&mut reader)?;
                Body::Ack { durable, released: read_opseq(&mut reader)?, commit: read_opseq(&mut reader)? }
            }
            6 => {
                let report = read_report_id(&mut reader)?;
                Body::DumpOffer { report, dump: DumpId(reader.u64("dump")?), at: read_position(&mut reader)? }
            }
            7 => Body::DumpWant { dump: DumpId(reader.u64("dump")?), chunk: reader.u32("chunk")? },
            8 => read_chunk(&mut reader, bytes)?,
            found => return Err(reader.error_at(1, "kind", Fault::Unknown { found: u64::from(found) })),
        };
        reader.finish()?;
        Ok(Message { group, view, body })
    }
}

fn write_report_id(out: &mut Vec<u8>, id: ReportId) {
    out.extend_from_slice(&id.session.to_le_bytes());
    out.extend_from_slice(&id.number.to_le_bytes());
}

fn read_report_id(reader: &mut Reader<'_>) -> Result<ReportId, DecodeError> {
    Ok(ReportId { session: reader.u64("session")?, number: reader.u64("number")? })
}

fn read_bool(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    let at = reader.offset();
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(reader.error_at(at, field, Fault::OutOfRange { least: 0, most: 1, found: u64::from(found) })),
    }
}

fn read_reported(reader: &mut Reader<'_>) -> Result<Reported, DecodeError> {
    const ROW_BYTES: usize = 16;
    let loading = read_bool(reader, "loading")?;
    let released = read_opseq(reader)?;
    let at = reader.offset();
    let count = reader.u32("count")? as usize;
    let most = MAX_LOG_ENTRIES + 1;
    if !(1..=most).contains(&count) {
        let (most, found) = (most as u64, count as u64);
        return Err(reader.error_at(at, "count", Fault::OutOfRange { least: 1, most, found }));
    }
    reader.check_count(at, count, ROW_BYTES, "count")?;
    let mut views: Views = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.offset();
        let row = read_position(reader)?;
        if views.last().is_some_and(|last| row.opseq <= last.opseq || row.view < last.view) {
            return Err(reader.error_at(at, "views", Fault::Unordered));
        }
        views.push(row);
    }
    Ok(Reported { views, loading, released })
}

fn read_append(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Body, DecodeError> {
    let keep = match read_bool(reader, "keeps")? {
        true => Some(Keep { report: read_report_id(reader)?, through: read_opseq(reader)? }),
        false => None,
    };
    let after = read_position(reader)?;
    let (commit, trim) = (read_opseq(reader)?, read_opseq(reader)?);
    let at = reader.offset();
    let entries = read_entries(reader, bytes)?;
    let follows = |first: &Entry| first.position.opseq == after.opseq.next() && first.position.view >= after.view;
    if !entries.first().is_none_or(follows) {
        return Err(reader.error_at(at, "position", Fault::Unordered));
    }
    Ok(Body::Append { keep, after, entries, commit, trim })
}

fn read_chunk(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Body, DecodeError> {
    let (dump, chunk) = (DumpId(reader.u64("dump")?), reader.u32("chunk")?);
    let last = read_bool(reader, "last")?;
    let begin = reader.offset();
    let length = reader.remaining();
    if length > MAX_DUMP_CHUNK_BYTES {
        let (most, found) = (MAX_DUMP_CHUNK_BYTES as u64, length as u64);
        return Err(reader.error_at(begin, "bytes", Fault::OutOfRange { least: 0, most, found }));
    }
    reader.take(length, "bytes")?;
    Ok(Body::DumpChunk { dump, chunk, last, bytes: bytes.slice(begin..begin + length) })
}

#[cfg(test)]
mod tests;
