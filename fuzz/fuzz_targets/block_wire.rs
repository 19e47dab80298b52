//! `block::wire`: no bytes from another node make its decoders panic, and what they understand is written the same again.
#![no_main]

use block::stores::{BlobRow, BlobSums};
use block::wire::{Usage, Wire, decode_answer, decode_request, encode_answer, encode_request};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match which % 7 {
        0 => {
            if let Ok(request) = decode_request(&bytes) {
                assert_eq!(encode_request(&request), bytes);
            }
        }
        1 => check::<()>(&bytes),
        2 => check::<u32>(&bytes),
        3 => check::<Bytes>(&bytes),
        4 => check::<Vec<BlobRow>>(&bytes),
        5 => check::<BlobSums>(&bytes),
        _ => check::<Usage>(&bytes),
    }
});

fn check<T: Wire>(bytes: &Bytes) {
    if let Ok(answer) = decode_answer::<T>(bytes) {
        assert_eq!(encode_answer(&answer), bytes);
    }
}
