//! Entity tags.
//!
//! On media: kind (1 byte), digest (16 bytes), parts (2 bytes, zero unless multipart).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::decode::{DecodeError, Fault, Reader};

/// What identifies an object's content to S3 clients. Two tags are equal when they are shown alike, so that one parsed from a
/// client's condition equals the stored one.
#[derive(Clone, Copy, Debug)]
pub enum ETag {
    /// MD5 of the content.
    Md5([u8; 16]),
    /// MD5 of the parts' MD5s, shown with the number of parts.
    Multipart { digest: [u8; 16], parts: u16 },
    /// A faster hash, shown with `-1`, so that clients do not take it for MD5.
    Fast([u8; 16]),
}

/// Bytes of a tag on media.
pub const ETAG_BYTES: usize = 19;

/// Bytes of the longest shown tag: 32 digits, `-`, 65535.
pub const MAX_ETAG_TEXT_BYTES: usize = 38;

const MD5: u8 = 0;
const MULTIPART: u8 = 1;
const FAST: u8 = 2;

/// MD5 of nothing: the tag of an empty object.
const EMPTY_MD5: [u8; 16] = [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e];

/// A text that is no tag of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 lower-case hexadecimal digits, and perhaps a dash and a number of parts")]
pub struct InvalidETag;

impl ETag {
    pub fn digest(&self) -> &[u8; 16] {
        match self {
            ETag::Md5(digest) | ETag::Fast(digest) | ETag::Multipart { digest, .. } => digest,
        }
    }

    /// The number shown after the dash.
    pub fn suffix(&self) -> Option<u16> {
        match self {
            ETag::Md5(_) => None,
            ETag::Fast(_) => Some(1),
            ETag::Multipart { parts, .. } => Some(*parts),
        }
    }

    /// Kind, digest and parts, as every layout stores them.
    pub(crate) fn to_parts(self) -> (u8, [u8; 16], u16) {
        match self {
            ETag::Md5(digest) => (MD5, digest, 0),
            ETag::Multipart { digest, parts } => (MULTIPART, digest, parts),
            ETag::Fast(digest) => (FAST, digest, 0),
        }
    }

    /// `None` for an unknown kind.
    #[inline]
    pub(crate) fn from_parts(kind: u8, digest: [u8; 16], parts: u16) -> Option<Self> {
        match kind {
            MD5 => Some(ETag::Md5(digest)),
            MULTIPART => Some(ETag::Multipart { digest, parts }),
            FAST => Some(ETag::Fast(digest)),
            _ => None,
        }
    }

    pub(crate) fn encode(self) -> [u8; ETAG_BYTES] {
        let (kind, digest, parts) = self.to_parts();
        let mut bytes = [0; ETAG_BYTES];
        bytes[0] = kind;
        bytes[1..17].copy_from_slice(&digest);
        bytes[17..].copy_from_slice(&parts.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let kind = reader.u8("etag kind")?;
        let digest = reader.array("etag digest")?;
        let parts = reader.u16("etag parts")?;
        ETag::from_parts(kind, digest, parts)
            .ok_or_else(|| reader.error_at(at, "etag kind", Fault::Unknown { found: u64::from(kind) }))
    }
}

impl Default for ETag {
    /// The tag of an empty object.
    fn default() -> Self {
        ETag::Md5(EMPTY_MD5)
    }
}

impl PartialEq for ETag {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest() && self.suffix() == other.suffix()
    }
}

impl Eq for ETag {}

impl Hash for ETag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest().hash(state);
        self.suffix().hash(state);
    }
}

impl fmt::Display for ETag {
    /// Without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::hex::write(f, self.digest())?;
        match self.suffix() {
            None => Ok(()),
            Some(parts) => write!(f, "-{parts}"),
        }
    }
}

impl FromStr for ETag {
    type Err = InvalidETag;

    /// Reads what [`fmt::Display`] writes, and nothing that it would write otherwise: tags are compared as texts.
    fn from_str(text: &str) -> Result<Self, InvalidETag> {
        let (digits, parts) = match text.split_once('-') {
            None => (text, None),
            Some((digits, parts)) => (digits, Some(parts)),
        };
        let digest = crate::hex::parse(digits.as_bytes()).ok_or(InvalidETag)?;
        let Some(parts) = parts else {
            return Ok(ETag::Md5(digest));
        };
        if !parts.starts_with(|first: char| first.is_ascii_digit()) || (parts.len() > 1 && parts.starts_with('0')) {
            return Err(InvalidETag);
        }
        let parts = parts.parse().map_err(|_| InvalidETag)?;
        Ok(ETag::Multipart { digest, parts })
    }
}
