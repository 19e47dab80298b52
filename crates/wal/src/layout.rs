//! What stands in a segment. All numbers are little-endian.
//!
//! ```text
//! segment  = header block (4096 bytes), then frames, each at a block boundary
//!
//! header   0  magic            8  "TRILWAL\0"
//!          8  version          4
//!         12  checksum         4  CRC32C of the other bytes of the block
//!         16  log id          16
//!         32  sequence         8  this incarnation of the segment
//!         40  first lsn        8  the first record that it may hold
//!         48  segment bytes    8
//!         56  zero, to the end of the block
//!
//! frame    0  magic            4  "WFRM"
//!          4  checksum         4  CRC32C of seed, header bytes 0..4 and 8..40
//!          8  sequence         8
//!         16  first lsn        8
//!         24  records          4
//!         28  bytes            4  the whole frame with its padding, a multiple of 4096
//!         32  used             4  the frame without its padding
//!         36  zero             4
//!         40  records, each: length 4, CRC32C 4 of (seed, lsn, length, payload), payload
//! ```
//!
//! A frame is what one write carried: the records that queued up while the write before it was on its way. The seed is (log id,
//! sequence, offset of the frame), so a frame of an earlier incarnation of the segment, of another log, or one that stands
//! elsewhere than where it was written never passes.

use disk::{AlignedBuf, BLOCK_BYTES};

use crate::error::Mismatch;
use crate::{LogId, Lsn, MAX_NUMBER, MAX_SEGMENT_BYTES};

pub(crate) const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
pub(crate) const RECORD_HEADER_BYTES: usize = 8;

/// The newest layout: the first one.
pub(crate) const LAYOUT_VERSION: u32 = 1;

const SEGMENT_MAGIC: [u8; 8] = *b"TRILWAL\0";
const FRAME_MAGIC: [u8; 4] = *b"WFRM";

const _: () = assert!(MAX_SEGMENT_BYTES <= u32::MAX as u64);

/// Number of an incarnation of a segment: 1 for the log's first, then counting up; a recycled segment gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentSequence(pub(crate) u64);

impl SegmentSequence {
    pub(crate) fn next(self) -> Self {
        SegmentSequence(self.0 + 1)
    }
}

/// The header of a segment's present incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log_id: LogId,
    pub(crate) sequence: SegmentSequence,
    pub(crate) first_lsn: Lsn,
    pub(crate) segment_bytes: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(SEGMENT_HEADER_BYTES);
        block[0..8].copy_from_slice(&SEGMENT_MAGIC);
        block[8..12].copy_from_slice(&LAYOUT_VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.log_id.0);
        block[32..40].copy_from_slice(&self.sequence.0.to_le_bytes());
        block[40..48].copy_from_slice(&self.first_lsn.0.to_le_bytes());
        block[48..56].copy_from_slice(&self.segment_bytes.to_le_bytes());
        let checksum = segment_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Self, Mismatch> {
        if block[0..8] != SEGMENT_MAGIC {
            return Err(Mismatch::Magic { found: u64_at(block, 0) });
        }
        let (expected, found) = (segment_checksum(block), u32_at(block, 12));
        if expected != found {
            return Err(Mismatch::HeaderChecksum { expected, found });
        }
        let version = u32_at(block, 8);
        if version != LAYOUT_VERSION {
            return Err(Mismatch::Version { newest: LAYOUT_VERSION, found: version });
        }
        Ok(SegmentHeader {
            log_id: LogId(block[16..32].try_into().expect("sixteen bytes")),
            sequence: SegmentSequence(number_at(block, 32)?),
            first_lsn: Lsn(number_at(block, 40)?),
            segment_bytes: u64_at(block, 48),
        })
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed { log_id: self.log_id, sequence: self.sequence }
    }
}

/// What makes the checksums of one incarnation of a segment its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    pub(crate) log_id: LogId,
    pub(crate) sequence: SegmentSequence,
}

impl Seed {
    fn digest(&self, frame_offset: u64) -> crc_fast::Digest {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.log_id.0);
        digest.update(&self.sequence.0.to_le_bytes());
        digest.update(&frame_offset.to_le_bytes());
        digest
    }

    fn record_checksum(&self, frame_offset: u64, lsn: Lsn, payload: &[u8]) -> u32 {
        let mut digest = self.digest(frame_offset);
        digest.update(&lsn.0.to_le_bytes());
        digest.update(&(payload.len() as u32).to_le_bytes());
        digest.update(payload);
        digest.finalize() as u32
    }

    fn frame_checksum(&self, frame_offset: u64, header: &[u8]) -> u32 {
        let mut digest = self.digest(frame_offset);
        digest.update(&header[0..4]);
        digest.update(&header[8..FRAME_HEADER_BYTES]);
        digest.finalize() as u32
    }
}

/// Bytes that a record takes in a frame.
pub(crate) fn record_bytes(payload_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + payload_bytes
}

/// Bytes that a frame with `records_bytes` of records takes in a segment.
pub(crate) fn frame_bytes(records_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + records_bytes).next_multiple_of(BLOCK_BYTES)
}

/// Puts records, the first of which is `first_lsn`, into a frame that will stand at `offset`.
pub(crate) fn encode_frame(seed: &Seed, offset: u64, first_lsn: Lsn, payloads: &[Vec<u8>]) -> AlignedBuf {
    assert!(!payloads.is_empty(), "a frame holds at least one record");
    let records_bytes: usize = payloads.iter().map(|payload| record_bytes(payload.len())).sum();
    let mut frame = AlignedBuf::with_capacity(frame_bytes(records_bytes));
    frame.resize(FRAME_HEADER_BYTES);
    for (lsn, payload) in (first_lsn.0..).zip(payloads) {
        frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(&seed.record_checksum(offset, Lsn(lsn), payload).to_le_bytes());
        frame.extend_from_slice(payload);
    }
    let used = frame.len();
    frame.pad_to_block();
    let bytes = frame.len();
    frame[0..4].copy_from_slice(&FRAME_MAGIC);
    frame[8..16].copy_from_slice(&seed.sequence.0.to_le_bytes());
    frame[16..24].copy_from_slice(&first_lsn.0.to_le_bytes());
    frame[24..28].copy_from_slice(&(payloads.len() as u32).to_le_bytes());
    frame[28..32].copy_from_slice(&(bytes as u32).to_le_bytes());
    frame[32..36].copy_from_slice(&(used as u32).to_le_bytes());
    let checksum = seed.frame_checksum(offset, &frame);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// True if the header of a frame of this incarnation stands at `offset`, whatever became of its records.
pub(crate) fn frame_header_is_valid(seed: &Seed, offset: u64, bytes: &[u8]) -> bool {
    bytes[0..4] == FRAME_MAGIC && seed.frame_checksum(offset, bytes) == u32_at(bytes, 4)
}

/// The incarnation of which a frame says to be.
pub(crate) fn frame_sequence(bytes: &[u8]) -> SegmentSequence {
    SegmentSequence(u64_at(bytes, 8))
}

/// A frame that passed every check.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) first_lsn: Lsn,
    /// Bytes to the next frame.
    pub(crate) bytes: usize,
    pub(crate) payloads: Vec<&'a [u8]>,
}

/// Reads the frame that stands at `offset` of a segment, whose bytes from there on are `bytes`.
pub(crate) fn decode_frame<'a>(seed: &Seed, offset: u64, bytes: &'a [u8]) -> Result<Frame<'a>, Mismatch> {
    assert!(bytes.len() >= BLOCK_BYTES, "a frame is looked for where a whole block is left");
    if bytes[0..4] != FRAME_MAGIC {
        return Err(Mismatch::Magic { found: u64_at(bytes, 0) });
    }
    let (expected, found) = (seed.frame_checksum(offset, bytes), u32_at(bytes, 4));
    if expected != found {
        return Err(Mismatch::HeaderChecksum { expected, found });
    }
    let first_lsn = Lsn(number_at(bytes, 16)?);
    let (records, frame_bytes, used) = (u32_at(bytes, 24), u32_at(bytes, 28) as usize, u32_at(bytes, 32) as usize);
    if frame_bytes > bytes.len() || used > frame_bytes || used < FRAME_HEADER_BYTES {
        return Err(Mismatch::Length { most: bytes.len(), found: frame_bytes });
    }
    if !frame_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(Mismatch::Blocks { found: frame_bytes });
    }
    let mut payloads = Vec::new();
    let mut rest = &bytes[FRAME_HEADER_BYTES..used];
    for index in 0..u64::from(records) {
        let lsn = Lsn(first_lsn.0 + index);
        let Some((header, after)) = rest.split_at_checked(RECORD_HEADER_BYTES) else {
            return Err(Mismatch::Length { most: rest.len(), found: RECORD_HEADER_BYTES });
        };
        let length = u32_at(header, 0) as usize;
        let Some((payload, after)) = after.split_at_checked(length) else {
            return Err(Mismatch::Length { most: after.len(), found: length });
        };
        let (expected, found) = (seed.record_checksum(offset, lsn, payload), u32_at(header, 4));
        if expected != found {
            return Err(Mismatch::RecordChecksum { lsn, expected, found });
        }
        payloads.push(payload);
        rest = after;
    }
    Ok(Frame { first_lsn, bytes: frame_bytes, payloads })
}

fn segment_checksum(block: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[0..12]);
    digest.update(&block[16..]);
    digest.finalize() as u32
}

/// The number of a record or of a segment.
fn number_at(bytes: &[u8], at: usize) -> Result<u64, Mismatch> {
    let found = u64_at(bytes, at);
    if found == 0 || found > MAX_NUMBER {
        return Err(Mismatch::Number { most: MAX_NUMBER, found });
    }
    Ok(found)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
