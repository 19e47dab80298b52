use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::{Strategy, any};

use super::Overflow;

const PLACES: u64 = 17;

/// Sets with a seed, removals without one.
fn steps() -> impl Strategy<Value = Vec<(u64, Option<u16>)>> {
    proptest::collection::vec((0..40_u64, any::<Option<u16>>()), 0..300)
}

proptest::proptest! {
    /// Almost full, so that long runs form, wrap and are closed up.
    #[test]
    fn equals_a_map(steps in steps()) {
        let table = Overflow::<AtomicU64>::new(PLACES);
        let mut map = BTreeMap::new();
        for (bucket, seed) in steps {
            match seed {
                Some(seed) if map.contains_key(&bucket) || map.len() as u64 + 1 < PLACES => {
                    assert_eq!(table.set(bucket, seed), map.insert(bucket, seed).is_none());
                }
                Some(_) => {}
                None => assert_eq!(table.remove(bucket), map.remove(&bucket).is_some()),
            }
            (0..40).for_each(|bucket| assert_eq!(table.seed(bucket), map.get(&bucket).copied(), "bucket {bucket}"));
        }
        let entries: BTreeMap<u64, u16> = table.entries().collect();
        assert_eq!(entries, map);
    }
}
