//! `format::part_table::decode_descriptor`: no bytes make it panic, and every part of an accepted table can be read and survives being
//! written again.
#![no_main]

use bytes::Bytes;
use format::part_table::{PartTable, decode_descriptor};
use libfuzzer_sys::fuzz_target;
use types::limits::MAX_PARTS;

fuzz_target!(|bytes: &[u8]| {
    let payload = Bytes::copy_from_slice(bytes);
    let Ok((_, Some(table))) = decode_descriptor(&payload) else { return };
    let parts: Vec<_> = (1..=table.count()).map(|number| table.get(number).expect("counted")).collect();
    if parts.len() <= usize::from(MAX_PARTS) {
        let parts: Vec<_> = parts.iter().map(|part| (part.range.end - part.range.start, part.checksum)).collect();
        assert_eq!(PartTable::of(&parts).count(), table.count());
    }
});
