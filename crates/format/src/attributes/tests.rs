use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use types::UploadId;

use super::{
    Attributes, AttributesTooLong, Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType, ETag, MAX_ETAG_TEXT_BYTES,
    Retention, RetentionMode, StorageClass, Tag,
};
use crate::decode::Fault;
use crate::entry::tests::any_entry;
use crate::record::MAX_ATTRIBUTES_BYTES;
use crate::record::tests::{any_order, any_write};
use crate::version_id::VersionId;

pub(crate) fn any_etag() -> impl Strategy<Value = ETag> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(ETag::Md5),
        any::<([u8; 16], u16)>().prop_map(|(digest, parts)| ETag::Multipart { digest, parts }),
        any::<[u8; 16]>().prop_map(ETag::Fast),
    ]
}

fn any_text() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..30).prop_map(Bytes::from)
}

pub(crate) fn any_algorithm() -> impl Strategy<Value = ChecksumAlgorithm> {
    proptest::sample::select(&ChecksumAlgorithm::ALL)
}

fn any_checksum() -> impl Strategy<Value = Checksum> {
    let kind = prop_oneof![Just(ChecksumType::FullObject), any::<u16>().prop_map(|parts| ChecksumType::Composite { parts })];
    (any_algorithm(), kind, proptest::array::uniform32(any::<u16>())).prop_map(|(algorithm, kind, value)| {
        Checksum::new(algorithm, kind, &value.map(u16::to_le_bytes).as_flattened()[..algorithm.value_bytes()]).unwrap()
    })
}

fn any_retention() -> impl Strategy<Value = Retention> {
    (any::<bool>(), any::<u64>()).prop_map(|(governance, until_ms)| Retention {
        mode: if governance { RetentionMode::Governance } else { RetentionMode::Compliance },
        until_ms,
    })
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let texts = proptest::array::uniform11(of(any_text()));
    let pairs = || vec((any_text(), any_text()), 0..4);
    let service = (any_etag(), any::<u64>(), of(any_checksum()), (0u8..11), of(any_retention()), any::<bool>());
    let ids = (any::<Option<[u8; 16]>>(), any::<Option<[u8; 16]>>(), any::<Option<u16>>());
    let engine = (of(any_order()), of(any_entry()), vec(any_write(), 0..5), of((any_algorithm(), any::<bool>())));
    let unknown = vec((100u8..=255, any_text()), 0..3);
    (texts, pairs(), pairs(), service, ids, engine, unknown).prop_map(
        |(texts, metadata, tags, (etag, modified_ms, checksum, class, retention, legal_hold), ids, engine, unknown)| {
            let [a, b, c, d, e, f, g, h, i, j, k] = texts;
            Attributes {
                etag,
                modified_ms,
                content_type: a,
                content_encoding: b,
                content_disposition: c,
                content_language: d,
                cache_control: e,
                expires: f,
                website_redirect: g,
                metadata,
                checksum,
                storage_class: StorageClass::from_number(class).unwrap(),
                version_id: ids.0.map(VersionId),
                tags,
                retention,
                legal_hold,
                sse_key_id: h,
                sse_iv: i,
                upload: ids.1.map(UploadId),
                owner: j,
                permissions: k,
                expected: engine.0,
                piggyback: engine.1.map(Box::new),
                overlapped: engine.2,
                part_count: ids.2,
                upload_checksum: engine.3.map(|(algorithm, full_object)| ChecksumScheme { algorithm, full_object }),
                unknown,
            }
        },
    )
}

proptest! {
    #[test]
    fn all_attributes_survive_encoding(attributes in any_attributes()) {
        let bytes = attributes.to_bytes();
        prop_assert_eq!(bytes.len(), attributes.encoded_len());
        prop_assert_eq!(Attributes::decode(bytes).unwrap(), attributes);
    }

    #[test]
    fn damaged_attributes_never_panic(attributes in any_attributes(), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = attributes.to_bytes().to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = Attributes::decode(Bytes::from(bytes)) {
            prop_assert_eq!(Attributes::decode(read.to_bytes()).unwrap(), read);
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(read) = Attributes::decode(Bytes::from(bytes)) {
            prop_assert_eq!(Attributes::decode(read.to_bytes()).unwrap(), read);
        }
    }

    #[test]
    fn a_shown_etag_parses_as_an_equal_one(etag in any_etag()) {
        let text = etag.to_string();
        prop_assert_eq!(text.len() <= MAX_ETAG_TEXT_BYTES, true);
        prop_assert_eq!(text.parse::<ETag>().unwrap(), etag);
        prop_assert_eq!(text.parse::<ETag>().unwrap().to_string(), text);
    }
}

#[test]
fn the_default_etag_is_that_of_an_empty_object() {
    assert_eq!(ETag::default().to_string(), "d41d8cd98f00b204e9800998ecf8427e");
}

#[test]
fn etags_compare_as_texts() {
    assert_eq!(ETag::Fast([1; 16]), ETag::Multipart { digest: [1; 16], parts: 1 });
    assert_ne!(ETag::Fast([1; 16]), ETag::Md5([1; 16]));
    assert_ne!(ETag::Multipart { digest: [1; 16], parts: 2 }, ETag::Multipart { digest: [1; 16], parts: 3 });
}

#[test]
fn texts_that_would_be_shown_otherwise_are_no_etags() {
    let digits = "d41d8cd98f00b204e9800998ecf8427e";
    let mut bad = vec![String::new(), "-1".into(), digits.to_uppercase(), digits[1..].into(), format!("\"{digits}\"")];
    for suffix in ["-", "-01", "-+1", "-65536", "-1-1", "-x"] {
        bad.push(format!("{digits}{suffix}"));
    }
    for text in bad {
        assert!(text.parse::<ETag>().is_err(), "{text}");
    }
}

#[test]
fn golden_attributes() {
    let attributes = Attributes {
        etag: ETag::Multipart { digest: [0xee; 16], parts: 2 },
        modified_ms: 0x0102,
        content_type: Some(Bytes::from_static(b"t/p")),
        metadata: vec![(Bytes::from_static(b"n"), Bytes::from_static(b"vv"))],
        checksum: Checksum::new(ChecksumAlgorithm::Crc32c, ChecksumType::Composite { parts: 3 }, &[1, 2, 3, 4]),
        storage_class: StorageClass::Glacier,
        legal_hold: true,
        retention: Some(Retention { mode: RetentionMode::Compliance, until_ms: 9 }),
        unknown: vec![(200, Bytes::from_static(b"?"))],
        ..Attributes::default()
    };
    #[rustfmt::skip]
    let expected = [
        1, 19, 0, 1, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 2, 0,
        2, 8, 0, 2, 1, 0, 0, 0, 0, 0, 0,
        3, 3, 0, b't', b'/', b'p',
        10, 5, 0, 1, 0, b'n', b'v', b'v',
        11, 8, 0, 2, 1, 3, 0, 1, 2, 3, 4,
        12, 1, 0, 5,
        15, 9, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0,
        16, 0, 0,
        200, 1, 0, b'?',
    ];
    assert_eq!(attributes.to_bytes(), &expected[..]);
}

#[test]
fn golden_checksum_algorithms() {
    for (number, algorithm) in (1u8..).zip(ChecksumAlgorithm::ALL) {
        assert_eq!((algorithm as u8, ChecksumAlgorithm::from_number(number)), (number, Some(algorithm)));
    }
    assert_eq!((ChecksumAlgorithm::from_number(0), ChecksumAlgorithm::from_number(11)), (None, None));
    assert_eq!(ChecksumAlgorithm::XxHash128 as u8, 10);
}

#[test]
fn golden_tags() {
    let numbers: Vec<u8> = Tag::ALL.iter().map(|tag| *tag as u8).collect();
    assert_eq!(numbers, (1..=26).collect::<Vec<u8>>());
    let frozen = [(Tag::ETag, 1), (Tag::Metadata, 10), (Tag::Tagging, 14), (Tag::Upload, 19), (Tag::UploadChecksum, 26)];
    for (tag, number) in frozen {
        assert_eq!(tag as u8, number);
    }
}

#[test]
fn golden_storage_classes() {
    for (number, class) in StorageClass::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, number);
        assert_eq!(StorageClass::from_name(class.name()), Some(class));
    }
}

#[test]
fn attributes_beyond_a_record_are_refused_before_they_are_encoded() {
    let fits = MAX_ATTRIBUTES_BYTES - Attributes::default().encoded_len() - 3;
    let of = |bytes| Attributes { content_type: Some(Bytes::from(vec![b'x'; bytes])), ..Attributes::default() };
    assert_eq!(of(fits).check_length(), Ok(()));
    assert_eq!(of(fits).to_bytes().len(), MAX_ATTRIBUTES_BYTES);
    assert_eq!(of(fits + 1).check_length(), Err(AttributesTooLong { bytes: MAX_ATTRIBUTES_BYTES + 1 }));
    assert!(of(1 << 20).check_length().is_err());
    let error = Attributes::decode(of(fits + 1).to_bytes()).unwrap_err();
    assert_eq!((error.field, error.offset), ("area", 0));
}

#[test]
fn refusals_name_the_field_and_its_place() {
    let cases: [(&[u8], &str, usize, Fault); 4] = [
        (&[2, 8, 0, 1], "value", 3, Fault::Truncated { needed: 8, available: 1 }),
        (&[2, 7, 0, 1, 2, 3, 4, 5, 6, 7], "modified time", 3, Fault::Truncated { needed: 8, available: 7 }),
        (&[12, 1, 0, 77], "storage class", 3, Fault::Unknown { found: 77 }),
        (&[16, 1, 0, 0], "end", 3, Fault::Trailing { bytes: 1 }),
    ];
    for (bytes, field, offset, fault) in cases {
        let error = Attributes::decode(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert_eq!((error.field, error.offset, error.fault), (field, offset, fault));
    }
}
