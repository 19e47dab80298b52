//! The structures, each built, checked and measured in the same way.

use std::hint::black_box;

use hashbrown::HashMap;
use ludo::{Config, Lookup, Maintenance, Shape, Simple};

use crate::measure::{Case, Row, Value, best_rate, key, queries, seconds};

const BATCH: usize = 1_024;

fn config(case: &Case) -> Config {
    let shape = Shape::new(case.keys, case.value_bits, case.fingerprint_bits).expect("a shape");
    Config { key_bytes: case.key_bytes, shape, seed: 1 }
}

/// Keys that are inserted with their memory asked for ahead.
const AHEAD: u64 = 32;

/// Insertions one by one, each with its update message encoded; then lookups in the finished lookup structure.
pub fn ludo<const BYTES: usize, V: Value>(case: &Case, ahead: bool) {
    let mut message = Vec::new();
    let mut message_bytes = 0;
    let shape = config(case).shape;
    let mut maintenance = Maintenance::<V>::new(config(case));
    let ((), taken) = seconds(|| {
        for number in 0..case.keys {
            if ahead && number % AHEAD == 0 {
                let keys: Vec<[u8; BYTES]> = (number..case.keys.min(number + AHEAD)).map(key).collect();
                maintenance.warm(&keys);
            }
            let update = maintenance.insert(&key::<BYTES>(number), V::of(number, case.value_bits)).expect("room");
            message.clear();
            update.encode(&shape, &mut message);
            message_bytes += message.len();
        }
    });
    let mean = message_bytes as f64 / case.keys as f64;
    let overlay = maintenance.lookup().overlay_len();
    let mebibytes = maintenance.memory_bytes() >> 20;
    // The overlay costs every lookup a little, so a unit is renewed when it is sealed; that is how it is measured.
    let (_, renewal) = seconds(|| while maintenance.needs_renewal() && maintenance.renew(u64::MAX) != ludo::Renewal::Done {});
    let note = format!("{mean:.1} B/update, keyed side {mebibytes} MiB, overlay {overlay}, renewed in {renewal:.1} s");
    let snapshot = maintenance.lookup().snapshot();
    drop(maintenance);
    let lookup = Lookup::from_snapshot(&snapshot).expect("a snapshot");
    drop(snapshot);
    let (single, batched) = lookups::<BYTES, V>(case, &lookup);
    let bits_a_key = lookup.memory_bytes() as f64 * 8.0 / case.keys as f64;
    let inserts = case.keys as f64 / taken / 1e6;
    let name = if ahead { "ludo, inserts warmed" } else { "ludo" };
    Row { name, bits_a_key, single, batched, inserts, seconds: taken, note }.print(case);
}

/// Lookups in a structure without keys: the same accesses, except the 4% that also go to the overflow table, and no answers to
/// check. For sizes whose filling takes too long.
pub fn ludo_unfilled<const BYTES: usize, V: Value>(case: &Case) {
    let snapshot = Maintenance::<V>::new(config(case)).lookup().snapshot();
    let (lookup, taken) = seconds(|| Lookup::from_snapshot(&snapshot).expect("a snapshot"));
    drop(snapshot);
    let (single, batched) = rates::<BYTES, V>(case, &lookup);
    let bits_a_key = lookup.memory_bytes() as f64 * 8.0 / case.keys as f64;
    let note = "no keys in it: the accesses alone; made in: from a snapshot".to_owned();
    Row { name: "ludo, unfilled", bits_a_key, single, batched, inserts: f64::NAN, seconds: taken, note }.print(case);
}

fn lookups<const BYTES: usize, V: Value>(case: &Case, lookup: &Lookup) -> (f64, f64) {
    let mut reader = lookup.reader::<V>().expect("wide enough");
    let numbers = queries(case);
    let keys: Vec<[u8; BYTES]> = numbers.iter().map(|number| key(*number)).collect();
    let mut found = vec![None; BATCH];
    for (keys, numbers) in keys.chunks(BATCH).zip(numbers.chunks(BATCH)) {
        reader.get_many(keys, &mut found[..keys.len()]);
        for ((key, number), found) in keys.iter().zip(numbers).zip(&found) {
            assert_eq!(*found, Some(V::of(*number, case.value_bits)));
            assert_eq!(reader.get(key), *found);
        }
    }
    rates::<BYTES, V>(case, lookup)
}

/// Million lookups a second: one by one, and many at once.
fn rates<const BYTES: usize, V: Value>(case: &Case, lookup: &Lookup) -> (f64, f64) {
    let mut reader = lookup.reader::<V>().expect("wide enough");
    let keys: Vec<[u8; BYTES]> = queries(case).into_iter().map(key).collect();
    let mut found = vec![None; BATCH];
    let count = keys.len() as u64;
    let single = best_rate(count, || {
        for key in &keys {
            black_box(reader.get(key));
        }
    });
    let batched = best_rate(count, || {
        for keys in keys.chunks(BATCH) {
            reader.get_many(keys, &mut found[..keys.len()]);
            black_box(&mut found);
        }
    });
    (single, batched)
}

/// The same structure built at once.
pub fn ludo_build<const BYTES: usize, V: Value>(case: &Case) {
    let entries = (0..case.keys).map(|number| (key::<BYTES>(number), V::of(number, case.value_bits)));
    let (maintenance, taken) = seconds(|| Maintenance::<V>::build(config(case), entries).expect("builds"));
    let bits_a_key = maintenance.lookup().memory_bytes() as f64 * 8.0 / case.keys as f64;
    let note = format!("keyed side {} MiB", maintenance.memory_bytes() >> 20);
    let (single, batched) = lookups::<BYTES, V>(case, maintenance.lookup());
    let inserts = case.keys as f64 / taken / 1e6;
    Row { name: "ludo, built at once", bits_a_key, single, batched, inserts, seconds: taken, note }.print(case);
}

/// The twin with keys.
pub fn simple<const BYTES: usize, V: Value>(case: &Case) {
    let mut simple = Simple::<V>::new(config(case));
    let ((), taken) = seconds(|| {
        for number in 0..case.keys {
            simple.insert(&key::<BYTES>(number), V::of(number, case.value_bits)).expect("room");
        }
    });
    let single = rate::<BYTES, V>(case, |key| simple.get(key));
    let bits_a_key = simple.memory_bytes() as f64 * 8.0 / case.keys as f64;
    let inserts = case.keys as f64 / taken / 1e6;
    Row { name: "cuckoo with keys", bits_a_key, single, batched: f64::NAN, inserts, seconds: taken, note: String::new() }
        .print(case);
}

/// Checks a structure, then measures single lookups in it.
fn rate<const BYTES: usize, V: Value>(case: &Case, mut get: impl FnMut(&[u8; BYTES]) -> Option<V>) -> f64 {
    let numbers = queries(case);
    let keys: Vec<[u8; BYTES]> = numbers.iter().map(|number| key(*number)).collect();
    for (key, number) in keys.iter().zip(&numbers) {
        assert_eq!(get(key), Some(V::of(*number, case.value_bits)));
    }
    best_rate(keys.len() as u64, || {
        for key in &keys {
            black_box(get(key));
        }
    })
}

pub fn hash_map<const BYTES: usize, V: Value>(case: &Case) {
    let mut map = HashMap::<[u8; BYTES], V>::with_capacity(case.keys as usize);
    let ((), taken) = seconds(|| {
        for number in 0..case.keys {
            map.insert(key::<BYTES>(number), V::of(number, case.value_bits));
        }
    });
    let single = rate::<BYTES, V>(case, |key| map.get(key).copied());
    let bits_a_key = map.allocation_size() as f64 * 8.0 / case.keys as f64;
    let inserts = case.keys as f64 / taken / 1e6;
    let note = "room reserved at the start".to_owned();
    Row { name: "hashbrown", bits_a_key, single, batched: f64::NAN, inserts, seconds: taken, note }.print(case);
}

/// A 64-bit hash of a key: what the static functions are given.
fn hash<const BYTES: usize>(key: &[u8; BYTES]) -> u64 {
    let mut state = BYTES as u64;
    let mut step = |part: &[u8]| {
        let low = u64::from_le_bytes(part[..8].try_into().expect("eight bytes"));
        let product = u128::from(state ^ low) * 0x9e37_79b9_7f4a_7c15_u128;
        state = (product as u64) ^ (product >> 64) as u64 ^ low.rotate_left(32);
    };
    key.chunks_exact(8).for_each(&mut step);
    step(&key[BYTES - 8..]);
    state
}

fn hashes<const BYTES: usize>(case: &Case) -> Vec<u64> {
    (0..case.keys).map(|number| hash(&key::<BYTES>(number))).collect()
}

/// The values in the order that a perfect hash gives them.
fn values<V: Value>(case: &Case, hashes: &[u64], index: impl Fn(&u64) -> usize) -> Vec<V> {
    let mut values = vec![V::of(0, case.value_bits); case.keys as usize];
    for (number, hash) in hashes.iter().enumerate() {
        values[index(hash)] = V::of(number as u64, case.value_bits);
    }
    values
}

const STATIC: &str = "static; values in whole words; key hashed outside";

pub fn ptr_hash<const BYTES: usize, V: Value>(case: &Case) {
    let hashes = hashes::<BYTES>(case);
    type Function = ptr_hash::DefaultPtrHash<ptr_hash::hash::StrongerIntHash>;
    let (function, taken) = seconds(|| Function::new(&hashes, ptr_hash::PtrHashParams::default()));
    let values: Vec<V> = values(case, &hashes, |hash| function.index(hash));
    drop(hashes);
    let single = rate::<BYTES, V>(case, |key| Some(values[function.index(&hash(key))]));
    let numbers = queries(case);
    let keys: Vec<[u8; BYTES]> = numbers.iter().map(|number| key(*number)).collect();
    let batched = best_rate(keys.len() as u64, || {
        for keys in keys.chunks_exact(16) {
            let hashed: [u64; 16] = std::array::from_fn(|index| hash(&keys[index]));
            for index in function.index_batch::<16, _>(hashed) {
                black_box(values[index]);
            }
        }
    });
    let (pilots, remap) = function.bits_per_element();
    let bits_a_key = pilots + remap + f64::from(V::MAX_BITS);
    let note = STATIC.to_owned();
    Row { name: "ptr_hash + array", bits_a_key, single, batched, inserts: f64::NAN, seconds: taken, note }.print(case);
}

pub fn phast<const BYTES: usize, V: Value>(case: &Case) {
    use ph::GetSize;
    let hashes = hashes::<BYTES>(case);
    let (function, taken) = seconds(|| ph::phast::Function::from_slice_st(&hashes));
    let values: Vec<V> = values(case, &hashes, |hash| function.get(hash));
    let single = rate::<BYTES, V>(case, |key| Some(values[function.get(&hash(key))]));
    let bits_a_key = function.size_bytes() as f64 * 8.0 / case.keys as f64 + f64::from(V::MAX_BITS);
    let note = STATIC.to_owned();
    Row { name: "ph (PHast) + array", bits_a_key, single, batched: f64::NAN, inserts: f64::NAN, seconds: taken, note }
        .print(case);
}
