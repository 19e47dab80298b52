//! Bits a key, lookups, insertions and build times: Ludo hashing beside a hash map, and beside static minimal perfect hashes
//! with an array of values. One core, one structure at a time.
//!
//! Peers get what suits them: `hashbrown` its own hash and values in whole machine words; the perfect hashes a 64-bit hash of
//! the key, made outside, and as many values in whole machine words as there are keys.

mod measure;
mod peers;

use measure::{Case, Row};

const USAGE: &str = "ludo-bench-peers --keys N --key-bytes 20|40 --value-bits 60|126 \
    [--fingerprint-bits 0..16] [--only ludo,warmed,unfilled,build,simple,hashbrown,ptr_hash,ph]";

fn main() {
    let mut case = Case { keys: 1_000_000, key_bytes: 20, value_bits: 60, fingerprint_bits: 0 };
    let mut only = "ludo,build,simple,hashbrown,ptr_hash,ph".to_owned();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return println!("{USAGE}") };
        let number = || value.replace('_', "").parse::<u64>().expect("a number");
        match name.as_str() {
            "--keys" => case.keys = number(),
            "--key-bytes" => case.key_bytes = number() as usize,
            "--value-bits" => case.value_bits = number() as u32,
            "--fingerprint-bits" => case.fingerprint_bits = number() as u32,
            "--only" => only.clone_from(value),
            _ => return println!("{USAGE}"),
        }
    }
    Row::print_head();
    for name in only.split(',') {
        match (case.key_bytes, case.value_bits <= 64) {
            (20, true) => run::<20, u64>(&case, name),
            (20, false) => run::<20, u128>(&case, name),
            (40, true) => run::<40, u64>(&case, name),
            (40, false) => run::<40, u128>(&case, name),
            _ => return println!("{USAGE}"),
        }
    }
}

fn run<const BYTES: usize, V: measure::Value>(case: &Case, name: &str) {
    match name {
        "ludo" => peers::ludo::<BYTES, V>(case, false),
        "warmed" => peers::ludo::<BYTES, V>(case, true),
        "unfilled" => peers::ludo_unfilled::<BYTES, V>(case),
        "build" => peers::ludo_build::<BYTES, V>(case),
        "simple" => peers::simple::<BYTES, V>(case),
        "hashbrown" => peers::hash_map::<BYTES, V>(case),
        "ptr_hash" => peers::ptr_hash::<BYTES, V>(case),
        "ph" => peers::phast::<BYTES, V>(case),
        _ => println!("{USAGE}"),
    }
}
