//! `format::frame::open`: no bytes make it panic, read beyond what it was given, or accept a frame of another place.
//!
//! Random bytes never carry the right CRC, so the input is tried as it is and then once more with magic, version, place and CRC
//! put right: the lengths and everything behind them stay the fuzzer's.
#![no_main]

use format::frame::{FIXED_HEADER_BYTES, FRAME_MAGIC, FRAME_VERSION, FrameError, Seal, open, seal, verify_payload};
use libfuzzer_sys::fuzz_target;
use types::{Activation, DeviceId, ZoneOffset};

const SEAL: Seal = Seal { device: DeviceId(3), seed: 0x5EED, activation: Activation(9), offset: ZoneOffset(77) };

fuzz_target!(|bytes: &[u8]| {
    check(bytes, &SEAL);
    if bytes.len() < FIXED_HEADER_BYTES {
        return;
    }
    let mut sealed = bytes.to_vec();
    sealed[4..8].copy_from_slice(&FRAME_MAGIC);
    sealed[8] = FRAME_VERSION;
    let header_bytes = u32::from_le_bytes([sealed[16], sealed[17], sealed[18], sealed[19]]) as usize;
    // `seal` trusts its caller with the length of a composed frame; the fuzzer is not such a caller.
    if (FIXED_HEADER_BYTES..=sealed.len()).contains(&header_bytes) {
        seal(&mut sealed, &SEAL);
        check(&sealed, &SEAL);
        let elsewhere = Seal { offset: ZoneOffset(78), ..SEAL };
        assert!(open(&sealed, &elsewhere).is_err(), "a frame passed at an offset for which it was not sealed");
    }
});

fn check(bytes: &[u8], expected: &Seal) {
    match open(bytes, expected) {
        Ok(view) => {
            assert!(view.header_bytes() <= bytes.len(), "a header was believed that is not all there");
            assert!(view.engine_header().end <= view.crcs().start && view.crcs().end <= view.payload().start);
            if let Some(payload) = bytes.get(view.payload()) {
                // Either answer is fine; a panic is not.
                if verify_payload(bytes, &view, payload, 0).is_ok() {
                    assert!(view.payload().end <= view.frame_bytes());
                }
            }
        }
        Err(FrameError::Short { needed }) => assert!(needed > bytes.len(), "asked for bytes that it had"),
        Err(_) => {}
    }
}
