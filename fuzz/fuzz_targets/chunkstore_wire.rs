//! `chunkstore::wire`: no bytes make its decoders panic, and what they understand is written the same again.
#![no_main]

use bytes::Bytes;
use chunkstore::message::NodeAnswer;
use chunkstore::protocol::{BlockRequest, ChunkMap, Delivery, HostAnswer, HostRequest, LoadReport, UnitAnswer, UnitRequest};
use chunkstore::wire::{Message, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match which % 9 {
        0 => check::<BlockRequest>(&bytes),
        1 => check::<NodeAnswer>(&bytes),
        2 => check::<Delivery>(&bytes),
        3 => check::<HostRequest>(&bytes),
        4 => check::<HostAnswer>(&bytes),
        5 => check::<UnitRequest>(&bytes),
        6 => check::<UnitAnswer>(&bytes),
        7 => check::<ChunkMap>(&bytes),
        _ => check::<LoadReport>(&bytes),
    }
});

fn check<M: Message>(bytes: &Bytes) {
    if let Ok(message) = decode::<M>(bytes) {
        assert_eq!(encode(&message), bytes);
    }
}
