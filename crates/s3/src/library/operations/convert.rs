//! Our types as the library's.

use std::time::{Duration, UNIX_EPOCH};

use format::attributes::{ChecksumAlgorithm, ChecksumScheme, ETag, StorageClass};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto;

use crate::answer_headers::checksum_type;
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
