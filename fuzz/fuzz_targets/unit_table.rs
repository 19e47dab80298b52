//! `format::unit_table`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::unit_table::{decode, encode};
use libfuzzer_sys::fuzz_target;

const HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // As many whole entries as the fuzzer gave; zones, owners and units stay the fuzzer's.
    let count = bytes.len() / ENTRY_BYTES;
    let mut table = vec![0; HEAD_BYTES];
    table[..4].copy_from_slice(&(count as u32).to_le_bytes());
    table.extend_from_slice(&bytes[..count * ENTRY_BYTES]);
    check(&table);
});

fn check(bytes: &[u8]) {
    if let Ok(units) = decode(bytes) {
        assert!(units.is_sorted_by(|before, after| before.zone < after.zone), "a zone stands twice or out of order");
        assert_eq!(encode(&units), bytes);
    }
}
