use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use types::{Activation, BucketId, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Sequence, UploadId, ZoneOffset};

use super::name::HASH_KEY;
use super::{ChunkOwner, EntryName, Record, RecordFlags, RecordKind, Space, WriteId, split_compound};
use crate::decode::Fault;
use crate::replicas::ReplicaDevices;
use crate::version_id::VersionId;

fn sample() -> Record {
    let name = EntryName::object(BucketId(7), Bytes::from_static(b"a/key"));
    Record {
        kind: RecordKind::Object,
        flags: RecordFlags { conflict: true, ..RecordFlags::default() },
        write: WriteId { gateway: GatewayId(2), sequence: Sequence(300) },
        epoch: Epoch(4),
        generation: Generation(5),
        order: None,
        replica_index: 1,
        replica_devices: ReplicaDevices::new(&[DeviceId(1), DeviceId(2), DeviceId(3)]).unwrap(),
        hash: name.hash(),
        length: 4096,
        tree_height: 0,
        name,
        chunk: None,
        attributes: Bytes::from_static(&[2, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
    }
}

fn encode(record: &Record) -> Bytes {
    let mut out = Vec::new();
    record.encode(&mut out);
    assert_eq!(out.len(), record.encoded_len());
    Bytes::from(out)
}

pub(crate) fn any_write() -> impl Strategy<Value = WriteId> {
    (any::<u16>(), any::<u64>())
        .prop_map(|(gateway, sequence)| WriteId { gateway: GatewayId(gateway), sequence: Sequence(sequence) })
}

pub(crate) fn any_order() -> impl Strategy<Value = Order> {
    (any::<u32>(), any::<u64>(), any::<u32>()).prop_map(|(generation, activation, offset)| Order {
        generation: Generation(generation),
        activation: Activation(activation),
        offset: ZoneOffset(offset),
    })
}

pub(crate) fn any_hash() -> impl Strategy<Value = KeyHash> {
    any::<[u8; 20]>().prop_map(KeyHash::from_bytes)
}

pub(crate) fn any_name() -> impl Strategy<Value = EntryName> {
    let space = prop_oneof![Just(Space::Object), Just(Space::Version), Just(Space::Upload), Just(Space::Part)];
    (any::<u64>(), space, vec(any::<u8>(), 0..300)).prop_map(|(bucket, space, name)| EntryName {
        bucket: BucketId(bucket),
        space,
        name: Bytes::from(name),
    })
}

fn any_chunk() -> impl Strategy<Value = ChunkOwner> {
    (any_hash(), any::<Option<[u8; 16]>>(), any::<u16>(), any::<u32>(), any_write())
        .prop_map(|(owner, upload, part, index, put)| ChunkOwner { owner, upload: upload.map(UploadId), part, index, put })
}

fn any_record() -> impl Strategy<Value = Record> {
    let kinds = (1u8..=10).prop_map(|class| RecordKind::from_class(class).unwrap());
    let devices = vec(any::<u32>().prop_map(DeviceId), 1..=3);
    let identity = (any_write(), any_hash(), any_name(), proptest::option::of(any_chunk()), proptest::option::of(any_order()));
    let flags = any::<(bool, bool, bool)>();
    let numbers = (any::<u64>(), any::<u32>(), any::<u64>(), 0u8..=3);
    (kinds, flags, devices, identity, numbers, vec(any::<u8>(), 0..200)).prop_map(
        |(kind, flags, devices, (write, hash, name, chunk, order), (epoch, generation, length, tree_height), attributes)| {
            Record {
                kind,
                flags: RecordFlags { conflict: flags.0, relocated: flags.1, delete_marker: flags.2 },
                write,
                epoch: Epoch(epoch),
                generation: Generation(generation),
                order,
                replica_index: devices.len() as u8 - 1,
                replica_devices: ReplicaDevices::new(&devices).unwrap(),
                hash,
                length,
                tree_height,
                name,
                chunk,
                attributes: Bytes::from(attributes),
            }
        },
    )
}

proptest! {
    #[test]
    fn every_record_survives_encoding(record in any_record()) {
        prop_assert_eq!(Record::decode(&encode(&record)).unwrap(), record);
    }

    #[test]
    fn cut_records_are_refused(record in any_record(), cut in any::<proptest::sample::Index>()) {
        let whole = encode(&record);
        let cut = whole.slice(..cut.index(whole.len()));
        prop_assert!(Record::decode(&cut).is_err());
    }

    #[test]
    fn damaged_records_never_panic(record in any_record(), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = encode(&record).to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = Record::decode(&Bytes::from(bytes)) {
            prop_assert_eq!(Record::decode(&encode(&read)).unwrap(), read);
        }
    }

    #[test]
    fn compound_names_give_back_key_and_suffix(key in vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..40), upload: [u8; 16], number: u16) {
        let name = EntryName::part(BucketId(1), &key, UploadId(upload), number);
        let (found, suffix) = split_compound(Space::Part, &name.name).unwrap();
        prop_assert_eq!(&found[..], &key[..]);
        prop_assert_eq!(&suffix[..16], &upload[..]);
        prop_assert_eq!(&suffix[16..], &number.to_be_bytes()[..]);
    }

    #[test]
    fn compound_names_sort_by_key_then_suffix(
        one in vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 1..6), first: [u8; 16],
        other in vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 1..6), second: [u8; 16],
    ) {
        let a = EntryName::upload(BucketId(1), &one, UploadId(first));
        let b = EntryName::upload(BucketId(1), &other, UploadId(second));
        prop_assert_eq!(a.cmp(&b), (one, first).cmp(&(other, second)));
    }
}

#[test]
fn the_hash_key_is_the_derived_one() {
    let derived = blake3::derive_key("trilith entry name v1", &[]);
    assert_eq!(HASH_KEY, derived, "{derived:#04x?}");
}

#[test]
fn the_hash_does_not_depend_on_how_the_input_is_gathered() {
    for bytes in [0usize, 1, 54, 55, 56, 57, 200, 1024] {
        let key = vec![b'k'; bytes];
        let name = EntryName::object(BucketId(0x0102), Bytes::from(key.clone()));
        let mut input = vec![2u8, 1, 0, 0, 0, 0, 0, 0, 0];
        input.extend_from_slice(&key);
        assert_eq!(&blake3::keyed_hash(&HASH_KEY, &input).as_bytes()[..20], name.hash().as_bytes(), "{bytes} bytes");
    }
}

#[test]
fn equal_bytes_in_other_buckets_and_spaces_hash_apart() {
    let name = |bucket, space| EntryName { bucket: BucketId(bucket), space, name: Bytes::from_static(b"key") };
    let hashes = [name(1, Space::Object).hash(), name(2, Space::Object).hash(), name(1, Space::Version).hash()];
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[test]
fn names_of_the_wrong_shape_are_refused() {
    for bad in [&b""[..], &[0; 17], &[b'k', 0, 1, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]] {
        assert_eq!(split_compound(Space::Version, bad).unwrap_err().suffix_bytes, 16, "{bad:?}");
    }
    let version = EntryName::version(BucketId(1), b"k", VersionId([9; 16]));
    assert_eq!(&version.key().unwrap()[..], b"k");
}

#[test]
fn golden_record() {
    let bytes = encode(&sample());
    let hash = sample().hash;
    assert_eq!(&bytes[48..68], hash.as_bytes());
    #[rustfmt::skip]
    let before_hash = [
        1, 1, 1, 0, 3, 1, 0, 0, 2, 0, 5, 0, 5, 0, 0, 0, 0x2c, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
        0, 0x10, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(&bytes[..48], before_hash);
    #[rustfmt::skip]
    let after_hash = [
        11, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'a', b'/', b'k', b'e', b'y', 2, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(&bytes[68..], after_hash);
}

#[test]
fn golden_hash() {
    let hash = EntryName::object(BucketId(7), Bytes::from_static(b"a/key")).hash();
    assert_eq!(hash.as_bytes(), &[41, 50, 71, 64, 185, 237, 69, 141, 48, 138, 144, 217, 79, 18, 108, 255, 142, 151, 106, 180]);
}

#[test]
fn golden_optional_parts() {
    let mut record = sample();
    record.order = Some(Order { generation: Generation(1), activation: Activation(2), offset: ZoneOffset(3) });
    record.chunk = Some(ChunkOwner {
        owner: KeyHash::from_bytes([0xaa; 20]),
        upload: Some(UploadId([0xbb; 16])),
        part: 4,
        index: 5,
        put: WriteId { gateway: GatewayId(6), sequence: Sequence(7) },
    });
    let bytes = encode(&record);
    assert_eq!(bytes[2], 1 | 8 | 16 | 32);
    assert_eq!(&bytes[84..100], [1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[100..120], [0xaa; 20]);
    assert_eq!(&bytes[120..136], [4, 0, 6, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[136..152], [0xbb; 16]);
    assert_eq!(&bytes[152..157], b"a/key");
}

#[test]
fn refusals_name_the_field_and_its_place() {
    let cases: [(usize, u8, &str, Fault); 7] = [
        (0, 9, "version", Fault::Version { newest: 1, found: 9 }),
        (1, 11, "kind", Fault::Unknown { found: 11 }),
        (2, 64, "flags", Fault::Unknown { found: 64 }),
        (3, 4, "space", Fault::Unknown { found: 4 }),
        (4, 0, "replica_count", Fault::OutOfRange { least: 1, most: 3, found: 0 }),
        (5, 3, "replica_index", Fault::OutOfRange { least: 0, most: 2, found: 3 }),
        (6, 4, "tree_height", Fault::OutOfRange { least: 0, most: 3, found: 4 }),
    ];
    for (at, value, field, fault) in cases {
        let mut bytes = encode(&sample()).to_vec();
        bytes[at] = value;
        let error = Record::decode(&Bytes::from(bytes)).unwrap_err();
        assert_eq!((error.offset, error.field, error.fault), (at, field, fault));
    }
}
