use super::*;
use crate::attributes::ChecksumAlgorithm;
use bytes::Bytes;
use types::{Activation, DeviceId, Generation, Place, ZoneIndex, ZoneOffset};

fn sample(name: &'static [u8], version_id: Option<VersionId>) -> NameEntry {
    let name = EntryName { bucket: BucketId(7), space: Space::Object, name: Bytes::from_static(name) };
    let place = |number: u32| Place { device: DeviceId(number), zone: ZoneIndex(10 + number), offset: ZoneOffset(20 + number) };
    let entry = Entry {
        hash: KeyHash::from_bytes([0xcc; 20]),
        write: WriteId { gateway: GatewayId(1), sequence: Sequence(2) },
        epoch: Epoch(3),
        order: Order { generation: Generation(4), activation: Activation(5), offset: ZoneOffset(6) },
        places: crate::replicas::Places::new(&[place(1), place(2)]).unwrap(),
        frame_bytes: 8,
        length: 7,
        state: EntryState::Live,
        large: true,
    };
    NameEntry {
        name,
        entry,
        etag: ETag::Md5([9; 16]),
        modified_ms: 10,
        storage_class: StorageClass::default(),
        checksum: Some(ChecksumScheme { algorithm: ChecksumAlgorithm::Crc64Nvme, full_object: true }),
        version_id,
    }
}

#[test]
fn golden_name_entry() {
    let mut bytes = Vec::new();
    sample(b"key", None).encode_into(&mut bytes);
    #[rustfmt::skip]
    let expected = [
        0, 0, 12, 0, 1, 0, 0, bytes[7], 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
        4, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0,
        0, 0, bytes[54], 0x83, 10, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(bytes[..64], expected);
    assert_eq!(bytes[64..80], [9; 16]);
    assert_eq!(bytes[80..100], [0xcc; 20]);
    assert_eq!(bytes[7] & (COUNT_BITS | LARGE | HAS_VERSION), 2 | LARGE);
    assert_eq!(bytes[100..124], [1, 0, 0, 0, 11, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 22, 0, 0, 0]);
    assert_eq!(bytes[124..], [0, 0, 0, 0, 0, 0, 0, 7, Space::Object as u8, b'k', b'e', b'y']);
}

#[test]
fn entries_come_back_one_after_the_other() {
    let entries = [sample(b"one", None), sample(b"", Some(VersionId([5; 16]))), sample(b"three", None)];
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.encode_into(&mut bytes));
    let mut reader = Reader::new("names", &bytes);
    for entry in &entries {
        assert_eq!(NameEntry::read(&mut reader).as_ref(), Ok(entry));
    }
    assert_eq!(reader.finish(), Ok(()));
    for end in 0..bytes.len() {
        let mut reader = Reader::new("names", &bytes[..end]);
        assert!(entries.iter().any(|_| NameEntry::read(&mut reader).is_err()), "{end} bytes");
    }
}
