//! What stands in a meta server's wal: one change of one group's member in each record.
//!
//! The wal has checksums. Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | `version` | [`RECORD_VERSION`] |
//! | 1 | 1 | `kind` | 1 promise, 2 entries, 3 truncate, 4 base, 5 reset |
//! | 2 | 2 | reserved | zero |
//! | 4 | 4 | `group` | |
//! | 8 | | body | promise: view u64. Truncate: opseq u64. Base: view u64, opseq u64. Reset: nothing. Entries: count u32, then of each entry view u64, opseq u64, length u32, payload |
//!
//! Invariants
//! - A record means the same wherever replay begins: `Entries` puts entries in their places, it does not cut off what follows; only `Truncate`
//!   and `Reset` do. So a group's state may be said again at the wal's end to be rid of old segments.
//! - Entries of one record follow each other without gaps.

use bytes::Bytes;
use format::decode::{DecodeError, Fault, Reader};
use types::ViewNumber;

use crate::id::{GroupId, MAX_NUMBER, OpSeq, Position};
use crate::limits::{MAX_BATCH_ENTRIES, MAX_ENTRY_BYTES};
use crate::log::Entry;

/// The newest version: the first one.
pub const RECORD_VERSION: u8 = 1;

const RECORD: &str = "allack record";
/// Bytes of an entry before its payload.
pub(crate) const ENTRY_HEAD_BYTES: usize = 20;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub group: GroupId,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// No older view's messages are taken in any more.
    Promise(ViewNumber),
    /// Entries in their places.
    Entries(Vec<Entry>),
    /// Entries after this are void.
    Truncate(OpSeq),
    /// Entries through this are given up; the state machine above holds what they did.
    Base(Position),
    /// The log is void, and so is the state above: a dump is being loaded. The next `Base` ends that.
    Reset,
}

impl Change {
    fn kind(&self) -> u8 {
        match self {
            Change::Promise(_) => 1,
            Change::Entries(_) => 2,
            Change::Truncate(_) => 3,
            Change::Base(_) => 4,
            Change::Reset => 5,
        }
    }
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![RECORD_VERSION, self.change.kind(), 0, 0];
        out.extend_from_slice(&self.group.0.to_le_bytes());
        match &self.change {
            Change::Promise(view) => out.extend_from_slice(&view.0.to_le_bytes()),
            Change::Entries(entries) => write_entries(&mut out, entries),
            Change::Truncate(opseq) => out.extend_from_slice(&opseq.0.to_le_bytes()),
            Change::Base(position) => write_position(&mut out, *position),
            Change::Reset => {}
        }
        out
    }

    /// Reads a record that fills `bytes`.
    pub fn decode(bytes: &Bytes) -> Result<Record, DecodeError> {
        let mut reader = Reader::new(RECORD, bytes);
        let (kind, group) = read_head(&mut reader, RECORD_VERSION)?;
        let change = match kind {
            1 => Change::Promise(read_view(&mut reader)?),
            2 => Change::Entries(read_entries(&mut reader, bytes)?),
            3 => Change::Truncate(read_opseq(&mut reader)?),
            4 => Change::Base(read_position(&mut reader)?),
            5 => Change::Reset,
            found => return Err(reader.error_at(1, "kind", Fault::Unknown { found: u64::from(found) })),
        };
        reader.finish()?;
        Ok(Record { group, change })
    }
}

/// Version, kind and group, which begin records and messages alike.
pub(crate) fn read_head(reader: &mut Reader<'_>, newest: u8) -> Result<(u8, GroupId), DecodeError> {
    let version = reader.u8("version")?;
    reader.check_version(0, version, newest)?;
    let kind = reader.u8("kind")?;
    let reserved = reader.u16("reserved")?;
    if reserved != 0 {
        return Err(reader.error_at(2, "reserved", Fault::Unknown { found: u64::from(reserved) }));
    }
    Ok((kind, GroupId(reader.u32("group")?)))
}

fn read_number(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, DecodeError> {
    let at = reader.offset();
    let found = reader.u64(field)?;
    if found > MAX_NUMBER {
        return Err(reader.error_at(at, field, Fault::OutOfRange { least: 0, most: MAX_NUMBER, found }));
    }
    Ok(found)
}

pub(crate) fn read_view(reader: &mut Reader<'_>) -> Result<ViewNumber, DecodeError> {
    read_number(reader, "view").map(ViewNumber)
}

pub(crate) fn read_opseq(reader: &mut Reader<'_>) -> Result<OpSeq, DecodeError> {
    read_number(reader, "opseq").map(OpSeq)
}

pub(crate) fn read_position(reader: &mut Reader<'_>) -> Result<Position, DecodeError> {
    Ok(Position { view: read_view(reader)?, opseq: read_opseq(reader)? })
}

pub(crate) fn write_position(out: &mut Vec<u8>, position: Position) {
    out.extend_from_slice(&position.view.0.to_le_bytes());
    out.extend_from_slice(&position.opseq.0.to_le_bytes());
}

pub(crate) fn write_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    assert!(entries.len() <= MAX_BATCH_ENTRIES, "{} entries", entries.len());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for Entry { position, payload } in entries {
        assert!(payload.len() <= MAX_ENTRY_BYTES, "an entry of {} bytes", payload.len());
        write_position(out, *position);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    }
}

/// `bytes` are those that the reader reads; payloads share them.
pub(crate) fn read_entries(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Vec<Entry>, DecodeError> {
    let at = reader.offset();
    let count = reader.u32("count")? as usize;
    if count > MAX_BATCH_ENTRIES {
        let (most, found) = (MAX_BATCH_ENTRIES as u64, count as u64);
        return Err(reader.error_at(at, "count", Fault::OutOfRange { least: 0, most, found }));
    }
    reader.check_count(at, count, ENTRY_HEAD_BYTES, "count")?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.offset();
        let position = read_position(reader)?;
        let follows = |last: &Entry| position.opseq == last.position.opseq.next() && position.view >= last.position.view;
        if position.opseq == OpSeq::ZERO || !entries.last().is_none_or(follows) {
            return Err(reader.error_at(at, "position", Fault::Unordered));
        }
        let at = reader.offset();
        let length = reader.u32("length")? as usize;
        if length > MAX_ENTRY_BYTES {
            let (most, found) = (MAX_ENTRY_BYTES as u64, length as u64);
            return Err(reader.error_at(at, "length", Fault::OutOfRange { least: 0, most, found }));
        }
        let begin = reader.offset();
        reader.take(length, "payload")?;
        entries.push(Entry { position, payload: bytes.slice(begin..begin + length) });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
