//! Checksums of objects made by parts: over the parts' checksums, or, for CRCs, over the content, combined from the parts'.

use crc_fast::checksum_combine;
use engine::PartInfo;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, UploadChecksum};

use crate::digest::{ChecksumDigest, crc_checksum, crc_of, crc_value, name_of};
use crate::error::ObjectError;

/// S3's table: SHAs cannot be combined, and CRC64NVME is only ever over the content.
pub(super) fn check_supported(wanted: UploadChecksum) -> Result<(), ObjectError> {
    let is_supported = match wanted.algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => true,
        ChecksumAlgorithm::Crc64Nvme => wanted.full_object,
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => !wanted.full_object,
    };
    if is_supported {
        return Ok(());
    }
    let kind = if wanted.full_object { "FULL_OBJECT" } else { "COMPOSITE" };
    let reason = format!("the checksum type {kind} does not go with a {}", name_of(wanted.algorithm));
    Err(ObjectError::InvalidRequest { reason })
}

pub(super) fn mismatch(given: ChecksumAlgorithm, wanted: ChecksumAlgorithm) -> String {
    format!("the upload was opened for a {}, and was given a {}", name_of(wanted), name_of(given))
}

/// The object's checksum. Every part has one of the upload's algorithm; none if one has not (it was written by a version that did
/// not compute it).
pub(super) fn of_object(wanted: UploadChecksum, parts: &[PartInfo]) -> Option<Checksum> {
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
