//! Multipart uploads, without the parts' content.

use format::attributes::ChecksumScheme;
use object::{CompleteRequest, ListUploadsRequest, MAX_LIST_ITEMS, UploadMark, UploadName};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CommonPrefix, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, Initiator,
    ListMultipartUploadsInput, ListMultipartUploadsOutput, MultipartUpload,
};
use s3s::{S3Request, S3Response};
use types::limits::MAX_PARTS;

use super::convert::{Names, algorithm, escape, owner, storage_class, timestamp, type_of};
use super::{Answer, NAMESPACE, Operations, completed, own_document};
use crate::answer_headers::{checksum_element, checksum_type, quoted};
use crate::checksum_headers;
use crate::failure::{Failure, INVALID_REQUEST, MALFORMED_XML};
use crate::library::PartList;
use crate::owner::canonical_id;
use crate::request_headers;
use crate::xml::Xml;

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
    let list = request.extensions.remove::<PartList>().unwrap_or_default();
    let parts = completed::parts(&list.take())?;
    if parts.is_empty() || parts.len() > usize::from(MAX_PARTS) {
        return Err(MALFORMED_XML.into());
    }
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
    let host = request_headers::text(headers, "host").unwrap_or_default();
    let mut xml = Xml::document();
    xml.open(&format!("CompleteMultipartUploadResult xmlns=\"{NAMESPACE}\""));
    xml.element("Location", &format!("http://{host}/{bucket}/{}", escape(key)));
    xml.element("Bucket", bucket);
    xml.element("Key", key);
    xml.element("ETag", &String::from_utf8_lossy(quoted(&completed.etag).as_bytes()));
    if let Some(checksum) = &completed.checksum {
        checksum_element(checksum, &mut xml);
        xml.element("ChecksumType", checksum_type(ChecksumScheme::of(checksum).full_object));
    }
    xml.close("CompleteMultipartUploadResult");
    Ok(own_document(CompleteMultipartUploadOutput::default(), xml.finish()))
}

fn object_size(bytes: i64) -> Result<u64, Failure> {
    let refuse =
        |_| Failure::with(INVALID_REQUEST, format!("Value for x-amz-mp-object-size header is less than zero: '{bytes}'"));
    u64::try_from(bytes).map_err(refuse)
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
