use format::attributes::{ChecksumAlgorithm, ChecksumScheme};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{algorithm, algorithm_of, check_known, given, given_of_object, header_of, is_full_object, of_upload};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header's value"))
    };
    pairs.iter().map(pair).collect()
}

#[test]
fn every_algorithm_has_a_header_and_a_name() {
    for one in ChecksumAlgorithm::ALL {
        let header = header_of(one);
        assert_eq!(header.as_str(), format!("x-amz-checksum-{}", one.name().to_lowercase()));
        assert_eq!(algorithm_of(header.as_str()), Some(one));
        assert_eq!(algorithm(&one.name().to_lowercase()).map_err(|failure| failure.code.name), Ok(one));
    }
    assert_eq!(algorithm("MD4").map_err(|failure| failure.code.name), Err("InvalidRequest"));
    let known = |name| check_known(name).is_ok();
    assert!(known("x-amz-checksum-type") && known("x-amz-checksum-mode") && known("x-amz-checksum-algorithm"));
    assert!(known("x-amz-checksum-sha512") && !known("x-amz-checksum-md4"));
}

#[test]
fn one_value_at_most_of_the_right_length_that_agrees_with_its_name() {
    let given = |pairs: &[(&'static str, &str)]| {
        given(&headers(pairs)).map(|given| given.map(|given| given.algorithm())).map_err(|failure| failure.code.name)
    };
    let crc = ("x-amz-checksum-crc32", "DUoRhQ==");
    for (pairs, expected) in [
        (vec![], Ok(None)),
        (vec![("x-amz-checksum-mode", "ENABLED"), ("x-amz-checksum-type", "FULL_OBJECT")], Ok(None)),
        (vec![crc], Ok(Some(ChecksumAlgorithm::Crc32))),
        (vec![("x-amz-checksum-crc32", "AA==")], Err("InvalidRequest")),
        (vec![("x-amz-checksum-crc32", "DUoRhQ==-1")], Err("InvalidRequest")),
        (vec![crc, ("x-amz-checksum-crc32c", "yZRlqg==")], Err("InvalidRequest")),
        (vec![crc, ("x-amz-sdk-checksum-algorithm", "crc32")], Ok(Some(ChecksumAlgorithm::Crc32))),
        (vec![crc, ("x-amz-sdk-checksum-algorithm", "SHA1")], Err("InvalidRequest")),
        (vec![("x-amz-sdk-checksum-algorithm", "SHA1")], Err("InvalidRequest")),
    ] {
        assert_eq!(given(&pairs), expected, "{pairs:?}");
    }
}

#[test]
fn a_composite_may_say_its_parts() {
    let given = |value: &str| {
        let found = given_of_object(&headers(&[("x-amz-checksum-crc32", value)])).map_err(|failure| failure.code.name);
        found.map(|found| found.map(|(checksum, parts)| (checksum.value().to_vec(), parts)))
    };
    let value = vec![0x0d, 0x4a, 0x11, 0x85];
    assert_eq!(given("DUoRhQ=="), Ok(Some((value.clone(), None))));
    assert_eq!(given("DUoRhQ==-7"), Ok(Some((value, Some(7)))));
    for wrong in ["DUoRhQ==-", "DUoRhQ==-x", "DUoRhQ==-1-2", "-7", "nonsense"] {
        assert_eq!(given(wrong), Err("InvalidRequest"), "{wrong}");
    }
}

#[test]
fn types_in_any_case() {
    let full = |value: &str| is_full_object(&headers(&[("x-amz-checksum-type", value)])).map_err(|failure| failure.code.name);
    assert_eq!((full("FULL_OBJECT"), full("full_object")), (Ok(Some(true)), Ok(Some(true))));
    assert_eq!((full("composite"), full("HALF")), (Ok(Some(false)), Err("InvalidRequest")));
    let of = |pairs: &[(&'static str, &str)]| of_upload(&headers(pairs)).map_err(|failure| failure.code.name);
    let scheme = |algorithm, full_object| Ok(Some(ChecksumScheme { algorithm, full_object }));
    assert_eq!(of(&[]), Ok(None));
    assert_eq!(of(&[("x-amz-checksum-type", "FULL_OBJECT")]), Err("InvalidRequest"));
    assert_eq!(of(&[("x-amz-checksum-algorithm", "CRC64NVME")]), scheme(ChecksumAlgorithm::Crc64Nvme, true));
    assert_eq!(of(&[("x-amz-checksum-algorithm", "CRC32C")]), scheme(ChecksumAlgorithm::Crc32c, false));
    let both = [("x-amz-checksum-algorithm", "CRC32C"), ("x-amz-checksum-type", "full_object")];
    assert_eq!(of(&both), scheme(ChecksumAlgorithm::Crc32c, true));
}
