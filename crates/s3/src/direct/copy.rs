//! CopyObject and UploadPartCopy. Both are requests without content, whose headers say all; they are read by the rules of the other operations.

use std::borrow::Cow;

use format::attributes::{Checksum, ChecksumScheme, ETag};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use object::{ByteRange, CopyPartRequest, CopyRequest, CopySource, MetadataDirective, ObjectError, OwnAttributes, UploadName};
use percent_encoding::percent_decode_str;

use super::Call;
use super::write::upload_id;
use crate::answer_headers::{checksum_element, checksum_type, quoted};
use crate::checksum_headers;
use crate::dates::iso8601;
use crate::expected_owner;
use crate::failure::{Failure, NO_SUCH_KEY, NO_SUCH_VERSION, NOT_IMPLEMENTED};
use crate::request_headers::{self, STORAGE_CLASS};
use crate::response::ResponseBody;
use crate::target::decode;
use crate::xml::Xml;

/// The header that makes a PUT a copy.
pub const COPY_SOURCE: &str = "x-amz-copy-source";

const COPY_SOURCE_RANGE: &str = "x-amz-copy-source-range";

/// Begins names of access points and the like.
const RESOURCE_NAME: &str = "arn:";

const OBJECT_RESULT: &str = "CopyObjectResult";

const VERSION: &str = "?versionId=";

pub async fn copy(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let headers = &call.head.headers;
    let source = source(&call)?;
    let (metadata, own) = metadata(headers)?;
    let checksum = checksum_headers::asked_algorithm(headers)?;
    let condition = request_headers::write_condition(headers)?;
    let source_key = source.key.clone();
    let copy = CopyRequest { source, metadata, condition, checksum, own };
    let written = call.service.copy(call.principal, &call.target.bucket, &call.target.key, copy).await;
    let written = written.map_err(|error| of_source(error, &source_key))?;
    Ok(answer(OBJECT_RESULT, &written.etag, written.modified_ms, &written.checksum))
}

pub async fn copy_part(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let number = call.query.number("partNumber")?.unwrap_or_default();
    let source = source(&call)?;
    let source_key = source.key.clone();
    let copy = CopyPartRequest { source, range: range(&call.head.headers)? };
    let name = UploadName { bucket: &call.target.bucket, key: &call.target.key, upload: upload_id(call.query) };
    let written = call.service.copy_part(call.principal, name, number, copy).await;
    let written = written.map_err(|error| match error {
        ObjectError::InvalidRange { length } => beyond_source(&call.head.headers, length),
        error => of_source(error, &source_key),
    })?;
    Ok(answer("CopyPartResult", &written.etag, written.modified_ms, &written.checksum))
}

fn answer(element: &str, tag: &ETag, modified_ms: u64, checksum: &Checksum) -> Response<ResponseBody> {
    let mut xml = Xml::document();
    xml.open(&format!("{element} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""));
    xml.element("LastModified", &String::from_utf8_lossy(&iso8601(modified_ms)));
    xml.element("ETag", &String::from_utf8_lossy(quoted(tag).as_bytes()));
    checksum_element(checksum, &mut xml);
    // What a part's checksum covers is no question.
    if element == OBJECT_RESULT {
        xml.element("ChecksumType", checksum_type(ChecksumScheme::of(checksum).full_object));
    }
    xml.close(element);
    let mut response = Response::new(ResponseBody::whole(xml.finish()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

/// What to copy, and when it may be copied.
fn source(call: &Call<'_>) -> Result<CopySource, Failure> {
    let headers = &call.head.headers;
    checksum_headers::check_no_content(headers)?;
    let value = headers.get(COPY_SOURCE).map(HeaderValue::as_bytes).unwrap_or_default();
    let text = std::str::from_utf8(value).map_err(|_| bad_source("Invalid copy source encoding.", value))?;
    let (path, version) = text.split_once(VERSION).map_or((text, None), |(path, version)| (path, Some(version)));
    let path = decode(path).map_err(|_| bad_source("Invalid copy source encoding.", value))?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    if path.starts_with(RESOURCE_NAME) {
        return Err(Failure::with(NOT_IMPLEMENTED, "Only a bucket and a key can be the source of a copy."));
    }
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    if manager::check_bucket_name(bucket).is_err() {
        return Err(bad_source("Invalid copy source bucket name.", value));
    }
    if key.is_empty() {
        return Err(bad_source("Invalid copy source object key.", value));
    }
    if let Some(version) = version.map(text_of).filter(|version| version != "null") {
        return Err(Failure::new(NO_SUCH_VERSION).detail("Key", key).detail("VersionId", version));
    }
    // Whose name is missing is said here: later, only the target's is known.
    call.service.find_bucket(bucket).map_err(|error| Failure::from(error).detail("BucketName", bucket))?;
    expected_owner::check_source(call.service, headers, bucket)?;
    let conditions = request_headers::source_conditions(headers)?;
    Ok(CopySource { bucket: bucket.to_owned(), key: key.to_owned(), conditions })
}

fn text_of(version: &str) -> Cow<'_, str> {
    percent_decode_str(version).decode_utf8_lossy()
}

fn bad_source(message: &'static str, value: &[u8]) -> Failure {
    Failure::argument(message, COPY_SOURCE, String::from_utf8_lossy(value))
}

/// An object that is not there is the source.
fn of_source(error: ObjectError, source: &str) -> Failure {
    let failure = Failure::from(error);
    if failure.code == NO_SUCH_KEY { failure.detail("Key", source) } else { failure }
}

/// The bytes of the source that become a part. They are named by both of their ends.
fn range(headers: &HeaderMap) -> Result<Option<ByteRange>, Failure> {
    let Some(value) = headers.get(COPY_SOURCE_RANGE) else { return Ok(None) };
    let range = value.to_str().ok().and_then(request_headers::parse_range);
    match range {
        Some(range @ ByteRange::Between(..)) => Ok(Some(range)),
        _ => Err(Failure::argument(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
            COPY_SOURCE_RANGE,
            String::from_utf8_lossy(value.as_bytes()),
        )),
    }
}

/// The source has no such bytes. That is said of the argument, not of the answer's range as a read would.
fn beyond_source(headers: &HeaderMap, length: u64) -> Failure {
    let message = format!("Range specified is not valid for source object of size: {length}");
    Failure::argument(message, COPY_SOURCE_RANGE, request_headers::text(headers, COPY_SOURCE_RANGE).unwrap_or_default())
}

/// Where the copy's attributes come from. Tags have a directive of their own, and come from the source unless it says otherwise;
/// class and redirect are the copy's own under every directive.
fn metadata(headers: &HeaderMap) -> Result<(MetadataDirective, OwnAttributes), Failure> {
    let replaces = |name: &str| match request_headers::text(headers, name) {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(Failure::argument(format!("Unknown {name}."), name, other)),
    };
    let (replaces_metadata, replaces_tags) = (replaces("x-amz-metadata-directive")?, replaces("x-amz-tagging-directive")?);
    let given = request_headers::attributes(headers)?;
    // Also where the source's own count: S3 refuses what it would not keep.
    object::check_attributes(&given)?;
    let own = OwnAttributes {
        storage_class: headers.contains_key(STORAGE_CLASS).then_some(given.storage_class),
        website_redirect: given.website_redirect.clone(),
    };
    let metadata = match (replaces_metadata, replaces_tags) {
        (false, false) => MetadataDirective::Copy,
        (true, true) => MetadataDirective::Replace(Box::new(given)),
        (true, false) => MetadataDirective::KeepTags(Box::new(given)),
        (false, true) => MetadataDirective::ReplaceTags(given.tags),
    };
    Ok((metadata, own))
}
