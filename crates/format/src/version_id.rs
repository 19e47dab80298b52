//! The id of one version of an object.

use std::fmt;
use std::str::FromStr;

/// Names one version of an object within its key. [`VersionId::NULL`] is the version written while versioning was off or
/// suspended; S3 shows it as `null`. Ids carry no order: versions sort by the order of their records.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub [u8; VERSION_ID_BYTES]);

/// Bytes of a [`VersionId`].
pub const VERSION_ID_BYTES: usize = 16;

/// A text that is not a version id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 lower-case hexadecimal digits or \"null\"")]
pub struct InvalidVersionId;

impl VersionId {
    pub const NULL: VersionId = VersionId([0; VERSION_ID_BYTES]);
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == VersionId::NULL {
            return f.write_str("null");
        }
        crate::hex::write(f, &self.0)
    }
}

impl fmt::Debug for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VersionId({self})")
    }
}

impl FromStr for VersionId {
    type Err = InvalidVersionId;

    fn from_str(text: &str) -> Result<Self, InvalidVersionId> {
        if text == "null" {
            return Ok(VersionId::NULL);
        }
        match crate::hex::parse(text.as_bytes()).map(VersionId) {
            Some(VersionId::NULL) | None => Err(InvalidVersionId),
            Some(id) => Ok(id),
        }
    }
}
