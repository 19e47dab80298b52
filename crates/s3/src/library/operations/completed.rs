//! Reading the list of parts that ends an upload.

use format::attributes::{Checksum, ChecksumAlgorithm};
use object::NamedPart;
use s3s::xml::{DeError, DeResult, Deserializer};

use crate::checksum_headers;
use crate::failure::{Failure, MALFORMED_XML};
use crate::request_headers::parse_etag;

/// How the names of elements with checksums begin.
const CHECKSUM: &[u8] = b"Checksum";

/// A part as it stands in the list.
#[derive(Default)]
struct Listed {
    number: Option<i32>,
    tag: Option<String>,
    checksums: Vec<(ChecksumAlgorithm, String)>,
}

/// The parts of a list, in its order.
pub fn parts(document: &[u8]) -> Result<Vec<NamedPart>, Failure> {
    let mut reader = Deserializer::new(document);
    let mut parts = Vec::new();
    let list = reader.named_element("CompleteMultipartUpload", |reader| {
        reader.for_each_element(|reader, name| match name {
            b"Part" => {
                parts.push(listed(reader)?);
                Ok(())
            }
            _ => Err(DeError::UnexpectedTagName),
        })
    });
    list.and_then(|()| reader.expect_eof()).map_err(|_| Failure::new(MALFORMED_XML))?;
    parts.into_iter().map(Listed::named).collect()
}

fn listed(reader: &mut Deserializer<'_>) -> DeResult<Listed> {
    let mut part = Listed::default();
    reader.for_each_element(|reader, name| {
        match name {
            b"PartNumber" if part.number.is_none() => part.number = Some(reader.content()?),
            b"ETag" if part.tag.is_none() => part.tag = Some(reader.content()?),
            name => part.checksums.push((algorithm(name).ok_or(DeError::UnexpectedTagName)?, reader.content()?)),
        }
        Ok(())
    })?;
    Ok(part)
}

/// The algorithm of `ChecksumCRC32`, for example.
fn algorithm(element: &[u8]) -> Option<ChecksumAlgorithm> {
    let name = element.strip_prefix(CHECKSUM)?;
    ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes() == name)
}

impl Listed {
    fn named(self) -> Result<NamedPart, Failure> {
        let checksum = self.checksum()?;
        let (Some(number), Some(tag)) = (self.number, self.tag) else { return Err(MALFORMED_XML.into()) };
        let number = u32::try_from(number).map_err(|_| {
            let message = "Part number must be an integer between 1 and 10000, inclusive";
            Failure::argument(message, "partNumber", number.to_string())
        })?;
        Ok(NamedPart { number, etag: parse_etag(&tag), checksum })
    }

    fn checksum(&self) -> Result<Option<Checksum>, Failure> {
        let refuse =
            |value: String| Failure::argument("Invalid Base64 or multiple checksums present in request", "Checksum", value);
        match self.checksums.as_slice() {
            [] => Ok(None),
            [(algorithm, text)] => {
                checksum_headers::parse(*algorithm, text.as_bytes()).map(Some).ok_or_else(|| refuse(text.clone()))
            }
            several => {
                let given = several.iter().map(|(algorithm, text)| format!("{}:{text};", algorithm.name()));
                Err(refuse(given.collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
