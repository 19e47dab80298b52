//! ListObjectVersions, for buckets without versions: every object is its own latest version, called `null`.

use engine::ListItem;
use object::ListRequest;
use s3s::dto::{CommonPrefix, ListObjectVersionsInput, ListObjectVersionsOutput, ObjectVersion, ObjectVersionStorageClass};
use s3s::{S3Request, S3Response};

use super::convert::{Names, algorithm, etag, owner, timestamp, type_of};
use super::multipart::page_size;
use super::{Answer, Operations};
use crate::failure::Failure;

/// The version id of an object in a bucket without versions.
const NULL_VERSION: &str = "null";

pub async fn list_object_versions(
    operations: &Operations,
    request: S3Request<ListObjectVersionsInput>,
) -> Answer<ListObjectVersionsOutput> {
    let principal = operations.principal(&request);
    let input = request.input;
    let most = page_size("max-keys", input.max_keys)?;
    let names = Names::of(input.encoding_type.as_ref())?;
    let key_marker = input.key_marker.unwrap_or_default();
    if let Some(marker) = input.version_id_marker.as_deref().filter(|marker| !marker.is_empty())
        && key_marker.is_empty()
    {
        let message = "A version-id marker cannot be specified without a key marker.";
        return Err(Failure::argument(message, "version-id-marker", marker));
    }
    let asked = ListRequest {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        start_after: key_marker.clone(),
        max_items: most,
    };
    let listing = operations.service.list(&principal, &input.bucket, &asked).await?;
    let bucket = operations.service.find_bucket(&input.bucket)?;
    let (mut versions, mut prefixes) = (Vec::new(), Vec::new());
    for item in &listing.items {
        match item {
            ListItem::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(names.show_bytes(prefix)) }),
            ListItem::Object(object) => versions.push(ObjectVersion {
                checksum_algorithm: object.checksum.map(|checksum| vec![algorithm(checksum.algorithm)]),
                checksum_type: object.checksum.map(type_of),
                e_tag: Some(etag(&object.etag)),
                is_latest: Some(true),
                key: Some(names.show_bytes(&object.key)),
                last_modified: Some(timestamp(object.modified_ms)),
                owner: Some(owner(bucket.owner())),
                size: Some(object.length as i64),
                storage_class: Some(ObjectVersionStorageClass::from_static(object.storage_class.name())),
                version_id: Some(NULL_VERSION.to_owned()),
                ..ObjectVersion::default()
            }),
        }
    }
    Ok(S3Response::new(ListObjectVersionsOutput {
        versions: Some(versions),
        common_prefixes: Some(prefixes),
        is_truncated: Some(listing.next.is_some()),
        next_version_id_marker: listing.next.is_some().then(|| NULL_VERSION.to_owned()),
        next_key_marker: listing.next.map(|next| names.show_bytes(&next)),
        key_marker: Some(names.show(&key_marker)),
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        max_keys: Some(most as i32),
        prefix: Some(names.show(&asked.prefix)),
        delimiter: input.delimiter.as_deref().map(|delimiter| names.show(delimiter)),
        encoding_type: input.encoding_type,
        name: Some(input.bucket),
        ..ListObjectVersionsOutput::default()
    }))
}
