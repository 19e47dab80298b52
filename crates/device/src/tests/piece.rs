//! Pieces of frames: only their own blocks are read and judged.

use std::ops::Range;

use disk::{Disk, Fault, FaultOdds, FaultRule, Operation, SimDisk};
use env::Env;
use format::frame::header_bytes;
use proptest::prelude::*;
use types::limits::BLOCK_BYTES;

use super::damage::flip;
use super::support::{disk_offset, fresh, landed, now, number_of, payload};
use crate::{AppendClass, Appended, Damage, Device, FramePiece, MAX_GAP_BYTES, PieceOfFrame, ReadError};

/// Bytes of the engine header of the frames here.
const HEADER: usize = 8;
/// A payload of many blocks, the last of them short.
const LENGTH: usize = 11 * BLOCK_BYTES + 1234;

fn read(device: &Device, frame: &Appended, range: Range<usize>) -> Result<FramePiece, ReadError> {
    let wanted = PieceOfFrame { engine_header_bytes: HEADER, payload_bytes: LENGTH, range };
    now(device.read_piece(frame.place, &wanted)).expect("the disk answers")
}

fn check(device: &Device, number: u64, frame: &Appended, range: Range<usize>) {
    let piece = read(device, frame, range.clone()).unwrap_or_else(|error| panic!("{range:?}: {error}"));
    assert_eq!(number_of(piece.engine_header()), number);
    assert_eq!(piece.view().frame_bytes(), frame.frame_bytes);
    assert!(piece.into_payload() == payload(number, LENGTH)[range.clone()], "{range:?}");
}

/// Every read goes to the disk, which counts it.
fn uncached(disk: &SimDisk) {
    disk.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
}

/// What one read asks of the disk: requests and bytes.
fn cost(disk: &SimDisk, read: impl FnOnce()) -> (u64, u64) {
    let before = disk.stats();
    read();
    let after = disk.stats();
    (after.reads - before.reads, after.read_bytes - before.read_bytes)
}

#[tokio::test(start_paused = true)]
async fn a_piece_costs_its_blocks_and_the_header() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    let frame = landed(&device, AppendClass::Data, 1, LENGTH);
    uncached(&disk);
    let head = header_bytes(HEADER, LENGTH) as u64;
    let block = BLOCK_BYTES as u64;
    let costs = [
        (9 * BLOCK_BYTES..10 * BLOCK_BYTES, (2, head + block)),
        (9 * BLOCK_BYTES + 4095..10 * BLOCK_BYTES + 1, (2, head + 2 * block)),
        (LENGTH - 1..LENGTH, (2, head + 1234)),
        // Near the header it is one read, the gap included.
        (0..1, (1, head + block)),
        (MAX_GAP_BYTES..MAX_GAP_BYTES + 1, (1, head + MAX_GAP_BYTES as u64 + block)),
        (MAX_GAP_BYTES + BLOCK_BYTES..MAX_GAP_BYTES + BLOCK_BYTES + 1, (2, head + block)),
        (0..LENGTH, (1, head + LENGTH as u64)),
    ];
    for (range, expected) in costs {
        assert_eq!(cost(&disk, || check(&device, 1, &frame, range.clone())), expected, "{range:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_guesses_cost_reads_and_nothing_else() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    let frames: Vec<Appended> = (0..3).map(|number| landed(&device, AppendClass::Data, number, LENGTH)).collect();
    uncached(&disk);
    let range = 7 * BLOCK_BYTES + 5..8 * BLOCK_BYTES + 5;
    for engine_header_bytes in [0, HEADER - 1, HEADER, 500, 60_000] {
        for payload_bytes in [0, 1, LENGTH - 5000, LENGTH, LENGTH + 1, 4 << 20] {
            for (number, frame) in (0..).zip(&frames) {
                let wanted = PieceOfFrame { engine_header_bytes, payload_bytes, range: range.clone() };
                let piece = now(device.read_piece(frame.place, &wanted)).expect("the disk answers");
                let piece = piece.unwrap_or_else(|error| panic!("{wanted:?}: {error}"));
                assert_eq!(number_of(piece.engine_header()), number);
                assert!(piece.into_payload() == payload(number, LENGTH)[range.clone()], "{wanted:?}");
            }
        }
    }
    for (beyond, there) in [(LENGTH - 3..LENGTH + 9, LENGTH - 3..LENGTH), (LENGTH + 1..LENGTH + 2, 0..0)] {
        let piece = read(&device, &frames[1], beyond).expect("a frame");
        assert_eq!(piece.into_payload(), payload(1, LENGTH)[there]);
    }
}

#[tokio::test(start_paused = true)]
async fn damage_counts_where_the_piece_is_and_nowhere_else() {
    let env = Env::simulated(3);
    let (disk, device) = fresh(&env, 16);
    let frame = landed(&device, AppendClass::Data, 1, LENGTH);
    let payload_at = disk_offset(&frame) + header_bytes(HEADER, LENGTH) as u64;
    let (good, bad) = (payload(1, LENGTH), 6);
    // One byte within block 6: the simulated medium damages whole sectors, so the sector must lie within the block.
    disk.corrupt_at_rest(payload_at + (bad * BLOCK_BYTES) as u64 + 2000, 1);
    for first in 0..12 {
        for end in first + 1..=12 {
            let range = first * BLOCK_BYTES + 1..(end * BLOCK_BYTES).min(LENGTH);
            match read(&device, &frame, range.clone()) {
                Ok(piece) => {
                    assert!(!(first..end).contains(&bad), "{range:?}");
                    assert!(piece.into_payload() == good[range.clone()], "{range:?}");
                }
                Err(ReadError::Corrupt { damage: Damage::Payload(damage), .. }) => {
                    assert_eq!(damage.block, bad, "{range:?}");
                    assert!((first..end).contains(&bad), "{range:?}");
                }
                Err(error) => panic!("{range:?}: {error}"),
            }
        }
    }
    let spoilt = (0..12).map(|first| (first + 1..=12).filter(|end| (first..*end).contains(&bad)).count()).sum::<usize>();
    assert_eq!(device.stats().corrupt_reads.get(), spoilt as u64);

    // The header proves every block: without it there is no piece.
    flip(&disk, disk_offset(&frame) + 45);
    let error = read(&device, &frame, 0..1).expect_err("damaged");
    assert!(matches!(error, ReadError::Corrupt { damage: Damage::Header(_), .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_piece_wrong_only_in_the_page_cache_is_read_again_from_the_medium() {
    let env = Env::simulated(4);
    let (disk, device) = fresh(&env, 16);
    let frame = landed(&device, AppendClass::Data, 1, LENGTH);
    for skip in 0..2 {
        let rule = FaultRule { operation: Operation::Read, range: None, skip, times: 1, fault: Fault::Corrupt };
        disk.add_rule(rule);
        check(&device, 1, &frame, 8 * BLOCK_BYTES..9 * BLOCK_BYTES);
    }
    assert_eq!((device.stats().repeated_reads.get(), device.stats().corrupt_reads.get()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_piece_of_a_reset_zone_is_stale() {
    let env = Env::simulated(5);
    let (_, device) = fresh(&env, 16);
    let frame = landed(&device, AppendClass::Data, 1, LENGTH);
    now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
    now(device.reset(frame.place.zone)).expect("the disk answers").expect("resets");
    let error = read(&device, &frame, 0..1).expect_err("nothing is there");
    assert!(matches!(error, ReadError::Stale { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_pieces_are_what_was_written(length in 1usize..50_000, cuts in prop::collection::vec((0usize..50_000, 0usize..50_000), 8)) {
        let env = Env::simulated(6);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let _guard = runtime.enter();
        let (_, device) = fresh(&env, 16);
        let frame = landed(&device, AppendClass::Data, 3, length);
        let content = payload(3, length);
        for (a, b) in cuts {
            let range = (a % length).min(b % length)..(a % length).max(b % length) + 1;
            let wanted = PieceOfFrame { engine_header_bytes: HEADER, payload_bytes: length, range: range.clone() };
            let piece = now(device.read_piece(frame.place, &wanted)).expect("the disk answers").expect("a piece");
            prop_assert!(piece.into_payload() == content[range.clone()], "{range:?} of {length}");
        }
    }
}
