//! The walk: every frame of some zones, in order, found by what it proves about itself (RFD 2, decision 1).
//!
//! Files and conventional devices have no write pointer. A walk goes to the end of what was reserved (of an open zone of a dead
//! process: to the zone's end) and never stops at a hole: batches of several cores are written at once and may become durable
//! in any order, so an acknowledged frame can stand behind one that was lost.
//!
//! At each unit of 64 bytes: a frame that opens is reported and stepped over whole; anything else is stepped over by one unit.
//! Bytes of an earlier use of the zone carry another seed and are passed in silence; a header with this activation's seed that
//! does not check is reported as damaged.

use std::collections::VecDeque;
use std::sync::Arc;

use disk::{Disk, DiskError, ReadMode};
use env::Env;
use format::frame::{self, FRAME_MAGIC, FrameError, FrameView, Seal};
use format::zone_header::{ZONE_DATA_START, ZoneStream};
use types::limits::{BLOCK_BYTES, UNIT_BYTES};
use types::{Activation, DeviceId, Place, Position, ZoneIndex, ZoneOffset};

use crate::chunks::{Chunk, ChunkStream};
use crate::error::Damage;
use crate::geometry::Geometry;

const UNIT: u64 = UNIT_BYTES as u64;

/// A part of one zone to walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) zone: ZoneIndex,
    pub(crate) activation: Activation,
    pub(crate) stream: Option<ZoneStream>,
    pub(crate) seed: u64,
    /// From the zone's start.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Nobody knows its zone's activation: all of it is reported as unreadable, and nothing is read.
    pub(crate) is_unknown: bool,
}

/// What a walk reports. Bytes are borrowed until the next step.
#[derive(Debug)]
pub enum WalkEvent<'a> {
    /// A frame whose header checks, and its payload too where that was asked for.
    Frame(WalkedFrame<'a>),
    /// A header of this activation that does not check, or a frame whose payload does not: torn, or damaged later.
    Damaged { place: Place, position: Position, damage: Damage },
    /// A range that the disk could not read, or a zone of which the start could not read enough; the walk went on behind it.
    Unreadable { place: Place, position: Position, bytes: u64, error: DiskError },
}

/// A frame found by a walk.
#[derive(Debug, Clone, Copy)]
pub struct WalkedFrame<'a> {
    pub place: Place,
    pub position: Position,
    /// None when the zone's header had been lost.
    pub stream: Option<ZoneStream>,
    pub view: FrameView,
    /// The whole frame; the view's ranges count from its start.
    pub bytes: &'a [u8],
}

impl<'a> WalkedFrame<'a> {
    /// The engine's header.
    pub fn engine_header(&self) -> &'a [u8] {
        &self.bytes[self.view.engine_header()]
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.view.payload()]
    }
}

/// A walk under way.
pub struct Walk {
    device: DeviceId,
    segments: Vec<Segment>,
    chunks: ChunkStream,
    verify_payload: bool,
    /// Where the walk stands: a segment, and an offset from its zone's start.
    segment: usize,
    cursor: u64,
    /// Chunks that have been read, from the one with the cursor on.
    window: VecDeque<Chunk>,
    /// A frame that lies in more than one chunk.
    joined: Vec<u8>,
    frames: u64,
}

/// What stands at the cursor.
enum Look {
    Frame { view: FrameView, joined: bool },
    Damaged(Damage),
    Nothing,
}

impl Walk {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        env: &Env,
        geometry: Geometry,
        device: DeviceId,
        segments: Vec<Segment>,
        mode: ReadMode,
        verify_payload: bool,
    ) -> Walk {
        let cursor = segments.first().map_or(0, |segment| segment.start);
        Walk {
            device,
            segments,
            chunks: ChunkStream::new(disk, env, geometry, mode),
            verify_payload,
            segment: 0,
            cursor,
            window: VecDeque::new(),
            joined: Vec::new(),
            frames: 0,
        }
    }

    /// The next thing found; none at the end.
    pub async fn next(&mut self) -> Option<WalkEvent<'_>> {
        loop {
            if !self.fill().await {
                return None;
            }
            if self.segments[self.segment].is_unknown {
                return Some(self.pass_unknown());
            }
            let front = &self.window[0];
            if let Err(error) = &front.bytes {
                let (error, end) = (error.clone(), front.end);
                let (place, position) = self.here();
                let bytes = end - self.cursor;
                self.cursor = end;
                return Some(WalkEvent::Unreadable { place, position, bytes, error });
            }
            self.skip_to_candidate();
            if self.cursor >= self.window[0].end || self.cursor >= self.segments[self.segment].end {
                continue;
            }
            let (place, position) = self.here();
            match self.look().await {
                Look::Nothing => self.cursor += UNIT,
                Look::Damaged(damage) => {
                    // A frame with a good header is stepped over whole: what follows is the next of its batch.
                    self.cursor += if let Damage::Payload(_) = damage { self.frame_bytes_here() } else { UNIT };
                    return Some(WalkEvent::Damaged { place, position, damage });
                }
                Look::Frame { view, joined } => {
                    let from = (self.cursor - self.window[0].start) as usize;
                    self.cursor += view.frame_bytes() as u64;
                    self.frames += 1;
                    let stream = self.segments[self.segment].stream;
                    let bytes = if joined {
                        &self.joined[..view.frame_bytes()]
                    } else {
                        let chunk = self.window[0].bytes.as_ref().expect("a frame was seen in it");
                        &chunk[from..from + view.frame_bytes()]
                    };
                    return Some(WalkEvent::Frame(WalkedFrame { place, position, stream, view, bytes }));
                }
            }
        }
    }

    fn pass_unknown(&mut self) -> WalkEvent<'_> {
        let Segment { zone, end, .. } = self.segments[self.segment];
        let (place, position) = self.here();
        let bytes = end - self.cursor;
        let error = self.chunks.unread(zone, self.cursor, bytes);
        self.cursor = end;
        WalkEvent::Unreadable { place, position, bytes, error }
    }

    /// Where the next step begins; none at the end. A walk from there on finds what this one has not.
    pub fn resume_at(&self) -> Option<Position> {
        let segment = self.segments.get(self.segment)?;
        Some(Position { activation: segment.activation, offset: ZoneOffset::from_bytes(self.cursor) })
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.chunks.read_bytes
    }

    /// Frames found so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Sees to it that the window's first chunk holds the cursor, unless the segment is not read. False at the end of everything.
    async fn fill(&mut self) -> bool {
        loop {
            let Some(segment) = self.segments.get(self.segment) else { return false };
            if self.cursor >= segment.end {
                self.segment += 1;
                self.cursor = self.segments.get(self.segment).map_or(0, |next| next.start);
                continue;
            }
            if segment.is_unknown {
                return true;
            }
            match self.window.front() {
                Some(chunk) if chunk.segment == self.segment && chunk.end > self.cursor => return true,
                Some(_) => {
                    let passed = self.window.pop_front().expect("looked at above");
                    self.chunks.recycle(passed);
                }
                None => match self.chunks.next(&self.segments).await {
                    Some(chunk) => self.window.push_back(chunk),
                    None => return false,
                },
            }
        }
    }

    /// Moves the cursor to the next unit of the first chunk that could be a header, or to the chunk's end.
    fn skip_to_candidate(&mut self) {
        let chunk = &self.window[0];
        let bytes = chunk.bytes.as_ref().expect("an unreadable chunk is not looked at");
        let mut at = (self.cursor - chunk.start) as usize;
        while at < bytes.len() && bytes[at + 4..at + 8] != FRAME_MAGIC {
            at += UNIT_BYTES;
        }
        self.cursor = chunk.start + at as u64;
    }

    fn here(&self) -> (Place, Position) {
        let segment = &self.segments[self.segment];
        let offset = ZoneOffset::from_bytes(self.cursor);
        (Place { device: self.device, zone: segment.zone, offset }, Position { activation: segment.activation, offset })
    }

    fn seal_here(&self) -> Seal {
        let segment = &self.segments[self.segment];
        let offset = ZoneOffset::from_bytes(self.cursor);
        Seal { device: self.device, seed: segment.seed, activation: segment.activation, offset }
    }

    /// Looks at the unit at the cursor, reading on where a frame reaches into the next chunks.
    async fn look(&mut self) -> Look {
        let seal = self.seal_here();
        let room = (self.segments[self.segment].end - self.cursor) as usize;
        let first = self.window[0].bytes.as_ref().expect("a candidate was seen in it");
        let here = &first[(self.cursor - self.window[0].start) as usize..];
        let is_ours = frame::claim(here).is_some_and(|(_, seed)| seed == seal.seed);
        if !is_ours {
            return Look::Nothing;
        }
        let mut opened = frame::open(here, &seal);
        if let Err(FrameError::Short { needed }) = opened {
            if needed > room || !self.join(needed).await {
                return Look::Damaged(Damage::Header(FrameError::Short { needed }));
            }
            opened = frame::open(&self.joined, &seal);
        }
        let view = match opened {
            Ok(view) => view,
            Err(error) => return Look::Damaged(Damage::Header(error)),
        };
        let frame_bytes = view.frame_bytes();
        if frame_bytes > room {
            return Look::Damaged(Damage::BeyondZone { frame_bytes });
        }
        let joined = self.cursor + frame_bytes as u64 > self.window[0].end;
        if joined && !self.join(frame_bytes).await {
            // The rest is unreadable, which is reported when the walk gets there.
            return Look::Nothing;
        }
        if self.verify_payload {
            let bytes = self.bytes_here(joined, frame_bytes);
            if let Err(error) = frame::verify_payload(bytes, &view, &bytes[view.payload()], 0) {
                return Look::Damaged(Damage::Payload(error));
            }
        }
        Look::Frame { view, joined }
    }

    fn bytes_here(&self, joined: bool, len: usize) -> &[u8] {
        if joined {
            return &self.joined[..len];
        }
        let from = (self.cursor - self.window[0].start) as usize;
        &self.window[0].bytes.as_ref().expect("a frame was seen in it")[from..from + len]
    }

    /// Copies `len` bytes from the cursor on into `joined`, reading more chunks. False when they can't all be read.
    async fn join(&mut self, len: usize) -> bool {
        self.joined.clear();
        let mut index = 0;
        loop {
            if index == self.window.len() {
                match self.chunks.next(&self.segments).await {
                    Some(chunk) => self.window.push_back(chunk),
                    None => return false,
                }
            }
            let chunk = &self.window[index];
            let Ok(bytes) = &chunk.bytes else { return false };
            if chunk.segment != self.segment {
                return false;
            }
            let from = (self.cursor.max(chunk.start) - chunk.start) as usize;
            let take = (bytes.len() - from).min(len - self.joined.len());
            self.joined.extend_from_slice(&bytes[from..from + take]);
            if self.joined.len() == len {
                return true;
            }
            index += 1;
        }
    }

    /// Length of the frame at the cursor, whose header has been checked.
    fn frame_bytes_here(&self) -> u64 {
        let first = self.window[0].bytes.as_ref().expect("a frame was seen in it");
        let here = &first[(self.cursor - self.window[0].start) as usize..];
        frame::composed_bytes(here) as u64
    }
}

/// What a search for a lost activation found.
pub(crate) struct Search {
    pub(crate) newest: Option<Activation>,
    /// What could not be read hides no newer one. A zone is filled from its start: all that stands before the first frame of the newest was read, or
    /// the start, where there is none.
    pub(crate) is_certain: bool,
    /// Nothing of the zone was left out because it could not be read.
    pub(crate) is_whole: bool,
}

/// Finds the newest activation of a zone whose headers are lost, by its frames.
///
/// `seed_of` tells the secret of an activation that a header claims: an imitation in a payload doesn't know it.
pub(crate) async fn find_lost_activation(
    disk: Arc<dyn Disk>,
    env: &Env,
    geometry: Geometry,
    device: DeviceId,
    zone: ZoneIndex,
    seed_of: impl Fn(Activation) -> u64,
) -> Search {
    let end = readable_end(&*disk, geometry, zone);
    let segments =
        [Segment { zone, activation: Activation(0), stream: None, seed: 0, start: ZONE_DATA_START, end, is_unknown: false }];
    let mut chunks = ChunkStream::new(disk, env, geometry, ReadMode::Cached);
    let (mut newest, mut is_certain, mut is_whole) = (None, true, true);
    while let Some(chunk) = chunks.next(&segments).await {
        if chunk.bytes.is_err() {
            is_whole = false;
            is_certain &= newest.is_some() || chunk.start > ZONE_DATA_START;
        }
        let bytes = chunk.bytes.as_deref().unwrap_or(&[]);
        for at in (0..bytes.len()).step_by(UNIT_BYTES) {
            let Some((activation, seed)) = frame::claim(&bytes[at..]) else { continue };
            if newest.is_some_and(|known| known >= activation) || seed != seed_of(activation) {
                continue;
            }
            let offset = ZoneOffset::from_bytes(chunk.start + at as u64);
            match frame::open(&bytes[at..], &Seal { device, seed, activation, offset }) {
                // Of one that goes on in the next chunk the seed has proved enough.
                Ok(_) | Err(FrameError::Short { .. }) => (newest, is_certain) = (Some(activation), is_whole),
                Err(_) => {}
            }
        }
        chunks.recycle(chunk);
    }
    Search { newest, is_certain, is_whole }
}

/// Where the bytes of a zone that can be read end, from the zone's start: a growing file may end within it.
pub(crate) fn readable_end(disk: &dyn Disk, geometry: Geometry, zone: ZoneIndex) -> u64 {
    let readable = disk.size_bytes().saturating_sub(geometry.zone_start(zone)).min(geometry.zone_bytes());
    readable / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}
