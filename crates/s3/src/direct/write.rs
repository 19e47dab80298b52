//! PutObject and UploadPart.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use format::attributes::{Checksum, ChecksumAlgorithm, ETag};
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, ETAG};
use http::{HeaderMap, HeaderValue, Response};
use object::{Body, ChecksumWish, PutRequest, Trailer, Upload, UploadName};
use types::UploadId;
use types::limits::{MAX_PUT_BYTES, MAX_SMALL_BYTES};

use super::{Call, Content};
use crate::answer_headers::{USUAL_HEADERS, describe_checksum, etag};
use crate::failure::{ENTITY_TOO_LARGE, Failure, INVALID_REQUEST, MISSING_CONTENT_LENGTH};
use crate::payload::{Pieces, Trailers, into_stream};
use crate::query::Query;
use crate::request_headers::{self, CHECKSUM_HEADERS, parse_checksum};
use crate::response::ResponseBody;

pub async fn put<P: Pieces>(call: Call<'_>, content: Content<P>) -> Result<Response<ResponseBody>, Failure> {
    let headers = &call.head.headers;
    let attributes = request_headers::attributes(headers)?;
    let condition = request_headers::write_condition(headers)?;
    let content = upload(headers, content).await?;
    let request = PutRequest { attributes, condition, content };
    let written = call.service.put(call.principal, &call.target.bucket, &call.target.key, request).await?;
    Ok(answer(&written.etag, written.checksum.as_ref()))
}

pub async fn put_part<P: Pieces>(call: Call<'_>, content: Content<P>) -> Result<Response<ResponseBody>, Failure> {
    let number = call.query.number("partNumber")?.unwrap_or_default();
    let content = upload(&call.head.headers, content).await?;
    let name = UploadName { bucket: &call.target.bucket, key: &call.target.key, upload: upload_id(call.query) };
    let written = call.service.put_part(call.principal, name, number, content).await?;
    Ok(answer(&written.etag, written.checksum.as_ref()))
}

/// The upload that is asked for; none if that is no id.
pub fn upload_id(query: &Query<'_>) -> Option<UploadId> {
    query.get("uploadId")?.parse().ok()
}

fn answer(tag: &ETag, checksum: Option<&Checksum>) -> Response<ResponseBody> {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(ETAG, etag(tag));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    if let Some(checksum) = checksum {
        describe_checksum(checksum, &mut headers);
    }
    let mut response = Response::new(ResponseBody::Empty);
    *response.headers_mut() = headers;
    response
}

async fn upload<P: Pieces>(headers: &HeaderMap, content: Content<P>) -> Result<Upload, Failure> {
    let Content { pieces, length, trailers } = content;
    let Some(length) = length else { return Err(MISSING_CONTENT_LENGTH.into()) };
    if length > MAX_PUT_BYTES {
        return Err(Failure::new(ENTITY_TOO_LARGE)
            .detail("ProposedSize", length.to_string())
            .detail("MaxSizeAllowed", MAX_PUT_BYTES.to_string()));
    }
    let md5 = request_headers::content_md5(headers)?;
    let checksum = wish(headers, trailers)?;
    let body = body(pieces, length).await;
    Ok(Upload { body, length: Some(length), md5, checksum })
}

/// A small body that comes in one piece needs no stream: it is handed on as it lies in the connection's buffer.
async fn body<P: Pieces>(mut pieces: P, length: u64) -> Body {
    if length > MAX_SMALL_BYTES as u64 {
        return Body::Stream(into_stream(pieces));
    }
    let first = poll_fn(|cx| Pin::new(&mut pieces).poll_next(cx)).await;
    let rest = match first {
        None if length == 0 => return Body::Whole(Bytes::new()),
        Some(Ok(bytes)) if bytes.len() as u64 == length => {
            // Whether the content is what was signed shows at its end.
            match poll_fn(|cx| Pin::new(&mut pieces).poll_next(cx)).await {
                None => return Body::Whole(bytes),
                more => futures_util::stream::iter([Some(Ok(bytes)), more]).filter_map(std::future::ready).left_stream(),
            }
        }
        first => futures_util::stream::iter(first).right_stream(),
    };
    Body::Stream(into_stream(rest.chain(pieces)))
}

/// Which checksum the client wants: given beforehand, to follow, or only named.
fn wish(headers: &HeaderMap, trailers: Option<Trailers>) -> Result<ChecksumWish, Failure> {
    // One look at the names is cheaper than to ask for each header that is usually absent.
    let is_about_checksums =
        |name: &str| name.starts_with("x-amz-") && (name.contains("-checksum-") || name == "x-amz-trailer");
    if !headers.keys().any(|name| is_about_checksums(name.as_str())) {
        return Ok(ChecksumWish::None);
    }
    let given = request_headers::given_checksum(headers)?;
    let announced = announced_trailer(headers, trailers)?;
    match (given, announced) {
        (Some(_), Some(_)) => Err(Failure::with(
            INVALID_REQUEST,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )),
        (Some(checksum), None) => Ok(ChecksumWish::Given(checksum)),
        (None, Some((algorithm, trailer))) => Ok(ChecksumWish::Trailing(algorithm, trailer)),
        (None, None) => match request_headers::text(headers, "x-amz-sdk-checksum-algorithm") {
            Some(_) => Err(Failure::with(
                INVALID_REQUEST,
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
            )),
            None => match request_headers::text(headers, "x-amz-checksum-algorithm") {
                Some(name) => Ok(ChecksumWish::Compute(request_headers::checksum_algorithm(name)?)),
                None => Ok(ChecksumWish::None),
            },
        },
    }
}

fn announced_trailer(headers: &HeaderMap, trailers: Option<Trailers>) -> Result<Option<(ChecksumAlgorithm, Trailer)>, Failure> {
    let Some(announced) = request_headers::text(headers, "x-amz-trailer") else { return Ok(None) };
    let announced = announced.trim().to_ascii_lowercase();
    let known = CHECKSUM_HEADERS.iter().find(|(name, _)| *name == announced);
    let Some((name, algorithm)) = known else {
        return Err(Failure::with(INVALID_REQUEST, "The value specified in the x-amz-trailer header is not supported"));
    };
    let Some(trailers) = trailers else {
        return Err(Failure::with(INVALID_REQUEST, "x-amz-trailer is given, but the body has no trailing headers"));
    };
    let trailer: Trailer = Box::new(move || parse_checksum(*algorithm, trailers.get(name)?.as_bytes()));
    Ok(Some((*algorithm, trailer)))
}
