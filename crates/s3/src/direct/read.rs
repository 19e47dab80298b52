//! GetObject and HeadObject.

use engine::{ETagMatch, ObjectInfo};
use format::attributes::ChecksumScheme;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    EXPIRES, IF_RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use object::{Action, Head, ObjectError, Principal, Read, ReadBody, ReadConditions, ReadRequest, Select};

use super::Call;
use crate::answer_headers::{TAGGING_COUNT, USUAL_HEADERS, describe, describe_checksum};
use crate::dates::seconds_of_http_date;
use crate::failure::{Failure, INVALID_REQUEST, NO_SUCH_VERSION};
use crate::query::Query;
use crate::request_headers::{self, parse_etag};
use crate::response::ResponseBody;

/// Query parameters that replace headers of the answer.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-content-type", CONTENT_TYPE),
    ("response-content-language", CONTENT_LANGUAGE),
    ("response-expires", EXPIRES),
    ("response-cache-control", CACHE_CONTROL),
    ("response-content-disposition", CONTENT_DISPOSITION),
    ("response-content-encoding", CONTENT_ENCODING),
];

pub async fn get(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let request = read_request(&call)?;
    let overrides = overrides(call.query, call.principal)?;
    let (read, request) = match call.head.headers.get(IF_RANGE) {
        Some(known) if matches!(request.select, Select::Range(_)) => read_if_range(&call, request, known).await,
        _ => (read(&call, &request).await, request),
    };
    let Read { info, range, parts, checksum, body } = match read {
        Ok(read) => read,
        Err(ObjectError::NotModified(info)) => return Ok(not_modified(&info)),
        Err(error) => return Err(error.into()),
    };
    let body = match body {
        ReadBody::Whole(bytes) => ResponseBody::whole(bytes),
        ReadBody::Stream(stream) => ResponseBody::Object(Box::new(stream)),
    };
    let mut response = Response::new(body);
    let head = Head { info, range, parts, checksum };
    *response.status_mut() = status(&head, &request.select);
    *response.headers_mut() = headers(&call, &head, &request.select, overrides);
    Ok(response)
}

async fn read(call: &Call<'_>, request: &ReadRequest) -> Result<Read, ObjectError> {
    let Call { service, principal, target, .. } = call;
    match service.get_cached(principal, &target.bucket, &target.key, request) {
        Some(read) => read,
        None => service.get(principal, &target.bucket, &target.key, request).await,
    }
}

/// `If-Range` (RFC 9110, section 13.1.5): the range, if the object is still the one that the client has the rest of; all of it
/// otherwise. It counts after the other conditions hold, so these are asked first, and then for the range of just that version.
/// Returns what was read, and as what.
async fn read_if_range(call: &Call<'_>, request: ReadRequest, known: &HeaderValue) -> (Result<Read, ObjectError>, ReadRequest) {
    let Call { service, principal, target, .. } = call;
    let whole = ReadRequest { select: Select::All, ..request.clone() };
    let info = match service.head(principal, &target.bucket, &target.key, &whole).await {
        Ok(head) => head.info,
        Err(error) => return (Err(error), whole),
    };
    if is_known(&info, known) {
        let if_match = Some(ETagMatch::OneOf(vec![info.attributes.etag]));
        let unchanged = ReadRequest { conditions: ReadConditions { if_match, ..ReadConditions::default() }, ..request };
        match read(call, &unchanged).await {
            Err(ObjectError::PreconditionFailed { .. }) => {}
            read => return (read, unchanged),
        }
    }
    (read(call, &whole).await, whole)
}

/// Whether this is the version that `If-Range` names: by a date only if it is the very date, by a tag only if it is no weak one. A tag
/// that is none of ours names none.
fn is_known(info: &ObjectInfo, known: &HeaderValue) -> bool {
    let Ok(text) = known.to_str() else { return false };
    match seconds_of_http_date(text) {
        Some(seconds) => info.attributes.modified_ms / 1000 == seconds,
        None => !text.trim_start().starts_with("W/") && parse_etag(text) == Some(info.attributes.etag),
    }
}

pub async fn head(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let request = read_request(&call)?;
    let overrides = overrides(call.query, call.principal)?;
    let Call { service, principal, target, .. } = &call;
    let head = match service.head(principal, &target.bucket, &target.key, &request).await {
        Ok(head) => head,
        Err(ObjectError::NotModified(info)) => return Ok(not_modified(&info)),
        Err(error) => return Err(error.into()),
    };
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = status(&head, &request.select);
    let mut headers = headers(&call, &head, &request.select, overrides);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(head.range.end - head.range.start));
    *response.headers_mut() = headers;
    Ok(response)
}

fn read_request(call: &Call<'_>) -> Result<ReadRequest, Failure> {
    check_version(call.query)?;
    let headers = &call.head.headers;
    let range = request_headers::range(headers);
    let select = match (part_number(call.query)?, range) {
        (Some(_), Some(_)) => {
            return Err(Failure::with(INVALID_REQUEST, "Cannot specify both Range header and partNumber query parameter"));
        }
        (Some(number), None) => Select::Part(number),
        (None, Some(range)) => Select::Range(range),
        (None, None) => Select::All,
    };
    Ok(ReadRequest { conditions: request_headers::read_conditions(headers)?, select })
}

/// Buckets have no versions yet; `null` names the only one.
pub fn check_version(query: &Query<'_>) -> Result<(), Failure> {
    match query.get("versionId") {
        None | Some("null") => Ok(()),
        Some("") => Err(Failure::argument("Version id cannot be the empty string", "versionId", "")),
        Some(version) => Err(Failure::new(NO_SUCH_VERSION).detail("VersionId", version)),
    }
}

fn part_number(query: &Query<'_>) -> Result<Option<u16>, Failure> {
    let Some(text) = query.get("partNumber") else { return Ok(None) };
    let number = text.parse::<u16>().ok().filter(|number| (1..=types::limits::MAX_PARTS).contains(number));
    let refuse = || Failure::argument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", text);
    number.map(Some).ok_or_else(refuse)
}

/// Only who is known may have headers replaced: an anonymous link could otherwise make a browser run what was stored as text.
fn overrides(query: &Query<'_>, principal: &Principal) -> Result<Option<HeaderMap>, Failure> {
    let mut overrides = None;
    for (parameter, name) in OVERRIDES {
        let Some(text) = query.get(parameter) else { continue };
        if *principal == Principal::Anonymous {
            return Err(Failure::with(
                INVALID_REQUEST,
                "Request specific response headers cannot be used for anonymous GET requests.",
            ));
        }
        let value = HeaderValue::from_bytes(text.as_bytes());
        let value = value.map_err(|_| Failure::argument(format!("{parameter} is not a header's value"), parameter, text))?;
        overrides.get_or_insert_with(HeaderMap::new).insert(name, value);
    }
    Ok(overrides)
}

/// Whether the answer is a piece of the object, and says which. An empty object has no pieces: its answer is the whole of it.
fn is_partial(head: &Head, select: &Select) -> bool {
    *select != Select::All && !head.range.is_empty()
}

fn status(head: &Head, select: &Select) -> StatusCode {
    if is_partial(head, select) { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK }
}

fn headers(call: &Call<'_>, head: &Head, select: &Select, overrides: Option<HeaderMap>) -> HeaderMap {
    let Head { info, range, parts, checksum } = head;
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    describe(info, &mut headers);
    if !info.attributes.tags.is_empty() && !may_see_tags(call) {
        headers.remove(TAGGING_COUNT);
    }
    if is_partial(head, select) {
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, info.length);
        headers.insert(CONTENT_RANGE, HeaderValue::try_from(text).expect("digits"));
    }
    if let Some(parts) = parts {
        headers.insert("x-amz-mp-parts-count", HeaderValue::from(*parts));
    }
    if let Some(checksum) = checksum
        && request_headers::text(&call.head.headers, "x-amz-checksum-mode")
            .is_some_and(|mode| mode.eq_ignore_ascii_case("enabled"))
    {
        // The type is the object's, also beside a part's value (S3).
        let of_object = info.attributes.checksum.as_ref().unwrap_or(checksum);
        describe_checksum(checksum, ChecksumScheme::of(of_object), &mut headers);
    }
    if let Some(overrides) = overrides {
        headers.extend(overrides);
    }
    headers
}

fn may_see_tags(call: &Call<'_>) -> bool {
    let bucket = call.service.find_bucket(&call.target.bucket);
    bucket.is_ok_and(|bucket| bucket.authorize(call.principal, Action::GetObjectTagging).is_ok())
}

/// What a client that has the object already must still be told (RFC 9110, section 15.4.5).
fn not_modified(info: &ObjectInfo) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    describe(info, headers);
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_ENCODING);
    response
}
