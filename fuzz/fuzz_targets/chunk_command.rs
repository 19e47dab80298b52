//! `format::chunk_command::ChunkCommand::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::chunk_command::ChunkCommand;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = ChunkCommand::decode(bytes) {
        assert_eq!(ChunkCommand::decode(&read.encode()).as_ref(), Ok(&read));
    }
});
