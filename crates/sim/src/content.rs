//! What objects hold: bytes that follow from a number, so that every content is another one.

use crate::draw::Draw;
use bytes::Bytes;
use format::attributes::ETag;
use md5::{Digest, Md5};

/// Names a content.
pub type Value = u64;

/// Bytes that follow from the number and the length.
pub fn content(value: Value, length: usize) -> Bytes {
    let mut draw = Draw::new(value, 0);
    let mut bytes = value.to_le_bytes().to_vec();
    while bytes.len() < length {
        bytes.extend_from_slice(&draw.below(1 << 62).to_le_bytes());
    }
    bytes.truncate(length.max(size_of::<Value>()));
    Bytes::from(bytes)
}

/// The tag of an object that one PUT makes.
pub fn tag(bytes: &[u8]) -> ETag {
    ETag::Md5(Md5::digest(bytes).into())
}

/// The tag of an object that an upload of one part makes.
pub fn upload_tag(bytes: &[u8]) -> ETag {
    ETag::Multipart { digest: Md5::digest(Md5::digest(bytes)).into(), parts: 1 }
}
