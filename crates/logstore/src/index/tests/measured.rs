//! Memory and time of both forms, measured: `cargo test --release -p logstore measured -- --ignored --nocapture`.
//!
//! Each case runs in a process of its own. What is measured is by how much its memory (resident, by the kernel) grows with a second index:
//! the first one leaves the allocator with what building takes.
//! Objects have a mean of 1 MiB and stand in zones of 256 MiB on 12 devices.

use super::super::{Gather, IndexForm, Located, LudoForm, Sealed, ShardIndex};
use crate::store::{SHARDS, shard_of};
use format::entry::{Entry, EntryState};
use format::record::WriteId;
use format::replicas::Places;
use std::time::Instant;
use types::limits::UNIT_BYTES;
use types::{Activation, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Place, Sequence, ZoneIndex, ZoneOffset};

const DEVICES: u64 = 12;
const OBJECTS_A_ZONE: u64 = 256;
const ZONE_UNITS: u64 = 4 * 1024 * 1024;
/// Names the case to a process that measures one.
const CASE: &str = "TRILITH_MEASURED_CASE";
const LOOKUPS: u64 = 2_000_000;

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn hash(key: u64) -> KeyHash {
    let mut bytes = [0; 20];
    for (part, chunk) in bytes.chunks_mut(8).enumerate() {
        let random = mixed(key.wrapping_mul(3).wrapping_add(part as u64).wrapping_add(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
    KeyHash::from_bytes(bytes)
}

/// A record that stands anywhere in a pool that so many keys fill.
fn entry(key: u64, keys: u64, copies: u64) -> Entry {
    let zones = (keys * copies).div_ceil(OBJECTS_A_ZONE * DEVICES);
    let place = |copy: u64| {
        let random = mixed(key * 4 + copy + 1);
        Place {
            device: DeviceId(((key + copy) % DEVICES) as u32 + 1),
            zone: ZoneIndex((random % zones) as u32),
            offset: ZoneOffset((random >> 32) as u32 % ZONE_UNITS as u32),
        }
    };
    let places: Vec<Place> = (0..copies).map(place).collect();
    let primary = places[0];
    let activation = Activation(u64::from(primary.zone.0) + 1);
    Entry {
        hash: hash(key),
        write: WriteId { gateway: GatewayId(1), sequence: Sequence(key) },
        epoch: Epoch(1),
        order: Order { generation: Generation(256), activation, offset: primary.offset },
        places: Places::new(&places).unwrap(),
        frame_bytes: (65 + mixed(key) % 2000) as u32 * UNIT_BYTES as u32,
        length: 4096,
        state: EntryState::Live,
        large: false,
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn full(keys: u64, copies: u64) -> Vec<ShardIndex> {
    let mut shards: Vec<ShardIndex> = (0..SHARDS).map(|_| ShardIndex::new(IndexForm::Full, copies as usize)).collect();
    for key in 0..keys {
        let entry = entry(key, keys, copies);
        shards[shard_of(&entry.hash)].load(&entry.hash, &Located::from(&entry));
    }
    shards
}

/// With the bytes of the dictionaries.
fn sealed(keys: u64, copies: u64) -> (Vec<ShardIndex>, usize) {
    let form = LudoForm::default();
    let mut shards: Vec<ShardIndex> = (0..SHARDS).map(|_| ShardIndex::new(IndexForm::Ludo(form), copies as usize)).collect();
    let mut gather = Gather::new(0..SHARDS);
    for key in 0..keys {
        let entry = entry(key, keys, copies);
        gather.push(shard_of(&entry.hash), &entry, false);
    }
    let (dictionaries, gathered) = gather.finish();
    for gathered in gathered {
        let shard = gathered.shard;
        shards[shard].seal(Sealed::build(&dictionaries, gathered, form.fingerprint_bits, 7));
    }
    (shards, dictionaries.memory_bytes())
}

/// Nanoseconds of a lookup of a present key, and of an absent one.
fn lookups(shards: &[ShardIndex], keys: u64, copies: u64) -> [f64; 2] {
    [0, keys].map(|first| {
        let wanted: Vec<KeyHash> = (0..LOOKUPS).map(|number| hash(first + mixed(number) % keys)).collect();
        #[expect(clippy::disallowed_methods, reason = "a measurement")]
        let started = Instant::now();
        let found = wanted.iter().filter(|hash| shards[shard_of(hash)].newest(hash).is_some()).count() as u64;
        let nanoseconds = started.elapsed().as_nanos() as f64 / LOOKUPS as f64;
        assert!(if first == 0 { found == LOOKUPS } else { found < LOOKUPS / 2000 }, "{found} found, {copies} copies");
        nanoseconds
    })
}

/// Measures one form; its bytes a key.
fn measure(form: &str, keys: u64, copies: u64) -> f64 {
    let build = || match form {
        "full" => (full(keys, copies), 0),
        _ => sealed(keys, copies),
    };
    let first = build();
    let before = resident_bytes();
    let (shards, dictionaries) = build();
    let bytes = (resident_bytes() - before) as f64 / keys as f64;
    drop(first);
    let [present, absent] = lookups(&shards, keys, copies);
    for key in (0..keys).step_by(997) {
        assert_eq!(shards[shard_of(&hash(key))].newest(&hash(key)), Some(Located::from(&entry(key, keys, copies))));
    }
    let counted = shards.iter().map(ShardIndex::saved_bytes).sum::<usize>() + dictionaries;
    let counted = counted as f64 / keys as f64;
    println!(
        "{form}, {copies} copies, {keys} keys: {bytes:.2} bytes a key resident, {counted:.2} counted; a lookup {present:.0} ns, of an absent key {absent:.0} ns"
    );
    bytes
}

/// The same in a process of its own, whose allocator gives back what the building needed.
fn measure_apart(form: &str, keys: u64, copies: u64) -> f64 {
    let test = "index::tests::measured::measured_bytes_a_key";
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    process.args([test, "--exact", "--ignored", "--nocapture"]).env(CASE, format!("{form} {keys} {copies}"));
    process.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "65536").env("MALLOC_ARENA_MAX", "1");
    let output = process.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.starts_with(form)).expect("it prints what it measured");
    println!("{line}");
    let (_, rest) = line.split_once(": ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes minutes, and gigabytes"]
fn measured_bytes_a_key() {
    if let Ok(case) = std::env::var(CASE) {
        let mut words = case.split(' ');
        let mut number = |name: &str| words.next().expect(name).to_owned();
        let (form, keys, copies) = (number("form"), number("keys"), number("copies"));
        measure(&form, keys.parse().unwrap(), copies.parse().unwrap());
        return;
    }
    for keys in [1_000_000, 10_000_000] {
        for copies in [1, 3] {
            let (full, ludo) = (measure_apart("full", keys, copies), measure_apart("ludo", keys, copies));
            assert!(ludo * 3.0 < full, "less than a third of the full form");
            // With fewer keys the allocator's pages count.
            let most = if copies == 1 { 9.0 } else { 20.0 };
            assert!(keys < 10_000_000 || ludo <= most, "{ludo} bytes a key with {copies} copies");
        }
    }
}
