//! Multipart uploads, without the parts' content.

use format::attributes::{Checksum, ChecksumAlgorithm};
use object::{CompleteRequest, ListUploadsRequest, MAX_LIST_ITEMS, NamedPart, UploadMark, UploadName};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CommonPrefix, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CompletedPart, CreateMultipartUploadInput, CreateMultipartUploadOutput, Initiator,
    ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, Part,
};
use s3s::{S3Request, S3Response};
use types::limits::MAX_PARTS;

use super::convert::{Checksums, Names, algorithm, escape, etag, owner, storage_class, timestamp, type_of};
use super::{Answer, Operations};
use crate::checksum_headers;
use crate::failure::{Failure, INVALID_REQUEST, MALFORMED_XML};
use crate::owner::canonical_id;
use crate::request_headers::{self, parse_etag};

pub async fn create_multipart_upload(
    operations: &Operations,
    request: S3Request<CreateMultipartUploadInput>,
) -> Answer<CreateMultipartUploadOutput> {
    let principal = operations.principal(&request);
    let attributes = request_headers::attributes(&request.headers)?;
    let checksum = checksum_headers::of_upload(&request.headers)?;
    let CreateMultipartUploadInput { bucket, key, .. } = request.input;
    let upload = operations.service.create_upload(&principal, &bucket, &key, attributes, checksum).await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        checksum_algorithm: checksum.map(|checksum| algorithm(checksum.algorithm)),
        checksum_type: checksum.map(type_of),
        bucket: Some(bucket),
        key: Some(key),
        upload_id: Some(upload.to_string()),
        ..CreateMultipartUploadOutput::default()
    }))
}

pub async fn complete_multipart_upload(
    operations: &Operations,
    mut request: S3Request<CompleteMultipartUploadInput>,
) -> Answer<CompleteMultipartUploadOutput> {
    let principal = operations.principal(&request);
    let parts = request.input.multipart_upload.take().and_then(|upload| upload.parts).unwrap_or_default();
    if parts.is_empty() || parts.len() > usize::from(MAX_PARTS) {
        return Err(MALFORMED_XML.into());
    }
    let parts: Vec<NamedPart> = parts.into_iter().map(named_part).collect::<Result<_, _>>()?;
    let headers = &request.headers;
    let (checksum, checksum_parts) = checksum_headers::given_of_object(headers)?.unzip();
    let complete = CompleteRequest {
        parts,
        condition: request_headers::write_condition(headers)?,
        checksum,
        checksum_parts: checksum_parts.flatten(),
        is_full_object: checksum_headers::is_full_object(headers)?,
        length: request.input.mpu_object_size.map(object_size).transpose()?,
    };
    let CompleteMultipartUploadInput { bucket, key, upload_id: id, .. } = &request.input;
    let name = UploadName { bucket, key, upload: id.parse().ok() };
    let completed = operations.service.complete_upload(&principal, name, complete).await?;
    let checksums = Checksums::of(completed.checksum.as_ref());
    let host = request_headers::text(headers, "host").unwrap_or_default();
    Ok(S3Response::new(CompleteMultipartUploadOutput {
        location: Some(format!("http://{host}/{bucket}/{}", escape(key))),
        bucket: Some(bucket.clone()),
        key: Some(key.clone()),
        e_tag: Some(etag(&completed.etag)),
        checksum_crc32: checksums.crc32,
        checksum_crc32c: checksums.crc32c,
        checksum_crc64nvme: checksums.crc64nvme,
        checksum_sha1: checksums.sha1,
        checksum_sha256: checksums.sha256,
        checksum_type: checksums.kind,
        ..CompleteMultipartUploadOutput::default()
    }))
}

fn object_size(bytes: i64) -> Result<u64, Failure> {
    let refuse =
        |_| Failure::with(INVALID_REQUEST, format!("Value for x-amz-mp-object-size header is less than zero: '{bytes}'"));
    u64::try_from(bytes).map_err(refuse)
}

fn named_part(part: CompletedPart) -> Result<NamedPart, Failure> {
    let (Some(number), Some(tag)) = (part.part_number, part.e_tag) else { return Err(MALFORMED_XML.into()) };
    let number = u32::try_from(number).map_err(|_| {
        Failure::argument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", number.to_string())
    })?;
    let given = [
        (ChecksumAlgorithm::Crc32, part.checksum_crc32),
        (ChecksumAlgorithm::Crc32c, part.checksum_crc32c),
        (ChecksumAlgorithm::Crc64Nvme, part.checksum_crc64nvme),
        (ChecksumAlgorithm::Sha1, part.checksum_sha1),
        (ChecksumAlgorithm::Sha256, part.checksum_sha256),
    ];
    let mut checksum: Option<Checksum> = None;
    for (algorithm, text) in given {
        let Some(text) = text else { continue };
        let refuse = |what| Failure::with(INVALID_REQUEST, format!("{what} of part {number} is invalid."));
        let parsed = checksum_headers::parse(algorithm, text.as_bytes()).ok_or_else(|| refuse("The checksum"))?;
        if checksum.replace(parsed).is_some() {
            return Err(refuse("More than one checksum"));
        }
    }
    Ok(NamedPart { number, etag: parse_etag(tag.value()), checksum })
}

pub async fn abort_multipart_upload(
    operations: &Operations,
    request: S3Request<AbortMultipartUploadInput>,
) -> Answer<AbortMultipartUploadOutput> {
    let principal = operations.principal(&request);
    let AbortMultipartUploadInput { bucket, key, upload_id: id, .. } = &request.input;
    let name = UploadName { bucket, key, upload: id.parse().ok() };
    operations.service.abort_upload(&principal, name).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub async fn list_parts(operations: &Operations, request: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
    let principal = operations.principal(&request);
    let input = request.input;
    let most = page_size("max-parts", input.max_parts)?;
    let after = input.part_number_marker.map_or(Ok(0), |marker| {
        let refuse = |_| Failure::argument("part-number-marker is not a part number", "part-number-marker", marker.to_string());
        u16::try_from(marker).map_err(refuse)
    })?;
    let name = UploadName { bucket: &input.bucket, key: &input.key, upload: input.upload_id.parse().ok() };
    let page = operations.service.list_parts(&principal, name, after, most).await?;
    let bucket = operations.service.find_bucket(&input.bucket)?;
    let last = page.parts.last().map_or(after, |part| part.number);
    let checksum = page.attributes.upload_checksum;
    let parts = page.parts.iter().map(|part| {
        let checksums = Checksums::of(part.attributes.checksum.as_ref());
        Part {
            part_number: Some(i32::from(part.number)),
            size: Some(part.length as i64),
            e_tag: Some(etag(&part.attributes.etag)),
            last_modified: Some(timestamp(part.attributes.modified_ms)),
            checksum_crc32: checksums.crc32,
            checksum_crc32c: checksums.crc32c,
            checksum_crc64nvme: checksums.crc64nvme,
            checksum_sha1: checksums.sha1,
            checksum_sha256: checksums.sha256,
        }
    });
    Ok(S3Response::new(ListPartsOutput {
        parts: Some(parts.collect()),
        is_truncated: Some(page.truncated),
        max_parts: Some(most as i32),
        part_number_marker: Some(i32::from(after)),
        next_part_number_marker: Some(i32::from(last)),
        checksum_algorithm: checksum.map(|checksum| algorithm(checksum.algorithm)),
        checksum_type: checksum.map(type_of),
        initiator: Some(initiator(bucket.owner())),
        owner: Some(owner(bucket.owner())),
        storage_class: Some(storage_class(page.attributes.storage_class)),
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(input.upload_id.clone()),
        ..ListPartsOutput::default()
    }))
}

pub fn page_size(name: &'static str, asked: Option<i32>) -> Result<usize, Failure> {
    let Some(asked) = asked else { return Ok(MAX_LIST_ITEMS) };
    let most = usize::try_from(asked).map_err(|_| {
        let message = format!("Argument {name} must be an integer between 0 and 2147483647");
        Failure::argument(message, name, asked.to_string())
    })?;
    Ok(most.min(MAX_LIST_ITEMS))
}

fn initiator(user: &str) -> Initiator {
    Initiator { display_name: Some(user.to_owned()), id: Some(canonical_id(user)) }
}

pub async fn list_multipart_uploads(
    operations: &Operations,
    request: S3Request<ListMultipartUploadsInput>,
) -> Answer<ListMultipartUploadsOutput> {
    let principal = operations.principal(&request);
    let input = request.input;
    let most = page_size("max-uploads", input.max_uploads)?;
    let names = Names::of(input.encoding_type.as_ref())?;
    let asked = ListUploadsRequest {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        after: mark(input.key_marker.as_deref(), input.upload_id_marker.as_deref())?,
        max_items: most,
    };
    let page = operations.service.list_uploads(&principal, &input.bucket, &asked).await?;
    let bucket = operations.service.find_bucket(&input.bucket)?;
    let uploads = page.uploads.iter().map(|upload| MultipartUpload {
        key: Some(names.show_bytes(&upload.key)),
        upload_id: Some(upload.upload.to_string()),
        initiated: Some(timestamp(upload.initiated_ms)),
        initiator: Some(initiator(bucket.owner())),
        owner: Some(owner(bucket.owner())),
        storage_class: Some(storage_class(upload.storage_class)),
        checksum_algorithm: upload.checksum.map(|checksum| algorithm(checksum.algorithm)),
        checksum_type: upload.checksum.map(type_of),
    });
    let prefixes = page.prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(names.show_bytes(prefix)) });
    Ok(S3Response::new(ListMultipartUploadsOutput {
        uploads: Some(uploads.collect()),
        common_prefixes: Some(prefixes.collect()),
        is_truncated: Some(page.next.is_some()),
        max_uploads: Some(most as i32),
        prefix: input.prefix.as_deref().map(|name| names.show(name)),
        delimiter: input.delimiter.as_deref().map(|name| names.show(name)),
        key_marker: Some(names.show(input.key_marker.as_deref().unwrap_or_default())),
        upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
        next_key_marker: page.next.as_ref().map(|next| names.show(&next.key)),
        next_upload_id_marker: page.next.and_then(|next| next.upload).map(|upload| upload.to_string()),
        encoding_type: input.encoding_type,
        bucket: Some(input.bucket),
        ..ListMultipartUploadsOutput::default()
    }))
}

/// An upload id marker counts only beside a key marker.
fn mark(key: Option<&str>, upload: Option<&str>) -> Result<Option<UploadMark>, Failure> {
    let Some(key) = key.filter(|key| !key.is_empty()) else { return Ok(None) };
    let upload = match upload.filter(|upload| !upload.is_empty()) {
        None => None,
        Some(upload) => {
            let refuse = |_| Failure::argument("Invalid uploadId marker", "upload-id-marker", upload);
            Some(upload.parse().map_err(refuse)?)
        }
    };
    Ok(Some(UploadMark { key: key.to_owned(), upload }))
}
