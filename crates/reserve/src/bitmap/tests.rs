use super::Bitmap;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// The levels above say what they are to.
fn check(bitmap: &Bitmap) {
    for pair in bitmap.levels.windows(2) {
        let [beneath, above] = pair else { unreachable!() };
        for (index, word) in beneath.iter().enumerate() {
            assert_eq!(above[index / 64] >> (index % 64) & 1 == 1, *word != 0, "word {index}");
        }
        assert_eq!(above.len(), beneath.len().div_ceil(64));
    }
    assert_eq!(bitmap.levels.last().map(Vec::len), Some(1));
    assert_eq!(bitmap.next_from(bitmap.length), None, "nothing beyond the length");
}

#[test]
fn ends_of_words_and_levels() {
    for length in [2, 63, 64, 65, 4095, 4096, 4097, 262_144, 262_145, 300_000] {
        let mut bitmap = Bitmap::new(length);
        assert_eq!((bitmap.next_from(0), bitmap.next_absent(0, length)), (None, 0));
        bitmap.insert(0..length);
        check(&bitmap);
        assert_eq!((bitmap.next_from(length - 1), bitmap.next_absent(0, length)), (Some(length - 1), length));
        bitmap.remove(0..length - 1);
        check(&bitmap);
        assert_eq!((bitmap.next_from(0), bitmap.holds(0..length - 1)), (Some(length - 1), Some(false)));
        assert!(!bitmap.contains(length) && !bitmap.contains(u64::MAX));
        bitmap.remove(length - 1..length);
        check(&bitmap);
        assert_eq!(bitmap, Bitmap::new(length));
    }
    assert_eq!(Bitmap::new(0).next_from(0), None);
    assert_eq!(Bitmap::new(0).next_absent(0, 0), 0);
}

#[test]
#[should_panic(expected = "beyond 100")]
fn nothing_is_inserted_beyond_the_length() {
    Bitmap::new(100).insert(99..101);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Range<u64>),
    Remove(Range<u64>),
    NextFrom(u64),
    NextAbsent(Range<u64>),
    Holds(Range<u64>),
}

/// Three levels.
const LENGTH: u64 = 10_000;

fn range() -> impl Strategy<Value = Range<u64>> {
    (0..LENGTH, prop_oneof![0..200_u64, 0..LENGTH]).prop_map(|(start, count)| start..(start + count).min(LENGTH))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        range().prop_map(Step::Insert),
        range().prop_map(Step::Remove),
        (0..LENGTH + 70).prop_map(Step::NextFrom),
        range().prop_map(Step::NextAbsent),
        range().prop_map(Step::Holds),
    ]
}

proptest! {
    #[test]
    fn it_is_a_set(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bitmap = Bitmap::new(LENGTH);
        let mut set: BTreeSet<u64> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Insert(range) => {
                    bitmap.insert(range.clone());
                    set.extend(range);
                }
                Step::Remove(range) => {
                    bitmap.remove(range.clone());
                    set.retain(|number| !range.contains(number));
                }
                Step::NextFrom(number) => prop_assert_eq!(bitmap.next_from(number), set.range(number..).next().copied()),
                Step::NextAbsent(range) => {
                    let absent = range.clone().find(|number| !set.contains(number)).unwrap_or(range.end);
                    prop_assert_eq!(bitmap.next_absent(range.start, range.end), absent);
                }
                Step::Holds(range) => {
                    let count = set.range(range.clone()).count() as u64;
                    let expected = match count {
                        0 => Some(false),
                        count if count == range.end - range.start => Some(true),
                        _ => None,
                    };
                    // Of nothing both are true.
                    prop_assert!(bitmap.holds(range.clone()) == expected || range.is_empty());
                }
            }
            check(&bitmap);
        }
    }
}
