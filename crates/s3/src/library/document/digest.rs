//! The digests that clients sent of a document: a DeleteObjects with a flipped bit would delete something else.

use crc_fast::CrcAlgorithm;
use format::attributes::{Checksum, ChecksumAlgorithm};
use http::Method;
use http::request::Parts;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use crate::failure::Failure;
use crate::query::Query;
use crate::request_headers::{content_md5, given_checksum};

/// The digests under way, each with what was given.
pub struct Digests {
    md5: Option<(Md5, [u8; 16])>,
    checksum: Option<(Running, Checksum)>,
}

/// A checksum under way.
enum Running {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Digests {
    /// What a request with this head gives.
    pub fn of(head: &Parts, query: &Query<'_>) -> Result<Digests, Failure> {
        let md5 = content_md5(&head.headers)?.map(|given| (Md5::new(), given));
        // What ends an upload names the checksum of the object, not of the list of its parts.
        let is_of_object = head.method == Method::POST && query.has("uploadId");
        let given = if is_of_object { None } else { given_checksum(&head.headers)? };
        let checksum = given.map(|given| (Running::new(given.algorithm()), given));
        Ok(Digests { md5, checksum })
    }

    pub fn update(&mut self, bytes: &[u8]) {
        if let Some((md5, _)) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some((running, _)) = &mut self.checksum {
            running.update(bytes);
        }
    }

    /// Whether the document is what its client meant; asked once.
    pub fn are_right(&mut self) -> bool {
        let is_md5 = self.md5.take().is_none_or(|(md5, given)| md5.finalize()[..] == given);
        let is_checksum = self.checksum.take().is_none_or(|(running, given)| running.is(given.value()));
        is_md5 && is_checksum
    }
}

impl Running {
    fn new(algorithm: ChecksumAlgorithm) -> Running {
        match algorithm {
            ChecksumAlgorithm::Crc32 => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            ChecksumAlgorithm::Crc32c => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            ChecksumAlgorithm::Crc64Nvme => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            ChecksumAlgorithm::Sha1 => Running::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => Running::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Running::Crc(digest) => digest.update(bytes),
            Running::Sha1(digest) => digest.update(bytes),
            Running::Sha256(digest) => digest.update(bytes),
        }
    }

    fn is(self, given: &[u8]) -> bool {
        match self {
            // Shown big endian, in as many bytes as the algorithm has.
            Running::Crc(digest) => digest.finalize().to_be_bytes().ends_with(given),
            Running::Sha1(digest) => digest.finalize()[..] == *given,
            Running::Sha256(digest) => digest.finalize()[..] == *given,
        }
    }
}
