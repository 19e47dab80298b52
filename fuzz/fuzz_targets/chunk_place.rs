//! `format::chunk_place::ChunkPlaces::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::chunk_place::ChunkPlaces;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = ChunkPlaces::decode(bytes) {
        assert_eq!(ChunkPlaces::decode(&read.to_value().to_le_bytes()).as_ref(), Ok(&read));
    }
});
