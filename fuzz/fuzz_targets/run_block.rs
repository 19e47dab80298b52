//! `format::run_block`: no bytes make a block, its rows or a seek panic, and rows that were accepted can be written again.
#![no_main]

use bytes::Bytes;
use format::name_entry::{NameEntry, SortKey};
use format::run_block::{RunBlock, RunBlockBuilder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(block) = RunBlock::decode(Bytes::copy_from_slice(bytes)) else { return };
    let Some(names) = read(&block) else { return };
    for name in names.iter().take(4) {
        // A restart table that lies may make a seek fail; it may not make it panic.
        if let Ok(mut rows) = block.seek(&SortKey::from(&name.name)) {
            std::hint::black_box(rows.next().is_some());
        }
    }
    let mut builder = RunBlockBuilder::new();
    if names.iter().all(|name| builder.push(name)) {
        let again = RunBlock::decode(Bytes::from(builder.finish())).expect("a written block can be read");
        assert_eq!(read(&again).as_ref(), Some(&names));
    }
});

/// All rows, if all of them are accepted.
fn read(block: &RunBlock) -> Option<Vec<NameEntry>> {
    let mut names = Vec::new();
    let mut rows = block.rows();
    while let Some(row) = rows.next() {
        names.push(row.ok()?.to_name_entry());
    }
    Some(names)
}
