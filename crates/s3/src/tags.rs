//! Tags of objects: what they may say, and how a header carries them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use object::{Action, Bucket, Principal};

use crate::failure::{BAD_REQUEST, Failure, INVALID_TAG};
use crate::target::decode;

/// Names and values, in the order given.
pub type Tags = Vec<(Bytes, Bytes)>;

/// Most tags of an object (S3).
const MAX_TAGS: usize = 10;

/// Most characters of a tag's key and value (S3).
const MAX_KEY_CHARACTERS: usize = 128;
const MAX_VALUE_CHARACTERS: usize = 256;

/// What keys of the system's own tags begin with; clients give none.
const SYSTEM_PREFIX: &str = "aws:";

/// What a tag may hold beside letters, digits and spaces (S3).
const PUNCTUATION: &str = "+-=._:/@";

pub const HEADER: &str = "x-amz-tagging";
const MALFORMED: &str =
    "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.";

/// Refuses tags from a client that may write an object and may not tag it.
pub fn authorize(headers: &HeaderMap, bucket: &Bucket, principal: &Principal) -> Result<(), Failure> {
    if headers.contains_key(HEADER) {
        bucket.authorize(principal, Action::PutObjectTagging)?;
    }
    Ok(())
}

/// Tags as a query string.
pub fn of_header(value: &HeaderValue) -> Result<Tags, Failure> {
    let malformed = || Failure::argument(MALFORMED, HEADER, String::from_utf8_lossy(value.as_bytes()));
    let text = value.to_str().map_err(|_| malformed())?;
    let plain = |text: &str| {
        let text = text.replace('+', " ");
        decode(&text).map(|text| text.into_owned()).map_err(|_| malformed())
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (plain(key)?, plain(value)?);
        if key.is_empty() || pairs.iter().any(|(other, _)| *other == key) {
            return Err(malformed());
        }
        pairs.push((key, value));
    }
    checked(pairs)
}

/// Tags that keep S3's rules.
pub fn checked(pairs: Vec<(String, String)>) -> Result<Tags, Failure> {
    if pairs.len() > MAX_TAGS {
        return Err(Failure::with(BAD_REQUEST, "Object tags cannot be greater than 10"));
    }
    let mut tags = Tags::with_capacity(pairs.len());
    for (key, value) in pairs {
        check(&key, &value)?;
        if tags.iter().any(|(other, _)| *other == key.as_bytes()) {
            return Err(Failure::with(INVALID_TAG, "Cannot provide multiple Tags with the same key").detail("TagKey", key));
        }
        tags.push((Bytes::from(key), Bytes::from(value)));
    }
    Ok(tags)
}

fn check(key: &str, value: &str) -> Result<(), Failure> {
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARACTERS || !key.chars().all(may_stand) {
        return Err(Failure::with(INVALID_TAG, "The TagKey you have provided is invalid").detail("TagKey", key));
    }
    if value.chars().count() > MAX_VALUE_CHARACTERS || !value.chars().all(may_stand) {
        return Err(Failure::with(INVALID_TAG, "The TagValue you have provided is invalid")
            .detail("TagKey", key)
            .detail("TagValue", value));
    }
    if key.starts_with(SYSTEM_PREFIX) {
        return Err(Failure::with(INVALID_TAG, "System tags cannot be added/updated by requester").detail("TagKey", key));
    }
    Ok(())
}

fn may_stand(character: char) -> bool {
    character.is_alphanumeric() || character == ' ' || PUNCTUATION.contains(character)
}

#[cfg(test)]
mod tests;
