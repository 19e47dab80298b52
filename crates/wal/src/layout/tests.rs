//! The bytes on the medium, and what makes them refuse each other.

use disk::BLOCK_BYTES;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Seed, SegmentHeader, SegmentSequence, decode_frame, encode_frame, frame_header_is_valid};
use crate::error::Mismatch;
use crate::{LogId, Lsn, MAX_NUMBER};

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

/// A header with a good checksum over a bad number at this place.
fn forged_header(at: usize, number: u64) -> Result<SegmentHeader, Mismatch> {
    let header =
        SegmentHeader { log_id: LogId([1; 16]), sequence: SegmentSequence(1), first_lsn: Lsn(1), segment_bytes: 16_384 };
    let mut block = header.encode();
    block[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let checksum = super::segment_checksum(&block);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
    SegmentHeader::decode(&block)
}

#[test]
fn a_header_counts_from_one_and_leaves_room_to_count_on() {
    for at in [32, 40] {
        assert_eq!(forged_header(at, 0), Err(Mismatch::Number { most: MAX_NUMBER, found: 0 }));
        assert_eq!(forged_header(at, u64::MAX), Err(Mismatch::Number { most: MAX_NUMBER, found: u64::MAX }));
        assert!(forged_header(at, MAX_NUMBER).is_ok());
    }
}

/// A frame of one record with a good checksum over bad fields.
fn forged_frame(at: usize, value: &[u8]) -> Mismatch {
    let mut frame = encode_frame(&SEED, 4096, Lsn(1), &[vec![7; 100]]);
    frame[at..at + value.len()].copy_from_slice(value);
    let checksum = SEED.frame_checksum(4096, &frame);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    decode_frame(&SEED, 4096, &frame).unwrap_err()
}

#[test]
fn a_frames_fields_are_checked_even_under_a_good_checksum() {
    assert_eq!(forged_frame(28, &1000u32.to_le_bytes()), Mismatch::Blocks { found: 1000 });
    assert_eq!(forged_frame(16, &u64::MAX.to_le_bytes()), Mismatch::Number { most: MAX_NUMBER, found: u64::MAX });
    assert_eq!(forged_frame(28, &8192u32.to_le_bytes()), Mismatch::Length { most: 4096, found: 8192 });
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

/// The rows of a table in docs/format.md: offset, bytes (none if it varies) and name.
fn shown(heading: &str) -> Vec<(usize, Option<usize>, String)> {
    let (_, section) = include_str!("../../../../docs/format.md").split_once(&format!("\n### {heading}\n")).expect("a section");
    let mut rows = Vec::new();
    for line in section.lines().take_while(|line| !line.starts_with('#')) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, at, bytes, name, ..] = cells[..] else { continue };
        if let Ok(at) = at.parse() {
            rows.push((at, bytes.parse().ok(), name.trim_matches('`').to_owned()));
        }
    }
    rows
}

/// Looks for each field's bytes where the document shows it. Checksums are compared with the golden bytes above.
fn compare(heading: &str, bytes: &[u8], fields: &[(&str, &[u8])]) {
    let mut end = 0;
    let shown = shown(heading);
    assert_eq!(shown.len(), fields.len(), "{heading}");
    for ((at, len, name), (field, value)) in shown.iter().zip(fields) {
        let len = len.unwrap_or(value.len());
        assert_eq!((name.as_str(), *at, len), (*field, end, value.len()), "{heading}");
        assert!(*field == "checksum" || bytes[*at..at + len] == **value, "{heading}: {field}");
        end = at + len;
    }
}

#[test]
fn the_document_shows_segments_frames_and_records() {
    let header =
        SegmentHeader { log_id: LogId([7; 16]), sequence: SegmentSequence(3), first_lsn: Lsn(11), segment_bytes: 1 << 20 };
    let (three, eleven, megabyte) = (3u64.to_le_bytes(), 11u64.to_le_bytes(), (1u64 << 20).to_le_bytes());
    let of_segment: [(&str, &[u8]); 7] = [
        ("magic", b"TRILWAL\0"),
        ("version", &[1, 0, 0, 0]),
        ("checksum", &[0; 4]),
        ("log_id", &[7; 16]),
        ("sequence", &three),
        ("first_lsn", &eleven),
        ("segment_bytes", &megabyte),
    ];
    compare("Log segment", &header.encode(), &of_segment);
    let frame = encode_frame(&header.seed(), 4096, Lsn(11), &[b"one".to_vec(), b"three".to_vec()]);
    let of_frame: [(&str, &[u8]); 8] = [
        ("magic", b"WFRM"),
        ("checksum", &[0; 4]),
        ("sequence", &three),
        ("first_lsn", &eleven),
        ("records", &[2, 0, 0, 0]),
        ("bytes", &[0, 16, 0, 0]),
        ("used", &[40 + 8 + 3 + 8 + 5, 0, 0, 0]),
        ("zero", &[0; 4]),
    ];
    compare("Log frame", &frame, &of_frame);
    let of_record: [(&str, &[u8]); 3] = [("length", &[3, 0, 0, 0]), ("checksum", &[0; 4]), ("payload", b"one")];
    compare("Log record", &frame[40..], &of_record);
}
