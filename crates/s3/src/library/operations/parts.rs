//! ListParts. Its document is written here: the library lacks elements for some checksums.

use bytes::Bytes;
use engine::PartInfo;
use object::{PartsPage, UploadName};
use s3s::S3Request;
use s3s::dto::{ListPartsInput, ListPartsOutput};

use super::multipart::page_size;
use super::{Answer, NAMESPACE, Operations, own_document};
use crate::answer_headers::{checksum_element, checksum_type, quoted};
use crate::dates::iso8601;
use crate::failure::Failure;
use crate::owner::canonical_id;
use crate::xml::Xml;

/// Bytes of a part's entry, about.
const PART_BYTES: usize = 250;

/// One page of the parts after a number.
struct Asked {
    after: u16,
    most: usize,
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
    let document = document(&input, bucket.owner(), &page, &Asked { after, most });
    Ok(own_document(ListPartsOutput::default(), document))
}

fn document(input: &ListPartsInput, owner: &str, page: &PartsPage, asked: &Asked) -> Bytes {
    let last = page.parts.last().map_or(asked.after, |part| part.number);
    let mut xml = Xml::with_capacity(1024 + page.parts.len() * PART_BYTES);
    xml.open(&format!("ListPartsResult xmlns=\"{NAMESPACE}\""));
    xml.element("Bucket", &input.bucket);
    xml.element("Key", &input.key);
    xml.element("UploadId", &input.upload_id);
    for role in ["Initiator", "Owner"] {
        xml.open(role);
        xml.element("ID", &canonical_id(owner));
        xml.element("DisplayName", owner);
        xml.close(role);
    }
    xml.element("StorageClass", page.attributes.storage_class.name());
    xml.number_element("PartNumberMarker", asked.after.into());
    xml.number_element("NextPartNumberMarker", last.into());
    xml.number_element("MaxParts", asked.most as u64);
    xml.element("IsTruncated", if page.truncated { "true" } else { "false" });
    if let Some(checksum) = page.attributes.upload_checksum {
        xml.element("ChecksumAlgorithm", checksum.algorithm.name());
        xml.element("ChecksumType", checksum_type(checksum.full_object));
    }
    for part in &page.parts {
        write_part(part, &mut xml);
    }
    xml.close("ListPartsResult");
    xml.finish()
}

fn write_part(part: &PartInfo, xml: &mut Xml) {
    xml.open("Part");
    xml.number_element("PartNumber", part.number.into());
    xml.element("LastModified", &String::from_utf8_lossy(&iso8601(part.attributes.modified_ms)));
    xml.element("ETag", &String::from_utf8_lossy(quoted(&part.attributes.etag).as_bytes()));
    xml.number_element("Size", part.length);
    if let Some(checksum) = &part.attributes.checksum {
        checksum_element(checksum, xml);
    }
    xml.close("Part");
}
