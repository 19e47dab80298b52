//! The superblock: who a device is and how it is divided.
//!
//! ```text
//! 0     64 KiB  128 KiB     192 KiB     1 MiB     3 MiB     5 MiB     +64 KiB   5.25 MiB    6.5 MiB     8 MiB
//! ├ A ──┼ B ────┼ fences A ─┼ fences B ─┼ notes A ┼ notes B ┼ A again ┼ B again ┼ units A ──┼ units B ──┼ zones …
//! ```
//!
//! Slot A takes even sequence numbers, slot B odd ones, each in both places. Of the copies that can be believed, the one with
//! the highest sequence number counts.
//!
//! Layout of a copy, 4 KiB, little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 4096)` |
//! | 4 | 8 | `magic` | `TriSuper` |
//! | 12 | 2 | `version` | [`SUPERBLOCK_VERSION`] |
//! | 14 | 2 | reserved | zero |
//! | 16 | 8 | `sequence` | |
//! | 24 | 16 | `cluster` | |
//! | 40 | 16 | `device_uuid` | |
//! | 56 | 4 | `device` | number within the cluster |
//! | 60 | 2 | `cell` | |
//! | 62 | 2 | reserved | zero |
//! | 64 | 8 | `features` | a reader that does not know one of these bits refuses the device; none defined |
//! | 72 | 8 | `created_ms` | wall clock |
//! | 80 | 16 | `secret` | from which zone nonces derive |
//! | 96 | 4 | `block_bytes` | 4096 |
//! | 100 | 4 | `region_count` | at most [`MAX_REGIONS`] |
//! | 104 | 24 | reserved | zero |
//! | 128 | 48 each | regions | `kind` u32, reserved u32, `first_byte` u64, `bytes` u64, `zone_count` u32, zero |
//!
//! A region of kind 1 has zones: `bytes` of each, and how many. A reader refuses a device with a region of another kind.
//!
//! Invariants:
//! - A write touches one slot only, so a torn write leaves the slot of the sequence number before.
//! - A superblock is written whole: readers never merge two copies.
//! - Identity, secret and regions never change after the format.

pub mod fences;
pub mod notes;

use std::fmt;

use crc_fast::crc32_iscsi;
use types::limits::BLOCK_BYTES;
use types::{CellId, ClusterId, DeviceId, DeviceUuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version written; 1: the first.
pub const SUPERBLOCK_VERSION: u16 = 1;

/// Bytes of one copy.
pub const SUPERBLOCK_BYTES: usize = BLOCK_BYTES;

/// Most regions of a device.
pub const MAX_REGIONS: usize = 16;

/// Where the regions may start: everything before belongs to superblocks and notes.
pub const FIRST_REGION_BYTE: u64 = 8 * 1024 * 1024;

/// Offsets of the copies: slot A and slot B, at the start and again at a second place.
const SLOT_OFFSETS: [[u64; 2]; 2] = [[0, 5 * 1024 * 1024], [64 * 1024, 5 * 1024 * 1024 + 64 * 1024]];

const MAGIC: [u8; 8] = *b"TriSuper";
const CRC_BYTES: usize = 4;
const KIND_ZONE: u32 = 1;

/// A device's secret. Whoever knows it can imitate frames, so it never appears in texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceSecret(pub [u8; 16]);

impl fmt::Debug for DeviceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceSecret(secret)")
    }
}

/// A part of a device given to one discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    Zone(ZoneRegion),
}

/// A region of zones: append-only, each reset as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneRegion {
    pub first_byte: u64,
    pub zone_bytes: u64,
    pub zone_count: u32,
}

/// Who a device is and how it is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    pub sequence: u64,
    pub cluster: ClusterId,
    pub device_uuid: DeviceUuid,
    pub device: DeviceId,
    pub cell: CellId,
    pub created_ms: u64,
    pub secret: DeviceSecret,
    pub regions: Vec<Region>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    crc: U32,
    magic: [u8; 8],
    version: U16,
    reserved_a: U16,
    sequence: U64,
    cluster: [u8; 16],
    device_uuid: [u8; 16],
    device: U32,
    cell: U16,
    reserved_b: U16,
    features: U64,
    created_ms: U64,
    secret: [u8; 16],
    block_bytes: U32,
    region_count: U32,
    reserved_c: [u8; 24],
    regions: [RegionRecord; MAX_REGIONS],
    reserved_d: [u8; SUPERBLOCK_BYTES - 128 - 48 * MAX_REGIONS],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RegionRecord {
    kind: U32,
    reserved_a: U32,
    first_byte: U64,
    bytes: U64,
    zone_count: U32,
    reserved_b: [u8; 20],
}

const _: () = assert!(size_of::<Record>() == SUPERBLOCK_BYTES);
const _: () = assert!(size_of::<RegionRecord>() == 48);
const _: () = assert!(std::mem::offset_of!(Record, cluster) == 24);
const _: () = assert!(std::mem::offset_of!(Record, features) == 64);
const _: () = assert!(std::mem::offset_of!(Record, secret) == 80);
const _: () = assert!(std::mem::offset_of!(Record, regions) == 128);

/// Why a copy of a superblock may not be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    #[error("{found} bytes are too few for a superblock")]
    Short { found: usize },
    #[error("not a Trilith device")]
    Absent,
    #[error("superblock CRC {found:08x}, expected {expected:08x}")]
    Crc { expected: u32, found: u32 },
    #[error("superblock version {found}, expected {SUPERBLOCK_VERSION}")]
    Version { found: u16 },
    #[error("superblock needs features {found:#x}, which this version does not know")]
    Features { found: u64 },
    #[error("superblock geometry: blocks of {block_bytes} bytes, {region_count} regions, region of kind {kind}")]
    Geometry { block_bytes: u32, region_count: u32, kind: u32 },
}

impl Superblock {
    /// One copy's bytes.
    ///
    /// Panics with more than [`MAX_REGIONS`] regions.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        assert!(self.regions.len() <= MAX_REGIONS, "{} regions", self.regions.len());
        let mut record = Record::read_from_bytes(&[0; SUPERBLOCK_BYTES]).expect("a record's bytes");
        record.magic = MAGIC;
        record.version = U16::new(SUPERBLOCK_VERSION);
        record.sequence = U64::new(self.sequence);
        record.cluster = self.cluster.0;
        record.device_uuid = self.device_uuid.0;
        record.device = U32::new(self.device.0);
        record.cell = U16::new(self.cell.0);
        record.created_ms = U64::new(self.created_ms);
        record.secret = self.secret.0;
        record.block_bytes = U32::new(BLOCK_BYTES as u32);
        record.region_count = U32::new(self.regions.len() as u32);
        for (slot, region) in record.regions.iter_mut().zip(&self.regions) {
            let Region::Zone(zones) = region;
            slot.kind = U32::new(KIND_ZONE);
            slot.first_byte = U64::new(zones.first_byte);
            slot.bytes = U64::new(zones.zone_bytes);
            slot.zone_count = U32::new(zones.zone_count);
        }
        record.crc = U32::new(crc32_iscsi(&record.as_bytes()[CRC_BYTES..]));
        record.as_bytes().try_into().expect("a record's bytes")
    }

    /// Reads one copy.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let Ok((record, _)) = Record::ref_from_prefix(bytes) else {
            return Err(SuperblockError::Short { found: bytes.len() });
        };
        if record.magic != MAGIC {
            return Err(SuperblockError::Absent);
        }
        let expected = record.crc.get();
        let found = crc32_iscsi(&bytes[CRC_BYTES..SUPERBLOCK_BYTES]);
        if expected != found {
            return Err(SuperblockError::Crc { expected, found });
        }
        if record.version.get() != SUPERBLOCK_VERSION {
            return Err(SuperblockError::Version { found: record.version.get() });
        }
        if record.features.get() != 0 {
            return Err(SuperblockError::Features { found: record.features.get() });
        }
        Ok(Superblock {
            sequence: record.sequence.get(),
            cluster: ClusterId(record.cluster),
            device_uuid: DeviceUuid(record.device_uuid),
            device: DeviceId(record.device.get()),
            cell: CellId(record.cell.get()),
            created_ms: record.created_ms.get(),
            secret: DeviceSecret(record.secret),
            regions: decode_regions(record)?,
        })
    }

    /// The region of zones, if the device has one.
    pub fn zone_region(&self) -> Option<ZoneRegion> {
        self.regions.first().map(|Region::Zone(zones)| *zones)
    }

    /// Where this superblock's copies stand: the slot of its sequence number, at both places.
    pub fn write_offsets(&self) -> [u64; 2] {
        SLOT_OFFSETS[(self.sequence % 2) as usize]
    }

    /// Where copies may stand.
    pub fn read_offsets() -> impl Iterator<Item = u64> {
        SLOT_OFFSETS.into_iter().flatten()
    }
}

fn decode_regions(record: &Record) -> Result<Vec<Region>, SuperblockError> {
    let block_bytes = record.block_bytes.get();
    let region_count = record.region_count.get();
    if block_bytes as usize != BLOCK_BYTES || region_count as usize > MAX_REGIONS {
        return Err(SuperblockError::Geometry { block_bytes, region_count, kind: 0 });
    }
    let mut regions = Vec::with_capacity(region_count as usize);
    for slot in &record.regions[..region_count as usize] {
        let (first_byte, bytes) = (slot.first_byte.get(), slot.bytes.get());
        regions.push(match slot.kind.get() {
            KIND_ZONE => Region::Zone(ZoneRegion { first_byte, zone_bytes: bytes, zone_count: slot.zone_count.get() }),
            kind => return Err(SuperblockError::Geometry { block_bytes, region_count, kind }),
        });
    }
    Ok(regions)
}

#[cfg(test)]
mod tests;
