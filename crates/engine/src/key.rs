//! An object's name within one incarnation of a bucket.

use bytes::Bytes;
use types::BucketId;
use types::limits::MAX_KEY_BYTES;

/// A bucket incarnation and a key: 1 to [`MAX_KEY_BYTES`] bytes of UTF-8. `a`, `a/` and `a/b` are three keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    bucket: BucketId,
    key: Bytes,
}

impl ObjectKey {
    /// Checks the key's length and encoding.
    pub fn new(bucket: BucketId, key: Bytes) -> Result<Self, InvalidKey> {
        if key.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(InvalidKey::TooLong { bytes: key.len() });
        }
        if std::str::from_utf8(&key).is_err() {
            return Err(InvalidKey::NotUtf8);
        }
        Ok(ObjectKey { bucket, key })
    }

    pub fn bucket(&self) -> BucketId {
        self.bucket
    }

    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.key).expect("checked when the key was made")
    }
}

/// Why bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    #[error("a key has at least one byte")]
    Empty,
    #[error("a key has at most {MAX_KEY_BYTES} bytes, this one has {bytes}")]
    TooLong { bytes: usize },
    #[error("a key is UTF-8")]
    NotUtf8,
}
