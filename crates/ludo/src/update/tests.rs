use proptest::prelude::any;

use super::{BucketChange, DecodeUpdateError, OverlayChange, Update};
use crate::hash::Digest;
use crate::shape::Shape;
use crate::table::Slot;

fn shape() -> Shape {
    Shape::new(1_000_000, 60, 8).expect("valid")
}

fn example() -> Update {
    let content = Slot { value: [0x0123_4567_89ab_cdef, 0, 0, 0], fingerprint: 0x5a };
    let written =
        BucketChange { order: 0b00_01_10_11, seed: Some(300), write: Some((2, content)), ..BucketChange::new(70_000) };
    Update {
        generation: 1,
        sequence: 200,
        flips: vec![5, 2_000_000],
        buckets: vec![written, BucketChange { seed: Some(3), ..BucketChange::new(1) }],
        overlay: vec![OverlayChange::Put(Digest { x: 1, y: 2 }, 1), OverlayChange::Remove(Digest { x: 3, y: 4 })],
    }
}

fn encoded(update: &Update) -> Vec<u8> {
    let mut bytes = Vec::new();
    update.encode(&shape(), &mut bytes);
    bytes
}

#[test]
fn golden_bytes() {
    let hex: String = encoded(&example()).iter().map(|byte| format!("{byte:02x}")).collect();
    let head = "1701c801";
    let flips = "0205".to_owned() + "80897a";
    let buckets = "02f0a2041d1bac02efcdab89674523015a".to_owned() + "011003";
    let overlay = "020101000000000000000200000000000000".to_owned() + "0203000000000000000400000000000000";
    assert_eq!(hex, format!("{head}{flips}{buckets}{overlay}"));
}

#[test]
fn an_example_comes_back() {
    assert_eq!(Update::decode(&encoded(&example()), &shape()), Ok(example()));
    let empty = Update { generation: 9, sequence: 8, ..Update::default() };
    assert_eq!(encoded(&empty), [0x10, 9, 8]);
    assert_eq!(Update::decode(&[0x10, 9, 8], &shape()), Ok(empty));
}

#[test]
fn a_cut_or_longer_message_is_refused() {
    let bytes = encoded(&example());
    for length in 0..bytes.len() {
        assert!(Update::decode(&bytes[..length], &shape()).is_err(), "{length} of {} bytes", bytes.len());
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Update::decode(&longer, &shape()), Err(DecodeUpdateError::Trailing(1)));
}

#[test]
fn what_does_not_fit_the_shape_is_refused() {
    let small = Shape::new(1_000, 60, 8).expect("valid");
    assert_eq!(Update::decode(&encoded(&example()), &small), Err(DecodeUpdateError::Field("classifier node")));
    let update = Update { flips: vec![5], overlay: vec![], ..example() };
    assert_eq!(Update::decode(&encoded(&update), &small), Err(DecodeUpdateError::Field("bucket")));
    let narrow = Shape::new(1_000_000, 57, 8).expect("valid");
    let mut wide = example();
    wide.buckets[0].write = Some((0, Slot { value: [1 << 57, 0, 0, 0], fingerprint: 0 }));
    assert_eq!(Update::decode(&encoded(&wide), &narrow), Err(DecodeUpdateError::Field("slot")));
}

#[test]
fn versions_kinds_and_long_varints_are_refused() {
    assert_eq!(Update::decode(&[0x20, 0, 0], &shape()), Err(DecodeUpdateError::Version(2)));
    assert_eq!(Update::decode(&[0x18, 0, 0], &shape()), Err(DecodeUpdateError::Field("kinds")));
    assert_eq!(Update::decode(&[0x10, 0x80, 0, 0], &shape()), Err(DecodeUpdateError::Field("varint")), "not the shortest");
    let largest = [&[0x10][..], &[0xff; 9], &[0x01], &[0]].concat();
    assert_eq!(Update::decode(&largest, &shape()).map(|update| update.generation), Ok(u64::MAX));
    let beyond = [&[0x10][..], &[0xff; 9], &[0x03], &[0]].concat();
    assert_eq!(Update::decode(&beyond, &shape()), Err(DecodeUpdateError::Field("varint")));
    assert_eq!(Update::decode(&[0x11, 0, 0, 0], &shape()), Err(DecodeUpdateError::Field("flips")), "announced and empty");
}

proptest::proptest! {
    #[test]
    fn what_is_accepted_is_written_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..60), kinds in 0..8_u8) {
        let bytes = [&[0x10 | kinds][..], &bytes].concat();
        if let Ok(update) = Update::decode(&bytes, &shape()) {
            assert_eq!(encoded(&update), bytes);
        }
    }
}
