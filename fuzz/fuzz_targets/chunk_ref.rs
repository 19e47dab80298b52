//! `format::chunk_ref::ChunkList::decode`: no bytes make it panic, and every reference of an accepted list can be read and
//! survives being written again. The same of a descriptor's payload, `format::part_table::decode_descriptor`: every part can be read.
#![no_main]

use bytes::Bytes;
use format::chunk_ref::{ChunkList, ChunkRef, MAX_REFS_PER_DESCRIPTOR, encode_list};
use format::part_table::{PartTable, decode_descriptor};
use libfuzzer_sys::fuzz_target;
use types::limits::MAX_PARTS;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((_, Some(table))) = decode_descriptor(&Bytes::copy_from_slice(bytes)) {
        let parts: Vec<_> = (1..=table.count()).map(|number| table.get(number).expect("counted")).collect();
        if parts.len() <= usize::from(MAX_PARTS) {
            let parts: Vec<_> = parts.iter().map(|part| (part.range.end - part.range.start, part.checksum)).collect();
            assert_eq!(PartTable::of(&parts).count(), table.count());
        }
    }
    let Ok(list) = ChunkList::decode(bytes) else { return };
    let refs: Vec<ChunkRef> = list.iter().collect();
    assert_eq!(refs.len(), list.len());
    if refs.len() > MAX_REFS_PER_DESCRIPTOR {
        return;
    }
    let mut again = Vec::new();
    encode_list(&refs, &mut again);
    let read: Vec<ChunkRef> = ChunkList::decode(&again).expect("a written list can be read").iter().collect();
    assert_eq!(read, refs);
});
