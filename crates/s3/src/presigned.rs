//! What a presigned URL says in its query instead of in headers. SDKs move headers there when they presign, so that whoever is given
//! the URL need not send them: the AWS SDK for JavaScript all `x-amz-` ones, metadata included. The signature covers the query, and
//! to pass them over would store an object without its metadata, or without the encryption that was asked for, and say that
//! all went well. So they become headers, and are obeyed or refused as those.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::failure::{Failure, INVALID_ARGUMENT};
use crate::query::Query;
use crate::request_headers::CHECKSUM_HEADERS;
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

/// SDKs add it, and a checksum of the empty content that they know when they presign, to every URL; S3 passes both over.
const SDK_CHECKSUM: &str = "x-amz-sdk-checksum-algorithm";

/// Moves what a presigned URL says into its request's headers; their names, which the signature covers as parts of the query. A header that
/// stands there already is then repeated, and refused as such.
pub fn move_to_headers(head: &mut Parts) -> Result<Vec<HeaderName>, Failure> {
    if head.uri.query().is_none() || head.headers.contains_key(AUTHORIZATION) {
        return Ok(Vec::new());
    }
    let moved = headers_of(&Query::parse(head.uri.query())?)?;
    let names = moved.keys().cloned().collect();
    for (name, value) in &moved {
        head.headers.append(name, value.clone());
    }
    Ok(names)
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
        let refuse = || {
            Failure::with(INVALID_ARGUMENT, format!("The query parameter {parameter} is not a header."))
                .detail("ArgumentName", parameter.to_string())
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| refuse())?);
    }
    Ok(headers)
}

fn is_a_header(name: &str) -> bool {
    let is_checksum = || name == SDK_CHECKSUM || CHECKSUM_HEADERS.iter().any(|(header, _)| *header == name);
    name.starts_with(AMZ) && !OF_SIGNATURE.contains(&name) && !is_checksum()
}
