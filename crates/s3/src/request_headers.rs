//! What request headers say of an object: its attributes, conditions, ranges. Checksums stand in [`crate::checksum_headers`].

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::PAD;
use bytes::Bytes;
use engine::{Condition, ETagMatch};
use format::attributes::{Attributes, ETag, StorageClass};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use object::{ByteRange, ReadConditions};

use crate::dates::seconds_of_http_date;
use crate::failure::{Failure, INVALID_DIGEST, INVALID_REDIRECT_LOCATION, INVALID_STORAGE_CLASS, NOT_IMPLEMENTED};
use crate::tags;

const METADATA: &str = "x-amz-meta-";
pub const STORAGE_CLASS: &str = "x-amz-storage-class";
const WEBSITE_REDIRECT: &str = "x-amz-website-redirect-location";
const AWS_CHUNKED: &str = "aws-chunked";

/// Base64 whose last digit may say more than there is room for: S3 reads it, and then compares.
const LENIENT_BASE64: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// The attributes of an object to be written.
pub fn attributes(headers: &HeaderMap) -> Result<Attributes, Failure> {
    let mut attributes = Attributes::default();
    for (name, value) in headers {
        if let Some(place) = content_header(&mut attributes, name) {
            *place = Some(bytes_of(value));
            continue;
        }
        let name = name.as_str();
        if !name.starts_with("x-amz-") {
            continue;
        }
        if let Some(name) = name.strip_prefix(METADATA) {
            attributes.metadata.push((Bytes::copy_from_slice(name.as_bytes()), bytes_of(value)));
        } else if name == STORAGE_CLASS {
            attributes.storage_class = storage_class(value)?;
        } else if name == tags::HEADER {
            attributes.tags = tags::of_header(value)?;
        } else if name == WEBSITE_REDIRECT {
            attributes.website_redirect = Some(website_redirect(value)?);
        }
    }
    attributes.content_encoding = attributes.content_encoding.and_then(without_aws_chunked);
    Ok(attributes)
}

/// Where a website would send a reader: a key of the bucket, or another site.
fn website_redirect(value: &HeaderValue) -> Result<Bytes, Failure> {
    let text = String::from_utf8_lossy(value.as_bytes());
    if ["/", "http://", "https://"].iter().any(|start| text.starts_with(start)) {
        return Ok(bytes_of(value));
    }
    let message = "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.";
    Err(Failure::with(INVALID_REDIRECT_LOCATION, message))
}

fn content_header<'a>(attributes: &'a mut Attributes, name: &HeaderName) -> Option<&'a mut Option<Bytes>> {
    if *name == CONTENT_TYPE {
        Some(&mut attributes.content_type)
    } else if *name == CONTENT_ENCODING {
        Some(&mut attributes.content_encoding)
    } else if *name == CONTENT_DISPOSITION {
        Some(&mut attributes.content_disposition)
    } else if *name == CONTENT_LANGUAGE {
        Some(&mut attributes.content_language)
    } else if *name == CACHE_CONTROL {
        Some(&mut attributes.cache_control)
    } else if *name == EXPIRES {
        Some(&mut attributes.expires)
    } else {
        None
    }
}

/// A header's value is copied: a slice would keep the whole buffer of the connection alive as long as the object is cached.
fn bytes_of(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// `aws-chunked` is how the request was framed, not what the object is.
fn without_aws_chunked(encoding: Bytes) -> Option<Bytes> {
    let Ok(text) = std::str::from_utf8(&encoding) else { return Some(encoding) };
    let is_framing = |coding: &str| coding.eq_ignore_ascii_case(AWS_CHUNKED);
    if !text.split(',').any(|coding| is_framing(coding.trim())) {
        return Some(encoding);
    }
    let rest: Vec<&str> = text.split(',').map(str::trim).filter(|coding| !is_framing(coding) && !coding.is_empty()).collect();
    if rest.is_empty() { None } else { Some(Bytes::from(rest.join(","))) }
}

fn storage_class(value: &HeaderValue) -> Result<StorageClass, Failure> {
    let refuse =
        || Failure::new(INVALID_STORAGE_CLASS).detail("StorageClassRequested", String::from_utf8_lossy(value.as_bytes()));
    value.to_str().ok().and_then(StorageClass::from_name).ok_or_else(refuse)
}

/// The condition of a write: `If-Match`, `If-None-Match`.
pub fn write_condition(headers: &HeaderMap) -> Result<Condition, Failure> {
    let both = "Only one of If-Match and If-None-Match may be given.";
    match (etags(headers, IF_MATCH)?, etags(headers, IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::None),
        (Some(tags), None) => Ok(Condition::Match(tags)),
        (None, Some(ETagMatch::Any)) => Ok(Condition::Absent),
        (None, Some(ETagMatch::OneOf(tags))) => Ok(Condition::NoneMatch(tags)),
        (Some(_), Some(_)) => Err(Failure::with(NOT_IMPLEMENTED, both)),
    }
}

/// The conditions of a read.
pub fn read_conditions(headers: &HeaderMap) -> Result<ReadConditions, Failure> {
    Ok(ReadConditions {
        if_match: etags(headers, IF_MATCH)?,
        if_none_match: etags(headers, IF_NONE_MATCH)?,
        if_modified_since: date(headers, IF_MODIFIED_SINCE),
        if_unmodified_since: date(headers, IF_UNMODIFIED_SINCE),
    })
}

/// The conditions of a copy's source.
pub fn source_conditions(headers: &HeaderMap) -> Result<ReadConditions, Failure> {
    let name = HeaderName::from_static;
    Ok(ReadConditions {
        if_match: etags(headers, name("x-amz-copy-source-if-match"))?,
        if_none_match: etags(headers, name("x-amz-copy-source-if-none-match"))?,
        if_modified_since: date(headers, name("x-amz-copy-source-if-modified-since")),
        if_unmodified_since: date(headers, name("x-amz-copy-source-if-unmodified-since")),
    })
}

/// A tag that is none of ours can match nothing; it is left out.
fn etags(headers: &HeaderMap, name: HeaderName) -> Result<Option<ETagMatch>, Failure> {
    let mut tags = Vec::new();
    let mut is_given = false;
    for value in headers.get_all(&name) {
        is_given = true;
        let refuse = |_| {
            let given = String::from_utf8_lossy(value.as_bytes());
            Failure::argument(format!("The header {name} is not ASCII."), name.as_str(), given)
        };
        let text = value.to_str().map_err(refuse)?;
        if text.trim() == "*" {
            return Ok(Some(ETagMatch::Any));
        }
        tags.extend(text.split(',').filter_map(parse_etag));
    }
    Ok(is_given.then_some(ETagMatch::OneOf(tags)))
}

/// With or without quotes, also weak.
pub fn parse_etag(text: &str) -> Option<ETag> {
    let text = text.trim();
    let text = text.strip_prefix("W/").unwrap_or(text);
    text.trim_matches('"').parse().ok()
}

/// A date that is none is ignored (RFC 9110, section 13.1.3).
fn date(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    seconds_of_http_date(headers.get(name)?.to_str().ok()?)
}

/// The range that is asked for. What is no range of bytes is ignored, as is a list of several (RFC 9110, section 14.2).
pub fn range(headers: &HeaderMap) -> Option<ByteRange> {
    parse_range(headers.get(RANGE)?.to_str().ok()?)
}

/// `bytes=a-b`, `bytes=a-`, `bytes=-n`. The unit may be written in any case, and empty elements of the list count for nothing (RFC 9110,
/// sections 14.1 and 5.6.1).
pub fn parse_range(text: &str) -> Option<ByteRange> {
    let (unit, ranges) = text.split_once('=')?;
    // Blanks may stand around commas, and not before the first element.
    if !unit.eq_ignore_ascii_case("bytes") || ranges.starts_with([' ', '\t']) {
        return None;
    }
    let mut ranges = ranges.split(',').map(|range| range.trim_matches([' ', '\t'])).filter(|range| !range.is_empty());
    let (Some(range), None) = (ranges.next(), ranges.next()) else { return None };
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        // A number beyond 64 bits is beyond every object, too.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first, last) {
        ("", last) => number(last).map(ByteRange::Last),
        (first, "") => number(first).map(ByteRange::From),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(ByteRange::Between(first, last))
        }
    }
}

/// `Content-MD5`.
pub fn content_md5(headers: &HeaderMap) -> Result<Option<[u8; 16]>, Failure> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let digest = LENIENT_BASE64.decode(value.as_bytes()).ok().and_then(|digest| digest.try_into().ok());
    digest.map(Some).ok_or_else(|| {
        let given = String::from_utf8_lossy(value.as_bytes());
        Failure::with(INVALID_DIGEST, "The Content-MD5 you specified was invalid.").detail("Content-MD5", given)
    })
}

/// A header's text, if it is there and is text.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
