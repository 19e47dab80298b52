//! The reads of a walk: large, in order, with the next ones in flight while one is looked through.

use std::collections::VecDeque;
use std::sync::Arc;

use disk::{AlignedBuf, Completion, Disk, DiskError, DiskErrorKind, DiskExt, Operation, ReadMode, Request};
use env::Env;
use tokio::sync::oneshot;
use types::ZoneIndex;
use types::limits::BLOCK_BYTES;

use crate::geometry::Geometry;
use crate::inner::{abandoned, unread};
use crate::limits::{WALK_CHUNK_BYTES, WALK_PAUSE, WALK_READS, WALK_SPLITS};
use crate::walk::Segment;

/// Memory that may rest between reads.
const MAX_RESTING: usize = WALK_READS + 2;

/// One read's bytes.
pub(crate) struct Chunk {
    /// Index of the segment that it belongs to.
    pub(crate) segment: usize,
    /// From the zone's start.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Exactly `end - start` bytes, or why they could not be read.
    pub(crate) bytes: Result<AlignedBuf, DiskError>,
}

struct Planned {
    segment: usize,
    start: u64,
    end: u64,
    answer: oneshot::Receiver<Completion>,
}

/// The chunks of all segments, in order.
pub(crate) struct ChunkStream {
    disk: Arc<dyn Disk>,
    env: Env,
    geometry: Geometry,
    mode: ReadMode,
    in_flight: VecDeque<Planned>,
    resting: Vec<AlignedBuf>,
    /// What became of a chunk that could not be read in one piece.
    pieces: VecDeque<Chunk>,
    /// How many more pieces may be halved.
    splits_left: usize,
    /// What to read next.
    segment: usize,
    offset: u64,
    pub(crate) read_bytes: u64,
}

impl ChunkStream {
    pub(crate) fn new(disk: Arc<dyn Disk>, env: &Env, geometry: Geometry, mode: ReadMode) -> ChunkStream {
        ChunkStream {
            disk,
            env: env.clone(),
            geometry,
            mode,
            in_flight: VecDeque::new(),
            resting: Vec::new(),
            pieces: VecDeque::new(),
            splits_left: WALK_SPLITS,
            segment: 0,
            offset: 0,
            read_bytes: 0,
        }
    }

    /// The next chunk; none after the last segment's end. Of one with blocks that the disk can't read the pieces beside them follow one another.
    pub(crate) async fn next(&mut self, segments: &[Segment]) -> Option<Chunk> {
        if self.pieces.is_empty() {
            let chunk = self.next_whole(segments).await?;
            self.read_again(segments, chunk).await;
        }
        self.pieces.pop_front()
    }

    /// Halves what could not be read, until the pieces that are missing are single blocks, or so many were halved that the disk must be in a bad way.
    async fn read_again(&mut self, segments: &[Segment], chunk: Chunk) {
        let mut left = vec![chunk];
        while let Some(piece) = left.pop() {
            let is_failed = matches!(&piece.bytes, Err(error) if error.kind == DiskErrorKind::Failed);
            let blocks = (piece.end - piece.start) / BLOCK_BYTES as u64;
            if !is_failed || blocks < 2 || self.splits_left == 0 {
                self.push_piece(piece);
                continue;
            }
            self.splits_left -= 1;
            let middle = piece.start + blocks / 2 * BLOCK_BYTES as u64;
            let second = self.read_piece(segments, piece.segment, middle, piece.end).await;
            let first = self.read_piece(segments, piece.segment, piece.start, middle).await;
            left.extend([second, first]);
        }
    }

    /// Reads until the disk takes the read.
    async fn read_piece(&self, segments: &[Segment], segment: usize, start: u64, end: u64) -> Chunk {
        let offset = self.geometry.disk_offset(segments[segment].zone, start);
        let mut bytes = self.disk.read(offset, (end - start) as usize, self.mode).await;
        while is_refused(&bytes) {
            self.env.sleep(WALK_PAUSE).await;
            bytes = self.disk.read(offset, (end - start) as usize, self.mode).await;
        }
        Chunk { segment, start, end, bytes }
    }

    /// Pieces that can't be read and follow one another are one.
    fn push_piece(&mut self, piece: Chunk) {
        match self.pieces.back_mut() {
            Some(last) if last.bytes.is_err() && piece.bytes.is_err() => last.end = piece.end,
            _ => self.pieces.push_back(piece),
        }
    }

    async fn next_whole(&mut self, segments: &[Segment]) -> Option<Chunk> {
        while self.in_flight.len() < WALK_READS && self.start_read(segments) {}
        let Planned { segment, start, end, answer } = self.in_flight.pop_front()?;
        let completion = answer.await;
        while self.in_flight.len() < WALK_READS && self.start_read(segments) {}
        let bytes = match completion {
            Ok(Completion { result: Ok(()), buf }) => Ok(buf.expect("a read returns its buffer")),
            Ok(Completion { result: Err(error), .. }) => Err(error),
            Err(_) => {
                let at = self.geometry.disk_offset(segments[segment].zone, start);
                Err(abandoned(&*self.disk, Operation::Read, at, end - start))
            }
        };
        self.read_bytes += end - start;
        if is_refused(&bytes) {
            self.env.sleep(WALK_PAUSE).await;
            return Some(self.read_piece(segments, segment, start, end).await);
        }
        Some(Chunk { segment, start, end, bytes })
    }

    /// The error for a range of a zone of which the start could not read enough.
    pub(crate) fn unread(&self, zone: ZoneIndex, start: u64, len: u64) -> DiskError {
        unread(&*self.disk, self.geometry.disk_offset(zone, start), len)
    }

    /// Takes a chunk's memory back.
    pub(crate) fn recycle(&mut self, chunk: Chunk) {
        if let Ok(buf) = chunk.bytes
            && self.resting.len() < MAX_RESTING
        {
            self.resting.push(buf);
        }
    }

    fn start_read(&mut self, segments: &[Segment]) -> bool {
        let Some(segment) = segments.get(self.segment) else { return false };
        let first = segment.start / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let start = self.offset.max(first);
        if start >= segment.end || segment.is_unknown {
            self.segment += 1;
            self.offset = 0;
            return self.start_read(segments);
        }
        // Aligned to the chunk size from the zone's start, so that only the first is short.
        let chunk = WALK_CHUNK_BYTES as u64;
        let end = ((start / chunk + 1) * chunk).min(segment.end.next_multiple_of(BLOCK_BYTES as u64));
        let len = (end - start) as usize;
        let buf = self.resting.pop().filter(|buf| buf.len() == len).unwrap_or_else(|| AlignedBuf::for_read(len));
        let offset = self.geometry.disk_offset(segment.zone, start);
        let (tell, answer) = oneshot::channel();
        // A walk that was dropped does not want the answer.
        let done = Box::new(move |completion| drop(tell.send(completion)));
        self.disk.submit(Request::Read { offset, buf, mode: self.mode }, done);
        self.in_flight.push_back(Planned { segment: self.segment, start, end, answer });
        self.offset = end;
        true
    }
}

/// Whether the disk has not even tried to read.
fn is_refused(bytes: &Result<AlignedBuf, DiskError>) -> bool {
    matches!(bytes, Err(error) if error.kind == DiskErrorKind::Overloaded)
}
