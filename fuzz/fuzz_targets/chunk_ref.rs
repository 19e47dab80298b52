//! `format::chunk_ref::ChunkList::decode`: no bytes make it panic, and every reference of an accepted list can be read and
//! survives being written again.
#![no_main]

use format::chunk_ref::{ChunkList, ChunkRef, MAX_REFS_PER_DESCRIPTOR, encode_list};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
