//! Names that people choose: buckets, access keys, users.
//!
//! Bucket names follow the rules for general purpose buckets in the S3 user guide, and stay valid as DNS labels, because
//! virtual-host addressing makes them part of a host name.

use std::net::Ipv4Addr;

use crate::limits::{MAX_ACCESS_KEY_BYTES, MAX_SECRET_BYTES, MAX_USER_BYTES, MIN_ACCESS_KEY_BYTES, MIN_SECRET_BYTES};

/// Shortest bucket name (S3).
pub const MIN_BUCKET_NAME_BYTES: usize = 3;

/// Longest bucket name (S3).
pub const MAX_BUCKET_NAME_BYTES: usize = 63;

/// Prefixes that S3 reserves.
const RESERVED_PREFIXES: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];

/// Suffixes that S3 reserves.
const RESERVED_SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// Why a text is no bucket name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBucketName {
    #[error("a bucket name has {MIN_BUCKET_NAME_BYTES} to {MAX_BUCKET_NAME_BYTES} characters, not {found}")]
    Length { found: usize },
    #[error("a bucket name has lower-case letters, digits, dots and hyphens only, not {found:?}")]
    Character { found: char },
    #[error("a bucket name, and each part of it between dots, begins and ends with a letter or a digit")]
    Label,
    #[error("a bucket name does not look like an IP address")]
    Address,
    #[error("bucket names with {reserved:?} there are reserved")]
    Reserved { reserved: &'static str },
}

/// Checks a bucket name.
pub fn check_bucket_name(name: &str) -> Result<(), InvalidBucketName> {
    let is_allowed = |byte: char| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == '.' || byte == '-';
    if let Some(found) = name.chars().find(|character| !is_allowed(*character)) {
        return Err(InvalidBucketName::Character { found });
    }
    if !(MIN_BUCKET_NAME_BYTES..=MAX_BUCKET_NAME_BYTES).contains(&name.len()) {
        return Err(InvalidBucketName::Length { found: name.len() });
    }
    for label in name.split('.') {
        if label.is_empty() || label.starts_with('-') || label.ends_with('-') {
            return Err(InvalidBucketName::Label);
        }
    }
    if looks_like_an_address(name) {
        return Err(InvalidBucketName::Address);
    }
    for reserved in RESERVED_PREFIXES {
        if name.starts_with(reserved) {
            return Err(InvalidBucketName::Reserved { reserved });
        }
    }
    for reserved in RESERVED_SUFFIXES {
        if name.ends_with(reserved) {
            return Err(InvalidBucketName::Reserved { reserved });
        }
    }
    Ok(())
}

/// Why an access key, a secret or a user name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredential {
    #[error("an access key has {MIN_ACCESS_KEY_BYTES} to {MAX_ACCESS_KEY_BYTES} characters, not {found}")]
    AccessKeyLength { found: usize },
    #[error("an access key has printable ASCII characters without '/', ',', '=' and spaces, not {found:?}")]
    AccessKeyCharacter { found: char },
    #[error("a secret has {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} characters, not {found}")]
    SecretLength { found: usize },
    #[error("a user name has 1 to {MAX_USER_BYTES} characters, not {found}")]
    UserLength { found: usize },
}

/// Checks the parts of a credential.
pub fn check_credential(access_key: &str, secret: &str, user: &str) -> Result<(), InvalidCredential> {
    if !(MIN_ACCESS_KEY_BYTES..=MAX_ACCESS_KEY_BYTES).contains(&access_key.len()) {
        return Err(InvalidCredential::AccessKeyLength { found: access_key.len() });
    }
    // '/' ends the access key in a SigV4 credential scope, ',' and '=' part the fields of an Authorization header.
    let is_allowed = |character: char| character.is_ascii_graphic() && !matches!(character, '/' | ',' | '=');
    if let Some(found) = access_key.chars().find(|character| !is_allowed(*character)) {
        return Err(InvalidCredential::AccessKeyCharacter { found });
    }
    if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) {
        return Err(InvalidCredential::SecretLength { found: secret.len() });
    }
    if user.is_empty() || user.len() > MAX_USER_BYTES {
        return Err(InvalidCredential::UserLength { found: user.len() });
    }
    Ok(())
}

/// Four dotted numbers, also with leading zeros or beyond 255: clients that guess the addressing style only look at the form.
fn looks_like_an_address(name: &str) -> bool {
    let is_number = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    name.parse::<Ipv4Addr>().is_ok() || (name.split('.').count() == 4 && name.split('.').all(is_number))
}

#[cfg(test)]
mod tests;
