//! The bytes on the medium, and what makes them refuse each other.

use disk::BLOCK_BYTES;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Seed, SegmentHeader, SegmentSequence, decode_frame, encode_frame, frame_header_is_valid};
use crate::error::Mismatch;
use crate::{LogId, Lsn};

const SEED: Seed = Seed { log_id: LogId([0xa5; 16]), sequence: SegmentSequence(3) };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes() {
    let header = SegmentHeader {
        log_id: LogId([0xa5; 16]),
        sequence: SegmentSequence(3),
        first_lsn: Lsn(0x0102),
        segment_bytes: 16_384,
    };
    let block = header.encode();
    assert_eq!(
        hex(&block[..64]),
        "5452494c57414c000100000002078fd0a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\
         0300000000000000020100000000000000400000000000000000000000000000"
    );
    assert!(block[64..].iter().all(|byte| *byte == 0));
    assert_eq!(SegmentHeader::decode(&block), Ok(header));

    let frame = encode_frame(&SEED, 4096, Lsn(0x0102), &[b"ab".to_vec(), Vec::new()]);
    assert_eq!(
        hex(&frame[..58]),
        "5746524dfaf902bf030000000000000002010000000000000200000000100000\
         3a00000000000000020000004fe7d04b6162\
         00000000291441d3"
    );
    assert!(frame[58..].iter().all(|byte| *byte == 0));
    assert_eq!(frame.len(), BLOCK_BYTES);
}

#[test]
fn a_header_of_a_newer_layout_says_so() {
    let header =
        SegmentHeader { log_id: LogId([1; 16]), sequence: SegmentSequence(1), first_lsn: Lsn(1), segment_bytes: 16_384 };
    let mut block = header.encode();
    block[8] = 2;
    let checksum = super::segment_checksum(&block);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(SegmentHeader::decode(&block), Err(Mismatch::Version { newest: 1, found: 2 }));
}

proptest! {
    #[test]
    fn frames_come_back(payloads in vec(vec(any::<u8>(), 0..3_000), 1..8), first in 1u64..1_000_000, block in 1u64..16) {
        let offset = block * BLOCK_BYTES as u64;
        let bytes = encode_frame(&SEED, offset, Lsn(first), &payloads);
        prop_assert!(bytes.len().is_multiple_of(BLOCK_BYTES));
        let frame = decode_frame(&SEED, offset, &bytes).unwrap();
        prop_assert_eq!(frame.first_lsn, Lsn(first));
        prop_assert_eq!(frame.bytes, bytes.len());
        prop_assert_eq!(frame.payloads, payloads);
    }

    /// A frame passes only in its log, in its incarnation, at its place.
    #[test]
    fn a_frame_from_elsewhere_never_passes(payload in vec(any::<u8>(), 0..100), other in 1u64..1_000, id in any::<[u8; 16]>()) {
        let bytes = encode_frame(&SEED, 4096, Lsn(1), &[payload]);
        let stale = Seed { sequence: SegmentSequence(SEED.sequence.0 + other), ..SEED };
        let foreign = Seed { log_id: LogId(id), ..SEED };
        for (seed, offset) in [(stale, 4096), (foreign, 4096), (SEED, 4096 + other * 4096)] {
            prop_assert!(!frame_header_is_valid(&seed, offset, &bytes));
            prop_assert!(decode_frame(&seed, offset, &bytes).is_err());
        }
    }

    /// No flipped bit in a frame's used part goes unnoticed, and none makes the decoder panic.
    #[test]
    fn a_flipped_bit_is_noticed(payloads in vec(vec(any::<u8>(), 0..200), 1..4), at in any::<u64>(), bit in 0u8..8) {
        let mut bytes = encode_frame(&SEED, 4096, Lsn(9), &payloads);
        let used = u32::from_le_bytes(bytes[32..36].try_into().unwrap()) as u64;
        bytes[(at % used) as usize] ^= 1 << bit;
        prop_assert!(decode_frame(&SEED, 4096, &bytes).is_err());
    }

    #[test]
    fn garbage_is_an_error(garbage in vec(any::<u8>(), BLOCK_BYTES)) {
        prop_assert!(decode_frame(&SEED, 4096, &garbage).is_err());
        prop_assert!(SegmentHeader::decode(&garbage).is_err());
    }
}
