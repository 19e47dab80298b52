//! CopyObject and UploadPartCopy.

use http::HeaderMap;
use object::{CopyPartRequest, CopyRequest, MetadataDirective, OwnAttributes, UploadName};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Response};

use super::convert::{Checksums, etag, timestamp};
use super::multipart::upload_id;
use super::{Answer, Operations};
use crate::expected_owner;
use crate::failure::{Failure, INVALID_ARGUMENT, NO_SUCH_VERSION, NOT_IMPLEMENTED};
use crate::request_headers::{self, STORAGE_CLASS, checksum_algorithm};

pub async fn copy_object(operations: &Operations, request: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
    let principal = operations.principal(&request)?;
    let headers = &request.headers;
    let source = source(operations, &request.input.copy_source, headers)?;
    let (metadata, own) = metadata(headers)?;
    let checksum = request_headers::text(headers, "x-amz-checksum-algorithm").map(checksum_algorithm).transpose()?;
    let condition = request_headers::write_condition(headers)?;
    let copy = CopyRequest { source, metadata, condition, checksum, own };
    let written = operations.service.copy(&principal, &request.input.bucket, &request.input.key, copy).await?;
    let checksums = Checksums::of(written.checksum.as_ref());
    let result = CopyObjectResult {
        e_tag: Some(etag(&written.etag)),
        last_modified: Some(timestamp(written.modified_ms)),
        checksum_crc32: checksums.crc32,
        checksum_crc32c: checksums.crc32c,
        checksum_crc64nvme: checksums.crc64nvme,
        checksum_sha1: checksums.sha1,
        checksum_sha256: checksums.sha256,
        checksum_type: checksums.kind,
    };
    Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() }))
}

pub async fn upload_part_copy(
    operations: &Operations,
    request: S3Request<UploadPartCopyInput>,
) -> Answer<UploadPartCopyOutput> {
    let principal = operations.principal(&request)?;
    let input = &request.input;
    let source = source(operations, &input.copy_source, &request.headers)?;
    let range = input.copy_source_range.as_deref().map(|text| {
        let range = request_headers::parse_range(text).filter(|range| matches!(range, object::ByteRange::Between(..)));
        range.ok_or_else(|| {
            Failure::with(
                INVALID_ARGUMENT,
                "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
            )
        })
    });
    let copy = CopyPartRequest { source, range: range.transpose()? };
    let name = UploadName { bucket: &input.bucket, key: &input.key, upload: upload_id(&input.upload_id)? };
    let number = u32::try_from(input.part_number).unwrap_or(0);
    let written = operations.service.copy_part(&principal, name, number, copy).await?;
    let checksums = Checksums::of(written.checksum.as_ref());
    let result = CopyPartResult {
        e_tag: Some(etag(&written.etag)),
        last_modified: Some(timestamp(written.modified_ms)),
        checksum_crc32: checksums.crc32,
        checksum_crc32c: checksums.crc32c,
        checksum_crc64nvme: checksums.crc64nvme,
        checksum_sha1: checksums.sha1,
        checksum_sha256: checksums.sha256,
    };
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() }))
}

fn source(operations: &Operations, source: &CopySource, headers: &HeaderMap) -> Result<object::CopySource, Failure> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(Failure::with(NOT_IMPLEMENTED, "Only a bucket and a key can be the source of a copy."));
    };
    if version_id.as_deref().is_some_and(|version| version != "null") {
        return Err(NO_SUCH_VERSION.into());
    }
    expected_owner::check_source(&operations.service, headers, bucket)?;
    let conditions = request_headers::source_conditions(headers)?;
    Ok(object::CopySource { bucket: bucket.to_string(), key: key.to_string(), conditions })
}

/// Where the copy's attributes come from. Tags have a directive of their own, and come from the source unless it says otherwise;
/// class and redirect are the copy's own under every directive.
fn metadata(headers: &HeaderMap) -> Result<(MetadataDirective, OwnAttributes), Failure> {
    let replaces = |name: &str| match request_headers::text(headers, name) {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(Failure::with(INVALID_ARGUMENT, format!("Unknown {name}."))),
    };
    let (replaces_metadata, replaces_tags) = (replaces("x-amz-metadata-directive")?, replaces("x-amz-tagging-directive")?);
    let given = request_headers::attributes(headers)?;
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
