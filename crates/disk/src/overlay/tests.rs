use env::Env;

use super::*;
use crate::{DiskExt, Durability, SimDisk, SimOptions};

const BLOCK: u64 = BLOCK_BYTES as u64;

fn block(byte: u8) -> AlignedBuf {
    AlignedBuf::copy_of(&[byte; BLOCK_BYTES])
}

async fn below() -> Arc<SimDisk> {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env, SimOptions { capacity_bytes: Some(64 * BLOCK), ..SimOptions::default() });
    for number in 0..4 {
        disk.write(number * BLOCK, block(number as u8), Durability::Durable).await.unwrap();
    }
    Arc::new(disk)
}

#[tokio::test]
async fn what_is_written_is_read_and_what_is_below_stays() {
    let below = below().await;
    let overlay = OverlayDisk::new(below.clone());
    overlay.write(BLOCK, block(11), Durability::Durable).await.unwrap();
    overlay.write(5 * BLOCK, block(15), Durability::Volatile).await.unwrap();
    overlay.allocate(0, 8 * BLOCK).await.unwrap();
    overlay.flush().await.unwrap();
    assert_eq!(overlay.size_bytes(), 8 * BLOCK);
    assert_eq!(overlay.written_bytes(), 2 * BLOCK);
    for mode in [ReadMode::Direct, ReadMode::Cached] {
        let read = overlay.read(0, 8 * BLOCK_BYTES, mode).await.unwrap();
        let firsts: Vec<u8> = read.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
        assert_eq!(firsts, [0, 11, 2, 3, 0, 15, 0, 0], "{mode:?}");
        let beyond = overlay.read(6 * BLOCK, BLOCK_BYTES, mode).await.unwrap();
        assert!(beyond.iter().all(|byte| *byte == 0), "{mode:?}");
    }
    // At any alignment, across written and unwritten bytes.
    let read = overlay.read_cached(BLOCK - 2, BLOCK_BYTES + 4).await.unwrap();
    assert_eq!((&read[..2], &read[2..4], &read[BLOCK_BYTES + 2..]), (&[0, 0][..], &[11, 11][..], &[2, 2][..]));
    let whole = below.read(0, 4 * BLOCK_BYTES, ReadMode::Direct).await.unwrap();
    let firsts: Vec<u8> = whole.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
    assert_eq!(firsts, [0, 1, 2, 3]);
    assert_eq!(below.size_bytes(), 4 * BLOCK);
}

#[tokio::test]
async fn requests_that_a_disk_refuses_are_refused() {
    let overlay = OverlayDisk::new(below().await);
    let kind = |outcome: Result<AlignedBuf, DiskError>| outcome.map(drop).unwrap_err().kind;
    assert_eq!(kind(overlay.read(4 * BLOCK, BLOCK_BYTES, ReadMode::Direct).await), DiskErrorKind::OutOfRange);
    assert_eq!(kind(overlay.write(64 * BLOCK, block(1), Durability::Durable).await), DiskErrorKind::OutOfRange);
    assert_eq!(kind(overlay.write(1, block(1), Durability::Durable).await), DiskErrorKind::Misaligned);
}
