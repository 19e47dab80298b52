use bytes::Bytes;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, ETag};

use super::{Digests, TagSource, crc_value};
use crate::body::{ChecksumWish, TrailerFault};
use crate::error::ObjectError;

/// Published check values of "123456789" (CRCs, from the catalogue of parametrised CRC algorithms) and of "abc" (FIPS 180, RFC 1321, and
/// xxhsum of the reference implementation).
const VECTORS: [(ChecksumAlgorithm, &str, &str); 10] = [
    (ChecksumAlgorithm::Crc32, "123456789", "cbf43926"),
    (ChecksumAlgorithm::Crc32c, "123456789", "e3069283"),
    (ChecksumAlgorithm::Crc64Nvme, "123456789", "ae8b14860a799888"),
    (ChecksumAlgorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (ChecksumAlgorithm::Sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        ChecksumAlgorithm::Sha512,
        "abc",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (ChecksumAlgorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
    (ChecksumAlgorithm::XxHash64, "abc", "44bc2cf5ad770999"),
    (ChecksumAlgorithm::XxHash3, "abc", "78af5f94892f3950"),
    (ChecksumAlgorithm::XxHash128, "abc", "06b05ab6733a618578af5f94892f3950"),
];

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn update(digests: &mut Digests, piece: &[u8]) {
    block_on(digests.update(Bytes::copy_from_slice(piece)));
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn checksum_of(algorithm: ChecksumAlgorithm, pieces: &[&str]) -> Checksum {
    let mut digests = Digests::new(TagSource::Fast, false, &ChecksumWish::Compute(algorithm));
    for piece in pieces {
        update(&mut digests, piece.as_bytes());
    }
    let digested = block_on(digests.finish(None, ChecksumWish::Compute(algorithm))).expect("nothing was given");
    digested.checksum
}

fn given(algorithm: ChecksumAlgorithm, hex: &str) -> Checksum {
    Checksum::new(algorithm, ChecksumType::FullObject, &bytes_of(hex)).expect("the right length")
}

#[test]
fn published_values() {
    for (algorithm, content, hex) in VECTORS {
        let (head, tail) = content.split_at(2);
        for pieces in [vec![content], vec![head, tail], vec!["", head, "", tail]] {
            assert_eq!(checksum_of(algorithm, &pieces), given(algorithm, hex), "{algorithm:?} of {pieces:?}");
        }
    }
    assert_eq!(crc_value(&given(ChecksumAlgorithm::Crc32, "cbf43926")), 0xcbf4_3926);
}

#[test]
fn tags_of_every_source() {
    let tag_of = |source| {
        let mut digests = Digests::new(source, false, &ChecksumWish::None);
        update(&mut digests, b"ab");
        update(&mut digests, b"c");
        block_on(digests.finish(None, ChecksumWish::None)).expect("nothing was given").etag
    };
    let md5 = ETag::Md5(bytes_of("900150983cd24fb0d6963f7d28e17f72").try_into().expect("16 bytes"));
    assert_eq!(tag_of(TagSource::Md5), md5);
    assert_eq!(tag_of(TagSource::Known(ETag::Md5([7; 16]))), ETag::Md5([7; 16]));
    // XXH3 of 128 bits of "abc", from the reference implementation (xxhsum -H2).
    assert_eq!(tag_of(TagSource::Fast).to_string(), "06b05ab6733a618578af5f94892f3950-1");
}

#[test]
fn content_md5_is_compared_whatever_the_tag_is() {
    let md5: [u8; 16] = bytes_of("900150983cd24fb0d6963f7d28e17f72").try_into().expect("16 bytes");
    for source in [TagSource::Md5, TagSource::Fast, TagSource::Known(ETag::default())] {
        for (given, is_right) in [(md5, true), ([0; 16], false)] {
            let mut digests = Digests::new(source, true, &ChecksumWish::None);
            update(&mut digests, b"abc");
            let outcome = block_on(digests.finish(Some(given), ChecksumWish::None));
            match outcome {
                Ok(_) => assert!(is_right, "{source:?}"),
                Err(ObjectError::BadDigest { what }) => assert_eq!((what, is_right), ("Content-MD5", false)),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn given_and_trailing_checksums_are_compared() {
    for (algorithm, content, hex) in VECTORS {
        let wrong = "00".repeat(hex.len() / 2);
        for (value, is_right) in [(hex, true), (wrong.as_str(), false)] {
            let value = given(algorithm, value);
            let wishes = [ChecksumWish::Given(value), ChecksumWish::Trailing(algorithm, Box::new(move || Ok(value)))];
            for wish in wishes {
                let mut digests = Digests::new(TagSource::Md5, false, &wish);
                update(&mut digests, content.as_bytes());
                match block_on(digests.finish(None, wish)) {
                    Ok(digested) => assert!(is_right && digested.checksum == value, "{algorithm:?}"),
                    Err(ObjectError::BadDigest { .. }) => assert!(!is_right, "{algorithm:?}"),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for (fault, is_missing) in [(TrailerFault::Missing, true), (TrailerFault::Invalid, false)] {
            let wish = ChecksumWish::Trailing(algorithm, Box::new(move || Err(fault)));
            let mut digests = Digests::new(TagSource::Md5, false, &wish);
            update(&mut digests, content.as_bytes());
            match block_on(digests.finish(None, wish)) {
                Err(ObjectError::MissingTrailer { what }) => assert_eq!((what, is_missing), (algorithm.name(), true)),
                Err(ObjectError::InvalidTrailer { what }) => assert_eq!((what, is_missing), (algorithm.name(), false)),
                outcome => panic!("{outcome:?}"),
            }
        }
    }
}

#[test]
fn content_for_which_nothing_is_asked_gets_the_default() {
    let mut digests = Digests::new(TagSource::Md5, false, &ChecksumWish::None);
    update(&mut digests, b"123456789");
    let digested = block_on(digests.finish(None, ChecksumWish::None)).expect("nothing was given");
    assert_eq!(digested.checksum, given(ChecksumAlgorithm::Crc64Nvme, "ae8b14860a799888"));
    let known = given(ChecksumAlgorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    let digests = Digests::new(TagSource::Md5, false, &ChecksumWish::Known(known));
    assert_eq!(block_on(digests.finish(None, ChecksumWish::Known(known))).expect("it is a copy").checksum, known);
}
