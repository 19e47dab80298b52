use bytes::Bytes;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, ETag};

use super::{Digests, TagSource, crc_value};
use crate::body::ChecksumWish;
use crate::error::ObjectError;

/// Published check values of "123456789" (CRCs, from the catalogue of parametrised CRC algorithms) and of "abc" (FIPS 180).
const VECTORS: [(ChecksumAlgorithm, &str, &str); 5] = [
    (ChecksumAlgorithm::Crc32, "123456789", "cbf43926"),
    (ChecksumAlgorithm::Crc32c, "123456789", "e3069283"),
    (ChecksumAlgorithm::Crc64Nvme, "123456789", "ae8b14860a799888"),
    (ChecksumAlgorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (ChecksumAlgorithm::Sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
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
    let mut digests = Digests::new(TagSource::Md5, false, Some(algorithm));
    for piece in pieces {
        update(&mut digests, piece.as_bytes());
    }
    let digested = block_on(digests.finish(None, ChecksumWish::Compute(algorithm))).expect("nothing was given");
    digested.checksum.expect("it was asked for")
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
        let mut digests = Digests::new(source, false, None);
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
            let mut digests = Digests::new(source, true, None);
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
            let wishes = [ChecksumWish::Given(value), ChecksumWish::Trailing(algorithm, Box::new(move || Some(value)))];
            for wish in wishes {
                let mut digests = Digests::new(TagSource::Md5, false, wish.algorithm());
                update(&mut digests, content.as_bytes());
                match block_on(digests.finish(None, wish)) {
                    Ok(digested) => assert!(is_right && digested.checksum == Some(value), "{algorithm:?}"),
                    Err(ObjectError::BadDigest { .. }) => assert!(!is_right, "{algorithm:?}"),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let mut digests = Digests::new(TagSource::Md5, false, Some(algorithm));
        update(&mut digests, content.as_bytes());
        let outcome = block_on(digests.finish(None, ChecksumWish::Trailing(algorithm, Box::new(|| None))));
        assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "a missing trailer: {outcome:?}");
    }
}
