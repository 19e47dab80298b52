//! Checksums that clients send and get back.
//!
//! On media: algorithm (1 byte), kind (1 byte), parts (2 bytes, zero unless composite), value.

use crate::decode::{DecodeError, Fault, Reader};

/// An algorithm that S3 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumAlgorithm {
    Crc32 = 1,
    Crc32c = 2,
    Crc64Nvme = 3,
    Sha1 = 4,
    Sha256 = 5,
    Sha512 = 6,
    Md5 = 7,
    XxHash64 = 8,
    /// XXH3 of 64 bits.
    XxHash3 = 9,
    /// XXH3 of 128 bits.
    XxHash128 = 10,
}

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// The content.
    FullObject,
    /// The checksums of the parts.
    Composite { parts: u16 },
}

/// A checksum as its client gave it, or as it was computed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    kind: ChecksumType,
    value: [u8; MAX_CHECKSUM_BYTES],
}

/// A checksum without its value: what lists show of an object, and what an upload is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChecksumScheme {
    pub algorithm: ChecksumAlgorithm,
    /// Over the content; otherwise over the checksums of the parts.
    pub full_object: bool,
}

/// Bytes of the longest value, SHA-512.
pub const MAX_CHECKSUM_BYTES: usize = 64;

const FULL_OBJECT: u8 = 0;
const COMPOSITE: u8 = 1;
const OF_WHOLE_OBJECT: u8 = 1 << 7;

impl ChecksumAlgorithm {
    /// All of them, in the order of their numbers.
    pub const ALL: [ChecksumAlgorithm; 10] = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
        ChecksumAlgorithm::Sha512,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::XxHash64,
        ChecksumAlgorithm::XxHash3,
        ChecksumAlgorithm::XxHash128,
    ];

    /// Bytes of a value.
    pub const fn value_bytes(self) -> usize {
        match self {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
            ChecksumAlgorithm::Crc64Nvme | ChecksumAlgorithm::XxHash64 | ChecksumAlgorithm::XxHash3 => 8,
            ChecksumAlgorithm::Md5 | ChecksumAlgorithm::XxHash128 => 16,
            ChecksumAlgorithm::Sha1 => 20,
            ChecksumAlgorithm::Sha256 => 32,
            ChecksumAlgorithm::Sha512 => 64,
        }
    }

    /// S3's name.
    pub const fn name(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "CRC32",
            ChecksumAlgorithm::Crc32c => "CRC32C",
            ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
            ChecksumAlgorithm::Sha1 => "SHA1",
            ChecksumAlgorithm::Sha256 => "SHA256",
            ChecksumAlgorithm::Sha512 => "SHA512",
            ChecksumAlgorithm::Md5 => "MD5",
            ChecksumAlgorithm::XxHash64 => "XXHASH64",
            ChecksumAlgorithm::XxHash3 => "XXHASH3",
            ChecksumAlgorithm::XxHash128 => "XXHASH128",
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let number = reader.u8("checksum algorithm")?;
        ChecksumAlgorithm::from_number(number)
            .ok_or_else(|| reader.error_at(at, "checksum algorithm", Fault::Unknown { found: u64::from(number) }))
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        ChecksumAlgorithm::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl Checksum {
    /// `None` when the value has not the algorithm's length. CRCs are big endian, as S3 shows them.
    pub fn new(algorithm: ChecksumAlgorithm, kind: ChecksumType, value: &[u8]) -> Option<Self> {
        if value.len() != algorithm.value_bytes() {
            return None;
        }
        let mut all = [0; MAX_CHECKSUM_BYTES];
        all[..value.len()].copy_from_slice(value);
        Some(Checksum { algorithm, kind, value: all })
    }

    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    pub fn kind(&self) -> ChecksumType {
        self.kind
    }

    pub fn value(&self) -> &[u8] {
        &self.value[..self.algorithm.value_bytes()]
    }

    /// The four bytes before the value.
    pub(crate) fn head(&self) -> [u8; 4] {
        let (kind, parts) = match self.kind {
            ChecksumType::FullObject => (FULL_OBJECT, 0),
            ChecksumType::Composite { parts } => (COMPOSITE, parts),
        };
        let [low, high] = parts.to_le_bytes();
        [self.algorithm as u8, kind, low, high]
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let algorithm = ChecksumAlgorithm::decode(reader)?;
        let at = reader.offset();
        let kind = reader.u8("checksum kind")?;
        let parts = reader.u16("checksum parts")?;
        let kind = match kind {
            FULL_OBJECT => ChecksumType::FullObject,
            COMPOSITE => ChecksumType::Composite { parts },
            _ => return Err(reader.error_at(at, "checksum kind", Fault::Unknown { found: u64::from(kind) })),
        };
        let value = reader.take(algorithm.value_bytes(), "checksum value")?;
        Ok(Checksum::new(algorithm, kind, value).expect("the reader took the algorithm's length"))
    }
}

impl ChecksumScheme {
    /// Of a checksum.
    pub fn of(checksum: &Checksum) -> Self {
        ChecksumScheme { algorithm: checksum.algorithm, full_object: checksum.kind == ChecksumType::FullObject }
    }

    /// In one byte of a row: the algorithm, and bit 7 for the whole object.
    pub(crate) fn to_byte(self) -> u8 {
        self.algorithm as u8 | if self.full_object { OF_WHOLE_OBJECT } else { 0 }
    }

    /// What [`ChecksumScheme::to_byte`] gave.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let algorithm = ChecksumAlgorithm::from_number(byte & !OF_WHOLE_OBJECT)?;
        Some(ChecksumScheme { algorithm, full_object: byte & OF_WHOLE_OBJECT != 0 })
    }

    pub(crate) fn encode(&self) -> [u8; 2] {
        [self.algorithm as u8, if self.full_object { FULL_OBJECT } else { COMPOSITE }]
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let algorithm = ChecksumAlgorithm::decode(reader)?;
        let at = reader.offset();
        match reader.u8("checksum kind")? {
            FULL_OBJECT => Ok(ChecksumScheme { algorithm, full_object: true }),
            COMPOSITE => Ok(ChecksumScheme { algorithm, full_object: false }),
            kind => Err(reader.error_at(at, "checksum kind", Fault::Unknown { found: u64::from(kind) })),
        }
    }
}
