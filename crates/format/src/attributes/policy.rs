//! Storage class and retention.
//!
//! On media a storage class is one byte; a retention is mode (1 byte) and end (8 bytes).

use crate::decode::{DecodeError, Fault, Reader};

/// S3's storage classes. Trilith stores all of them alike and remembers what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StorageClass {
    #[default]
    Standard = 0,
    ReducedRedundancy = 1,
    StandardIa = 2,
    OnezoneIa = 3,
    IntelligentTiering = 4,
    Glacier = 5,
    DeepArchive = 6,
    Outposts = 7,
    GlacierIr = 8,
    Snow = 9,
    ExpressOnezone = 10,
}

/// Who may shorten a retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetentionMode {
    /// Those who hold the right to bypass it.
    Governance = 1,
    /// Nobody.
    Compliance = 2,
}

/// Until when a version must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retention {
    pub mode: RetentionMode,
    /// Milliseconds since 1970.
    pub until_ms: u64,
}

impl StorageClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [StorageClass; 11] = [
        StorageClass::Standard,
        StorageClass::ReducedRedundancy,
        StorageClass::StandardIa,
        StorageClass::OnezoneIa,
        StorageClass::IntelligentTiering,
        StorageClass::Glacier,
        StorageClass::DeepArchive,
        StorageClass::Outposts,
        StorageClass::GlacierIr,
        StorageClass::Snow,
        StorageClass::ExpressOnezone,
    ];

    /// The class with this number.
    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        StorageClass::ALL.get(usize::from(number)).copied()
    }

    /// The name that S3 uses.
    pub fn name(self) -> &'static str {
        match self {
            StorageClass::Standard => "STANDARD",
            StorageClass::ReducedRedundancy => "REDUCED_REDUNDANCY",
            StorageClass::StandardIa => "STANDARD_IA",
            StorageClass::OnezoneIa => "ONEZONE_IA",
            StorageClass::IntelligentTiering => "INTELLIGENT_TIERING",
            StorageClass::Glacier => "GLACIER",
            StorageClass::DeepArchive => "DEEP_ARCHIVE",
            StorageClass::Outposts => "OUTPOSTS",
            StorageClass::GlacierIr => "GLACIER_IR",
            StorageClass::Snow => "SNOW",
            StorageClass::ExpressOnezone => "EXPRESS_ONEZONE",
        }
    }

    /// The class with this S3 name.
    pub fn from_name(name: &str) -> Option<Self> {
        StorageClass::ALL.into_iter().find(|class| class.name() == name)
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let number = reader.u8("storage class")?;
        StorageClass::from_number(number)
            .ok_or_else(|| reader.error_at(at, "storage class", Fault::Unknown { found: u64::from(number) }))
    }
}

impl Retention {
    pub(crate) fn encode(&self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[0] = self.mode as u8;
        bytes[1..].copy_from_slice(&self.until_ms.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let mode = match reader.u8("retention mode")? {
            1 => RetentionMode::Governance,
            2 => RetentionMode::Compliance,
            found => return Err(reader.error_at(at, "retention mode", Fault::Unknown { found: u64::from(found) })),
        };
        Ok(Retention { mode, until_ms: reader.u64("retention end")? })
    }
}
