//! Writes that fail, and slots that rot.

use std::time::Duration;

use ::engine::EngineError;
use disk::{Fault, FaultRule, Operation};
use types::limits::BLOCK_BYTES;

use super::support::{Rig, bytes, copy_on, disk_bytes};
use crate::mirror::uuid_of_group;
use crate::superblock::{SUPERBLOCK_SLOTS, Superblock};

#[tokio::test(start_paused = true)]
async fn a_group_takes_writes_again_when_its_device_does() {
    let rig = Rig::new(1).await;
    rig.put("a", bytes(1, 5000)).await.expect("puts");
    rig.disks[0].add_rule(FaultRule::always(Operation::Write, Fault::Fail));
    let refused = rig.put("a", bytes(2, 5000)).await;
    assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
    assert_eq!(rig.get("a").await.expect("reads go on"), Some(bytes(1, 5000)));
    // The device is well again, and the group with it.
    rig.disks[0].clear_faults();
    let rig = rig.restart().await;
    rig.put("a", bytes(4, 5000)).await.expect("puts");
    assert_eq!(rig.get("a").await.expect("reads"), Some(bytes(4, 5000)));
}

/// The newest superblock rots. The one before names a dump whose blocks are used again: nothing is written over what other copies may have.
#[tokio::test(start_paused = true)]
async fn a_rotten_superblock_is_not_spread() {
    let rig = Rig::new(2).await;
    for round in 0..3 {
        rig.put("a", bytes(round, 5000)).await.expect("puts");
        rig.dump().await;
    }
    // The log is cut by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let volume = copy_on(&rig.devices[0]);
    let (mut newest, mut sequences) = (0, Vec::new());
    for slot in 0..SUPERBLOCK_SLOTS {
        let block = volume.read(slot * BLOCK_BYTES as u64, BLOCK_BYTES).await.expect("reads");
        let superblock = Superblock::decode(&block, &uuid_of_group(0)).expect("both slots are written");
        if sequences.iter().all(|sequence| *sequence < superblock.sequence) {
            newest = slot;
        }
        sequences.push(superblock.sequence);
    }
    let rotten = disk::AlignedBuf::zeroed(BLOCK_BYTES);
    volume.write(newest * BLOCK_BYTES as u64, rotten).await.expect("writes");
    let (obstacle, disks) = rig.restart_blocked().await;
    assert!(matches!(obstacle, EngineError::Corrupt { .. }), "{obstacle}");
    let blocks = (0..disk_bytes(48)).step_by(BLOCK_BYTES);
    let is_superblock = |at: &u64| Superblock::decode(&disks[0].peek(*at, BLOCK_BYTES), &uuid_of_group(0)).is_some();
    assert_eq!(blocks.filter(is_superblock).count(), 1, "the slot is written anew by a group that was not opened");
}
