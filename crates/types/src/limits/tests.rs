use super::*;

#[test]
fn limits_are_those_of_s3() {
    const GIB: u64 = 1 << 30;
    assert_eq!((MAX_OBJECT_BYTES, MAX_PUT_BYTES, MIN_PART_BYTES), (5 * 1024 * GIB, 5 * GIB, 5 << 20));
    assert_eq!((MAX_KEY_BYTES, MAX_PARTS, MAX_USER_METADATA_BYTES), (1024, 10_000, 2048));
}

#[test]
fn the_largest_object_can_be_made_of_parts() {
    let parts = u64::from(MAX_PARTS);
    assert!(parts * MAX_PUT_BYTES >= MAX_OBJECT_BYTES);
    // Parts of one size, in whole mebibytes, as clients choose it.
    let part_bytes = MAX_OBJECT_BYTES.div_ceil(parts).next_multiple_of(1 << 20);
    assert!((MIN_PART_BYTES..=MAX_PUT_BYTES).contains(&part_bytes), "{part_bytes}");
    assert!(MIN_PART_BYTES as usize > MAX_SMALL_BYTES, "a part that is not the last is never stored as a small object");
}
