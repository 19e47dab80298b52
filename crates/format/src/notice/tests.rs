use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use types::{
    Activation, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Place, Sequence, ViewNumber, ZoneIndex, ZoneOffset,
};

use super::{AskId, MAX_BATCH_BYTES, MAX_NOTICES_PER_BATCH, Notice, NoticeBatch, StreamSequence};
use crate::decode::Fault;
use crate::entry::tests::{any_entry, any_places, sample as sample_entry};
use crate::record::WriteId;
use crate::record::tests::{any_hash, any_order, any_write};

fn any_notice() -> impl Strategy<Value = Notice> {
    let ask = || any::<u64>().prop_map(AskId);
    let epoch = || any::<u64>().prop_map(Epoch);
    prop_oneof![
        (any_write(), any_hash()).prop_map(|(write, hash)| Notice::Announce { write, hash }),
        (any_entry(), of(any_entry())).prop_map(|(entry, version)| Notice::Publish { entry, version: version.map(Box::new) }),
        (any_write(), any_hash()).prop_map(|(write, hash)| Notice::Void { write, hash }),
        any::<u64>().prop_map(|through| Notice::Acknowledge { through: StreamSequence(through) }),
        (ask(), any_hash()).prop_map(|(ask, hash)| Notice::Ask { ask, hash }),
        (ask(), of(any_entry())).prop_map(|(ask, entry)| Notice::Answer { ask, entry }),
        (any_write(), any_hash()).prop_map(|(freeze, hash)| Notice::Freeze { freeze, hash }),
        (any_write(), any_hash(), of(any_entry())).prop_map(|(freeze, hash, entry)| Notice::FreezeGranted {
            freeze,
            hash,
            entry
        }),
        (any_write(), any_hash()).prop_map(|(freeze, hash)| Notice::FreezeReleased { freeze, hash }),
        epoch().prop_map(|epoch| Notice::EpochAnnounced { epoch }),
        epoch().prop_map(|epoch| Notice::EpochAcknowledged { epoch }),
        (any_hash(), any_order(), any_places(), any_places()).prop_map(|(hash, order, from, to)| Notice::Relocate {
            hash,
            order,
            from: from.primary(),
            to: to.primary()
        }),
    ]
}

fn any_batch() -> impl Strategy<Value = NoticeBatch> {
    (any::<(u16, u64, u64)>(), vec(any_notice(), 0..20)).prop_map(|((from, view, sequence), notices)| NoticeBatch {
        from: GatewayId(from),
        view: ViewNumber(view),
        sequence: StreamSequence(sequence),
        notices,
    })
}

fn encode(batch: &NoticeBatch) -> Vec<u8> {
    let mut out = Vec::new();
    batch.encode(&mut out);
    assert!(out.len() <= MAX_BATCH_BYTES);
    out
}

fn batch(notices: Vec<Notice>) -> NoticeBatch {
    NoticeBatch { from: GatewayId(1), view: ViewNumber(2), sequence: StreamSequence(3), notices }
}

proptest! {
    #[test]
    fn every_batch_survives_encoding(batch in any_batch()) {
        prop_assert_eq!(NoticeBatch::decode(&encode(&batch)).unwrap(), batch);
    }

    #[test]
    fn cut_batches_are_refused(batch in any_batch(), cut in any::<proptest::sample::Index>()) {
        let mut bytes = encode(&batch);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(NoticeBatch::decode(&bytes).is_err());
    }

    #[test]
    fn damaged_batches_never_panic(batch in any_batch(), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = encode(&batch);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = NoticeBatch::decode(&bytes) {
            prop_assert_eq!(NoticeBatch::decode(&encode(&read)).unwrap(), read);
        }
    }
}

#[test]
fn golden_batch() {
    let write = WriteId { gateway: GatewayId(4), sequence: Sequence(5) };
    let hash = KeyHash::from_bytes([0xaa; 20]);
    let notices = vec![
        Notice::Announce { write, hash },
        Notice::Acknowledge { through: StreamSequence(6) },
        Notice::FreezeGranted { freeze: write, hash, entry: None },
        Notice::Answer { ask: AskId(7), entry: Some(sample_entry()) },
    ];
    let mut expected = vec![1, 0, 1, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&[1, 4, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[0xaa; 20]);
    expected.extend_from_slice(&[5, 6, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[10, 4, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[0xaa; 20]);
    expected.extend_from_slice(&[8, 7, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&sample_entry().encode());
    assert_eq!(encode(&batch(notices)), expected);
}

#[test]
fn golden_relocation() {
    let place = |number| Place { device: DeviceId(number), zone: ZoneIndex(number), offset: ZoneOffset(number) };
    let notice = Notice::Relocate {
        hash: KeyHash::from_bytes([0xaa; 20]),
        order: Order { generation: Generation(1), activation: Activation(2), offset: ZoneOffset(3) },
        from: place(4),
        to: place(5),
    };
    let mut expected = vec![15];
    expected.extend_from_slice(&[0xaa; 20]);
    expected.extend_from_slice(&[1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(encode(&batch(vec![notice]))[24..], expected);
}

#[test]
fn counts_beyond_the_bytes_or_the_limit_are_refused() {
    let mut bytes = encode(&batch(vec![Notice::Acknowledge { through: StreamSequence(6) }]));
    bytes[4..8].copy_from_slice(&2u32.to_le_bytes());
    let error = NoticeBatch::decode(&bytes).unwrap_err();
    assert_eq!((error.field, error.fault), ("count", Fault::OutOfRange { least: 0, most: 1, found: 2 }));

    let one = Notice::Acknowledge { through: StreamSequence(6) };
    let mut bytes = encode(&batch(vec![one.clone(); MAX_NOTICES_PER_BATCH]));
    one.encode(&mut bytes);
    let count = MAX_NOTICES_PER_BATCH as u32 + 1;
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
    let error = NoticeBatch::decode(&bytes).unwrap_err();
    let fault = Fault::OutOfRange { least: 0, most: MAX_NOTICES_PER_BATCH as u64, found: u64::from(count) };
    assert_eq!((error.field, error.fault), ("count", fault));
}
