//! The zone header: what stands in the first 8 KiB of a zone, in two copies of 4 KiB, written with one durable write.
//!
//! The headers together are the journal of a device's zones; there is no other (docs/rfd/0010). A zone's data starts at
//! [`ZONE_DATA_START`].
//!
//! Little endian; all of it lies in the first 512 bytes of a copy, so that a device whose sectors are written whole leaves each
//! copy old or new, never mixed:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 512)` |
//! | 4 | 4 | `magic` | `TzZh` |
//! | 8 | 1 | `version` | [`ZONE_HEADER_VERSION`] |
//! | 9 | 1 | `state` | [`ZoneState`] |
//! | 10 | 1 | `stream` | [`ZoneStream`]; 0 when never activated or not known any more |
//! | 11 | 1 | reserved | zero |
//! | 12 | 4 | `zone` | index of the zone |
//! | 16 | 16 | `device_uuid` | |
//! | 32 | 8 | `activation` | the last one; 0: never activated |
//! | 40 | 16 | `nonce` | [`zone_nonce`] of this activation |
//! | 56 | 4 | `end` | finished zones: where the last reserved byte ends, in units |
//! | 60 | 4 | reserved | zero |
//! | 64 | 8 | `changed_ms` | wall clock of the change, for people |
//! | 72 | 440 | reserved | zero |
//!
//! Invariants:
//! - States of one activation follow Open → Finished → Free, or Lent → Returned, and the next activation is higher, so of two readable copies
//!   the newer is the one with the greater (activation, state).
//! - A header that says Lent decides nothing: the unit table does ([`crate::unit_table`]).
//! - The nonce follows from the device's secret, the zone and the activation. A zone whose two headers are lost gives its data
//!   back: a frame names the activation, and the secret proves it.

use crc_fast::crc32_iscsi;
use types::limits::BLOCK_BYTES;
use types::{Activation, DeviceUuid, ZoneIndex, ZoneOffset};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::superblock::DeviceSecret;

/// Version written; 1: the first.
pub const ZONE_HEADER_VERSION: u8 = 1;

/// Copies of the header at the start of a zone.
pub const ZONE_HEADER_COPIES: usize = 2;

/// Where a zone's data starts: after the copies of its header.
pub const ZONE_DATA_START: u64 = (ZONE_HEADER_COPIES * BLOCK_BYTES) as u64;

const MAGIC: [u8; 4] = *b"TzZh";
const RECORD_BYTES: usize = 512;
const CRC_BYTES: usize = 4;

/// Secret of one activation of one zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ZoneNonce(pub [u8; 16]);

impl std::fmt::Debug for ZoneNonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ZoneNonce(secret)")
    }
}

/// What a zone is used for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ZoneState {
    /// Takes appends, or took them when the process died.
    Open = 1,
    /// Takes no more appends.
    Finished = 2,
    /// Holds nothing: reset, or written with zeros and never activated.
    Free = 3,
    /// Lent to a volume; the unit table says to which.
    Lent = 4,
    /// Holds nothing, and its space was given back: it is allocated again before it is used.
    Returned = 5,
}

/// The sequence of zones that a zone belongs to. Positions within one stream ascend with time; those of different streams
/// can't be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ZoneStream {
    /// Records whose position is their order: objects and tombstones.
    Ordered = 1,
    /// Copies of records made by collection or repair.
    Relocated = 2,
    /// Checkpoints and other state that is not an object.
    Meta = 3,
}

/// One zone's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneHeader {
    pub device_uuid: DeviceUuid,
    pub zone: ZoneIndex,
    pub activation: Activation,
    pub state: ZoneState,
    /// None when the zone was never activated, or when its header was lost and found again from its frames.
    pub stream: Option<ZoneStream>,
    pub nonce: ZoneNonce,
    pub end: ZoneOffset,
    pub changed_ms: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    crc: U32,
    magic: [u8; 4],
    version: u8,
    state: u8,
    stream: u8,
    reserved_a: u8,
    zone: U32,
    device_uuid: [u8; 16],
    activation: U64,
    nonce: [u8; 16],
    end: U32,
    reserved_b: U32,
    changed_ms: U64,
    reserved_c: [u8; 440],
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES);
const _: () = assert!(std::mem::offset_of!(Record, device_uuid) == 16);
const _: () = assert!(std::mem::offset_of!(Record, activation) == 32);
const _: () = assert!(std::mem::offset_of!(Record, end) == 56);
const _: () = assert!(std::mem::offset_of!(Record, changed_ms) == 64);

/// Why a copy of a zone header may not be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZoneHeaderError {
    #[error("{found} bytes are too few for a zone header")]
    Short { found: usize },
    /// No header was ever written here, or it is lost.
    #[error("no zone header")]
    Absent,
    #[error("zone header CRC {found:08x}, expected {expected:08x}")]
    Crc { expected: u32, found: u32 },
    #[error("zone header version {found}, expected {ZONE_HEADER_VERSION}")]
    Version { found: u8 },
    #[error("zone header with state {state} and stream {stream}")]
    State { state: u8, stream: u8 },
    #[error("header of zone {found_zone} of device {found_device}, expected zone {} of device {expected_device}", expected_zone.0)]
    Misplaced { expected_device: DeviceUuid, expected_zone: ZoneIndex, found_device: DeviceUuid, found_zone: u32 },
}

impl ZoneHeader {
    /// Fills `area`, the first [`ZONE_DATA_START`] bytes of a zone, with all copies.
    ///
    /// Panics when `area` has another length.
    pub fn encode(&self, area: &mut [u8]) {
        assert!(area.len() as u64 == ZONE_DATA_START, "area of {} bytes", area.len());
        let mut record = Record {
            crc: U32::ZERO,
            magic: MAGIC,
            version: ZONE_HEADER_VERSION,
            state: self.state as u8,
            stream: self.stream.map_or(0, |stream| stream as u8),
            reserved_a: 0,
            zone: U32::new(self.zone.0),
            device_uuid: self.device_uuid.0,
            activation: U64::new(self.activation.0),
            nonce: self.nonce.0,
            end: U32::new(self.end.0),
            reserved_b: U32::ZERO,
            changed_ms: U64::new(self.changed_ms),
            reserved_c: [0; 440],
        };
        record.crc = U32::new(crc32_iscsi(&record.as_bytes()[CRC_BYTES..]));
        area.fill(0);
        for copy in area.chunks_exact_mut(BLOCK_BYTES) {
            copy[..RECORD_BYTES].copy_from_slice(record.as_bytes());
        }
    }

    /// The newest copy in `area` that may be believed; when there is none, what is wrong with the first.
    pub fn decode(area: &[u8], device_uuid: DeviceUuid, zone: ZoneIndex) -> Result<ZoneHeader, ZoneHeaderError> {
        if (area.len() as u64) < ZONE_DATA_START {
            return Err(ZoneHeaderError::Short { found: area.len() });
        }
        let mut newest: Option<ZoneHeader> = None;
        let mut first_error = None;
        for copy in area[..ZONE_DATA_START as usize].chunks_exact(BLOCK_BYTES) {
            match decode_copy(copy, device_uuid, zone) {
                Ok(header) => {
                    if newest.is_none_or(|known| known.age_key() < header.age_key()) {
                        newest = Some(header);
                    }
                }
                // A damaged copy says more than an absent one.
                Err(error) if first_error.is_none_or(|known| known == ZoneHeaderError::Absent) => first_error = Some(error),
                Err(_) => {}
            }
        }
        newest.ok_or(first_error.unwrap_or(ZoneHeaderError::Absent))
    }

    fn age_key(&self) -> (Activation, ZoneState) {
        (self.activation, self.state)
    }
}

/// The nonce of one activation of one zone.
pub fn zone_nonce(secret: &DeviceSecret, zone: ZoneIndex, activation: Activation) -> ZoneNonce {
    let mut hasher = blake3::Hasher::new_derive_key("trilith zone nonce 1");
    hasher.update(&secret.0).update(&zone.0.to_le_bytes()).update(&activation.0.to_le_bytes());
    let hash = hasher.finalize();
    ZoneNonce(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes"))
}

/// The seed of the frames of one activation of one zone ([`crate::frame::Seal`]).
pub fn frame_seed(device_uuid: DeviceUuid, nonce: &ZoneNonce) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("trilith frame seed 1");
    hasher.update(&device_uuid.0).update(&nonce.0);
    let hash = hasher.finalize();
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
}

fn decode_copy(copy: &[u8], device_uuid: DeviceUuid, zone: ZoneIndex) -> Result<ZoneHeader, ZoneHeaderError> {
    let record = Record::ref_from_bytes(&copy[..RECORD_BYTES]).expect("a record's bytes");
    if record.magic != MAGIC {
        return Err(ZoneHeaderError::Absent);
    }
    let expected = record.crc.get();
    let found = crc32_iscsi(&copy[CRC_BYTES..RECORD_BYTES]);
    if expected != found {
        return Err(ZoneHeaderError::Crc { expected, found });
    }
    if record.version != ZONE_HEADER_VERSION {
        return Err(ZoneHeaderError::Version { found: record.version });
    }
    if record.device_uuid != device_uuid.0 || record.zone.get() != zone.0 {
        return Err(ZoneHeaderError::Misplaced {
            expected_device: device_uuid,
            expected_zone: zone,
            found_device: DeviceUuid(record.device_uuid),
            found_zone: record.zone.get(),
        });
    }
    let unknown = ZoneHeaderError::State { state: record.state, stream: record.stream };
    let state = match record.state {
        1 => ZoneState::Open,
        2 => ZoneState::Finished,
        3 => ZoneState::Free,
        4 => ZoneState::Lent,
        5 => ZoneState::Returned,
        _ => return Err(unknown),
    };
    let stream = match record.stream {
        0 => None,
        1 => Some(ZoneStream::Ordered),
        2 => Some(ZoneStream::Relocated),
        3 => Some(ZoneStream::Meta),
        _ => return Err(unknown),
    };
    let activation = Activation(record.activation.get());
    if (state == ZoneState::Open && stream.is_none()) || (state != ZoneState::Free && activation.0 == 0) {
        return Err(unknown);
    }
    Ok(ZoneHeader {
        device_uuid,
        zone,
        activation,
        state,
        stream,
        nonce: ZoneNonce(record.nonce),
        end: ZoneOffset(record.end.get()),
        changed_ms: record.changed_ms.get(),
    })
}

#[cfg(test)]
mod tests;
