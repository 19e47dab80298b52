//! Reading a log back.
//!
//! ```text
//!   segments on the medium, by sequence:    5     6     7     8    blank
//!   keep_from lies in 7:                    free  free  walk  walk free
//! ```
//!
//! A segment that ends before `keep_from` is not read: its owner has given those records up. Of the others every frame is
//! checked and handed to the owner. A bad frame ends the walk of its segment; whether the log may end there is decided by what
//! else exists: a later frame of the same incarnation, a later segment that begins with another record than the next one, or
//! a frame that is needed in a segment whose header is lost. Each of them makes it corruption.

use std::collections::VecDeque;

use disk::{AlignedBuf, BLOCK_BYTES, DiskExt, ReadMode};

use crate::error::{Mismatch, OpenError};
use crate::layout::{SEGMENT_HEADER_BYTES, Seed, SegmentHeader, decode_frame, frame_header_is_valid, frame_sequence};
use crate::store::Segment;
use crate::{Lsn, MAX_SEGMENTS};

/// Gets every record from `keep_from` on, in order.
pub(crate) type Replay<'a> = &'a mut (dyn FnMut(Lsn, &[u8]) + Send);

/// A segment in use.
#[derive(Debug)]
pub(crate) struct LiveSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) segment: Segment,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Oldest first; the last is the one to write to. Empty for a log that was never begun.
    pub(crate) live: VecDeque<LiveSegment>,
    /// To be reused in this order.
    pub(crate) free: VecDeque<Segment>,
    /// Where the next frame goes in the last live segment.
    pub(crate) write_offset: u64,
    pub(crate) next_lsn: Lsn,
}

/// Reads the segments of one log and replays what its owner still needs.
pub(crate) async fn recover(
    segments: Vec<Segment>,
    segment_bytes: u64,
    keep_from: Lsn,
    replay: Replay<'_>,
) -> Result<Recovered, OpenError> {
    if segments.len() > MAX_SEGMENTS {
        return Err(OpenError::TooManySegments { found: segments.len() });
    }
    let (mut live, blank) = sort_segments(segments, segment_bytes).await?;
    if live.is_empty() {
        check_never_used(&blank).await?;
        return Ok(Recovered { live, free: blank.into(), write_offset: 0, next_lsn: Lsn(0) });
    }
    check_distinct(&live)?;
    let mut free = VecDeque::new();
    while live.len() > 1 && live[1].header.first_lsn <= keep_from {
        free.extend(live.pop_front().map(|ended| ended.segment));
    }
    check_sequence(&live)?;
    for segment in &blank {
        check_given_up(segment, &live[0].header).await?;
    }
    free.extend(blank);

    let first = live[0].header.first_lsn;
    if keep_from < first {
        let last = live[live.len() - 1].header.first_lsn.previous();
        return Err(OpenError::Missing { first, last, needed: keep_from });
    }
    let mut next_lsn = first;
    let mut write_offset = 0;
    for (index, current) in live.iter().enumerate() {
        let successor = live.get(index + 1).map(|next| next.header.first_lsn);
        (write_offset, next_lsn) = walk_segment(current, successor, keep_from, replay).await?;
    }
    if keep_from > next_lsn {
        return Err(OpenError::Missing { first, last: next_lsn.previous(), needed: keep_from });
    }
    // The last process may have been killed after its last write and before that was durable; whoever is told of the records
    // now must find them again after a power cut.
    live[live.len() - 1].segment.disk.flush().await?;
    Ok(Recovered { live, free, write_offset, next_lsn })
}

/// The segments with a sound header, by sequence, and those without.
async fn sort_segments(segments: Vec<Segment>, segment_bytes: u64) -> Result<(VecDeque<LiveSegment>, Vec<Segment>), OpenError> {
    let mut live: Vec<LiveSegment> = Vec::new();
    let mut blank = Vec::new();
    for segment in segments {
        let unusable = |mismatch| OpenError::Segment { segment: segment.name.clone(), mismatch };
        let size = segment.disk.size_bytes();
        if size != segment_bytes {
            return Err(unusable(Mismatch::SegmentBytes { expected: segment_bytes, found: size }));
        }
        let block = segment.disk.read(0, SEGMENT_HEADER_BYTES, ReadMode::Direct).await?;
        let header = match SegmentHeader::decode(&block) {
            Ok(header) => header,
            // Whole, and yet not ours: no write that was cut short leaves that.
            Err(mismatch @ (Mismatch::Version { .. } | Mismatch::Number { .. })) => return Err(unusable(mismatch)),
            Err(_) => {
                blank.push(segment);
                continue;
            }
        };
        if header.segment_bytes != segment_bytes {
            return Err(unusable(Mismatch::SegmentBytes { expected: segment_bytes, found: header.segment_bytes }));
        }
        if let Some(other) = live.first()
            && other.header.log_id != header.log_id
        {
            let (expected, found) = (other.header.log_id.to_string(), header.log_id.to_string());
            return Err(unusable(Mismatch::ForeignLog { expected, found }));
        }
        live.push(LiveSegment { header, segment });
    }
    live.sort_by_key(|segment| segment.header.sequence);
    Ok((live.into(), blank))
}

/// A log without any header was never begun. Frames without a header mean that it was, and that its headers are lost.
async fn check_never_used(blank: &[Segment]) -> Result<(), OpenError> {
    for segment in blank {
        let offset = SEGMENT_HEADER_BYTES as u64;
        let block = segment.disk.read(offset, BLOCK_BYTES, ReadMode::Direct).await?;
        if block.iter().any(|byte| *byte != 0) {
            let header = segment.disk.read(0, SEGMENT_HEADER_BYTES, ReadMode::Direct).await?;
            let mismatch = SegmentHeader::decode(&header).err().unwrap_or(Mismatch::Magic { found: 0 });
            return Err(OpenError::Corrupt { segment: segment.name.clone(), offset: 0, mismatch });
        }
    }
    Ok(())
}

/// A segment without a header holds no frame of the oldest incarnation that is needed or of a later one, or its header is lost. What it
/// held before that header was torn had been given up.
async fn check_given_up(segment: &Segment, oldest: &SegmentHeader) -> Result<(), OpenError> {
    let bytes = read_whole(segment).await?;
    let is_needed = |offset: usize| {
        let frame = &bytes[offset..];
        let sequence = frame_sequence(frame);
        let seed = Seed { log_id: oldest.log_id, sequence };
        sequence >= oldest.sequence && frame_header_is_valid(&seed, offset as u64, frame)
    };
    if !(SEGMENT_HEADER_BYTES..bytes.len()).step_by(BLOCK_BYTES).any(is_needed) {
        return Ok(());
    }
    let mismatch = SegmentHeader::decode(&bytes).err().unwrap_or(Mismatch::Magic { found: 0 });
    Err(OpenError::Corrupt { segment: segment.name.clone(), offset: 0, mismatch })
}

/// No incarnation is there twice. Looked at before any segment is given up: of two, the one with the records might be.
fn check_distinct(live: &VecDeque<LiveSegment>) -> Result<(), OpenError> {
    for (before, after) in live.iter().zip(live.iter().skip(1)) {
        if before.header.sequence == after.header.sequence {
            let mismatch = Mismatch::Sequence { expected: before.header.sequence.next().0, found: after.header.sequence.0 };
            return Err(OpenError::Corrupt { segment: after.segment.name.clone(), offset: 0, mismatch });
        }
    }
    Ok(())
}

/// No incarnation between the first and the last is absent.
fn check_sequence(live: &VecDeque<LiveSegment>) -> Result<(), OpenError> {
    for (before, after) in live.iter().zip(live.iter().skip(1)) {
        let (expected, found) = (before.header.sequence.next(), after.header.sequence);
        if expected != found {
            let mismatch = Mismatch::Sequence { expected: expected.0, found: found.0 };
            return Err(OpenError::Corrupt { segment: after.segment.name.clone(), offset: 0, mismatch });
        }
    }
    Ok(())
}

/// Replays one segment. Returns where its frames end and the number after its last record. `successor` is the first record of
/// the segment that follows, if there is one.
async fn walk_segment(
    current: &LiveSegment,
    successor: Option<Lsn>,
    keep_from: Lsn,
    replay: Replay<'_>,
) -> Result<(u64, Lsn), OpenError> {
    let corrupt =
        |offset: usize, mismatch| OpenError::Corrupt { segment: current.segment.name.clone(), offset: offset as u64, mismatch };
    let bytes = read_whole(&current.segment).await?;
    let seed = current.header.seed();
    let mut next = current.header.first_lsn;
    let mut offset = SEGMENT_HEADER_BYTES;
    let mut end = None;
    while offset < bytes.len() {
        let frame = match decode_frame(&seed, offset as u64, &bytes[offset..]) {
            Ok(frame) => frame,
            // Its header is whole, so this is no unfinished write.
            Err(mismatch @ (Mismatch::Blocks { .. } | Mismatch::Number { .. })) => return Err(corrupt(offset, mismatch)),
            Err(mismatch) => {
                end = Some(mismatch);
                break;
            }
        };
        if frame.first_lsn != next {
            return Err(corrupt(offset, Mismatch::Order { expected: next, found: frame.first_lsn }));
        }
        for payload in frame.payloads {
            if next >= keep_from {
                replay(next, payload);
            }
            next = next.next();
        }
        offset += frame.bytes;
    }
    let goes_on_here = later_frame(&seed, &bytes, offset + BLOCK_BYTES).is_some();
    let goes_on_elsewhere = successor.is_some_and(|first| first != next);
    if goes_on_here || goes_on_elsewhere {
        let order = Mismatch::Order { expected: next, found: successor.unwrap_or_default() };
        return Err(corrupt(offset, end.unwrap_or(order)));
    }
    Ok((offset as u64, next))
}

/// Where a frame of this incarnation begins at or after `from`. Its header is proof enough that it was once written.
fn later_frame(seed: &Seed, bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len()).step_by(BLOCK_BYTES).find(|offset| frame_header_is_valid(seed, *offset as u64, &bytes[*offset..]))
}

async fn read_whole(segment: &Segment) -> Result<AlignedBuf, OpenError> {
    let bytes = usize::try_from(segment.disk.size_bytes()).expect("a segment is at most 64 MiB");
    Ok(segment.disk.read(0, bytes, ReadMode::Direct).await?)
}
