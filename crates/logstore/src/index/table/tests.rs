use super::{HashTable, SPILL_SLOTS};
use proptest::prelude::*;
use std::collections::BTreeMap;
use types::KeyHash;

fn hash(key: u64) -> KeyHash {
    let digest = blake3::hash(&key.to_le_bytes());
    KeyHash::from_bytes(digest.as_bytes()[..20].try_into().unwrap())
}

/// A hash near the top of the range, so that clusters reach the spill slots.
fn high_hash(key: u8) -> KeyHash {
    let mut bytes = [0xff; 20];
    bytes[19] = key;
    KeyHash::from_bytes(bytes)
}

fn check_invariants(table: &HashTable) {
    let mut previous = None;
    for slot in 0..table.slots() {
        if !table.occupied(slot) {
            continue;
        }
        let hash = table.hash(slot);
        assert!(previous.is_none_or(|previous| previous < hash), "slots out of order");
        let home = table.home(&hash);
        assert!(home <= slot, "left of its home");
        assert!((home..slot).all(|between| table.occupied(between)), "a gap parts a key from its home");
        previous = Some(hash);
    }
}

proptest! {
    #[test]
    fn agrees_with_a_map(operations in prop::collection::vec((any::<bool>(), 0u64..300, any::<u32>()), 0..1200), top in any::<bool>()) {
        let mut table = HashTable::new(4);
        let mut map = BTreeMap::new();
        for (insert, key, value) in operations {
            let hash = if top { high_hash(key as u8) } else { hash(key) };
            if insert {
                table.insert(&hash, &value.to_le_bytes());
                map.insert(hash, value);
            } else {
                prop_assert_eq!(table.remove(&hash), map.remove(&hash).is_some());
            }
            prop_assert_eq!(table.get(&hash).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())), map.get(&hash).copied());
        }
        check_invariants(&table);
        prop_assert_eq!(table.len(), map.len());
        let listed: Vec<_> = table.iter().map(|(hash, bytes)| (hash, u32::from_le_bytes(bytes.try_into().unwrap()))).collect();
        let expected: Vec<_> = map.into_iter().collect();
        prop_assert_eq!(listed, expected);
    }
}

#[test]
fn memory_stays_within_one_and_a_half_slots_a_key() {
    let mut table = HashTable::new(24);
    let mut worst = 0f64;
    for key in 0..60_000u64 {
        table.insert(&hash(key), &[7; 24]);
        if key > 4000 {
            worst = worst.max(table.memory_bytes() as f64 / table.len() as f64);
        }
    }
    check_invariants(&table);
    assert!(worst < 45.0 * 1.5, "{worst} bytes a key");
    assert!((0..60_000u64).all(|key| table.get(&hash(key)).is_some()));
    assert!(table.get(&hash(60_000)).is_none());
}

#[test]
fn more_equal_homes_than_spill_slots_still_fit() {
    let mut table = HashTable::new(1);
    for key in 0..=255u8 {
        table.insert(&high_hash(key), &[key]);
    }
    const { assert!(256 > SPILL_SLOTS) };
    check_invariants(&table);
    assert!((0..=255u8).all(|key| table.get(&high_hash(key)) == Some(&[key][..])));
}
