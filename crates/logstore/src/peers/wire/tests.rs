use super::*;
use crate::tests::support::attributes;
use format::attributes::{ChecksumAlgorithm, ChecksumScheme};
use format::entry::EntryState;
use format::record::EntryName;
use format::replicas::Places;
use types::{BucketId, DeviceId, Generation, Order, Place, ZoneIndex, ZoneOffset};

fn name(number: u64) -> NameEntry {
    let name = EntryName::object(BucketId(3), bytes::Bytes::from(format!("key {number}")));
    let place = |device: u32| Place { device: DeviceId(device), zone: ZoneIndex(9), offset: ZoneOffset(64 * number as u32) };
    let entry = Entry {
        hash: name.hash(),
        write: WriteId { gateway: GatewayId(7), sequence: Sequence(number) },
        epoch: Epoch(4),
        order: Order { generation: Generation(2), ..Order::default() },
        places: Places::new(&[place(1), place(2)]).unwrap(),
        frame_bytes: 4096,
        length: 4000,
        state: EntryState::Live,
        large: number % 2 == 1,
    };
    let attributes = attributes(b"content");
    let (etag, modified_ms, storage_class) = (attributes.etag, attributes.modified_ms, attributes.storage_class);
    let checksum = Some(ChecksumScheme { algorithm: ChecksumAlgorithm::Sha1, full_object: false });
    NameEntry { name, entry, etag, modified_ms, storage_class, checksum, version_id: None }
}

/// One of everything.
fn items() -> Vec<Item> {
    let (told, view) = (name(1), ViewNumber(5));
    let (hash, write, entry) = (told.entry.hash, told.entry.write, told.entry);
    let place = entry.places.primary();
    let (freeze, newest) = (FreezeId(8), Some(Located::from(&entry)));
    let messages = [
        Message::Announce { hash, write, view },
        Message::Conclude { hash, write, entry: None, freeze: Some(freeze) },
        Message::Ask { hash, read: ReadId(6) },
        Message::Told { hash, read: ReadId(6), newest },
        Message::Told { hash, read: ReadId(6), newest: None },
        Message::FreezeAsk { hash, freeze, view },
        Message::Freeze { hash, holder: GatewayId(2), freeze, view },
        Message::Frozen { hash, freeze, newest, view },
        Message::Carry { hash, freeze, view },
    ];
    let mut items: Vec<Item> = messages.into_iter().map(|message| Item::Key { message, name: None }).collect();
    let concluded = Message::Conclude { hash, write, entry: Some(entry), freeze: None };
    let named = [concluded, Message::Publish { entry, view }, Message::Recovered { entry }];
    items.extend(named.map(|message| Item::Key { message, name: Some(Box::new(told.clone())) }));
    items.extend([
        Item::All(CellMessage::Carried { view }),
        Item::All(CellMessage::AllRecovered { view }),
        Item::All(CellMessage::RecoveredHeld { view }),
        Item::All(CellMessage::Decided { gateways: vec![GatewayId(1), GatewayId(9)] }),
        Item::Hello { view, epoch: Epoch(7), installed: Some(Epoch(6)) },
        Item::Hello { view, epoch: Epoch(1), installed: None },
        Item::Unsaved { names: vec![name(2), name(3)] },
        Item::Ask { question: 1 },
        Item::Answer { question: 2 },
        Item::BeginEpoch { view, epoch: Epoch(8) },
        Item::EpochBegun { view, epoch: Epoch(8), staged: Staged { from: Sequence(99), next: Sequence(104) }, heard: Epoch(7) },
        Item::Damaged { copies: vec![Damaged { place, owner: Some(hash) }, Damaged { place, owner: None }] },
        Item::UploadEnding {
            name: EntryName::upload(BucketId(7), b"a key\0with a nought", UploadId([9; 16])),
            tombstone: Box::new(Attributes { modified_ms: 17, expected: Some(entry.order), ..Attributes::default() }),
        },
        Item::Installed { manifest: vec![1, 2, 3] },
        Item::Relocated { old: entry.places, name: name(4) },
        Item::Retire { question: 3 },
        Item::Retired { question: 4 },
        Item::Release { question: 5, whose: None },
        Item::Release { question: 5, whose: Some(vec![hash, name(2).entry.hash]) },
        Item::Released { question: 6 },
    ]);
    items
}

#[test]
fn batches_come_back() {
    let batch = Batch { from: GatewayId(1), to: GatewayId(2), number: 77, items: items() };
    assert_eq!(Batch::decode(&batch.encode()), Ok(batch));
}

/// One question about any readers, and one about those of two objects.
#[test]
fn golden_bytes_of_questions_about_readers() {
    let items = vec![
        Item::Release { question: 5, whose: None },
        Item::Release {
            question: 6,
            whose: Some([0x11, 0x22].map(|byte| KeyHash::from_bytes([byte; KEY_HASH_BYTES])).to_vec()),
        },
        Item::Released { question: 6 },
    ];
    let batch = Batch { from: GatewayId(1), to: GatewayId(2), number: 77, items };
    let mut golden = vec![1, 0, 2, 0, 77, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
    golden.extend([43, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([43, 6, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0]);
    golden.extend([[0x11; KEY_HASH_BYTES], [0x22; KEY_HASH_BYTES]].concat());
    golden.extend([44, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(batch.encode(), golden);
    assert_eq!(Batch::decode(&golden), Ok(batch));
}

#[test]
fn a_question_about_too_many_objects_is_refused() {
    let question = |owners: usize| {
        let whose = Some(vec![name(1).entry.hash; owners]);
        Batch { from: GatewayId(1), to: GatewayId(2), number: 77, items: vec![Item::Release { question: 5, whose }] }
    };
    assert_eq!(Batch::decode(&question(OWNERS_PER_QUESTION).encode()), Ok(question(OWNERS_PER_QUESTION)));
    let refused = Batch::decode(&question(OWNERS_PER_QUESTION + 1).encode()).expect_err("too many");
    assert_eq!(refused.fault, Fault::OutOfRange { least: 0, most: 1024, found: 1025 });
}

#[test]
fn a_batch_that_is_cut_or_has_more_is_refused() {
    let bytes = Batch { from: GatewayId(1), to: GatewayId(2), number: 77, items: items() }.encode();
    for end in 0..bytes.len() {
        assert!(Batch::decode(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
    assert!(Batch::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn changed_bytes_are_no_panic() {
    let bytes = Batch { from: GatewayId(1), to: GatewayId(2), number: 77, items: items() }.encode();
    for at in 0..bytes.len() {
        for change in [1u8, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let _outcome = Batch::decode(&changed);
        }
    }
}
