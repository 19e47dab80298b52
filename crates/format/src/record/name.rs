//! Names of index entries, and their hash (RFD 2, decision 16).
//!
//! Objects are named by their key. Versions, uploads and parts are named by the key and a suffix, joined so that names sort
//! as (key, suffix): each zero byte of the key becomes `00 FF`, and `00 00` ends the key. Without the escape a key that holds
//! a zero byte would sort between another key and its suffix. Keys without zero bytes, that is all but curiosities, stand
//! unchanged.

use std::borrow::Cow;

use bytes::Bytes;
use types::limits::MAX_KEY_BYTES;
use types::{BucketId, KEY_HASH_BYTES, KeyHash, UploadId};

use crate::version_id::VersionId;

/// Longest name: a key of nothing but zero bytes, its end, an upload id and a part number.
pub const MAX_NAME_BYTES: usize = 2 * MAX_KEY_BYTES + 2 + 16 + 2;

/// BLAKE3 derives this key from the context `trilith entry name v1`; it is frozen here, because every hash on media hangs
/// on it. It separates our hashes from other uses of BLAKE3 and keeps nothing secret.
pub(super) const HASH_KEY: [u8; 32] = [
    0xda, 0xc6, 0x1d, 0xf1, 0x93, 0x94, 0xa8, 0x09, 0xae, 0x0a, 0xb4, 0x94, 0xdd, 0xd6, 0xad, 0x75, 0xcd, 0x45, 0xe7, 0xe3,
    0xde, 0xfd, 0x8d, 0x58, 0xdb, 0x5a, 0x15, 0x57, 0x2f, 0xf1, 0x39, 0xfe,
];

/// Hash inputs up to one BLAKE3 block are gathered on the stack and cost one compression.
const ONE_BLOCK_BYTES: usize = 64;

/// Bytes before the name in the hash input: bucket and space.
const HASH_PREFIX_BYTES: usize = 9;

/// The name space in which a name lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// Current versions, by key.
    #[default]
    Object = 0,
    /// All versions, by key and version id.
    Version = 1,
    /// Open uploads, by key and upload id.
    Upload = 2,
    /// Uploaded parts, by key, upload id and part number.
    Part = 3,
}

/// The full name of an index entry. Sorts as runs do: bucket, space, name bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName {
    pub bucket: BucketId,
    pub space: Space,
    pub name: Bytes,
}

/// A name of a space whose names have another shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name in space {space:?} is an escaped key, 00 00 and a suffix of {suffix_bytes} bytes")]
pub struct InvalidName {
    pub space: Space,
    pub suffix_bytes: usize,
}

impl Space {
    /// The space with this number.
    #[inline]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Space::Object,
            1 => Space::Version,
            2 => Space::Upload,
            3 => Space::Part,
            _ => return None,
        })
    }

    /// Bytes after the key and its end; `None` where the name is the key.
    fn suffix_bytes(self) -> Option<usize> {
        match self {
            Space::Object => None,
            Space::Version | Space::Upload => Some(16),
            Space::Part => Some(18),
        }
    }
}

impl EntryName {
    /// The name of a key's current version.
    pub fn object(bucket: BucketId, key: Bytes) -> Self {
        EntryName { bucket, space: Space::Object, name: key }
    }

    /// The name of one version.
    pub fn version(bucket: BucketId, key: &[u8], version: VersionId) -> Self {
        EntryName { bucket, space: Space::Version, name: join(key, &[&version.0]) }
    }

    /// The name of an open upload.
    pub fn upload(bucket: BucketId, key: &[u8], upload: UploadId) -> Self {
        EntryName { bucket, space: Space::Upload, name: join(key, &[&upload.0]) }
    }

    /// The name of a part; the parts of an upload sort by number.
    pub fn part(bucket: BucketId, key: &[u8], upload: UploadId, number: u16) -> Self {
        EntryName { bucket, space: Space::Part, name: join(key, &[&upload.0, &number.to_be_bytes()]) }
    }

    /// The object key within the name.
    pub fn key(&self) -> Result<Cow<'_, [u8]>, InvalidName> {
        match self.space {
            Space::Object => Ok(Cow::Borrowed(&self.name)),
            space => split_compound(space, &self.name).map(|(key, _)| key),
        }
    }

    /// The 160-bit name of the entry.
    pub fn hash(&self) -> KeyHash {
        hash(self.bucket, self.space, &self.name)
    }
}

/// Takes a name of [`Space::Version`], [`Space::Upload`] or [`Space::Part`] apart into key and suffix: the version id, the
/// upload id, or the upload id and the big-endian part number. A name of [`Space::Object`] has an empty suffix.
pub fn split_compound(space: Space, name: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), InvalidName> {
    let Some(suffix_bytes) = space.suffix_bytes() else {
        return Ok((Cow::Borrowed(name), &[]));
    };
    let invalid = InvalidName { space, suffix_bytes };
    let split = name.len().checked_sub(suffix_bytes).ok_or(invalid)?;
    let (escaped, suffix) = name.split_at(split);
    let escaped = escaped.strip_suffix(&[0, 0]).ok_or(invalid)?;
    let key = unescape(escaped).ok_or(invalid)?;
    Ok((key, suffix))
}

fn join(key: &[u8], suffix: &[&[u8]]) -> Bytes {
    let mut name = Vec::with_capacity(key.len() + 2 + 18);
    for (index, piece) in key.split(|byte| *byte == 0).enumerate() {
        if index > 0 {
            name.extend_from_slice(&[0, 0xff]);
        }
        name.extend_from_slice(piece);
    }
    name.extend_from_slice(&[0, 0]);
    for piece in suffix {
        name.extend_from_slice(piece);
    }
    Bytes::from(name)
}

fn unescape(escaped: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !escaped.contains(&0) {
        return Some(Cow::Borrowed(escaped));
    }
    let mut key = Vec::with_capacity(escaped.len());
    for (index, piece) in escaped.split(|byte| *byte == 0).enumerate() {
        match index {
            0 => key.extend_from_slice(piece),
            _ => {
                key.push(0);
                key.extend_from_slice(piece.strip_prefix(&[0xff])?);
            }
        }
    }
    Some(Cow::Owned(key))
}

/// The hash of a name that is not held as an [`EntryName`].
pub(crate) fn hash(bucket: BucketId, space: Space, name: &[u8]) -> KeyHash {
    let total = HASH_PREFIX_BYTES + name.len();
    let digest = if total <= ONE_BLOCK_BYTES {
        let mut block = [0u8; ONE_BLOCK_BYTES];
        block[..8].copy_from_slice(&bucket.0.to_le_bytes());
        block[8] = space as u8;
        block[HASH_PREFIX_BYTES..total].copy_from_slice(name);
        blake3::keyed_hash(&HASH_KEY, &block[..total])
    } else {
        let mut hasher = blake3::Hasher::new_keyed(&HASH_KEY);
        hasher.update(&bucket.0.to_le_bytes());
        hasher.update(&[space as u8]);
        hasher.update(name);
        hasher.finalize()
    };
    let mut bytes = [0u8; KEY_HASH_BYTES];
    bytes.copy_from_slice(&digest.as_bytes()[..KEY_HASH_BYTES]);
    KeyHash::from_bytes(bytes)
}
