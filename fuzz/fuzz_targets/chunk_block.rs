//! `format::chunk_block::BlockHeader::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::chunk_block::BlockHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = BlockHeader::decode(bytes) {
        assert_eq!(BlockHeader::decode(&read.encode()).as_ref(), Ok(&read));
    }
});
