//! PutObject and UploadPart.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use format::attributes::{Checksum, ChecksumScheme, ETag};
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, ETAG};
use http::{HeaderMap, HeaderValue, Response};
use object::{Body, PutRequest, Upload, UploadName};
use types::UploadId;
use types::limits::{MAX_PUT_BYTES, MAX_SMALL_BYTES};

use super::{Call, Content};
use crate::answer_headers::{USUAL_HEADERS, describe_checksum, etag};
use crate::checksum_headers;
use crate::failure::{ENTITY_TOO_LARGE, Failure, INVALID_REQUEST, MISSING_CONTENT_LENGTH};
use crate::payload::{Pieces, into_stream};
use crate::query::Query;
use crate::request_headers;
use crate::response::ResponseBody;

pub async fn put<P: Pieces>(call: Call<'_>, content: Content<P>) -> Result<Response<ResponseBody>, Failure> {
    let headers = &call.head.headers;
    let attributes = request_headers::attributes(headers)?;
    let condition = request_headers::write_condition(headers)?;
    if checksum_headers::is_full_object(headers)? == Some(false) {
        return Err(Failure::with(INVALID_REQUEST, "The COMPOSITE checksum type is for objects that are made by parts."));
    }
    let content = upload(headers, content).await?;
    let request = PutRequest { attributes, condition, content };
    let written = call.service.put(call.principal, &call.target.bucket, &call.target.key, request).await?;
    Ok(answer(&written.etag, &written.checksum))
}

pub async fn put_part<P: Pieces>(call: Call<'_>, content: Content<P>) -> Result<Response<ResponseBody>, Failure> {
    let number = call.query.number("partNumber")?.unwrap_or_default();
    checksum_headers::is_full_object(&call.head.headers)?;
    let content = upload(&call.head.headers, content).await?;
    let name = UploadName { bucket: &call.target.bucket, key: &call.target.key, upload: upload_id(call.query) };
    let written = call.service.put_part(call.principal, name, number, content).await?;
    Ok(answer(&written.etag, &written.checksum))
}

/// The upload that is asked for; none if that is no id.
pub fn upload_id(query: &Query<'_>) -> Option<UploadId> {
    query.get("uploadId")?.parse().ok()
}

fn answer(tag: &ETag, checksum: &Checksum) -> Response<ResponseBody> {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(ETAG, etag(tag));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    describe_checksum(checksum, ChecksumScheme::of(checksum), &mut headers);
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
    let checksum = checksum_headers::wish(headers, trailers)?;
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
