use proptest::prelude::*;
use types::limits::{BLOCK_BYTES, UNIT_BYTES};
use types::{Activation, CellId, DeviceId, ZoneOffset};

use super::{
    FIXED_HEADER_BYTES, FrameError, MAX_ENGINE_HEADER_BYTES, Seal, compose, composed_bytes, frame_bytes, open, seal,
    verify_payload,
};

const SEAL: Seal =
    Seal { device: DeviceId(7), seed: 0x0123_4567_89ab_cdef, activation: Activation(9), offset: ZoneOffset(128) };

fn frame(engine_header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xee; frame_bytes(engine_header.len(), payload.len())];
    compose(&mut bytes, 3, CellId(2), engine_header, &[payload]);
    seal(&mut bytes, &SEAL);
    bytes
}

#[test]
fn golden() {
    let expected = concat!(
        "dbd6ea41",
        "547a4672",
        "01",
        "03",
        "0200",
        "0000",
        "0000",
        "4a000000",
        "06000000",
        "05000000",
        "07000000",
        "0900000000000000",
        "efcdab8967452301",
        "80000000",
        "000000000000000000000000",
        "686561646572",
        "4cbb719a",
        "68656c6c6f",
    );
    let mut text = expected.to_string();
    while text.len() < 256 {
        text.push_str("00");
    }
    let found = frame(b"header", b"hello");
    assert_eq!(found.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), text);
}

#[test]
fn an_empty_frame_is_one_unit() {
    let bytes = frame(b"", b"");
    assert_eq!(bytes.len(), UNIT_BYTES);
    let view = open(&bytes, &SEAL).expect("opens");
    assert_eq!((view.frame_bytes(), view.payload(), view.payload_blocks()), (64, 64..64, 0));
}

#[test]
fn a_frame_passes_nowhere_else() {
    let bytes = frame(b"header", &[5; 5000]);
    let elsewhere = [
        Seal { device: DeviceId(8), ..SEAL },
        Seal { seed: SEAL.seed ^ 1, ..SEAL },
        Seal { activation: Activation(10), ..SEAL },
        Seal { offset: ZoneOffset(129), ..SEAL },
    ];
    for other in elsewhere {
        let error = open(&bytes, &other).expect_err("another place");
        assert!(matches!(error, FrameError::Misplaced { .. }), "{error}");
        // Also from the first unit alone, before the rest has been read.
        let error = open(&bytes[..FIXED_HEADER_BYTES], &other).expect_err("another place");
        assert!(matches!(error, FrameError::Misplaced { .. }), "{error}");
    }
}

#[test]
fn a_prefix_says_how_much_it_needs() {
    let bytes = frame(&[1; 100], &[2; 9000]);
    assert_eq!(open(&bytes[..63], &SEAL), Err(FrameError::Short { needed: 64 }));
    assert_eq!(open(&bytes[..64], &SEAL), Err(FrameError::Short { needed: 64 + 100 + 12 }));
    assert_eq!(open(&bytes[..175], &SEAL), Err(FrameError::Short { needed: 176 }));
    let view = open(&bytes[..176], &SEAL).expect("the header is enough");
    assert_eq!(view.payload(), 176..9176);
}

#[test]
fn one_block_is_checked_alone() {
    let payload: Vec<u8> = (0..3 * BLOCK_BYTES + 5).map(|index| (index % 251) as u8).collect();
    let mut bytes = frame(b"h", &payload);
    let view = open(&bytes, &SEAL).expect("opens");
    bytes[view.payload()][2 * BLOCK_BYTES] ^= 1;
    let head = &bytes[..view.header_bytes()];
    let damaged = &bytes[view.payload()];
    assert_eq!(verify_payload(head, &view, &damaged[..2 * BLOCK_BYTES], 0), Ok(()));
    assert_eq!(verify_payload(head, &view, &damaged[3 * BLOCK_BYTES..], 3), Ok(()));
    let error = verify_payload(head, &view, &damaged[BLOCK_BYTES..], 1).expect_err("damaged");
    assert_eq!(error.block, 2);
}

#[test]
fn zeros_are_not_a_frame() {
    assert_eq!(open(&[0; 4096], &SEAL), Err(FrameError::NotAFrame));
}

#[test]
fn lengths_beyond_the_limits_are_refused_before_anything_is_read() {
    let mut bytes = frame(b"h", b"p");
    bytes[20..24].copy_from_slice(&(MAX_ENGINE_HEADER_BYTES as u32 + 1).to_le_bytes());
    let error = open(&bytes, &SEAL).expect_err("too long");
    assert!(matches!(error, FrameError::Lengths { .. }), "{error}");
}

proptest! {
    #[test]
    fn round_trip(
        engine_header in proptest::collection::vec(any::<u8>(), 0..600),
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 0..6),
    ) {
        let payload: Vec<u8> = pieces.concat();
        let borrowed: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_slice()).collect();
        let mut bytes = vec![0xee; frame_bytes(engine_header.len(), payload.len())];
        compose(&mut bytes, 3, CellId(2), &engine_header, &borrowed);
        prop_assert_eq!(composed_bytes(&bytes), bytes.len());
        seal(&mut bytes, &SEAL);
        prop_assert_eq!(composed_bytes(&bytes), bytes.len());
        let view = open(&bytes, &SEAL).expect("opens");
        prop_assert_eq!(view.class, 3);
        prop_assert_eq!(view.cell, CellId(2));
        prop_assert_eq!(view.frame_bytes(), bytes.len());
        prop_assert_eq!(&bytes[view.engine_header()], engine_header.as_slice());
        prop_assert_eq!(&bytes[view.payload()], payload.as_slice());
        prop_assert_eq!(verify_payload(&bytes, &view, &bytes[view.payload()], 0), Ok(()));
    }

    /// Any single damaged byte before the pad is noticed, by the header or by its own payload block.
    #[test]
    fn damage_is_noticed(at in 0usize..6000, bit in 0u32..8) {
        let mut bytes = frame(&[1; 90], &[2; 5000]);
        let used = FIXED_HEADER_BYTES + 90 + 8 + 5000;
        let at = at % used;
        bytes[at] ^= 1 << bit;
        let noticed = match open(&bytes, &SEAL) {
            Ok(view) => verify_payload(&bytes, &view, &bytes[view.payload()], 0).is_err(),
            Err(_) => true,
        };
        prop_assert!(noticed, "byte {} bit {}", at, bit);
    }
}
