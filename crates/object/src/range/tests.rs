use super::ByteRange;
use crate::error::ObjectError;

fn is_unsatisfiable(range: ByteRange, length: u64) -> bool {
    matches!(range.resolve(length), Err(ObjectError::InvalidRange { length: shown }) if shown == length)
}

#[test]
fn ranges_are_cut_to_the_object() {
    let resolved = |range: ByteRange| range.resolve(100).expect("it overlaps the object");
    assert_eq!(resolved(ByteRange::Between(0, 0)), 0..1);
    assert_eq!(resolved(ByteRange::Between(10, 19)), 10..20);
    assert_eq!(resolved(ByteRange::Between(99, 99)), 99..100);
    assert_eq!(resolved(ByteRange::Between(90, 1000)), 90..100);
    assert_eq!(resolved(ByteRange::Between(0, u64::MAX)), 0..100);
    assert_eq!(resolved(ByteRange::From(0)), 0..100);
    assert_eq!(resolved(ByteRange::From(99)), 99..100);
    assert_eq!(resolved(ByteRange::Last(1)), 99..100);
    assert_eq!(resolved(ByteRange::Last(100)), 0..100);
    assert_eq!(resolved(ByteRange::Last(u64::MAX)), 0..100);
}

#[test]
fn ranges_that_select_nothing_are_unsatisfiable() {
    for range in [ByteRange::Between(100, 100), ByteRange::From(100), ByteRange::From(u64::MAX), ByteRange::Last(0)] {
        assert!(is_unsatisfiable(range, 100), "{range:?}");
    }
    for range in [ByteRange::Between(0, 0), ByteRange::From(0), ByteRange::Last(0)] {
        assert!(is_unsatisfiable(range, 0), "{range:?} of an empty object");
    }
    assert_eq!(ByteRange::Last(5).resolve(0).expect("a suffix that is not empty"), 0..0);
}

#[test]
fn the_source_of_a_part_is_not_cut() {
    assert_eq!(ByteRange::Between(10, 99).resolve_exactly(100).expect("within"), 10..100);
    assert!(matches!(ByteRange::Between(10, 100).resolve_exactly(100), Err(ObjectError::InvalidRange { length: 100 })));
    assert!(matches!(ByteRange::Last(101).resolve_exactly(100), Err(ObjectError::InvalidRange { length: 100 })));
}
