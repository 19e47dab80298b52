//! `format::chunk_update::LookupUpdate::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::chunk_update::LookupUpdate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = LookupUpdate::decode(bytes) {
        assert_eq!(LookupUpdate::decode(&read.encode()).as_ref(), Ok(&read));
    }
});
