//! The first use of a volume.

use device::{Device, FormatOptions, VolumeOwner};
use disk::Disk;
use env::Env;
use format::chunk_fences::FENCES_AREA_BYTES;

use super::support::{BLOCKS, Rig, formatted, open_device, options};
use crate::blocks::{BlockStore, block_count, volume_bytes};
use crate::message::NodeRequest;
use crate::storage_node::tests::rig::{done, id, live, put};

#[test]
fn sizes_and_blocks_belong_together() {
    assert_eq!([0, 1 << 20, volume_bytes(1) - 1].map(block_count), [0, 0, 0]);
    assert_eq!([1, 7, 1_000_000].map(|blocks| block_count(volume_bytes(blocks))), [1, 7, 1_000_000]);
    assert_eq!(volume_bytes(1), FENCES_AREA_BYTES + 32 * 1_024 + (4 << 20));
    assert_eq!(block_count(u64::MAX), 1 << 26, "no more than a place can name");
}

/// A store takes no space before it is used, and a cut while its first space is taken does no harm.
#[tokio::test(start_paused = true)]
async fn a_cut_at_the_first_use_does_no_harm() {
    for seed in 0..4 {
        for cut in 0.. {
            let env = Env::simulated(seed);
            let disk = formatted(&env, seed).await;
            let rig = Rig::open(&env, &disk).await;
            assert_eq!(rig.device.usage().lent_zones, 0);
            disk.power_cut_after(cut);
            let is_whole = rig.try_ask(1, id(1), put(100, "first")).await.is_some();
            let rig = rig.crash().await;
            assert!(rig.store.damaged_blocks().is_empty(), "seed {seed}, cut {cut}");
            if is_whole {
                assert_eq!(rig.content(1, id(1)).await.expect("alive"), b"first");
                assert!(cut >= 8, "a loan, fences, content and header: {cut}");
                break;
            }
            let again = rig.ask(1, id(2), put(100, "second")).await;
            assert_eq!(again, done(live(0)), "seed {seed}, cut {cut}");
            let rig = rig.crash().await;
            assert_eq!(rig.content(1, id(2)).await.expect("alive"), b"second");
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
async fn blocks_without_space_are_not_read_at_a_start() {
    let env = Env::simulated(3);
    let disk = formatted(&env, 3).await;
    let device = open_device(&env, &disk).await;
    let before = disk.stats().reads;
    let store = BlockStore::open(&env, device.volume(VolumeOwner::Chunks)).await.expect("opens");
    assert!(store.block_count() > BLOCKS);
    assert_eq!(disk.stats().reads, before);
}

/// What chunks need no more, the log may have, and other chunks again.
#[tokio::test(start_paused = true)]
async fn space_in_which_nothing_is_goes_back() {
    use crate::storage_node::tests::rig::{end, forget};
    let mut rig = Rig::new(5).await;
    // Blocks of the second unit; one of them is never forgotten at first.
    let (one, other) = (BLOCKS + 1, BLOCKS);
    rig.ask(0, id(1), put(100, "with the fences")).await;
    rig.ask(one, id(2), put(100, "goes")).await;
    rig.ask(other, id(3), put(100, "stays")).await;
    let zones = |rig: &Rig| rig.device.usage().lent_zones;
    assert_eq!((zones(&rig), rig.store.room().blocks), (2, 0));
    for (block, number) in [(0, 1), (one, 2)] {
        rig.ask(block, id(number), end(0)).await;
        rig.ask(block, id(number), forget(0, 4, 0)).await;
    }
    rig.store.inner.return_vacant().await;
    assert_eq!(zones(&rig), 2, "the fences keep one, a chunk the other");
    rig = rig.crash().await;
    assert_eq!(rig.content(other, id(3)).await.expect("alive"), b"stays");
    rig.ask(other, id(3), end(0)).await;
    rig.ask(other, id(3), forget(0, 4, 0)).await;
    for number in [8, 12] {
        // Also when the start finds that nothing is in it.
        rig.store.inner.return_vacant().await;
        assert_eq!(zones(&rig), 1);
        assert!(rig.store.room().blocks > 0);
        assert_eq!(rig.ask(one, id(number), NodeRequest::Query).await, crate::message::NodeAnswer::Absent);
        assert_eq!(rig.ask(one, id(number), put(100, "again")).await, done(live(0)));
        assert_eq!(zones(&rig), 2);
        rig = rig.crash().await;
        assert_eq!(rig.store.stats().headers_fallen_back, 0);
        assert_eq!(rig.content(one, id(number)).await.expect("alive"), b"again");
        rig.ask(one, id(number), end(0)).await;
        rig.ask(one, id(number), forget(0, number + 1, 0)).await;
        rig = rig.crash().await;
    }
}
