//! What every request must satisfy before anything else looks at it.
//!
//! No two readers of one request may disagree about what was signed, so what could be read in two ways ends here.

use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use smallvec::SmallVec;
use types::limits::MAX_PUT_BYTES;

use crate::auth::{CONTENT_SHA256, payload_claim};
use crate::config::S3Config;
use crate::direct::names_subresource;
use crate::failure::{
    ACCESS_DENIED, ENTITY_TOO_LARGE, Failure, INVALID_REQUEST, METHOD_NOT_ALLOWED, MISSING_CONTENT_LENGTH, NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
};
use crate::query::Query;
use crate::sigv4::{Claim, claim_of};
use crate::target::Target;

const AMZ: &str = "x-amz-";

/// What the guard has read of a request that it let pass.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub target: Target<'a>,
    /// Who the request says that it is from; not verified.
    pub claim: Option<Claim<'a>>,
    pub query: Query<'a>,
}

/// Checks a request's head. What was `moved` among its headers from a presigned query is covered by the signature of that.
pub fn admit<'a>(head: &'a Parts, moved: &[HeaderName], config: &S3Config) -> Result<Admitted<'a>, Failure> {
    check_host(head)?;
    let target = Target::of(head.uri.path(), &head.headers, config.domain.as_deref())?;
    let query = Query::parse(head.uri.query())?;
    check_method(&head.method, &target, &query)?;
    let claim = claim_of(&head.headers, &query, &config.region)?;
    if let Some(claim) = &claim {
        check_all_signed(&head.headers, moved, claim)?;
        check_signed_length(&head.headers, claim)?;
    }
    check_payload_kind(&head.headers)?;
    check_length(&head.headers)?;
    check_form(head)?;
    check_post_to_bucket(&head.method, &target, &query)?;
    Ok(Admitted { target, claim, query })
}

fn check_host(head: &Parts) -> Result<(), Failure> {
    // RFC 9112, section 3.2. An absolute request target would name another host than the one that is signed.
    if head.version == Version::HTTP_11 && !head.headers.contains_key(HOST) {
        return Err(Failure::with(INVALID_REQUEST, "The Host header is missing."));
    }
    let host = head.headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    if head.uri.authority().is_some_and(|name| !name.as_str().as_bytes().eq_ignore_ascii_case(host)) {
        return Err(Failure::with(INVALID_REQUEST, "The request target and the Host header name different hosts."));
    }
    Ok(())
}

/// A signature covers the host and every `x-amz-` header, or somebody could add one on the way.
fn check_all_signed(headers: &HeaderMap, moved: &[HeaderName], claim: &Claim<'_>) -> Result<(), Failure> {
    let mut signed: SmallVec<[&str; 16]> = claim.signed_headers.split(';').collect();
    signed.sort_unstable();
    let is_covered = |name: &HeaderName| signed.binary_search(&name.as_str()).is_ok() || moved.contains(name);
    let must_be_covered = |name: &&HeaderName| **name == HOST || name.as_str().starts_with(AMZ);
    let mut left_out: Vec<&str> =
        headers.keys().filter(must_be_covered).filter(|name| !is_covered(name)).map(HeaderName::as_str).collect();
    if left_out.is_empty() {
        return Ok(());
    }
    left_out.sort_unstable();
    Err(Failure::with(ACCESS_DENIED, "There were headers present in the request which were not signed")
        .detail("HeadersNotSigned", left_out.join(", ")))
}

/// RFC 9112, section 6.3: `Transfer-Encoding` takes the place of `Content-Length`, and the HTTP library drops the latter. A signature that
/// covers it can't be verified then.
fn check_signed_length(headers: &HeaderMap, claim: &Claim<'_>) -> Result<(), Failure> {
    let is_signed = claim.signed_headers.split(';').any(|signed| CONTENT_LENGTH == signed);
    if is_signed && !headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        let message = "The signature covers the Content-Length header, and Transfer-Encoding takes the place of that header: send the one that is \
                       signed alone.";
        return Err(Failure::with(MISSING_CONTENT_LENGTH, message));
    }
    Ok(())
}

/// Query parameters of a POST that is about a key.
const POSTS_OF_KEYS: [&str; 4] = ["restore", "select", "uploadId", "uploads"];

/// Refuses methods that nothing here has (RFC 9110, section 15.5.6). `OPTIONS` is left to what sorts out the rest.
fn check_method(method: &Method, target: &Target<'_>, query: &Query<'_>) -> Result<(), Failure> {
    let (resource, allowed) = match (target.bucket.is_empty(), target.key.is_empty()) {
        (true, _) => ("SERVICE", "GET"),
        (false, true) => ("BUCKET", "GET, HEAD, PUT, POST, DELETE"),
        (false, false) => ("OBJECT", "GET, HEAD, PUT, DELETE"),
    };
    let is_allowed = match *method {
        Method::OPTIONS => true,
        Method::POST if resource == "OBJECT" => query.has_any(&POSTS_OF_KEYS),
        _ => allowed.split(", ").any(|allowed| method == allowed),
    };
    if is_allowed {
        return Ok(());
    }
    Err(Failure::new(METHOD_NOT_ALLOWED)
        .detail("Method", method.as_str())
        .detail("ResourceType", resource)
        .header(ALLOW, HeaderValue::from_static(allowed)))
}

/// A kind of payload that is not known can't be verified.
fn check_payload_kind(headers: &HeaderMap) -> Result<(), Failure> {
    if !headers.contains_key(CONTENT_SHA256) || payload_claim(headers).is_some() {
        return Ok(());
    }
    let name = CONTENT_SHA256;
    let message = format!(
        "The header {name} must be UNSIGNED-PAYLOAD, a STREAMING kind of HMAC-SHA256, or a SHA-256 in lower-case hexadecimal."
    );
    let given = String::from_utf8_lossy(headers[name].as_bytes()).into_owned();
    Err(Failure::argument(message, name, given))
}

fn check_length(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(length) = headers.get(CONTENT_LENGTH) else { return Ok(()) };
    let length = length.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    match length {
        None => Err(Failure::with(INVALID_REQUEST, "The Content-Length header is not a number.")),
        Some(bytes) if bytes > MAX_PUT_BYTES + CHUNK_FRAMING_BYTES => Err(Failure::new(ENTITY_TOO_LARGE)
            .detail("ProposedSize", bytes.to_string())
            .detail("MaxSizeAllowed", MAX_PUT_BYTES.to_string())),
        Some(_) => Ok(()),
    }
}

/// What `aws-chunked` framing may add to the largest object: 90 bytes for each chunk of 8 KiB, the smallest that S3 allows.
const CHUNK_FRAMING_BYTES: u64 = MAX_PUT_BYTES / 8192 * 90;

/// A POST to a bucket that is about no part of it can only be an upload by form (S3 answers so).
fn check_post_to_bucket(method: &Method, target: &Target<'_>, query: &Query<'_>) -> Result<(), Failure> {
    let is_of_bucket = !target.bucket.is_empty() && target.key.is_empty();
    if method == Method::POST && is_of_bucket && !names_subresource(query) {
        return Err(Failure::new(PRECONDITION_FAILED)
            .detail("Condition", "Bucket POST must be of the enclosure-type multipart/form-data"));
    }
    Ok(())
}

/// Uploads by HTML form (POST policies) are not there yet.
fn check_form(head: &Parts) -> Result<(), Failure> {
    const FORM: &[u8] = b"multipart/form-data";
    let is_form = head.method == Method::POST
        && head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM)));
    if is_form {
        return Err(Failure::with(NOT_IMPLEMENTED, "Uploads by HTML form (POST policy) are not implemented."));
    }
    Ok(())
}
