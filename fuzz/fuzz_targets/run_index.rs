//! `format::run_index::RunIndex`: no bytes make it panic, and an index that was accepted can be searched and written again.
#![no_main]

use bytes::Bytes;
use format::name_entry::SortKey;
use format::run_index::{RunIndex, RunIndexBuilder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = RunIndex::decode(Bytes::copy_from_slice(bytes)) else { return };
    let mut builder = RunIndexBuilder::new();
    for number in 0..index.len() {
        let block = index.get(number).expect("a block that is counted");
        let first = index.first_block_for(&SortKey::from_bytes(block.first_key));
        assert!(first <= number, "a search for a block's first key begins behind the block");
        builder.push(&block);
    }
    let again = RunIndex::decode(Bytes::from(builder.finish(index.header()))).expect("a written index can be read");
    assert_eq!(again.header(), index.header());
    assert!((0..index.len()).all(|number| again.get(number) == index.get(number)));
});
