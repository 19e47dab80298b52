//! `format::name_entry::NameEntry::read`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use format::decode::Reader;
use format::name_entry::NameEntry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = NameEntry::read(&mut Reader::new("name", bytes)) {
        let mut again = Vec::new();
        entry.encode_into(&mut again);
        assert_eq!(NameEntry::read(&mut Reader::new("name", &again)).as_ref(), Ok(&entry));
    }
});
