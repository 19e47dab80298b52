//! One message on a connection.
//!
//! ```text
//! 0     4     5        8            16       20       24         28         32
//! ├ magic ┼ kind ┼ zero ┼ id ────────┼ length ┼ budget ┼ payload's ┼ header's ┼ payload …
//! │ TRN1  │      │      │            │ bytes  │ ms     │ CRC-32C   │ CRC-32C  │
//! ```
//!
//! Little endian. The header's CRC covers its first 28 bytes: a length is believed only after it. `budget` is the time that the caller still
//! waits; zero in all but requests.

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// Bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Longest payload: a whole chunk of the chunk store with what is said around it; records and batches of notices are shorter.
pub const MAX_PAYLOAD_BYTES: usize = 4 * 1024 * 1024 + 64 * 1024;

const MAGIC: [u8; 4] = *b"TRN1";
const CRC_OFFSET: usize = 28;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame in each direction: who speaks.
    Hello = 1,
    Request = 2,
    Response = 3,
    /// The request was not carried out; the payload says why.
    Refusal = 4,
    /// Requests are being carried out; no payload.
    Alive = 5,
    /// As [`FrameKind::Refusal`], by a service that is not there yet and will be.
    EarlyRefusal = 6,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub kind: FrameKind,
    /// Joins an answer to its request.
    pub id: u64,
    pub payload_bytes: u32,
    pub budget_ms: u32,
    pub payload_crc: u32,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("magic {found:02x?}, expected {MAGIC:02x?}")]
    Magic { found: [u8; 4] },
    #[error("header checksum {found:08x}, expected {expected:08x}")]
    HeaderChecksum { expected: u32, found: u32 },
    #[error("kind {found} is not known")]
    Kind { found: u8 },
    #[error("reserved bytes {found:02x?} are not zero")]
    Reserved { found: [u8; 3] },
    #[error("a payload of {found} bytes, at most {most} are allowed")]
    Length { found: u32, most: u32 },
    #[error("payload checksum {found:08x}, expected {expected:08x}")]
    PayloadChecksum { expected: u32, found: u32 },
}

impl FrameHeader {
    /// The header of a frame with this payload.
    pub fn new(kind: FrameKind, id: u64, budget_ms: u32, payload: &[u8]) -> Self {
        FrameHeader::marked(kind, id, budget_ms, None, payload)
    }

    /// The header of a frame whose payload is a byte, if there is one, and then these.
    pub(crate) fn marked(kind: FrameKind, id: u64, budget_ms: u32, mark: Option<u8>, payload: &[u8]) -> Self {
        let payload_bytes = mark.iter().len() + payload.len();
        assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "callers check the length");
        let payload_crc = match mark {
            None => crc(payload),
            Some(mark) => {
                let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
                digest.update(&[mark]);
                digest.update(payload);
                digest.finalize() as u32
            }
        };
        FrameHeader { kind, id, payload_bytes: payload_bytes as u32, budget_ms, payload_crc }
    }

    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.budget_ms.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let own = crc(&bytes[..CRC_OFFSET]);
        bytes[CRC_OFFSET..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let found: [u8; 4] = part(bytes, 0);
        if found != MAGIC {
            return Err(FrameError::Magic { found });
        }
        let (expected, found) = (crc(&bytes[..CRC_OFFSET]), u32::from_le_bytes(part(bytes, CRC_OFFSET)));
        if found != expected {
            return Err(FrameError::HeaderChecksum { expected, found });
        }
        let kind = match bytes[4] {
            1 => FrameKind::Hello,
            2 => FrameKind::Request,
            3 => FrameKind::Response,
            4 => FrameKind::Refusal,
            5 => FrameKind::Alive,
            6 => FrameKind::EarlyRefusal,
            found => return Err(FrameError::Kind { found }),
        };
        let reserved: [u8; 3] = part(bytes, 5);
        if reserved != [0; 3] {
            return Err(FrameError::Reserved { found: reserved });
        }
        let payload_bytes = u32::from_le_bytes(part(bytes, 16));
        if payload_bytes as usize > MAX_PAYLOAD_BYTES {
            return Err(FrameError::Length { found: payload_bytes, most: MAX_PAYLOAD_BYTES as u32 });
        }
        Ok(FrameHeader {
            kind,
            id: u64::from_le_bytes(part(bytes, 8)),
            payload_bytes,
            budget_ms: u32::from_le_bytes(part(bytes, 20)),
            payload_crc: u32::from_le_bytes(part(bytes, 24)),
        })
    }

    /// Whether the payload is the one that was sent.
    pub fn check(&self, payload: &[u8]) -> Result<(), FrameError> {
        let expected = crc(payload);
        if self.payload_crc != expected {
            return Err(FrameError::PayloadChecksum { expected, found: self.payload_crc });
        }
        Ok(())
    }
}

fn part<const N: usize>(bytes: &[u8; FRAME_HEADER_BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("parts lie within the header")
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests;
