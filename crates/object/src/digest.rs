//! Digests of content on its way in: the entity tag, what the client gave to verify it, the checksum it wants kept.
//!
//! One pass feeds all of them, piece by piece, while the piece is in the cache. MD5 is by far the slowest (0.9 GB/s a core on
//! the reference machine, performance.md), so it is computed once even where both the tag and `Content-MD5` need it, not
//! at all where neither does, and together with the other contents that arrive ([`crate::lanes`]).

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, ETag};
use manager::EtagMode;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use xxhash_rust::xxh3::Xxh3Default;
use xxhash_rust::xxh64::Xxh64;

use crate::body::{ChecksumWish, DEFAULT_CHECKSUM, TrailerFault};
use crate::error::ObjectError;
use crate::lanes::Md5Content;

const CRC32: CrcAlgorithm = CrcAlgorithm::Crc32IsoHdlc;
const CRC32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;
pub(crate) const CRC64NVME: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

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
    checksum: ChecksumSource,
}

/// Where the checksum comes from.
enum ChecksumSource {
    /// It is the MD5 that the tag, too, is made of.
    Md5,
    Own(Box<ChecksumDigest>),
    /// The content is a copy, whose checksum is known.
    Known(Checksum),
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digested {
    pub(crate) etag: ETag,
    pub(crate) checksum: Checksum,
}

/// One checksum under way.
pub enum ChecksumDigest {
    Crc(ChecksumAlgorithm, crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Md5(Md5),
    XxHash64(Xxh64),
    /// Of 64 or 128 bits.
    XxHash3(ChecksumAlgorithm, Box<Xxh3Default>),
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
    pub(crate) fn new(tag: TagSource, verifies_md5: bool, wish: &ChecksumWish) -> Self {
        let checksum = match (wish, wish.algorithm().unwrap_or(DEFAULT_CHECKSUM)) {
            (ChecksumWish::Known(checksum), _) => ChecksumSource::Known(*checksum),
            (_, ChecksumAlgorithm::Md5) => ChecksumSource::Md5,
            (_, algorithm) => ChecksumSource::Own(Box::new(ChecksumDigest::new(algorithm))),
        };
        let needs_md5 = verifies_md5 || tag == TagSource::Md5 || matches!(checksum, ChecksumSource::Md5);
        Digests {
            tag,
            md5: needs_md5.then(Md5Content::new),
            fast: (tag == TagSource::Fast).then(|| Box::new(Xxh3Default::new())),
            checksum,
        }
    }

    pub(crate) async fn update(&mut self, piece: Bytes) {
        if let Some(fast) = &mut self.fast {
            fast.update(&piece);
        }
        if let ChecksumSource::Own(checksum) = &mut self.checksum {
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
        let checksum = match self.checksum {
            ChecksumSource::Own(digest) => digest.finish(),
            ChecksumSource::Md5 => md5_checksum(&md5.expect("made with the checksum's source")),
            ChecksumSource::Known(checksum) => checksum,
        };
        let given = match wish {
            ChecksumWish::None | ChecksumWish::Compute(_) | ChecksumWish::Known(_) => None,
            ChecksumWish::Given(given) => Some(given),
            ChecksumWish::Trailing(algorithm, trailer) => Some(trailer().map_err(|fault| of_trailer(algorithm, fault))?),
        };
        if given.is_some_and(|given| (given.algorithm(), given.value()) != (checksum.algorithm(), checksum.value())) {
            return Err(ObjectError::BadDigest { what: checksum.algorithm().name() });
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
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        let crc = |crc| ChecksumDigest::Crc(algorithm, crc_fast::Digest::new(crc));
        match algorithm {
            ChecksumAlgorithm::Crc32 => crc(CRC32),
            ChecksumAlgorithm::Crc32c => crc(CRC32C),
            ChecksumAlgorithm::Crc64Nvme => crc(CRC64NVME),
            ChecksumAlgorithm::Sha1 => ChecksumDigest::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => ChecksumDigest::Sha256(Sha256::new()),
            ChecksumAlgorithm::Sha512 => ChecksumDigest::Sha512(Box::new(Sha512::new())),
            ChecksumAlgorithm::Md5 => ChecksumDigest::Md5(Md5::new()),
            ChecksumAlgorithm::XxHash64 => ChecksumDigest::XxHash64(Xxh64::new(0)),
            ChecksumAlgorithm::XxHash3 | ChecksumAlgorithm::XxHash128 => {
                ChecksumDigest::XxHash3(algorithm, Box::new(Xxh3Default::new()))
            }
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            ChecksumDigest::Crc(_, digest) => digest.update(bytes),
            ChecksumDigest::Sha1(digest) => digest.update(bytes),
            ChecksumDigest::Sha256(digest) => digest.update(bytes),
            ChecksumDigest::Sha512(digest) => digest.update(bytes),
            ChecksumDigest::Md5(digest) => digest.update(bytes),
            ChecksumDigest::XxHash64(digest) => digest.update(bytes),
            ChecksumDigest::XxHash3(_, digest) => digest.update(bytes),
        }
    }

    /// The checksum of a whole content.
    pub fn finish(self) -> Checksum {
        self.finish_as(ChecksumType::FullObject)
    }

    pub(crate) fn finish_as(self, kind: ChecksumType) -> Checksum {
        let of = |algorithm, value: &[u8]| Checksum::new(algorithm, kind, value).expect("a digest has its algorithm's length");
        match self {
            ChecksumDigest::Crc(algorithm, digest) => crc_checksum(algorithm, kind, digest.finalize()),
            ChecksumDigest::Sha1(digest) => of(ChecksumAlgorithm::Sha1, &digest.finalize()),
            ChecksumDigest::Sha256(digest) => of(ChecksumAlgorithm::Sha256, &digest.finalize()),
            ChecksumDigest::Sha512(digest) => of(ChecksumAlgorithm::Sha512, &digest.finalize()),
            ChecksumDigest::Md5(digest) => of(ChecksumAlgorithm::Md5, &digest.finalize()),
            ChecksumDigest::XxHash64(digest) => of(ChecksumAlgorithm::XxHash64, &digest.digest().to_be_bytes()),
            ChecksumDigest::XxHash3(ChecksumAlgorithm::XxHash3, digest) => {
                of(ChecksumAlgorithm::XxHash3, &digest.digest().to_be_bytes())
            }
            ChecksumDigest::XxHash3(algorithm, digest) => of(algorithm, &digest.digest128().to_be_bytes()),
        }
    }
}

/// The CRC behind an algorithm; none for the others, which cannot be combined.
pub(crate) fn crc_of(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CRC32),
        ChecksumAlgorithm::Crc32c => Some(CRC32C),
        ChecksumAlgorithm::Crc64Nvme => Some(CRC64NVME),
        _ => None,
    }
}

fn md5_checksum(value: &[u8; 16]) -> Checksum {
    Checksum::new(ChecksumAlgorithm::Md5, ChecksumType::FullObject, value).expect("MD5 has 16 bytes")
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

fn of_trailer(algorithm: ChecksumAlgorithm, fault: TrailerFault) -> ObjectError {
    let what = algorithm.name();
    match fault {
        TrailerFault::Missing => ObjectError::MissingTrailer { what },
        TrailerFault::Invalid => ObjectError::InvalidTrailer { what },
    }
}

#[cfg(test)]
mod tests;
