//! Digests of content on its way in: the entity tag, what the client gave to verify it, the checksum it wants kept.
//!
//! One pass feeds all of them, piece by piece, while the piece is in the cache. MD5 is by far the slowest (0.9 GB/s a core on
//! the reference machine, performance.md), so it is computed once even where both the tag and `Content-MD5` need it, not
//! at all where neither does, and together with the other contents that arrive ([`crate::lanes`]).

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, ETag};
use manager::EtagMode;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3Default;

use crate::body::ChecksumWish;
use crate::error::ObjectError;
use crate::lanes::Md5Content;

/// How the entity tag of some content comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagSource {
    /// MD5 of the content.
    Md5,
    /// XXH3 of 128 bits: 20 times as fast, and enough to tell versions of one object apart. Whoever can make two contents
    /// collide only fools conditions on the object that he may write anyway.
    Fast,
    /// Known beforehand: the content is a copy.
    Known(ETag),
}

/// Digests under way.
pub(crate) struct Digests {
    tag: TagSource,
    md5: Option<Md5Content>,
    fast: Option<Box<Xxh3Default>>,
    checksum: Option<ChecksumDigest>,
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digested {
    pub(crate) etag: ETag,
    pub(crate) checksum: Option<Checksum>,
}

/// One checksum under way.
pub(crate) enum ChecksumDigest {
    Crc(ChecksumAlgorithm, crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl From<EtagMode> for TagSource {
    fn from(mode: EtagMode) -> Self {
        match mode {
            EtagMode::Md5 => TagSource::Md5,
            EtagMode::Fast => TagSource::Fast,
        }
    }
}

impl Digests {
    pub(crate) fn new(tag: TagSource, verifies_md5: bool, checksum: Option<ChecksumAlgorithm>) -> Self {
        Digests {
            tag,
            md5: (verifies_md5 || tag == TagSource::Md5).then(Md5Content::new),
            fast: (tag == TagSource::Fast).then(|| Box::new(Xxh3Default::new())),
            checksum: checksum.map(ChecksumDigest::new),
        }
    }

    pub(crate) async fn update(&mut self, piece: Bytes) {
        if let Some(fast) = &mut self.fast {
            fast.update(&piece);
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&piece);
        }
        if let Some(md5) = &mut self.md5 {
            md5.update(piece).await;
        }
    }

    /// Hashes all that came, so that no handle on it is kept.
    pub(crate) async fn catch_up(&mut self) {
        if let Some(md5) = &mut self.md5 {
            md5.catch_up().await;
        }
    }

    /// Ends the digests and compares them with what the client gave.
    pub(crate) async fn finish(self, given_md5: Option<[u8; 16]>, wish: ChecksumWish) -> Result<Digested, ObjectError> {
        let md5 = match self.md5 {
            Some(md5) => Some(md5.finish().await),
            None => None,
        };
        if given_md5.is_some() && given_md5 != md5 {
            return Err(ObjectError::BadDigest { what: "Content-MD5" });
        }
        let checksum = self.checksum.map(ChecksumDigest::finish);
        let given = match wish {
            ChecksumWish::None | ChecksumWish::Compute(_) => None,
            ChecksumWish::Given(given) => Some(given),
            ChecksumWish::Trailing(algorithm, trailer) => Some(trailer().ok_or_else(|| missing_trailer(algorithm))?),
        };
        if let (Some(given), Some(found)) = (given, checksum)
            && (given.algorithm(), given.value()) != (found.algorithm(), found.value())
        {
            return Err(ObjectError::BadDigest { what: name_of(found.algorithm()) });
        }
        let etag = match self.tag {
            TagSource::Md5 => ETag::Md5(md5.expect("made with the tag's source")),
            TagSource::Fast => ETag::Fast(self.fast.expect("made with the tag's source").digest128().to_be_bytes()),
            TagSource::Known(etag) => etag,
        };
        Ok(Digested { etag, checksum })
    }
}

impl ChecksumDigest {
    pub(crate) fn new(algorithm: ChecksumAlgorithm) -> Self {
        match crc_of(algorithm) {
            Some(crc) => ChecksumDigest::Crc(algorithm, crc_fast::Digest::new(crc)),
            None if algorithm == ChecksumAlgorithm::Sha1 => ChecksumDigest::Sha1(Sha1::new()),
            None => ChecksumDigest::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            ChecksumDigest::Crc(_, digest) => digest.update(bytes),
            ChecksumDigest::Sha1(digest) => digest.update(bytes),
            ChecksumDigest::Sha256(digest) => digest.update(bytes),
        }
    }

    /// The checksum of a whole content.
    pub(crate) fn finish(self) -> Checksum {
        self.finish_as(ChecksumType::FullObject)
    }

    pub(crate) fn finish_as(self, kind: ChecksumType) -> Checksum {
        let checksum = match self {
            ChecksumDigest::Crc(algorithm, digest) => return crc_checksum(algorithm, kind, digest.finalize()),
            ChecksumDigest::Sha1(digest) => Checksum::new(ChecksumAlgorithm::Sha1, kind, &digest.finalize()),
            ChecksumDigest::Sha256(digest) => Checksum::new(ChecksumAlgorithm::Sha256, kind, &digest.finalize()),
        };
        checksum.expect("a digest has its algorithm's length")
    }
}

/// The CRC behind an algorithm; none for the SHAs.
pub(crate) fn crc_of(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => None,
    }
}

/// A CRC's value as S3 shows it, big endian in the algorithm's length.
pub(crate) fn crc_checksum(algorithm: ChecksumAlgorithm, kind: ChecksumType, value: u64) -> Checksum {
    let bytes = value.to_be_bytes();
    Checksum::new(algorithm, kind, &bytes[bytes.len() - algorithm.value_bytes()..]).expect("cut to the algorithm's length")
}

/// A CRC's value as a number.
pub(crate) fn crc_value(checksum: &Checksum) -> u64 {
    checksum.value().iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// As clients write it.
pub(crate) fn name_of(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "CRC32 checksum",
        ChecksumAlgorithm::Crc32c => "CRC32C checksum",
        ChecksumAlgorithm::Crc64Nvme => "CRC64NVME checksum",
        ChecksumAlgorithm::Sha1 => "SHA1 checksum",
        ChecksumAlgorithm::Sha256 => "SHA256 checksum",
    }
}

fn missing_trailer(algorithm: ChecksumAlgorithm) -> ObjectError {
    ObjectError::InvalidRequest { reason: format!("the {} announced as a trailer did not follow the body", name_of(algorithm)) }
}

#[cfg(test)]
mod tests;
