//! The tail: records that outlive the process before they outlive the machine (docs/rfd/0032).
//!
//! ```text
//!  0    magic      8  "TRITAIL1"
//!  8    log id    16
//! 24    start     16  chosen by chance when the log is opened
//! 40    checksum   8  CRC-64/NVME of the bytes before
//! 48    unused, to byte 4096
//!
//! then records, each at a multiple of 64, around and around:
//!  0    checksum   8  CRC-64/NVME of start, lsn, length, payload
//!  8    lsn        8
//! 16    length     4
//! 20    payload
//! ```
//!
//! All numbers are little-endian.
//!
//! Invariants
//! - A record in the tail is *kept* if all records before it are durable or kept. So what a start finds behind the log's last record follows it without a gap.
//! - A record's place is used again when the record is durable.
//! - Records of an earlier start never pass: the start's number is part of each checksum, and the new one is durable before a record is kept.

mod file;
mod sim;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest, checksum};
use env::Env;

pub use file::FileTail;
pub use sim::SimTail;

use crate::{LogId, Lsn};

/// Longest record that is kept. After a longer one, records are kept again when it is durable.
pub const MAX_KEPT_RECORD_BYTES: usize = 64 * 1024;

const MAGIC: [u8; 8] = *b"TRITAIL1";
const HEADER_BYTES: usize = 48;
/// Where records begin.
const RECORDS_FROM: usize = 4096;
const RECORD_HEADER_BYTES: usize = 20;
const RECORD_UNIT: usize = 64;

/// Smallest tail: for two of the longest records.
pub const MIN_TAIL_BYTES: usize = RECORDS_FROM + 2 * (MAX_KEPT_RECORD_BYTES + RECORD_UNIT);

/// Bytes that outlive the process once they are written, and the machine once they are flushed.
pub trait Tail: Send + Sync + 'static {
    /// At least [`MIN_TAIL_BYTES`].
    fn size_bytes(&self) -> usize;

    /// All of it.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Does not wait for a medium.
    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()>;

    fn flush(&self) -> io::Result<()>;
}

/// What a start chooses.
type Start = [u8; 16];

/// The tail in use.
pub(crate) struct Ring {
    tail: Arc<dyn Tail>,
    start: Start,
    /// Bytes that were taken, all rounds counted.
    head: u64,
    /// Where the records begin that may not be durable, the oldest first.
    live: VecDeque<(Lsn, u64)>,
    /// The last record that was kept.
    kept: Lsn,
    is_failed: bool,
}

/// Records of the tail that follow each other from `next` on.
pub(crate) fn records_from(tail: &dyn Tail, log_id: LogId, next: Lsn) -> io::Result<Vec<Vec<u8>>> {
    let bytes = tail.read()?;
    let Some(start) = decode_header(&bytes, log_id) else { return Ok(Vec::new()) };
    let most = (bytes.len() / RECORD_UNIT) as u64;
    let mut found = BTreeMap::new();
    for offset in (RECORDS_FROM..bytes.len()).step_by(RECORD_UNIT) {
        let Some((lsn, payload)) = decode_record(&bytes[offset..], next, most, &start) else { continue };
        found.insert(lsn, payload);
    }
    let follows = found.iter().zip(next.0..).take_while(|((lsn, _), expected)| **lsn == *expected);
    Ok(follows.map(|((_, payload), _)| payload.to_vec()).collect())
}

impl Ring {
    /// Begins to use a tail: what is in it passes no more.
    pub(crate) fn begin(tail: Arc<dyn Tail>, env: &Env, log_id: LogId) -> io::Result<Ring> {
        assert!(tail.size_bytes() >= MIN_TAIL_BYTES, "a tail of {} bytes", tail.size_bytes());
        let mut start = Start::default();
        env.fill_random(&mut start);
        tail.write(0, &encode_header(log_id, &start))?;
        tail.flush()?;
        Ok(Ring { tail, start, head: 0, live: VecDeque::new(), kept: Lsn(0), is_failed: false })
    }

    /// Whether the record outlives the process from now on. `durable`: the last record that outlives the machine.
    pub(crate) fn keep(&mut self, lsn: Lsn, payload: &[u8], durable: Lsn) -> bool {
        while self.live.front().is_some_and(|(oldest, _)| *oldest <= durable) {
            self.live.pop_front();
        }
        let follows = self.kept.max(durable) == lsn.previous();
        if !follows || self.is_failed || payload.len() > MAX_KEPT_RECORD_BYTES {
            return false;
        }
        let Some(at) = self.room_for(RECORD_HEADER_BYTES + payload.len()) else { return false };
        let offset = RECORDS_FROM + (at % self.area()) as usize;
        if let Err(error) = self.tail.write(offset, &encode_record(lsn, payload, &self.start)) {
            tracing::error!(%error, "the log's tail can't be written: changes are answered when they are durable, until the next start");
            self.is_failed = true;
            return false;
        }
        self.live.push_back((lsn, at));
        self.kept = lsn;
        true
    }

    /// Whether keeping can be counted on.
    pub(crate) fn is_sound(&self) -> bool {
        !self.is_failed
    }

    fn area(&self) -> u64 {
        ((self.tail.size_bytes() - RECORDS_FROM) / RECORD_UNIT * RECORD_UNIT) as u64
    }

    /// A place in one piece, if there is one.
    fn room_for(&mut self, bytes: usize) -> Option<u64> {
        let (area, units) = (self.area(), bytes.next_multiple_of(RECORD_UNIT) as u64);
        let is_cut = self.head % area + units > area;
        let at = if is_cut { self.head.next_multiple_of(area) } else { self.head };
        let oldest = self.live.front().map_or(at, |(_, begin)| *begin);
        (at + units - oldest <= area).then(|| {
            self.head = at + units;
            at
        })
    }
}

fn encode_header(log_id: LogId, start: &Start) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &log_id.0, start].concat();
    let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// None where it is none of this log.
fn decode_header(bytes: &[u8], log_id: LogId) -> Option<Start> {
    let header = bytes.get(..HEADER_BYTES)?;
    let start: Start = *header[24..40].first_chunk()?;
    (*header == *encode_header(log_id, &start)).then_some(start)
}

fn record_checksum(start: &Start, lsn: u64, payload: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(start);
    digest.update(&lsn.to_le_bytes());
    digest.update(&(payload.len() as u32).to_le_bytes());
    digest.update(payload);
    digest.finalize()
}

fn encode_record(lsn: Lsn, payload: &[u8], start: &Start) -> Vec<u8> {
    let sum = record_checksum(start, lsn.0, payload);
    [&sum.to_le_bytes()[..], &lsn.0.to_le_bytes(), &(payload.len() as u32).to_le_bytes(), payload].concat()
}

/// A record that is one of the `most` from `next` on.
fn decode_record<'a>(bytes: &'a [u8], next: Lsn, most: u64, start: &Start) -> Option<(u64, &'a [u8])> {
    let sum = u64::from_le_bytes(*bytes.first_chunk()?);
    let lsn = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let length = u32::from_le_bytes(*bytes.get(16..)?.first_chunk()?) as usize;
    let payload = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES.checked_add(length)?)?;
    let is_wanted = lsn.checked_sub(next.0).is_some_and(|after| after < most) && length <= MAX_KEPT_RECORD_BYTES;
    (is_wanted && record_checksum(start, lsn, payload) == sum).then_some((lsn, payload))
}
