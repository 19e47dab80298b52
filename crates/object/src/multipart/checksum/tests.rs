use engine::PartInfo;
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use types::Order;

use super::{check_supported, of_object};
use crate::digest::ChecksumDigest;

const CRCS: [ChecksumAlgorithm; 3] = [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme];

/// Those that cannot be combined.
fn others() -> impl Iterator<Item = ChecksumAlgorithm> {
    ChecksumAlgorithm::ALL.into_iter().filter(|algorithm| !CRCS.contains(algorithm))
}

fn checksum_of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Checksum {
    let mut digest = ChecksumDigest::new(algorithm);
    digest.update(bytes);
    digest.finish()
}

fn part(number: u16, algorithm: ChecksumAlgorithm, bytes: &[u8]) -> PartInfo {
    let attributes = Attributes { checksum: Some(checksum_of(algorithm, bytes)), ..Attributes::default() };
    PartInfo { number, length: bytes.len() as u64, attributes, order: Order::default() }
}

fn parts_of(algorithm: ChecksumAlgorithm, contents: &[Vec<u8>]) -> Vec<PartInfo> {
    contents.iter().zip(1..).map(|(bytes, number)| part(number, algorithm, bytes)).collect()
}

proptest! {
    #[test]
    fn combined_crcs_are_those_of_the_whole(contents in vec(vec(any::<u8>(), 0..3000), 1..8)) {
        let whole = contents.concat();
        for algorithm in CRCS {
            let found = of_object(ChecksumScheme { algorithm, full_object: true }, &parts_of(algorithm, &contents));
            assert_eq!(found, Some(checksum_of(algorithm, &whole)), "{algorithm:?}");
        }
    }

    #[test]
    fn composites_are_digests_of_the_parts_digests(contents in vec(vec(any::<u8>(), 0..300), 1..8)) {
        for algorithm in CRCS.into_iter().take(2).chain(others()) {
            let values: Vec<u8> = contents.iter().flat_map(|bytes| checksum_of(algorithm, bytes).value().to_vec()).collect();
            let kind = ChecksumType::Composite { parts: contents.len() as u16 };
            let expected = Checksum::new(algorithm, kind, checksum_of(algorithm, &values).value());
            let found = of_object(ChecksumScheme { algorithm, full_object: false }, &parts_of(algorithm, &contents));
            assert_eq!(found, expected, "{algorithm:?}");
        }
    }
}

#[test]
fn types_go_with_algorithms_as_s3_says() {
    let is_supported = |algorithm, full_object| check_supported(ChecksumScheme { algorithm, full_object }).is_ok();
    for algorithm in CRCS {
        assert!(is_supported(algorithm, true), "{algorithm:?}");
        assert_eq!(is_supported(algorithm, false), algorithm != ChecksumAlgorithm::Crc64Nvme, "{algorithm:?}");
    }
    for algorithm in others() {
        assert!(!is_supported(algorithm, true) && is_supported(algorithm, false), "{algorithm:?}");
    }
}

#[test]
fn a_part_without_the_checksum_leaves_the_object_without_one() {
    let algorithm = ChecksumAlgorithm::Crc32;
    let mut parts = parts_of(algorithm, &[vec![1], vec![2]]);
    parts[1].attributes.checksum = None;
    assert_eq!(of_object(ChecksumScheme { algorithm, full_object: true }, &parts), None);
    parts[1] = part(2, ChecksumAlgorithm::Crc32c, &[2]);
    assert_eq!(of_object(ChecksumScheme { algorithm, full_object: false }, &parts), None);
}
