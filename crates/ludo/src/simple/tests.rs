use std::collections::HashMap;

use proptest::prelude::{Strategy, any};

use super::Simple;
use crate::maintenance::{Config, InsertError};
use crate::shape::Shape;

fn config(capacity: u64, value_bits: u32) -> Config {
    Config { key_bytes: 8, shape: Shape::new(capacity, value_bits, 0).expect("valid"), seed: 3 }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u64, u128)>> {
    proptest::collection::vec((0..4_u8, 0..300_u64, any::<u128>()), 0..600)
}

proptest::proptest! {
    #[test]
    fn equals_a_map(steps in steps(), bits in 1..=128_u32) {
        let mut simple = Simple::<u128>::new(config(200, bits));
        let mut map = HashMap::new();
        for (kind, number, value) in steps {
            let (key, value) = (number.to_le_bytes(), value >> (128 - bits));
            match kind {
                0 => assert_eq!(simple.remove(&key), map.remove(&number).is_some()),
                1 => {
                    let changed = simple.change(&key, value).is_ok();
                    assert_eq!(changed, map.get_mut(&number).map(|held| *held = value).is_some());
                }
                _ => match simple.insert(&key, value) {
                    Ok(()) => assert!(map.insert(number, value).is_none()),
                    Err(InsertError::Present) => assert!(map.contains_key(&number)),
                    Err(error) => assert!(map.len() == 200 && error == InsertError::Full, "{error}"),
                },
            }
        }
        assert_eq!(simple.len(), map.len() as u64);
        (0..300_u64).for_each(|number| assert_eq!(simple.get(&number.to_le_bytes()), map.get(&number).copied()));
    }
}

#[test]
fn memory_is_keys_and_values_at_95_percent() {
    let simple = Simple::<u64>::new(config(1_000_000, 60));
    let bits = simple.memory_bytes() as f64 * 8.0 / 1e6;
    assert!((bits - (64.0 + 60.0 + 8.0) / 0.95).abs() < 0.2, "{bits} bits a key");
}
