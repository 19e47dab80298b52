//! The canonical request and its signature, without building either as text.

use http::{HeaderMap, Method};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::keys::SigningKey;
use super::{ALGORITHM, Claim};

/// A request as its signature sees it.
#[derive(Debug, Clone, Copy)]
pub struct Canonical<'a> {
    pub method: &'a Method,
    /// As it stood in the request line.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

/// What a signature says of the payload: `UNSIGNED-PAYLOAD`, or its SHA-256 in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload<'a>(pub &'a str);

impl Payload<'_> {
    pub const UNSIGNED: Payload<'static> = Payload("UNSIGNED-PAYLOAD");
}

/// The request is not written the way that is signed, so that it would have to be rewritten first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request's path, query or headers are not in canonical form")]
pub struct NotCanonical;

impl Canonical<'_> {
    /// The signature, in hexadecimal digits.
    pub fn signature(&self, claim: &Claim<'_>, payload: Payload<'_>, key: &SigningKey) -> Result<[u8; 64], NotCanonical> {
        let digest = hex64(&self.digest(claim, payload)?);
        let signature = key.sign(&[
            ALGORITHM.as_bytes(),
            b"\n",
            claim.time.as_bytes(),
            b"\n",
            claim.day.as_bytes(),
            b"/",
            claim.region.as_bytes(),
            b"/s3/aws4_request\n",
            &digest,
        ]);
        Ok(hex64(&signature))
    }

    fn digest(&self, claim: &Claim<'_>, payload: Payload<'_>) -> Result<[u8; 32], NotCanonical> {
        if !is_canonical(self.path.as_bytes(), b'/') {
            return Err(NotCanonical);
        }
        let mut hash = Sha256::new();
        hash.update(self.method.as_str());
        hash.update(b"\n");
        hash.update(self.path);
        hash.update(b"\n");
        if let Some(query) = self.query {
            hash_query(&mut hash, query)?;
        }
        hash.update(b"\n");
        for name in claim.signed_headers.split(';') {
            hash_header(&mut hash, name, self.headers)?;
        }
        hash.update(b"\n");
        hash.update(claim.signed_headers.as_bytes());
        hash.update(b"\n");
        hash.update(payload.0);
        Ok(hash.finalize().into())
    }
}

/// Parameters sorted, without the signature itself.
fn hash_query(hash: &mut Sha256, query: &str) -> Result<(), NotCanonical> {
    let mut pairs: SmallVec<[(&str, &str); 12]> = SmallVec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !is_canonical(name.as_bytes(), b'-') || !is_canonical(value.as_bytes(), b'-') {
            return Err(NotCanonical);
        }
        if name != "X-Amz-Signature" {
            pairs.push((name, value));
        }
    }
    pairs.sort_unstable();
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            hash.update(b"&");
        }
        hash.update(name);
        hash.update(b"=");
        hash.update(value);
    }
    Ok(())
}

/// `name:value`, the value without outer spaces. Inner runs of spaces would have to be joined.
fn hash_header(hash: &mut Sha256, name: &str, headers: &HeaderMap) -> Result<(), NotCanonical> {
    let value = headers.get(name).ok_or(NotCanonical)?.as_bytes().trim_ascii();
    if value.contains(&b'\t') || value.windows(2).any(|pair| pair == b"  ") {
        return Err(NotCanonical);
    }
    hash.update(name);
    hash.update(b":");
    hash.update(value);
    hash.update(b"\n");
    Ok(())
}

/// Whether percent-encoding would leave this text as it is: unreserved characters, `also`, and upper-case escapes of nothing
/// that need not be escaped.
fn is_canonical(text: &[u8], also: u8) -> bool {
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if is_unreserved(*first) || *first == also {
            rest = tail;
            continue;
        }
        let [b'%', high, low, tail @ ..] = rest else { return false };
        let (Some(high), Some(low)) = (upper_hex(*high), upper_hex(*low)) else { return false };
        let byte = high << 4 | low;
        if is_unreserved(byte) || (byte == b'/' && also == b'/') {
            return false;
        }
        rest = tail;
    }
    true
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn upper_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

pub fn hex64(bytes: &[u8; 32]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 64];
    for (index, byte) in bytes.iter().enumerate() {
        text[2 * index] = DIGITS[usize::from(byte >> 4)];
        text[2 * index + 1] = DIGITS[usize::from(byte & 15)];
    }
    text
}
