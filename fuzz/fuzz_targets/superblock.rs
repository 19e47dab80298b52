//! `format::superblock`: no bytes make it panic, whether or not their checksum is right, and what it accepts survives being
//! written again.
#![no_main]

use crc_fast::crc32_iscsi;
use format::superblock::{SUPERBLOCK_BYTES, Superblock};
use libfuzzer_sys::fuzz_target;

const MAGIC: &[u8; 8] = b"TriSuper";

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // Random bytes never carry the right checksum; put it right and leave every other field to the fuzzer.
    let mut copy = bytes.to_vec();
    copy.resize(SUPERBLOCK_BYTES, 0);
    copy[4..12].copy_from_slice(MAGIC);
    let crc = crc32_iscsi(&copy[4..]);
    copy[..4].copy_from_slice(&crc.to_le_bytes());
    check(&copy);
});

fn check(bytes: &[u8]) {
    if let Ok(superblock) = Superblock::decode(bytes) {
        assert_eq!(Superblock::decode(&superblock.encode()).as_ref(), Ok(&superblock));
    }
}
