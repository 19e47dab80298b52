//! GetObjectAttributes. Its document is written here: in it alone S3 writes the tag without quotes and a composite checksum without its number
//! of parts, which the library does not know; and the library lacks elements for some checksums.

use bytes::Bytes;
use format::attributes::ChecksumScheme;
use object::{Described, ObjectParts, PartsQuery};
use s3s::S3Request;
use s3s::dto::{GetObjectAttributesInput, GetObjectAttributesOutput, ObjectAttributes};

use super::convert::timestamp;
use super::multipart::page_size;
use super::{Answer, NAMESPACE, Operations, own_document};
use crate::answer_headers::{bare_checksum_element, checksum_element, checksum_type};
use crate::failure::{Failure, INVALID_REQUEST};
use crate::xml::Xml;

const HEADER: &str = "x-amz-object-attributes";

const KNOWN: [&str; 5] = [
    ObjectAttributes::CHECKSUM,
    ObjectAttributes::ETAG,
    ObjectAttributes::OBJECT_PARTS,
    ObjectAttributes::OBJECT_SIZE,
    ObjectAttributes::STORAGE_CLASS,
];

/// Bytes of a part's entry, about.
const PART_BYTES: usize = 200;

pub async fn get_object_attributes(
    operations: &Operations,
    request: S3Request<GetObjectAttributesInput>,
) -> Answer<GetObjectAttributesOutput> {
    let principal = operations.principal(&request);
    let input = request.input;
    let asked = asked(&input.object_attributes)?;
    let is_asked = |name: &str| asked.contains(&name);
    let query = PartsQuery {
        after: input.part_number_marker.map_or(Ok(0), marker)?,
        max_parts: page_size("max-parts", input.max_parts)?,
    };
    let query = Some(query).filter(|_| is_asked(ObjectAttributes::OBJECT_PARTS));
    let described = operations.service.describe(&principal, &input.bucket, &input.key, query).await?;
    let last_modified = Some(timestamp(described.info.attributes.modified_ms));
    let document = document(&described, query, is_asked);
    let output = GetObjectAttributesOutput { last_modified, ..GetObjectAttributesOutput::default() };
    Ok(own_document(output, document))
}

/// The attributes that are asked for. The library leaves a list in one header as it is.
fn asked(given: &[ObjectAttributes]) -> Result<Vec<&str>, Failure> {
    let names = given.iter().flat_map(|given| given.as_str().split(',')).map(str::trim).filter(|name| !name.is_empty());
    let asked: Vec<&str> = names.collect();
    if let Some(unknown) = asked.iter().find(|name| !KNOWN.contains(name)) {
        return Err(Failure::argument("Invalid attribute name specified.", HEADER, *unknown));
    }
    match asked.is_empty() {
        true => Err(Failure::with(INVALID_REQUEST, format!("The {HEADER} header must name one attribute at least."))),
        false => Ok(asked),
    }
}

fn marker(number: i32) -> Result<u16, Failure> {
    u16::try_from(number).map_err(|_| {
        let message = "Argument part-number-marker must be an integer between 0 and 65535";
        Failure::argument(message, "part-number-marker", number.to_string())
    })
}

fn document(described: &Described, query: Option<PartsQuery>, is_asked: impl Fn(&str) -> bool) -> Bytes {
    let Described { info, parts } = described;
    let listed = parts.as_ref().map_or(0, |page| page.parts.len());
    let mut xml = Xml::with_capacity(1024 + listed * PART_BYTES);
    xml.open(&format!("GetObjectAttributesResponse xmlns=\"{NAMESPACE}\""));
    if is_asked(ObjectAttributes::ETAG) {
        xml.element("ETag", &info.attributes.etag.to_string());
    }
    if let Some(checksum) = info.attributes.checksum.as_ref().filter(|_| is_asked(ObjectAttributes::CHECKSUM)) {
        xml.open("Checksum");
        bare_checksum_element(checksum, &mut xml);
        xml.element("ChecksumType", checksum_type(ChecksumScheme::of(checksum).full_object));
        xml.close("Checksum");
    }
    if let (Some(page), Some(query)) = (parts, query) {
        write_parts(page, query, &mut xml);
    }
    if is_asked(ObjectAttributes::STORAGE_CLASS) {
        xml.element("StorageClass", info.attributes.storage_class.name());
    }
    if is_asked(ObjectAttributes::OBJECT_SIZE) {
        xml.number_element("ObjectSize", info.length);
    }
    xml.close("GetObjectAttributesResponse");
    xml.finish()
}

/// S3 lists the parts of objects whose parts have checksums; for others it says how many there are.
fn write_parts(page: &ObjectParts, query: PartsQuery, xml: &mut Xml) {
    let last = page.parts.last().map_or(query.after, |(number, _)| *number);
    xml.open("ObjectParts");
    xml.number_element("PartsCount", page.count.into());
    xml.number_element("PartNumberMarker", query.after.into());
    xml.number_element("NextPartNumberMarker", last.into());
    xml.number_element("MaxParts", query.max_parts as u64);
    xml.element("IsTruncated", if page.truncated { "true" } else { "false" });
    for (part, stored) in &page.parts {
        let Some(checksum) = &stored.checksum else { break };
        xml.open("Part");
        xml.number_element("PartNumber", (*part).into());
        xml.number_element("Size", stored.range.end - stored.range.start);
        checksum_element(checksum, xml);
        xml.close("Part");
    }
    xml.close("ObjectParts");
}
