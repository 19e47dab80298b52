//! `target::wire`: no bytes from another node make its decoders panic, and what they accept survives being sent on.
#![no_main]

use bytes::Bytes;
use device::LogVector;
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use target::wire::{AppendAnswer, Request, TargetState, WalkPage, Wire, decode_answer, encode_answer};
use target::{FrameRead, PieceRead};

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match which % 8 {
        0 => {
            if let Ok(request) = Request::decode(bytes) {
                assert_eq!(Request::decode(request.encode()).as_ref(), Ok(&request));
            }
        }
        1 => answer::<AppendAnswer>(bytes),
        2 => answer::<u64>(bytes),
        3 => answer::<()>(bytes),
        4 => answer::<FrameRead>(bytes),
        5 => answer::<PieceRead>(bytes),
        6 => answer::<LogVector>(bytes),
        _ => {
            answer::<TargetState>(bytes.clone());
            answer::<WalkPage>(bytes);
        }
    }
});

fn answer<T: Wire + PartialEq + Debug>(bytes: Bytes) {
    // Of a failure only the beginning of its reason is sent.
    if let Ok(Ok(decoded)) = decode_answer::<T>(bytes) {
        let decoded = Ok(decoded);
        assert_eq!(decode_answer::<T>(encode_answer(&decoded)), Ok(decoded));
    }
}
