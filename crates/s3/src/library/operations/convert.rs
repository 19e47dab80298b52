//! Our types as the library's.

use std::time::{Duration, UNIX_EPOCH};

use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumScheme, ETag, StorageClass};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto;

use crate::answer_headers::{checksum_text, checksum_type};
use crate::failure::Failure;
use crate::owner::canonical_id;

/// What `encoding-type=url` escapes, and URLs.
const URL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// How names are shown in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Plain,
    Url,
}

impl Names {
    pub fn of(encoding: Option<&dto::EncodingType>) -> Result<Names, Failure> {
        match encoding.map(dto::EncodingType::as_str) {
            None | Some("") => Ok(Names::Plain),
            Some("url") => Ok(Names::Url),
            Some(other) => Err(Failure::argument("Invalid Encoding Method specified in Request", "encoding-type", other)),
        }
    }

    pub fn show(self, name: &str) -> String {
        match self {
            Names::Plain => name.to_owned(),
            Names::Url => escape(name),
        }
    }

    pub fn show_bytes(self, name: &[u8]) -> String {
        self.show(&String::from_utf8_lossy(name))
    }
}

/// A name as it stands in a URL.
pub fn escape(name: &str) -> String {
    utf8_percent_encode(name, URL_ESCAPED).to_string()
}

pub fn timestamp(ms_since_1970: u64) -> dto::Timestamp {
    dto::Timestamp::from(UNIX_EPOCH + Duration::from_millis(ms_since_1970))
}

pub fn etag(tag: &ETag) -> dto::ETag {
    dto::ETag::Strong(tag.to_string())
}

pub fn owner(user: &str) -> dto::Owner {
    dto::Owner { display_name: Some(user.to_owned()), id: Some(canonical_id(user)) }
}

pub fn storage_class(class: StorageClass) -> dto::StorageClass {
    dto::StorageClass::from_static(class.name())
}

pub fn algorithm(algorithm: ChecksumAlgorithm) -> dto::ChecksumAlgorithm {
    dto::ChecksumAlgorithm::from_static(algorithm.name())
}

/// Whether a checksum covers the content or the parts' checksums.
pub fn type_of(scheme: ChecksumScheme) -> dto::ChecksumType {
    dto::ChecksumType::from_static(checksum_type(scheme.full_object))
}

/// A checksum in the field of its algorithm; the library has fields for those that uploads take.
#[derive(Debug, Default)]
pub struct Checksums {
    pub crc32: Option<String>,
    pub crc32c: Option<String>,
    pub crc64nvme: Option<String>,
    pub sha1: Option<String>,
    pub sha256: Option<String>,
    pub kind: Option<dto::ChecksumType>,
}

impl Checksums {
    pub fn of(checksum: Option<&Checksum>) -> Checksums {
        let mut checksums = Checksums::default();
        let Some(checksum) = checksum else { return checksums };
        let field = match checksum.algorithm() {
            ChecksumAlgorithm::Crc32 => &mut checksums.crc32,
            ChecksumAlgorithm::Crc32c => &mut checksums.crc32c,
            ChecksumAlgorithm::Crc64Nvme => &mut checksums.crc64nvme,
            ChecksumAlgorithm::Sha1 => &mut checksums.sha1,
            ChecksumAlgorithm::Sha256 => &mut checksums.sha256,
            _ => return checksums,
        };
        *field = Some(checksum_text(checksum));
        checksums.kind = Some(type_of(ChecksumScheme::of(checksum)));
        checksums
    }
}
