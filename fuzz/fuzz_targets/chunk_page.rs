//! `format::chunk_page::ChunkPage::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::chunk_page::ChunkPage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = ChunkPage::decode(bytes) {
        assert_eq!(ChunkPage::decode(&read.encode()).as_ref(), Ok(&read));
    }
});
