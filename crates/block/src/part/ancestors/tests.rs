use super::*;
use crate::stores::BlobAt;
use format::blob_header::BlobState;
use types::{BlobId, ImageEpoch, Layer, Pieces, Token};

const ONE: DeviceId = DeviceId(1);
const TWO: DeviceId = DeviceId(2);

fn row(index: u32, layer: u32, owned: u64) -> BlobRow {
    let id = BlobId { image: ImageId(1), index, layer: Layer(layer) };
    let (token, epoch, owned) = (Token(1), ImageEpoch(1), Pieces(owned));
    BlobRow { at: BlobAt { block: 0, id }, state: BlobState::Whole, token, epoch, owned, data: owned, parent: None }
}

fn parts(rows: &[(DeviceId, BlobRow)]) -> Parts {
    let mut parts = Parts::new();
    for (device, row) in rows {
        parts.entry(row.at.id.index).or_default().push((*device, *row));
    }
    parts
}

/// The newer blob was asked for before it was filled, the older one after it was freed.
#[test]
fn a_part_that_is_being_tidied_is_not_believed_before_it_is_twice_the_same() {
    let torn = [(ONE, row(0, 2, 0b01)), (TWO, row(1, 1, 1))];
    let after = [(ONE, row(0, 2, 0b11)), (TWO, row(1, 1, 1))];
    let mut collected = Collected::default();
    assert!(!collected.add(parts(&torn)), "once is not enough");
    assert!(!collected.add(parts(&after)));
    assert!(collected.add(parts(&after)));
    assert_eq!(collected.rows(), [(ONE, vec![after[0].1]), (TWO, vec![after[1].1])]);
}

#[test]
fn a_part_that_was_settled_stays_so_while_others_move() {
    let still = (TWO, row(1, 1, 1));
    let mut collected = Collected::default();
    for owned in 1..5 {
        assert!(!collected.add(parts(&[(ONE, row(0, 2, owned)), still])));
    }
    // A part that is gone is none that could be torn.
    assert!(!collected.add(parts(&[still])), "it was there a moment ago");
    assert!(collected.add(parts(&[still])));
    assert_eq!(collected.rows(), [(TWO, vec![still.1])]);
}

#[test]
fn an_image_without_blobs_is_settled_at_once() {
    let mut collected = Collected::default();
    assert!(!collected.add(Parts::new()));
    assert!(collected.add(Parts::new()));
    assert!(collected.rows().is_empty());
}

/// Without it a snapshot that was removed before its blobs were asked for would read as zeros.
#[test]
fn a_snapshot_that_was_removed_meanwhile_is_not_there() {
    let snapshot = |name: &str, layer| Snapshot { name: name.to_owned(), layer: Layer(layer) };
    let before = vec![snapshot("a", 1), snapshot("b", 2)];
    // A new one may have the name of the removed one.
    assert_eq!(still_there(before.clone(), Some(vec![snapshot("b", 2), snapshot("a", 3)])), [snapshot("b", 2)]);
    assert_eq!(still_there(before.clone(), Some(before.clone())), before);
    assert!(still_there(before, None).is_empty(), "the image is gone");
}
