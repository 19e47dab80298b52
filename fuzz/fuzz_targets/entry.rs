//! `format::entry::Entry::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::entry::Entry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(Entry::decode(&entry.encode()).as_ref(), Ok(&entry));
    }
});
