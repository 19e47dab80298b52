//! What answers say of an object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use engine::ObjectInfo;
use format::attributes::{Attributes, Checksum, ChecksumScheme, ChecksumType, ETag, MAX_ETAG_TEXT_BYTES, StorageClass};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG, EXPIRES,
    LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::checksum_headers::header_of;
use crate::dates::http_date;
use crate::xml::Xml;

/// Headers that most answers have room for without growing.
pub const USUAL_HEADERS: usize = 12;

/// How many tags an object has, for clients that may see them.
pub const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

const DEFAULT_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("binary/octet-stream");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");

/// Adds what GET and HEAD say of an object.
pub fn describe(info: &ObjectInfo, headers: &mut HeaderMap) {
    let attributes = &info.attributes;
    headers.insert(ETAG, etag(&attributes.etag));
    headers.insert(LAST_MODIFIED, last_modified(attributes.modified_ms));
    headers.insert(ACCEPT_RANGES, BYTES);
    match &attributes.content_type {
        Some(kind) => insert(headers, CONTENT_TYPE, kind),
        None => {
            headers.insert(CONTENT_TYPE, DEFAULT_CONTENT_TYPE);
        }
    }
    describe_rarely_set(attributes, headers);
}

fn describe_rarely_set(attributes: &Attributes, headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_ENCODING, &attributes.content_encoding),
        (CONTENT_DISPOSITION, &attributes.content_disposition),
        (CONTENT_LANGUAGE, &attributes.content_language),
        (CACHE_CONTROL, &attributes.cache_control),
        (EXPIRES, &attributes.expires),
        (HeaderName::from_static("x-amz-website-redirect-location"), &attributes.website_redirect),
    ] {
        if let Some(value) = value {
            insert(headers, name, value);
        }
    }
    if attributes.storage_class != StorageClass::Standard {
        headers.insert("x-amz-storage-class", HeaderValue::from_static(attributes.storage_class.name()));
    }
    if !attributes.tags.is_empty() {
        headers.insert(TAGGING_COUNT, HeaderValue::from(attributes.tags.len()));
    }
    for (name, value) in &attributes.metadata {
        let mut full = Vec::with_capacity(11 + name.len());
        full.extend_from_slice(b"x-amz-meta-");
        full.extend_from_slice(name);
        if let Ok(name) = HeaderName::from_bytes(&full) {
            insert(headers, name, value);
        }
    }
}

/// Values came in as headers, so they can go out as headers; bytes that an older version took otherwise are left out.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &Bytes) {
    if let Ok(value) = HeaderValue::from_maybe_shared(value.clone()) {
        headers.append(name, value);
    }
}

/// In quotes.
pub fn etag(tag: &ETag) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::copy_from_slice(quoted(tag).as_bytes())).expect("hexadecimal digits in quotes")
}

/// A tag in quotes.
pub fn quoted(tag: &ETag) -> QuotedTag {
    let mut text = QuotedTag { bytes: [0; MAX_ETAG_TEXT_BYTES + 2], length: 0 };
    text.push([b'"']);
    for byte in tag.digest() {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        text.push([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    if let Some(suffix) = tag.suffix() {
        text.push([b'-']);
        text.push_number(suffix);
    }
    text.push([b'"']);
    text
}

/// The text of a tag, on the stack: a list has a thousand of them.
#[derive(Debug, Clone, Copy)]
pub struct QuotedTag {
    bytes: [u8; MAX_ETAG_TEXT_BYTES + 2],
    length: usize,
}

impl QuotedTag {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Of a length that the compiler knows: a call to copy two bytes would cost more than the rest.
    #[inline]
    fn push<const N: usize>(&mut self, text: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&text);
        self.length += N;
    }

    fn push_number(&mut self, number: u16) {
        let digits = [number / 10_000, number / 1_000 % 10, number / 100 % 10, number / 10 % 10, number % 10];
        let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len() - 1);
        for digit in &digits[first..] {
            self.push([b'0' + *digit as u8]);
        }
    }
}

pub fn last_modified(modified_ms: u64) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::copy_from_slice(&http_date(modified_ms))).expect("a date is ASCII")
}

/// Adds a checksum, and what the object's covers.
pub fn describe_checksum(checksum: &Checksum, of_object: ChecksumScheme, headers: &mut HeaderMap) {
    headers.insert(header_of(checksum.algorithm()), value_of(checksum_text(checksum)));
    headers.insert("x-amz-checksum-type", HeaderValue::from_static(checksum_type(of_object.full_object)));
}

/// A checksum as S3 shows it: base64, a composite one with its number of parts.
pub fn checksum_text(checksum: &Checksum) -> String {
    let mut text = BASE64.encode(checksum.value());
    if let ChecksumType::Composite { parts } = checksum.kind() {
        text.push('-');
        text.push_str(&parts.to_string());
    }
    text
}

/// A checksum as an element of a document that is written here.
pub fn checksum_element(checksum: &Checksum, xml: &mut Xml) {
    xml.element(&element_of(checksum), &checksum_text(checksum));
}

/// The same without the number of parts.
pub fn bare_checksum_element(checksum: &Checksum, xml: &mut Xml) {
    xml.element(&element_of(checksum), &BASE64.encode(checksum.value()));
}

fn element_of(checksum: &Checksum) -> String {
    format!("Checksum{}", checksum.algorithm().name())
}

pub fn checksum_type(is_full_object: bool) -> &'static str {
    if is_full_object { "FULL_OBJECT" } else { "COMPOSITE" }
}

fn value_of(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("base64 is ASCII")
}
