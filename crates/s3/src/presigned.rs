//! What a presigned URL says in its query instead of in headers. SDKs move headers there when they presign, so that whoever is given
//! the URL need not send them: the AWS SDK for JavaScript all `x-amz-` ones, metadata included. The signature covers the query, and
//! to pass them over would store an object without its metadata, or without the encryption that was asked for, and say that
//! all went well. So they become headers, and are obeyed or refused as those.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::checksum_headers::{SDK_ALGORITHM, algorithm_of};
use crate::failure::{Failure, INVALID_URI};
use crate::query::Query;
use crate::repeated;
use crate::sigv4::is_claim;

const AMZ: &str = "x-amz-";

/// Parameters of the signature itself; their names differ from headers' only in case.
const OF_SIGNATURE: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// Moves what a presigned URL says into its request's headers; their names, which the signature covers as parts of the query. What stands
/// in both, or twice in the query, is refused: the signature covers the query's value alone.
pub fn move_to_headers(head: &mut Parts) -> Result<Vec<HeaderName>, Failure> {
    if head.uri.query().is_none() || head.headers.contains_key(AUTHORIZATION) {
        return Ok(Vec::new());
    }
    let moved = headers_of(&Query::parse(head.uri.query())?)?;
    let names: Vec<HeaderName> = moved.keys().cloned().collect();
    for (name, value) in moved {
        let name = name.expect("no name stands twice");
        if head.headers.contains_key(&name) {
            return Err(repeated::refuse(&name));
        }
        head.headers.insert(name, value);
    }
    Ok(names)
}

/// The address without its signature, for a reader that must not look for one.
pub fn without_signature(uri: &Uri) -> Result<Uri, Failure> {
    let Some(query) = uri.query() else { return Ok(uri.clone()) };
    let is_of_signature = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
        OF_SIGNATURE.contains(&name.as_str())
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_of_signature(pair)).collect();
    let target = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), kept.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| Failure::new(INVALID_URI))?);
    Uri::from_parts(parts).map_err(|_| INVALID_URI.into())
}

fn headers_of(query: &Query<'_>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if !is_claim(query) {
        return Ok(headers);
    }
    for (parameter, value) in query.pairs() {
        let name = parameter.to_ascii_lowercase();
        if !is_a_header(&name) {
            continue;
        }
        let refuse =
            || Failure::argument(format!("The query parameter {parameter} is not a header."), parameter.clone(), value.clone());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| refuse())?;
        if headers.insert(&name, value).is_some() {
            return Err(repeated::refuse(&name));
        }
    }
    Ok(headers)
}

fn is_a_header(name: &str) -> bool {
    // SDKs add both, of the empty content that they know when they presign, to every URL; S3 passes them over.
    let is_checksum = || name == SDK_ALGORITHM || algorithm_of(name).is_some();
    name.starts_with(AMZ) && !OF_SIGNATURE.contains(&name) && !is_checksum()
}
