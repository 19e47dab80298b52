//! Decay of what was durable: an error with the place, never a shorter log.

use disk::{AlignedBuf, BLOCK_BYTES, DiskExt, Durability, SimDisk};
use env::Env;

use super::{SEGMENT_BYTES, new_disk, open, open_from};
use crate::layout::{SegmentHeader, SegmentSequence, encode_frame};
use crate::{LogId, Lsn, MAX_NUMBER, Mismatch, OpenError};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A log of `count` records, each in a frame of one block that it nearly fills: the bit that decays in a sector may be any.
async fn filled(env: &Env, count: u64) -> SimDisk {
    let disk = new_disk(env, 3);
    let (wal, _) = open(env, &disk).await.unwrap();
    for number in 1..=count {
        wal.append(vec![number as u8; 3_500]).await.unwrap();
    }
    disk.crash()
}

/// The error of opening a log of `count` records after `len` bytes at `offset` decayed.
async fn decayed(count: u64, offset: u64, len: u64) -> OpenError {
    let env = Env::simulated(1);
    let disk = filled(&env, count).await;
    disk.corrupt_at_rest(offset, len);
    open(&env, &disk).await.err().expect("decay must not go unnoticed")
}

#[tokio::test]
async fn a_bad_frame_before_a_good_one_is_corruption() {
    for (index, len) in [(0, 64), (3, 64), (3, BLOCK), (2, 2 * BLOCK)] {
        let place = BLOCK + index * BLOCK;
        let error = decayed(5, place, len).await;
        assert!(matches!(&error, OpenError::Corrupt { offset, .. } if *offset == place), "{error}");
        assert!(error.to_string().contains("found"), "{error}");
    }
}

#[tokio::test]
async fn a_bad_record_names_itself() {
    let env = Env::simulated(1);
    let disk = new_disk(&env, 3);
    let (wal, _) = open(&env, &disk).await.unwrap();
    wal.append(vec![1; 2_000]).await.unwrap();
    wal.append(vec![2; 2_000]).await.unwrap();
    // Beyond the first sector of the frame: its header is whole, its record is not.
    let disk = disk.crash();
    disk.corrupt_at_rest(BLOCK + 1024, 1);
    let error = open(&env, &disk).await.err().unwrap();
    let is_named =
        matches!(&error, OpenError::Corrupt { offset: BLOCK, mismatch: Mismatch::RecordChecksum { lsn: Lsn(1), .. }, .. });
    assert!(is_named, "{error}");
}

#[tokio::test]
async fn the_end_of_a_segment_is_checked_against_the_next() {
    // Seven frames fill the first segment; the last of them has no frame after it there, but a segment.
    let error = decayed(9, 7 * BLOCK, 512).await;
    assert!(matches!(&error, OpenError::Corrupt { offset, .. } if *offset == 7 * BLOCK), "{error}");
}

#[tokio::test]
async fn a_lost_header_is_not_an_unused_segment() {
    // Of the only segment, of the newest, of one in the middle, of the oldest.
    let error = decayed(5, 0, 512).await;
    assert!(matches!(&error, OpenError::Corrupt { offset: 0, .. }), "{error}");
    let error = decayed(9, SEGMENT_BYTES, 512).await;
    assert!(matches!(&error, OpenError::Corrupt { offset: 0, .. }), "{error}");
    let error = decayed(16, SEGMENT_BYTES, 512).await;
    assert!(matches!(&error, OpenError::Corrupt { mismatch: Mismatch::Sequence { expected: 2, found: 3 }, .. }), "{error}");
    let error = decayed(16, 0, 512).await;
    assert!(matches!(&error, OpenError::Missing { first: Lsn(8), needed: Lsn(1), .. }), "{error}");
}

#[tokio::test]
async fn decay_of_what_is_no_longer_needed_does_not_matter() {
    let env = Env::simulated(1);
    let disk = filled(&env, 9).await;
    disk.corrupt_at_rest(3 * BLOCK, 512);
    let (_, records) = open_from(&env, &disk, Lsn(8)).await.unwrap();
    assert_eq!(records.len(), 2);
}

#[tokio::test]
async fn a_bad_last_frame_is_a_torn_tail_unless_the_owner_knows_better() {
    let env = Env::simulated(1);
    let disk = filled(&env, 5).await;
    disk.corrupt_at_rest(5 * BLOCK, 512);
    let error = open_from(&env, &disk, Lsn(6)).await.err().unwrap();
    assert!(matches!(error, OpenError::Missing { last: Lsn(4), needed: Lsn(6), .. }), "{error}");
    let (wal, records) = open(&env, &disk).await.unwrap();
    assert_eq!(records.len(), 4);
    assert_eq!(wal.append(b"again".to_vec()).await.unwrap(), Lsn(5));
    let (_, records) = open(&env, &disk.crash()).await.unwrap();
    assert_eq!(records[4], (Lsn(5), b"again".to_vec()));
}

/// The error of opening a log whose block at `offset` is this one: whole by its checksum, and yet nonsense.
async fn forged(offset: u64, block: AlignedBuf) -> OpenError {
    let env = Env::simulated(1);
    let disk = filled(&env, 2).await;
    disk.write(offset, block, Durability::Durable).await.unwrap();
    open(&env, &disk).await.err().expect("nonsense must not go unnoticed")
}

#[tokio::test]
async fn a_whole_header_with_an_impossible_number_is_no_unused_segment() {
    for (sequence, first_lsn) in [(0, 1), (1, 0), (1, u64::MAX), (u64::MAX, 1)] {
        let (sequence, first_lsn) = (SegmentSequence(sequence), Lsn(first_lsn));
        let header = SegmentHeader { log_id: LogId([1; 16]), sequence, first_lsn, segment_bytes: SEGMENT_BYTES };
        let error = forged(0, header.encode()).await;
        assert!(matches!(&error, OpenError::Segment { mismatch: Mismatch::Number { .. }, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_whole_frame_with_an_impossible_number_is_no_torn_tail() {
    let env = Env::simulated(1);
    let header = SegmentHeader::decode(&filled(&env, 2).await.peek(0, BLOCK_BYTES)).unwrap();
    let frame = encode_frame(&header.seed(), 3 * BLOCK, Lsn(MAX_NUMBER + 1), &[b"one".to_vec()]);
    let error = forged(3 * BLOCK, frame).await;
    let is_named =
        matches!(&error, OpenError::Corrupt { offset, mismatch: Mismatch::Number { .. }, .. } if *offset == 3 * BLOCK);
    assert!(is_named, "{error}");
}

#[tokio::test]
async fn a_header_over_the_next_segments_does_not_hide_the_records() {
    // A write of the first segment's header that went to the second as well; the third's header decayed.
    let env = Env::simulated(1);
    let disk = filled(&env, 16).await;
    let header = AlignedBuf::copy_of(&disk.peek(0, BLOCK_BYTES));
    disk.write(SEGMENT_BYTES, header, Durability::Durable).await.unwrap();
    disk.corrupt_at_rest(2 * SEGMENT_BYTES, 512);
    let error = open(&env, &disk).await.err().unwrap();
    let is_named = matches!(&error, OpenError::Corrupt { offset: 0, .. });
    assert!(is_named, "{error}");
    // Nothing but the copy: the records of the first segment are not given up for it.
    let disk = filled(&env, 5).await;
    let header = AlignedBuf::copy_of(&disk.peek(0, BLOCK_BYTES));
    disk.write(SEGMENT_BYTES, header, Durability::Durable).await.unwrap();
    let error = open(&env, &disk).await.err().unwrap();
    let is_twice = matches!(&error, OpenError::Corrupt { mismatch: Mismatch::Sequence { expected: 2, found: 1 }, .. });
    assert!(is_twice, "{error}");
}

#[tokio::test]
async fn a_lost_header_behind_a_lost_segment_is_noticed() {
    let env = Env::simulated(1);
    let disk = filled(&env, 16).await;
    let zeros = AlignedBuf::zeroed(SEGMENT_BYTES as usize);
    disk.write(SEGMENT_BYTES, zeros, Durability::Durable).await.unwrap();
    disk.corrupt_at_rest(2 * SEGMENT_BYTES, 512);
    let error = open(&env, &disk).await.err().unwrap();
    assert!(matches!(&error, OpenError::Corrupt { offset: 0, .. }), "{error}");
}

#[tokio::test]
async fn a_header_in_another_segments_place_does_not_hide_its_records() {
    // The newest segment's header stands over an unused one, and nothing where it belongs.
    let env = Env::simulated(1);
    let disk = filled(&env, 9).await;
    let header = AlignedBuf::copy_of(&disk.peek(SEGMENT_BYTES, BLOCK_BYTES));
    disk.write(2 * SEGMENT_BYTES, header, Durability::Durable).await.unwrap();
    disk.corrupt_at_rest(SEGMENT_BYTES, 512);
    let error = open(&env, &disk).await.err().unwrap();
    assert!(matches!(&error, OpenError::Corrupt { offset: 0, .. }), "{error}");
}

#[tokio::test]
async fn segments_of_two_logs_do_not_mix() {
    let env = Env::simulated(1);
    let (ours, theirs) = (filled(&env, 9).await, filled(&Env::simulated(2), 9).await);
    let stranger = AlignedBuf::copy_of(&theirs.peek(SEGMENT_BYTES, SEGMENT_BYTES as usize));
    ours.write(SEGMENT_BYTES, stranger, Durability::Durable).await.unwrap();
    let error = open(&env, &ours).await.err().unwrap();
    assert!(matches!(&error, OpenError::Segment { mismatch: Mismatch::ForeignLog { .. }, .. }), "{error}");
}
