//! How users are shown as owners: a canonical id, as S3's have 64 hexadecimal digits, and a name.

use sha2::{Digest, Sha256};

use crate::payload::hex_of;

/// A user's canonical id: the SHA-256 of the name, so that it needs no table and never changes.
pub fn canonical_id(user: &str) -> String {
    let digits = hex_of(&Sha256::digest(user.as_bytes()).into());
    String::from_utf8(digits.to_vec()).expect("hexadecimal digits")
}
