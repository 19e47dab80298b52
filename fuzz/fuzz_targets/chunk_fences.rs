//! `format::chunk_fences::ChunkFences::decode`: no bytes make it panic, and what it accepts ascends and survives being written again.
#![no_main]

use crc_fast::crc32_iscsi;
use format::chunk_fences::{ChunkFences, MAX_FENCED_SHARDS};
use libfuzzer_sys::fuzz_target;

const HEAD_BYTES: usize = 64;
const FENCE_BYTES: usize = 24;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // Random bytes never carry the right checksum: as many whole fences as there are, sealed; all other fields stay the fuzzer's.
    let Some(count) = bytes.len().checked_sub(HEAD_BYTES).map(|rest| (rest / FENCE_BYTES).min(MAX_FENCED_SHARDS)) else {
        return;
    };
    let mut record = bytes[..HEAD_BYTES + count * FENCE_BYTES].to_vec();
    record[4..9].copy_from_slice(b"TcFn\x01");
    record[12..16].copy_from_slice(&(count as u32).to_le_bytes());
    let crc = crc32_iscsi(&record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    check(&record);
});

fn check(bytes: &[u8]) {
    if let Ok(read) = ChunkFences::decode(bytes) {
        assert!(read.fences.is_sorted_by(|before, after| before.shard < after.shard), "a shard stands twice or out of order");
        assert_eq!(ChunkFences::decode(&read.encode()).as_ref(), Ok(&read));
    }
}
