//! The frame: what a device appends to a zone and finds again on a walk (RFD 2, decisions 1 and 23).
//!
//! A device knows frames, not objects. The engine's own header and its payload are bytes to it; what it adds is the proof
//! that these bytes are whole and stand where they were put.
//!
//! ```text
//! 0            64                64+h              header_bytes        header_bytes+p    frame_bytes
//! ├─ fixed ────┼─ engine header ─┼─ payload CRCs ──┼─ payload ─────────┼─ zero pad ──────┤
//!   64 B         h bytes           u32 per started   p bytes             to a 64 B unit
//!                                  4 KiB of payload
//! ```
//!
//! Fixed header, little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `header_crc` | CRC32C over `[4, header_bytes)`: fixed header, engine header and payload CRCs |
//! | 4 | 4 | `magic` | `TzFr` |
//! | 8 | 1 | `version` | [`FRAME_VERSION`] |
//! | 9 | 1 | `class` | the engine's; opaque here |
//! | 10 | 2 | `cell` | the cell that owns the record |
//! | 12 | 2 | `flags` | none defined: zero |
//! | 14 | 2 | reserved | zero |
//! | 16 | 4 | `header_bytes` | offset of the payload |
//! | 20 | 4 | `engine_header_bytes` | h |
//! | 24 | 4 | `payload_bytes` | p |
//! | 28 | 4 | `device` | device number |
//! | 32 | 8 | `activation` | of the zone |
//! | 40 | 8 | `seed` | secret of this zone activation, from device UUID and zone nonce |
//! | 48 | 4 | `offset` | of this frame in the zone, in 64-byte units |
//! | 52 | 12 | reserved | zero |
//!
//! Invariants:
//! - A frame passes [`open`] only on the device, in the zone activation and at the offset for which it was sealed: those and
//!   the seed stand under the header CRC. A stale or misdirected block never passes, and neither does a payload that imitates
//!   a header, because its author can't know the 64-bit seed.
//! - The CRC field comes first, so that one pass over contiguous bytes computes it, when sealing and when opening.
//! - The payload CRCs stand under the header CRC; each payload block is then checked alone, so a range read needs no more than
//!   its own blocks and the header.

use std::mem::{offset_of, size_of};
use std::ops::Range;

use crc_fast::crc32_iscsi;
use types::limits::{BLOCK_BYTES, UNIT_BYTES};
use types::{Activation, CellId, DeviceId, ZoneOffset};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version written; 1: the first.
pub const FRAME_VERSION: u8 = 1;

/// First bytes after the CRC.
pub const FRAME_MAGIC: [u8; 4] = *b"TzFr";

/// Bytes of the fixed header.
pub const FIXED_HEADER_BYTES: usize = 64;

/// Longest engine header.
pub const MAX_ENGINE_HEADER_BYTES: usize = 64 * 1024;

/// Longest payload.
pub const MAX_PAYLOAD_BYTES: usize = 4 * 1024 * 1024;

/// Longest frame.
pub const MAX_FRAME_BYTES: usize = frame_bytes(MAX_ENGINE_HEADER_BYTES, MAX_PAYLOAD_BYTES);

const CRC_BYTES: usize = 4;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    header_crc: U32,
    magic: [u8; 4],
    version: u8,
    class: u8,
    cell: U16,
    flags: U16,
    reserved_a: U16,
    header_bytes: U32,
    engine_header_bytes: U32,
    payload_bytes: U32,
    device: U32,
    activation: U64,
    seed: U64,
    offset: U32,
    reserved_b: [u8; 12],
}

const _: () = assert!(size_of::<Fixed>() == FIXED_HEADER_BYTES);
const _: () = assert!(offset_of!(Fixed, header_crc) == 0);
const _: () = assert!(offset_of!(Fixed, magic) == 4);
const _: () = assert!(offset_of!(Fixed, version) == 8);
const _: () = assert!(offset_of!(Fixed, class) == 9);
const _: () = assert!(offset_of!(Fixed, cell) == 10);
const _: () = assert!(offset_of!(Fixed, flags) == 12);
const _: () = assert!(offset_of!(Fixed, header_bytes) == 16);
const _: () = assert!(offset_of!(Fixed, engine_header_bytes) == 20);
const _: () = assert!(offset_of!(Fixed, payload_bytes) == 24);
const _: () = assert!(offset_of!(Fixed, device) == 28);
const _: () = assert!(offset_of!(Fixed, activation) == 32);
const _: () = assert!(offset_of!(Fixed, seed) == 40);
const _: () = assert!(offset_of!(Fixed, offset) == 48);
const _: () = assert!(FIXED_HEADER_BYTES == UNIT_BYTES, "a walk that steps by units meets every frame");

/// Where a frame stands, and the secret that proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    pub device: DeviceId,
    /// Secret of the zone activation; see [`crate::zone_header::frame_seed`].
    pub seed: u64,
    pub activation: Activation,
    pub offset: ZoneOffset,
}

/// The parts of a frame whose header has been checked. Ranges count from the frame's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameView {
    pub class: u8,
    pub cell: CellId,
    engine_header_bytes: u32,
    payload_bytes: u32,
}

impl FrameView {
    /// The engine's header.
    pub fn engine_header(&self) -> Range<usize> {
        FIXED_HEADER_BYTES..FIXED_HEADER_BYTES + self.engine_header_bytes as usize
    }

    /// The payload CRCs, four bytes each.
    pub fn crcs(&self) -> Range<usize> {
        let start = FIXED_HEADER_BYTES + self.engine_header_bytes as usize;
        start..start + CRC_BYTES * self.payload_blocks()
    }

    /// The payload.
    pub fn payload(&self) -> Range<usize> {
        let start = self.header_bytes();
        start..start + self.payload_bytes as usize
    }

    /// Bytes before the payload: as many as [`open`] needs.
    pub fn header_bytes(&self) -> usize {
        header_bytes(self.engine_header_bytes as usize, self.payload_bytes as usize)
    }

    /// Bytes of the whole frame with its pad.
    pub fn frame_bytes(&self) -> usize {
        frame_bytes(self.engine_header_bytes as usize, self.payload_bytes as usize)
    }

    /// Number of payload blocks of 4 KiB, the last perhaps short.
    pub fn payload_blocks(&self) -> usize {
        (self.payload_bytes as usize).div_ceil(BLOCK_BYTES)
    }
}

/// Why bytes are not a frame that may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header goes on beyond the bytes given; `needed` of them, from the frame's start, are enough to check it.
    #[error("frame header needs {needed} bytes")]
    Short { needed: usize },
    #[error("no frame starts here")]
    NotAFrame,
    #[error("frame version {found}, expected {FRAME_VERSION}")]
    Version { found: u8 },
    #[error("frame flags {found:#06x} are not known")]
    Flags { found: u16 },
    #[error(
        "frame lengths do not agree or exceed a limit: header {header_bytes}, engine {engine_header_bytes}, payload {payload_bytes}"
    )]
    Lengths { header_bytes: u32, engine_header_bytes: u32, payload_bytes: u32 },
    #[error("frame header CRC {found:08x}, expected {expected:08x}")]
    HeaderCrc { expected: u32, found: u32 },
    /// A frame of another place or of an earlier use of this zone. Without the seeds, which are secret.
    #[error(
        "frame of device {found_device} activation {found_activation} offset {}, expected device {} activation {} offset {}{}",
        found_offset.0, expected.device, expected.activation.0, expected.offset.0, if *.other_seed { ", other seed" } else { "" }
    )]
    Misplaced { expected: SealedAt, found_device: DeviceId, found_activation: u64, found_offset: ZoneOffset, other_seed: bool },
}

/// A [`Seal`] without its secret, for error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedAt {
    pub device: DeviceId,
    pub activation: Activation,
    pub offset: ZoneOffset,
}

/// A payload block that is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("payload block {block}: CRC {found:08x}, expected {expected:08x}")]
pub struct PayloadCrc {
    /// Index of the 4 KiB block within the payload.
    pub block: usize,
    pub expected: u32,
    pub found: u32,
}

/// Offset of the payload in a frame.
pub const fn header_bytes(engine_header: usize, payload: usize) -> usize {
    FIXED_HEADER_BYTES + engine_header + CRC_BYTES * payload.div_ceil(BLOCK_BYTES)
}

/// Bytes of a frame, padded to whole units.
pub const fn frame_bytes(engine_header: usize, payload: usize) -> usize {
    (header_bytes(engine_header, payload) + payload).next_multiple_of(UNIT_BYTES)
}

/// Writes a frame into `slot`: everything but its seal. `payload` is given in pieces, so that nobody joins them first.
///
/// Panics when the lengths exceed the limits or `slot` is not exactly [`frame_bytes`] long: both are the caller's bugs.
pub fn compose(slot: &mut [u8], class: u8, cell: CellId, engine_header: &[u8], payload: &[&[u8]]) {
    let payload_bytes = payload.iter().map(|piece| piece.len()).sum::<usize>();
    assert!(engine_header.len() <= MAX_ENGINE_HEADER_BYTES, "engine header of {} bytes", engine_header.len());
    assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "payload of {payload_bytes} bytes");
    assert!(slot.len() == frame_bytes(engine_header.len(), payload_bytes), "slot of {} bytes", slot.len());

    let payload_start = header_bytes(engine_header.len(), payload_bytes);
    let (head, body) = slot.split_at_mut(payload_start);
    let mut at = 0;
    for piece in payload {
        body[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    body[payload_bytes..].fill(0);

    let fixed = Fixed {
        header_crc: U32::ZERO,
        magic: FRAME_MAGIC,
        version: FRAME_VERSION,
        class,
        cell: U16::new(cell.0),
        flags: U16::ZERO,
        reserved_a: U16::ZERO,
        header_bytes: U32::new(payload_start as u32),
        engine_header_bytes: U32::new(engine_header.len() as u32),
        payload_bytes: U32::new(payload_bytes as u32),
        device: U32::ZERO,
        activation: U64::ZERO,
        seed: U64::ZERO,
        offset: U32::ZERO,
        reserved_b: [0; 12],
    };
    let (fixed_slot, rest) = head.split_at_mut(FIXED_HEADER_BYTES);
    fixed_slot.copy_from_slice(fixed.as_bytes());
    let (engine_slot, crcs) = rest.split_at_mut(engine_header.len());
    engine_slot.copy_from_slice(engine_header);
    for (crc, block) in crcs.chunks_exact_mut(CRC_BYTES).zip(body[..payload_bytes].chunks(BLOCK_BYTES)) {
        crc.copy_from_slice(&crc32_iscsi(block).to_le_bytes());
    }
}

/// Puts position and header CRC into a composed frame. May be repeated: the last seal counts.
///
/// Panics when `frame` does not start with a composed frame.
pub fn seal(frame: &mut [u8], seal: &Seal) {
    let (fixed, _) = Fixed::mut_from_prefix(frame).expect("a composed frame has its fixed header");
    assert!(fixed.magic == FRAME_MAGIC, "sealing what was not composed");
    fixed.device = U32::new(seal.device.0);
    fixed.activation = U64::new(seal.activation.0);
    fixed.seed = U64::new(seal.seed);
    fixed.offset = U32::new(seal.offset.0);
    let end = fixed.header_bytes.get() as usize;
    let crc = crc32_iscsi(&frame[CRC_BYTES..end]);
    frame[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Length of a frame that was composed, sealed or not.
///
/// Panics when `frame` does not start with a composed frame.
pub fn composed_bytes(frame: &[u8]) -> usize {
    let (fixed, _) = Fixed::ref_from_prefix(frame).expect("a composed frame has its fixed header");
    assert!(fixed.magic == FRAME_MAGIC, "measuring what was not composed");
    frame_bytes(fixed.engine_header_bytes.get() as usize, fixed.payload_bytes.get() as usize)
}

/// What the fixed header at the start of `bytes` says about its zone activation and its secret, unproven. None: no header.
///
/// Only for a walk: to tell own damaged frames from those of an earlier use of the zone, and to find the activation again when
/// a zone's headers are lost.
pub fn claim(bytes: &[u8]) -> Option<(Activation, u64)> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).ok()?;
    (fixed.magic == FRAME_MAGIC).then(|| (Activation(fixed.activation.get()), fixed.seed.get()))
}

/// Checks the header of the frame at the start of `bytes`, which may be only a prefix of the frame; the payload is left to
/// [`verify_payload`].
pub fn open(bytes: &[u8], expected: &Seal) -> Result<FrameView, FrameError> {
    let Ok((fixed, _)) = Fixed::ref_from_prefix(bytes) else {
        return Err(FrameError::Short { needed: FIXED_HEADER_BYTES });
    };
    let view = read_lengths(fixed)?;
    let end = view.header_bytes();
    if bytes.len() < end {
        // A frame of another place is said to be one before its lengths make anybody read more.
        check_place(fixed, expected)?;
        return Err(FrameError::Short { needed: end });
    }
    let stored = fixed.header_crc.get();
    let computed = crc32_iscsi(&bytes[CRC_BYTES..end]);
    if stored != computed {
        return Err(FrameError::HeaderCrc { expected: stored, found: computed });
    }
    check_place(fixed, expected)?;
    Ok(view)
}

/// Checks `piece`, which starts at payload block `first_block` and is whole blocks or ends where the payload ends, against the
/// CRCs in the header. `bytes` holds at least the header.
///
/// Panics when `piece` does not lie in the payload in this way.
pub fn verify_payload(bytes: &[u8], view: &FrameView, piece: &[u8], first_block: usize) -> Result<(), PayloadCrc> {
    let piece_end = first_block * BLOCK_BYTES + piece.len();
    let payload_bytes = view.payload_bytes as usize;
    assert!(piece_end <= payload_bytes, "piece ends at {piece_end} of {payload_bytes}");
    assert!(piece_end == payload_bytes || piece.len().is_multiple_of(BLOCK_BYTES), "piece cuts a block");
    let crcs = &bytes[view.crcs()][CRC_BYTES * first_block..];
    for (index, (block, crc)) in piece.chunks(BLOCK_BYTES).zip(crcs.chunks_exact(CRC_BYTES)).enumerate() {
        let expected = u32::from_le_bytes(crc.try_into().expect("chunks of four"));
        let found = crc32_iscsi(block);
        if expected != found {
            return Err(PayloadCrc { block: first_block + index, expected, found });
        }
    }
    Ok(())
}

fn read_lengths(fixed: &Fixed) -> Result<FrameView, FrameError> {
    if fixed.magic != FRAME_MAGIC {
        return Err(FrameError::NotAFrame);
    }
    if fixed.version != FRAME_VERSION {
        return Err(FrameError::Version { found: fixed.version });
    }
    if fixed.flags.get() != 0 {
        return Err(FrameError::Flags { found: fixed.flags.get() });
    }
    let engine_header_bytes = fixed.engine_header_bytes.get();
    let payload_bytes = fixed.payload_bytes.get();
    let in_limits = engine_header_bytes as usize <= MAX_ENGINE_HEADER_BYTES && payload_bytes as usize <= MAX_PAYLOAD_BYTES;
    if !in_limits || fixed.header_bytes.get() as usize != header_bytes(engine_header_bytes as usize, payload_bytes as usize) {
        let header_bytes = fixed.header_bytes.get();
        return Err(FrameError::Lengths { header_bytes, engine_header_bytes, payload_bytes });
    }
    Ok(FrameView { class: fixed.class, cell: CellId(fixed.cell.get()), engine_header_bytes, payload_bytes })
}

fn check_place(fixed: &Fixed, expected: &Seal) -> Result<(), FrameError> {
    let same = fixed.device.get() == expected.device.0
        && fixed.activation.get() == expected.activation.0
        && fixed.offset.get() == expected.offset.0
        && fixed.seed.get() == expected.seed;
    if same {
        return Ok(());
    }
    Err(FrameError::Misplaced {
        expected: SealedAt { device: expected.device, activation: expected.activation, offset: expected.offset },
        found_device: DeviceId(fixed.device.get()),
        found_activation: fixed.activation.get(),
        found_offset: ZoneOffset(fixed.offset.get()),
        other_seed: fixed.seed.get() != expected.seed,
    })
}

#[cfg(test)]
mod tests;
