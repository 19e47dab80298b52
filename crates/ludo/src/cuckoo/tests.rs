use super::{Keys, Room, bucket_of, place};

const TAG: u8 = 5;

/// Keys of one byte, whose other bucket a table of the test tells.
fn keys(buckets: u64, full: &[u64]) -> Keys {
    let mut keys = Keys::new(1, buckets);
    for bucket in full {
        (0..4).for_each(|position| keys.put(place(*bucket, position), &[(*bucket * 4) as u8 + position as u8], TAG));
    }
    keys
}

#[test]
fn the_emptier_bucket_is_taken() {
    let mut keys = keys(3, &[0]);
    keys.put(place(1, 0), &[9], TAG);
    assert_eq!(keys.room([0, 1], |_| 0), Some(Room { moves: vec![], free: place(1, 1) }));
    assert_eq!(keys.room([1, 2], |_| 0), Some(Room { moves: vec![], free: place(2, 0) }));
    assert_eq!(keys.room([2, 1], |_| 0), Some(Room { moves: vec![], free: place(2, 0) }));
}

#[test]
fn a_chain_of_moves_makes_room() {
    let keys = keys(4, &[0, 1, 2]);
    // Keys of bucket 0 could go to 1, of bucket 1 to 2, and one key of bucket 2 to the empty bucket 3.
    let other = |from| if from == place(2, 3) { 3 } else { (bucket_of(from) + 1).min(2) };
    let room = keys.room([0, 0], other).expect("there is a chain");
    assert_eq!(room.moves, vec![(place(2, 3), place(3, 0)), (place(1, 0), place(2, 3)), (place(0, 0), place(1, 0))]);
    assert_eq!(room.free, place(0, 0));
}

#[test]
fn no_room_is_said_and_not_searched_for_ever() {
    let keys = keys(3, &[0, 1]);
    assert_eq!(keys.room([0, 1], |from| 1 - bucket_of(from)), None, "the third bucket cannot be reached");
    assert_eq!(keys.room([0, 0], |_| 0), None, "keys whose buckets are the same cannot move");
}

#[test]
fn keys_are_found_moved_and_removed() {
    let mut keys = keys(3, &[1]);
    assert_eq!(keys.find(&[6], TAG, [0, 1]), Some(place(1, 2)));
    assert_eq!(keys.find(&[6], TAG, [0, 2]), None);
    assert_eq!(keys.find(&[6], TAG + 1, [0, 1]), None, "the tag is looked at first");
    keys.shift(place(1, 2), place(2, 0));
    assert_eq!(keys.find(&[6], TAG, [2, 1]), Some(place(2, 0)));
    keys.clear(place(2, 0));
    assert_eq!(keys.find(&[6], TAG, [2, 1]), None);
    assert_eq!(keys.all().count(), 3);
}
