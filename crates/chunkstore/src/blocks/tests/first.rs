//! The first time that a volume is opened.

use device::{Device, FormatOptions};
use disk::{AlignedBuf, Disk, DiskExt, Durability, SimDisk, SimOptions};
use env::Env;
use format::chunk_fences::{FENCES_AREA_BYTES, FENCES_SLOT_BYTES};

use super::support::{BLOCKS, Rig, VOLUME_START, bytes, formatted, open_device, options, slot_place};
use crate::blocks::{BlockStore, BlocksError, block_count, volume_bytes};
use crate::storage_node::tests::rig::{done, id, live, put};

/// A disk that somebody else has used.
async fn used_before(env: &Env, seed: u64) -> SimDisk {
    let disk = formatted(env, seed).await;
    let starts = (0..BLOCKS).flat_map(|block| [slot_place(block, 0), slot_place(block, 1)]);
    for place in starts.chain([VOLUME_START, VOLUME_START + FENCES_SLOT_BYTES]) {
        let strange = AlignedBuf::copy_of(&bytes(place, 16 * 1_024));
        disk.write(place, strange, Durability::Durable).await.expect("writes");
    }
    disk
}

#[test]
fn sizes_and_blocks_belong_together() {
    assert_eq!([0, 1 << 20, volume_bytes(1) - 1].map(block_count), [0, 0, 0]);
    assert_eq!([1, 7, 1_000_000].map(|blocks| block_count(volume_bytes(blocks))), [1, 7, 1_000_000]);
    assert_eq!(volume_bytes(1), FENCES_AREA_BYTES + 32 * 1_024 + (4 << 20));
    assert_eq!(block_count(u64::MAX), 1 << 26, "no more than a place can name");
}

#[tokio::test(start_paused = true)]
async fn what_others_left_is_no_damage() {
    let env = Env::simulated(1);
    let disk = used_before(&env, 1).await;
    let mut rig = Rig::open(&env, &disk).await;
    for block in 0..BLOCKS {
        assert_eq!(rig.ask(block, id(u64::from(block)), put(100, "first")).await, done(live(0)));
    }
    rig = rig.crash().await;
    assert!(rig.store.damaged_blocks().is_empty());
    for block in 0..BLOCKS {
        assert_eq!(rig.content(block, id(u64::from(block))).await.expect("alive"), b"first");
    }
}

/// It is begun again, until it is over.
#[tokio::test(start_paused = true)]
async fn a_cut_while_a_volume_is_made_ready_does_no_harm() {
    for seed in 0..4 {
        for cut in 0.. {
            let env = Env::simulated(seed);
            let disk = used_before(&env, seed).await;
            let device = open_device(&env, &disk).await;
            disk.power_cut_after(cut);
            let volume = device.volume().expect("a volume");
            let opening = BlockStore::open(&env, volume);
            let is_whole = tokio::time::timeout(std::time::Duration::from_secs(1), opening).await.is_ok();
            let rig = Rig::open(&env, &disk.crash()).await;
            assert!(rig.store.damaged_blocks().is_empty(), "seed {seed}, cut {cut}");
            assert_eq!(rig.ask(1, id(1), put(100, "first")).await, done(live(0)));
            let rig = rig.crash().await;
            assert_eq!(rig.content(1, id(1)).await.expect("alive"), b"first");
            if is_whole {
                assert!(cut >= 8, "six slots and two of the fences are written: {cut}");
                break;
            }
        }
    }
}

/// A disk that is given to a new device begins anew, whatever chunks it had.
#[tokio::test(start_paused = true)]
async fn a_device_that_is_formatted_again_has_no_chunks() {
    let rig = Rig::new(2).await;
    rig.ask(0, id(1), put(100, "of the former device")).await;
    let disk = rig.disk.restart();
    Device::format(&disk, &rig.env, &FormatOptions { overwrite: true, ..options() }).await.expect("formats");
    let rig = Rig::open(&rig.env, &disk).await;
    assert_eq!(rig.content(0, id(1)).await, Err(crate::message::NodeAnswer::Absent));
    assert_eq!(rig.ask(0, id(1), put(100, "of the new one")).await, done(live(0)));
    let rig = rig.crash().await;
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"of the new one");
}

#[tokio::test(start_paused = true)]
async fn blocks_that_were_never_written_are_not_read_beyond_the_end_of_a_file() {
    let env = Env::simulated(3);
    let disk = formatted(&env, 3).await;
    drop(Rig::open(&env, &disk).await);
    let disk = disk.restart();
    let device = open_device(&env, &disk).await;
    let before = disk.stats().reads;
    let store = BlockStore::open(&env, device.volume().expect("a volume")).await.expect("opens");
    assert_eq!(store.block_count(), BLOCKS);
    assert_eq!(disk.stats().reads - before, 2, "the fences' slots");
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_room_for_a_block_is_refused() {
    let env = Env::simulated(4);
    let disk = SimDisk::new(&env, SimOptions::default());
    let small = FormatOptions { volume_bytes: volume_bytes(1) - 4_096, ..options() };
    Device::format(&disk, &env, &small).await.expect("formats");
    let device = open_device(&env, &disk).await;
    let error = BlockStore::open(&env, device.volume().expect("a volume")).await.err().expect("too small");
    assert!(matches!(error, BlocksError::TooSmall { least, .. } if least == volume_bytes(1)), "{error}");
}
