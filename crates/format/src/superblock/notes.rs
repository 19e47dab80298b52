//! Notes: what others keep in a device's superblock area, as bytes that mean nothing to the device.
//!
//! Each kind has two slots of its own, written in turn: even sequence numbers to slot A, odd ones to slot B. A slot is one
//! block with the record below, followed by the bytes.
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 64)` |
//! | 4 | 4 | `magic` | `TriN` |
//! | 8 | 1 | `version` | [`NOTES_VERSION`] |
//! | 9 | 1 | `kind` | [`NotesKind`] |
//! | 10 | 2 | reserved | zero |
//! | 12 | 4 | `length` | bytes that follow the block |
//! | 16 | 8 | `sequence` | |
//! | 24 | 16 | `device_uuid` | |
//! | 40 | 4 | `bytes_crc` | CRC32C of those bytes |
//! | 44 | 20 | reserved | zero |
//!
//! Invariant: a write touches the slot that does not hold the newest notes, so a torn write leaves those.

use crc_fast::crc32_iscsi;
use types::DeviceUuid;
use types::limits::BLOCK_BYTES;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::fixed_layout;

/// Version written; 1: the first.
pub const NOTES_VERSION: u8 = 1;

/// Where the bytes start within a slot.
pub const NOTES_DATA_START: usize = BLOCK_BYTES;

const UNITS_START: u64 = 5 * 1024 * 1024 + 256 * 1024;
const UNITS_SLOT_BYTES: u64 = 1024 * 1024 + 256 * 1024;
const _: () = assert!(UNITS_START + 2 * UNITS_SLOT_BYTES <= crate::superblock::FIRST_REGION_BYTE);

const MAGIC: [u8; 4] = *b"TriN";
const RECORD_BYTES: usize = 64;
const CRC_BYTES: usize = 4;

/// Whose notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NotesKind {
    /// The target's fences.
    Fences = 1,
    /// The manager's exported state, so that losing all managers loses no data.
    Manager = 2,
    /// The device's own: which zones are lent, and to which units of which volumes ([`crate::unit_table`]).
    Units = 3,
}

impl NotesKind {
    /// All kinds.
    pub const ALL: [NotesKind; 3] = [NotesKind::Fences, NotesKind::Manager, NotesKind::Units];

    /// Most bytes that one slot holds.
    pub const fn max_bytes(self) -> usize {
        match self {
            NotesKind::Fences => 60 * 1024,
            NotesKind::Manager => 2 * 1024 * 1024 - NOTES_DATA_START,
            NotesKind::Units => UNITS_SLOT_BYTES as usize - NOTES_DATA_START,
        }
    }

    /// Where the slot for `sequence` starts.
    pub const fn slot_offset(self, sequence: u64) -> u64 {
        let slot = sequence % 2;
        match self {
            NotesKind::Fences => 128 * 1024 + slot * 64 * 1024,
            NotesKind::Manager => 1024 * 1024 + slot * 2 * 1024 * 1024,
            NotesKind::Units => UNITS_START + slot * UNITS_SLOT_BYTES,
        }
    }
}

const _: () = assert!(NotesKind::Fences.max_bytes() + NOTES_DATA_START <= 64 * 1024);
const _: () = assert!(NotesKind::Manager.max_bytes() + NOTES_DATA_START <= 2 * 1024 * 1024);

/// What a slot's first block says about the bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesHeader {
    pub kind: NotesKind,
    pub device_uuid: DeviceUuid,
    pub sequence: u64,
    pub length: u32,
    pub bytes_crc: u32,
}

fixed_layout! {
    pub(crate) struct Record: 64 {
        0 crc: U32,
        4 magic: [u8; 4],
        8 version: u8,
        9 kind: u8,
        10 reserved_a: U16,
        12 length: U32,
        16 sequence: U64,
        24 device_uuid: [u8; 16],
        40 bytes_crc: U32,
        44 reserved_b: [u8; 20],
    }
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);

/// Why a slot may not be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotesError {
    #[error("{found} bytes are too few for notes")]
    Short { found: usize },
    #[error("no notes")]
    Absent,
    #[error("notes header CRC {found:08x}, expected {expected:08x}")]
    Crc { expected: u32, found: u32 },
    #[error("notes of version {found}, expected {NOTES_VERSION}")]
    Version { found: u8 },
    #[error("notes of kind {kind} with {length} bytes of device {device_uuid}")]
    Misplaced { kind: u8, length: u32, device_uuid: DeviceUuid },
    #[error("notes CRC {found:08x}, expected {expected:08x}")]
    BytesCrc { expected: u32, found: u32 },
}

impl NotesHeader {
    /// Writes a slot: the block and the bytes after it. Returns how many bytes of `slot` count, a multiple of a block.
    ///
    /// Panics when the bytes exceed the kind's limit or `slot` is too short for them.
    pub fn encode_slot(kind: NotesKind, device_uuid: DeviceUuid, sequence: u64, bytes: &[u8], slot: &mut [u8]) -> usize {
        assert!(bytes.len() <= kind.max_bytes(), "{} bytes of notes", bytes.len());
        let used = NOTES_DATA_START + bytes.len().next_multiple_of(BLOCK_BYTES);
        let slot = &mut slot[..used];
        let mut record = Record {
            crc: U32::ZERO,
            magic: MAGIC,
            version: NOTES_VERSION,
            kind: kind as u8,
            reserved_a: U16::ZERO,
            length: U32::new(bytes.len() as u32),
            sequence: U64::new(sequence),
            device_uuid: device_uuid.0,
            bytes_crc: U32::new(crc32_iscsi(bytes)),
            reserved_b: [0; 20],
        };
        record.crc = U32::new(crc32_iscsi(&record.as_bytes()[CRC_BYTES..]));
        slot.fill(0);
        slot[..RECORD_BYTES].copy_from_slice(record.as_bytes());
        slot[NOTES_DATA_START..NOTES_DATA_START + bytes.len()].copy_from_slice(bytes);
        used
    }

    /// Reads a slot's first block.
    pub fn decode(block: &[u8], kind: NotesKind, device_uuid: DeviceUuid) -> Result<NotesHeader, NotesError> {
        let Ok((record, _)) = Record::ref_from_prefix(block) else {
            return Err(NotesError::Short { found: block.len() });
        };
        if record.magic != MAGIC {
            return Err(NotesError::Absent);
        }
        let expected = record.crc.get();
        let found = crc32_iscsi(&block[CRC_BYTES..RECORD_BYTES]);
        if expected != found {
            return Err(NotesError::Crc { expected, found });
        }
        if record.version != NOTES_VERSION {
            return Err(NotesError::Version { found: record.version });
        }
        let length = record.length.get();
        if record.kind != kind as u8 || length as usize > kind.max_bytes() || record.device_uuid != device_uuid.0 {
            let device_uuid = DeviceUuid(record.device_uuid);
            return Err(NotesError::Misplaced { kind: record.kind, length, device_uuid });
        }
        Ok(NotesHeader { kind, device_uuid, sequence: record.sequence.get(), length, bytes_crc: record.bytes_crc.get() })
    }

    /// The bytes of a slot, checked. `after_block` starts after the slot's first block.
    pub fn bytes<'a>(&self, after_block: &'a [u8]) -> Result<&'a [u8], NotesError> {
        let Some(bytes) = after_block.get(..self.length as usize) else {
            return Err(NotesError::Short { found: after_block.len() });
        };
        let found = crc32_iscsi(bytes);
        if found != self.bytes_crc {
            return Err(NotesError::BytesCrc { expected: self.bytes_crc, found });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
