//! Checksums of objects made by parts: over the parts' checksums, or, for CRCs, over the content, combined from the parts'.

use crc_fast::checksum_combine;
use engine::PartInfo;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType};

use crate::digest::{CRC64NVME, ChecksumDigest, crc_checksum, crc_of, crc_value};
use crate::error::ObjectError;

/// S3's table: CRCs can be combined, the others cannot, and CRC64NVME is only ever over the content.
pub(super) fn check_supported(wanted: ChecksumScheme) -> Result<(), ObjectError> {
    let refuse = |reason| Err(ObjectError::InvalidRequest { reason });
    match (crc_of(wanted.algorithm), wanted.full_object) {
        (None, true) => refuse(format!("the checksum type FULL_OBJECT does not go with {}", wanted.algorithm.name())),
        (Some(CRC64NVME), false) => refuse("the checksum type COMPOSITE does not go with CRC64NVME".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn mismatch(given: Option<ChecksumAlgorithm>, wanted: ChecksumAlgorithm) -> String {
    let given = given.map_or("none", ChecksumAlgorithm::name);
    format!("checksum type mismatch: the upload was opened for {}, and was given {given}", wanted.name())
}

/// What the object of an upload carries that was opened for nothing: what all its parts have, combined if that is possible.
pub(super) fn scheme_of(parts: &[PartInfo]) -> Option<ChecksumScheme> {
    let algorithm = parts.first()?.attributes.checksum.as_ref()?.algorithm();
    Some(ChecksumScheme { algorithm, full_object: crc_of(algorithm).is_some() })
}

/// The object's checksum; none if not every part has one of this algorithm.
pub(super) fn of_object(wanted: ChecksumScheme, parts: &[PartInfo]) -> Option<Checksum> {
    let has_all = parts.iter().all(|part| part_checksum(part, wanted.algorithm).is_some());
    if !has_all {
        return None;
    }
    if wanted.full_object { full_object(wanted.algorithm, parts) } else { Some(composite(wanted.algorithm, parts)) }
}

fn part_checksum(part: &PartInfo, algorithm: ChecksumAlgorithm) -> Option<&Checksum> {
    part.attributes.checksum.as_ref().filter(|checksum| checksum.algorithm() == algorithm)
}

fn composite(algorithm: ChecksumAlgorithm, parts: &[PartInfo]) -> Checksum {
    let mut digest = ChecksumDigest::new(algorithm);
    for checksum in parts.iter().filter_map(|part| part_checksum(part, algorithm)) {
        digest.update(checksum.value());
    }
    digest.finish_as(ChecksumType::Composite { parts: parts.len() as u16 })
}

fn full_object(algorithm: ChecksumAlgorithm, parts: &[PartInfo]) -> Option<Checksum> {
    let crc = crc_of(algorithm)?;
    let checksums = parts.iter().filter_map(|part| Some((crc_value(part_checksum(part, algorithm)?), part.length)));
    let combined = checksums.reduce(|(left, length), (right, right_length)| {
        (checksum_combine(crc, left, right, right_length), length + right_length)
    });
    combined.map(|(value, _)| crc_checksum(algorithm, ChecksumType::FullObject, value))
}

#[cfg(test)]
mod tests;
