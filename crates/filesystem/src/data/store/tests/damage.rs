//! Media that rot. Nothing is ever read as zeros, or as what it is not.

use disk::{Fault, FaultRule, Operation};

use super::support::{BLOCK, Rig, bytes};
use crate::data::store::OpenStoreError;
use crate::data::store::page::PAGE_BLOCKS;
use crate::data::{DataError, Extents};
use crate::ids::ExtentId;

async fn damaged_block() -> (Rig, ExtentId, Vec<u8>) {
    let rig = Rig::new(1).await;
    let extent = rig.create().await;
    let content = bytes(1, 0, 4 * BLOCK);
    rig.append(extent, 0, &content).await;
    rig.disk.corrupt_at_rest(rig.disk_offset(rig.place(extent, 2)), 512);
    (rig, extent, content)
}

#[tokio::test(start_paused = true)]
async fn a_block_that_rots_is_damaged_until_it_is_written_as_a_whole() {
    let (rig, extent, mut content) = damaged_block().await;
    let damaged = DataError::Damaged { extent, offset: 2 * BLOCK as u64 };
    assert_eq!(rig.read(extent, 0, 4 * BLOCK).await, Err(damaged.clone()));
    assert_eq!(rig.read(extent, 2 * BLOCK, 1).await, Err(damaged.clone()));
    rig.expect(extent, 0, &content[..2 * BLOCK]).await;
    rig.expect(extent, 3 * BLOCK, &content[3 * BLOCK..]).await;
    let in_part = rig.store.overwrite(extent, 2 * BLOCK as u64, bytes(2, 0, 100).into()).await;
    assert_eq!(in_part, Err(damaged), "what stands beside it is lost");
    assert!(rig.store.stats().damaged_blocks >= 3);
    content[2 * BLOCK..3 * BLOCK].copy_from_slice(&bytes(3, 2 * BLOCK, BLOCK));
    rig.overwrite(extent, 2 * BLOCK, &content[2 * BLOCK..3 * BLOCK]).await;
    rig.expect(extent, 0, &content).await;
}

#[tokio::test(start_paused = true)]
async fn a_block_that_can_not_be_read_is_damaged() {
    let (rig, extent, _) = damaged_block().await;
    let place = rig.disk_offset(rig.place(extent, 1));
    rig.disk.add_rule(FaultRule::always_in(place..place + 4096, Operation::Read, Fault::Fail));
    assert_eq!(rig.read(extent, BLOCK, 10).await, Err(DataError::Damaged { extent, offset: BLOCK as u64 }));
}

/// A settled record is believed; its content is not there any more.
#[tokio::test(start_paused = true)]
async fn what_rots_behind_a_settled_record_is_not_taken_for_an_unanswered_write() {
    let (rig, extent, content) = damaged_block().await;
    rig.maintain().await;
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().blocks_fallen_back, 0);
    assert_eq!(rig.read(extent, 2 * BLOCK, 1).await, Err(DataError::Damaged { extent, offset: 2 * BLOCK as u64 }));
    rig.expect(extent, 0, &content[..2 * BLOCK]).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_rots_leaves_its_blocks_damaged_and_all_others_well() {
    let rig = Rig::new(2).await;
    let (extent, other) = (rig.create().await, rig.create().await);
    let page_bytes = PAGE_BLOCKS as usize * BLOCK;
    let content = bytes(1, 0, page_bytes + 3 * BLOCK);
    rig.append(extent, 0, &content).await;
    rig.append(other, 0, &content[..BLOCK]).await;
    rig.checkpoint().await;
    let page = rig.store.inner.state.lock().table.get(extent).and_then(|found| found.pages[&0].saved).expect("it is saved");
    rig.disk.corrupt_at_rest(rig.disk_offset(page), 512);
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().damaged_blocks, PAGE_BLOCKS);
    expect_lost(&rig, extent, &content).await;
    rig.expect(other, 0, &content[..BLOCK]).await;
    rig.checkpoint().await;
    let rig = rig.crash().await;
    expect_lost(&rig, extent, &content).await;
    let rig = write_over_what_is_lost(rig, extent).await;
    rig.store.remove(extent).await.expect("removes");
    assert_eq!(rig.store.usage().content_bytes, BLOCK as u64);
}

/// Caught: also whole blocks were refused, for ever.
async fn write_over_what_is_lost(rig: Rig, extent: ExtentId) -> Rig {
    let written = bytes(2, 0, 2 * BLOCK);
    let in_part = rig.store.overwrite(extent, 0, written[..BLOCK + 1].to_vec().into()).await;
    assert_eq!(in_part, Err(DataError::Damaged { extent, offset: BLOCK as u64 }), "what stands beside it is lost");
    rig.overwrite(extent, 0, &written).await;
    rig.expect(extent, 0, &written).await;
    let rig = rig.crash().await;
    rig.expect(extent, 0, &written).await;
    assert_eq!(rig.read(extent, 0, 3 * BLOCK).await, Err(DataError::Damaged { extent, offset: 2 * BLOCK as u64 }));
    rig
}

async fn expect_lost(rig: &Rig, extent: ExtentId, content: &[u8]) {
    let page_bytes = PAGE_BLOCKS as usize * BLOCK;
    let offset = (page_bytes - 1) as u64;
    assert_eq!(rig.read(extent, 0, 10).await, Err(DataError::Damaged { extent, offset: 0 }));
    assert_eq!(rig.read(extent, page_bytes - 1, 2).await, Err(DataError::Damaged { extent, offset }));
    rig.expect(extent, page_bytes, &content[page_bytes..]).await;
}

async fn reopened(rig: &Rig) -> Result<Rig, OpenStoreError> {
    Rig::open(&rig.env, &rig.disk.restart(), rig.sync).await
}

#[tokio::test(start_paused = true)]
async fn one_superblock_that_rots_leaves_the_other_and_both_are_an_error() {
    let (rig, extent, content) = damaged_block().await;
    let rig = rig.restart().await;
    let made = rig.create().await;
    // The second start wrote slot 0.
    rig.disk.corrupt_at_rest(rig.disk_offset(0), 512);
    let rig = reopened(&rig).await.expect("opens");
    assert_ne!(rig.create().await, made, "the term of the lost superblock is not used again");
    rig.expect(extent, 0, &content[..2 * BLOCK]).await;
    rig.disk.corrupt_at_rest(rig.disk_offset(0), 512);
    rig.disk.corrupt_at_rest(rig.disk_offset(1), 512);
    let error = reopened(&rig).await.err().expect("is refused").to_string();
    assert!(error.contains("the superblock is damaged"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_journal_or_a_directory_that_rots_is_an_error_and_no_store_without_extents() {
    let (rig, _, _) = damaged_block().await;
    // The first frame, behind the first segment's header. Each time one bit of the sector flips, and most of it is padding.
    (0..200).for_each(|_| rig.disk.corrupt_at_rest(rig.disk_offset(3), 512));
    let error = reopened(&rig).await.err();
    assert!(matches!(error, Some(OpenStoreError::Journal(_))), "{error:?}");

    let (rig, _, _) = damaged_block().await;
    rig.checkpoint().await;
    let chunk = rig.store.inner.state.lock().superblock.and_then(|superblock| superblock.last_chunk).expect("there is one");
    rig.disk.corrupt_at_rest(rig.disk_offset(chunk.place), 512);
    let error = reopened(&rig).await.err().expect("is refused").to_string();
    assert!(error.contains("the directory of the last checkpoint is damaged"), "{error}");
}
