//! `format::superblock::fences`: no bytes make it panic, and what it accepts ascends and survives being written again.
#![no_main]

use format::superblock::fences::{MAX_FENCES, decode, encode};
use libfuzzer_sys::fuzz_target;

const MAGIC: &[u8; 4] = b"TriF";
const HEAD_BYTES: usize = 16;
const FENCE_BYTES: usize = 24;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // As many whole fences as the fuzzer gave; kinds, scopes and tokens stay the fuzzer's.
    let count = (bytes.len() / FENCE_BYTES).min(MAX_FENCES);
    let mut table = vec![0; HEAD_BYTES];
    table[..4].copy_from_slice(MAGIC);
    table[4] = 1;
    table[8..12].copy_from_slice(&(count as u32).to_le_bytes());
    table.extend_from_slice(&bytes[..count * FENCE_BYTES]);
    check(&table);
});

fn check(bytes: &[u8]) {
    if let Ok(fences) = decode(bytes) {
        assert!(fences.is_sorted_by(|(before, _), (after, _)| before < after), "a fence stands twice or out of order");
        assert_eq!(decode(&encode(&fences)).as_ref(), Ok(&fences));
    }
}
