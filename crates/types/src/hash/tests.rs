use super::*;

const BYTES: [u8; KEY_HASH_BYTES] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

fn choices(hash: &KeyHash) -> (u64, u32, u32) {
    (hash.slot_bits(), hash.shard_bits(), hash.placement_bits())
}

#[test]
fn bits_are_those_that_placed_what_is_on_media() {
    // Another order of bytes would look for every key on another replica set.
    assert_eq!(choices(&KeyHash::from_bytes(BYTES)), (0x0807_0605_0403_0201, 0x0c0b_0a09, 0x100f_0e0d));
}

#[test]
fn slot_shard_and_replica_set_are_chosen_by_bits_of_their_own() {
    let (slot, shard, placement) = choices(&KeyHash::from_bytes(BYTES));
    for bit in 0..8 * KEY_HASH_BYTES {
        let mut bytes = BYTES;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = KeyHash::from_bytes(bytes);
        let differs = (changed.slot_bits() != slot, changed.shard_bits() != shard, changed.placement_bits() != placement);
        let expected = match bit / 8 {
            0..8 => (true, false, false),
            8..12 => (false, true, false),
            12..16 => (false, false, true),
            _ => (false, false, false),
        };
        assert_eq!(differs, expected, "bit {bit}");
        assert_ne!(changed, KeyHash::from_bytes(BYTES), "bit {bit} names another entry");
    }
}

#[test]
fn hashes_are_ordered_by_their_bytes_and_shown_short() {
    let mut last = BYTES;
    last[KEY_HASH_BYTES - 1] += 1;
    let mut first = [0; KEY_HASH_BYTES];
    first[0] = 2;
    let (hash, later, latest) = (KeyHash::from_bytes(BYTES), KeyHash::from_bytes(last), KeyHash::from_bytes(first));
    assert!(hash < later && later < latest);
    assert_eq!(format!("{hash:?}"), "KeyHash(010203040506..)");
    assert_eq!(hash.as_bytes(), &BYTES);
}
