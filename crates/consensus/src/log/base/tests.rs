use disk::{SimDisk, SimOptions};
use env::Env;

use super::*;

fn new_disk(env: &Env) -> SimDisk {
    SimDisk::new(env, SimOptions { size_bytes: BASE_BYTES, capacity_bytes: Some(BASE_BYTES), ..SimOptions::default() })
}

async fn open(disk: &SimDisk) -> Result<Base, BaseError> {
    Base::open(Arc::new(disk.clone()), NodeId(3)).await
}

#[test]
fn golden_slot() {
    let slot = Slot { sequence: 2, node: NodeId(3), keep_from: Lsn(300) };
    let block = slot.encode();
    let mut expected = *b"TRILCNB\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x2c\x01\0\0\0\0\0\0";
    expected[12..16].copy_from_slice(&0xf277_2d24_u32.to_le_bytes());
    assert_eq!(block[..40], expected);
    assert!(block[40..].iter().all(|byte| *byte == 0));
    assert_eq!(Slot::decode(&block), Ok(slot));
}

#[test]
fn counts_beyond_their_limit_are_refused() {
    let refused = Err(SlotError::Number { found: u64::MAX });
    assert_eq!(Slot::decode(&Slot { sequence: u64::MAX, node: NodeId(3), keep_from: Lsn(1) }.encode()), refused);
    assert_eq!(Slot::decode(&Slot { sequence: 2, node: NodeId(3), keep_from: Lsn(u64::MAX) }.encode()), refused);
    assert!(Slot::decode(&Slot { sequence: 2, node: NodeId(u64::MAX), keep_from: Lsn(1) }.encode()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_base_remembers_and_survives_a_cut_at_every_write() {
    let env = Env::simulated(1);
    for cut in 0..6 {
        let disk = new_disk(&env);
        disk.power_cut_after(cut);
        let mut stored = 1;
        if let Ok(Ok(base)) = tokio::time::timeout(std::time::Duration::from_secs(1), open(&disk)).await {
            for next in 2..=4 {
                let store = base.store(Lsn(next * 10));
                match tokio::time::timeout(std::time::Duration::from_secs(1), store).await {
                    Ok(done) => done.unwrap(),
                    Err(_) => break,
                }
                stored = next * 10;
            }
        }
        let found = open(&disk.crash()).await.unwrap().keep_from().0;
        // The one in flight may have got there.
        let possible = [stored, if stored == 1 { 20 } else { stored + 10 }];
        assert!(possible.contains(&found), "cut {cut}: stored {stored}, found {found}");
    }
}

/// The process ended between its write and the flush behind it, the next one went on from what it read, and then the power went.
#[tokio::test(start_paused = true)]
async fn a_slot_that_was_believed_is_there_after_a_power_cut() {
    for seed in 0..20 {
        let env = Env::simulated(seed);
        let size = SimOptions { size_bytes: BASE_BYTES, capacity_bytes: Some(BASE_BYTES), ..SimOptions::default() };
        let disk = SimDisk::new(&env, SimOptions { seed, ..size });
        open(&disk).await.unwrap().store(Lsn(20)).await.unwrap();
        let disk = disk.crash();
        let slot = Slot { sequence: 3, node: NodeId(3), keep_from: Lsn(30) };
        disk.write(BLOCK_BYTES as u64, slot.encode(), Durability::Volatile).await.unwrap();
        let disk = disk.restart();
        let believed = open(&disk).await.unwrap().keep_from();
        assert_eq!(open(&disk.crash()).await.unwrap().keep_from(), believed, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decayed_slot_leaves_the_other_and_two_are_an_error() {
    let env = Env::simulated(1);
    let disk = new_disk(&env);
    let base = open(&disk).await.unwrap();
    base.store(Lsn(20)).await.unwrap();
    base.store(Lsn(30)).await.unwrap();
    let disk = disk.crash();
    // Slot 1 holds the third write.
    disk.corrupt_at_rest(BLOCK_BYTES as u64 + 33, 1);
    assert_eq!(open(&disk).await.unwrap().keep_from(), Lsn(20));
    disk.corrupt_at_rest(0, 1);
    assert!(matches!(open(&disk).await, Err(BaseError::Corrupt { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_disk_of_another_node_is_refused() {
    let env = Env::simulated(1);
    let disk = new_disk(&env);
    drop(open(&disk).await.unwrap());
    let error = Base::open(Arc::new(disk.crash()), NodeId(4)).await.err().unwrap();
    assert!(matches!(error, BaseError::ForeignNode { expected: NodeId(4), found: NodeId(3), .. }), "{error}");
}
