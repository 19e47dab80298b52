use super::{HEAD_BYTES, SnapshotError, seal};
use crate::lookup::Lookup;
use crate::maintenance::{Config, Maintenance};
use crate::shape::{Shape, ShapeError};

fn maintenance(count: u64) -> Maintenance<u32> {
    let shape = Shape::new(count, 9, 3).expect("valid");
    let entries = (0..count).map(|number| (number.to_le_bytes(), number as u32 % 512));
    Maintenance::build(Config { key_bytes: 8, shape, seed: 11 }, entries).expect("builds")
}

/// The same bytes under a checksum that fits them.
fn resealed(mut bytes: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    bytes.truncate(bytes.len() - 4);
    change(&mut bytes);
    seal(&mut bytes);
    bytes
}

fn refused(bytes: &[u8]) -> SnapshotError {
    Lookup::from_snapshot(bytes).expect_err("a bad snapshot is refused")
}

#[test]
fn golden_bytes() {
    let snapshot = maintenance(5).lookup().snapshot();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&snapshot[..HEAD_BYTES]), GOLDEN_HEAD);
    let overflow = 33 * 8;
    let arrays = &snapshot[HEAD_BYTES..snapshot.len() - 4 - overflow];
    assert_eq!(hex(arrays), GOLDEN_ARRAYS);
    assert!(snapshot[HEAD_BYTES + arrays.len()..snapshot.len() - 4].iter().all(|byte| *byte == 0), "no long seed");
    assert_eq!(hex(&snapshot[snapshot.len() - 4..]), GOLDEN_CHECKSUM);
}

const GOLDEN_HEAD: &str = "4c55444f484153480200000001000000090000000300000005000000000000004966b017ea9065faf0b2dc249a4714330000000000000000000000000000000000000000000000000000000000000000";
const GOLDEN_ARRAYS: &str = "00028000000000008080018080010030e0040400040404788003000000000ee00000000000000000";
const GOLDEN_CHECKSUM: &str = "cd55e5d6";

#[test]
fn a_snapshot_comes_back() {
    let origin = maintenance(10_000);
    let snapshot = origin.lookup().snapshot();
    let lookup = Lookup::from_snapshot(&snapshot).expect("can be read");
    assert!(lookup.snapshot() == snapshot);
    assert_eq!(lookup.overflow_len(), origin.lookup().overflow_len());
    let mut reader = lookup.reader::<u32>().expect("wide enough");
    assert!((0..10_000_u64).all(|number| reader.get(&number.to_le_bytes()) == Some(number as u32 % 512)));
}

#[test]
fn every_changed_byte_and_every_cut_is_noticed() {
    let snapshot = maintenance(20).lookup().snapshot();
    for position in 0..snapshot.len() {
        let mut changed = snapshot.clone();
        changed[position] ^= 0x10;
        refused(&changed);
        refused(&snapshot[..position]);
    }
    refused(&[&snapshot[..], &[0]].concat());
}

#[test]
fn bad_fields_are_named() {
    let snapshot = maintenance(20).lookup().snapshot();
    let with = |at: usize, byte: u8| resealed(snapshot.clone(), |bytes| bytes[at] = byte);
    assert_eq!(refused(&with(0, b'l')), SnapshotError::Magic);
    assert_eq!(refused(&with(8, 1)), SnapshotError::Version(1));
    assert_eq!(refused(&with(8, 3)), SnapshotError::Version(3));
    assert_eq!(refused(&with(12, 2)), SnapshotError::Kind(2));
    assert_eq!(refused(&with(16, 0)), SnapshotError::Shape(ShapeError::ValueBits(0)));
    assert_eq!(refused(&with(20, 17)), SnapshotError::Shape(ShapeError::FingerprintBits(17)));
    assert!(matches!(refused(&with(31, 1)), SnapshotError::Shape(ShapeError::Capacity(_))));
    assert!(matches!(refused(&with(25, 1)), SnapshotError::Length { .. }), "a capacity for which the bytes do not suffice");
    assert_eq!(refused(&with(72, 1)), SnapshotError::Field("overlay"), "a choice without an entry");
    assert!(matches!(refused(&with(64, 1)), SnapshotError::Length { .. }));
    assert_eq!(refused(&with(snapshot.len() - 12, 1)), SnapshotError::Field("overflow table"), "a seed of no bucket");
    let classifier_end = HEAD_BYTES + 8;
    assert_eq!(refused(&with(classifier_end - 1, 0xff)), SnapshotError::Field("classifier"), "bits behind the array");
    let escaped = resealed(snapshot.clone(), |bytes| bytes[classifier_end] |= 63);
    assert_eq!(refused(&escaped), SnapshotError::Field("overflow table"), "an escape without its seed");
    let full = resealed(snapshot.clone(), |bytes| {
        let end = bytes.len();
        bytes[end - 33 * 8..].fill(0xff);
    });
    assert_eq!(refused(&full), SnapshotError::Field("overflow table"));
}

#[test]
fn a_classifier_for_another_moment_is_refused() {
    let mut origin = maintenance(100);
    let mut remote = Lookup::from_snapshot(&origin.lookup().snapshot()).expect("can be read");
    let update = origin.change(&1_u64.to_le_bytes(), 7).expect("present");
    while origin.renew(u64::MAX) != crate::maintenance::Renewal::Done {}
    let classifier = origin.classifier_snapshot().expect("no update came yet");
    assert_eq!(remote.renew_from(&classifier), Err(SnapshotError::Elsewhere), "an update is missing");
    remote.apply(&update).expect("fits");
    remote.renew_from(&classifier).expect("follows");
    assert!(remote.snapshot() == origin.lookup().snapshot());
    assert_eq!(remote.renew_from(&classifier), Err(SnapshotError::Elsewhere), "it has been taken");
    assert_eq!(refused(&classifier), SnapshotError::Kind(2));
    assert!(matches!(remote.renew_from(&origin.lookup().snapshot()), Err(SnapshotError::Kind(1))));
    origin.change(&1_u64.to_le_bytes(), 8).expect("present");
    assert_eq!(origin.classifier_snapshot(), None, "the table has changed since");
}
