//! Bytes that rot.

use disk::{AlignedBuf, Disk, DiskExt, Durability, Fault, FaultRule, Operation, SimDisk};
use format::chunk_block::{ChunkVersion, CopyState, Era};
use format::chunk_id::ChunkId;

use super::support::{BLOCKS, Rig, VOLUME_START, bytes, slot_place, try_open};
use crate::blocks::BlocksError;
use crate::message::{NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::tests::rig::{SHARD, done, end, forget, id, live, put, text, version, write};

/// Bytes of a header with two entries.
const HEADER_BYTES: usize = 64 + 2 * 64;

/// Changes one bit on the medium.
pub async fn flip(disk: &SimDisk, place: u64, bit: u32) {
    let start = place - place % 4_096;
    let mut block = disk.peek(start, 4_096);
    block[(place - start) as usize] ^= 1 << bit;
    disk.write(start, AlignedBuf::copy_of(&block), Durability::Durable).await.expect("writes");
}

#[tokio::test(start_paused = true)]
async fn rotted_content_is_never_returned_and_a_write_mends_it() {
    let rig = Rig::new(1).await;
    let content = bytes(5, 9_000);
    rig.ask(0, id(1), NodeRequest::Put { era: Era::default(), capacity: 10_000, content: content.clone() }).await;
    rig.ask(0, id(2), put(100, "neighbour")).await;
    let place = rig.content_place(0, id(1));
    for byte in [0, 4_095, 4_096, 8_999] {
        flip(&rig.disk, place + byte, byte as u32 % 8).await;
        assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged), "byte {byte}");
        flip(&rig.disk, place + byte, byte as u32 % 8).await;
        assert!(rig.content(0, id(1)).await.expect("sound") == content);
    }
    flip(&rig.disk, place + 9_000, 0).await;
    assert!(rig.content(0, id(1)).await.expect("behind the content") == content);
    flip(&rig.disk, place, 0).await;
    assert_eq!(rig.content(0, id(2)).await.expect("sound"), b"neighbour");
    assert_eq!(rig.ask(0, id(1), write(0, 1, "mended")).await, done(live(1)));
    assert_eq!(rig.content(0, id(1)).await.expect("sound"), b"mended");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_in_the_page_cache_is_read_from_the_medium() {
    let rig = Rig::new(2).await;
    let content = bytes(6, 4_096);
    rig.ask(0, id(1), NodeRequest::Put { era: Era::default(), capacity: 4_096, content: content.clone() }).await;
    rig.disk.add_rule(FaultRule::next(Operation::Read, Fault::Corrupt));
    let before = rig.disk.stats();
    assert!(rig.content(0, id(1)).await.expect("sound") == content);
    let after = rig.disk.stats();
    assert_eq!(
        (after.cache_hits - before.cache_hits, after.reads - before.reads),
        (1, 1),
        "from the cache, then from the medium"
    );
    assert_eq!(rig.store.stats().repeated_reads, 1);
}

/// A device on which block 0 has two chunks: the newest header, in slot 1, says that the first of them was changed and settled.
async fn with_two_headers() -> Rig {
    let rig = Rig::new(3).await;
    rig.ask(0, id(1), put(100, "first")).await;
    rig.ask(0, id(2), put(100, "neighbour")).await;
    rig.ask(0, id(1), write(0, 1, "second")).await;
    rig.ask(1, id(3), put(100, "elsewhere")).await;
    rig
}

#[tokio::test(start_paused = true)]
async fn any_flipped_bit_of_the_newest_header_leaves_the_one_before() {
    let rig = with_two_headers().await;
    let mut disk = rig.disk.restart();
    for byte in 0..HEADER_BYTES {
        let (place, bit) = (slot_place(0, 1) + byte as u64, byte as u32 % 8);
        flip(&disk, place, bit).await;
        let fallen = Rig::open(&rig.env, &disk).await;
        assert_eq!(fallen.store.stats().headers_fallen_back, 1, "byte {byte}");
        assert_eq!(fallen.content(0, id(1)).await.expect("alive"), b"first", "byte {byte}");
        assert_eq!(fallen.content(0, id(2)).await.expect("alive"), b"neighbour", "byte {byte}");
        disk = fallen.disk.restart();
        flip(&disk, place, bit).await;
    }
    let whole = Rig::open(&rig.env, &disk).await;
    assert_eq!(whole.content(0, id(1)).await.expect("alive"), b"second");
    assert_eq!(whole.store.stats().headers_fallen_back, 0);
}

/// Whoever reads it asks the others: something newer may have been lost here.
#[tokio::test(start_paused = true)]
async fn after_a_lost_header_nothing_counts_as_settled() {
    let rig = with_two_headers().await;
    let is_settled = async |rig: &Rig, number| match rig.ask(0, id(number), NodeRequest::Query).await {
        NodeAnswer::Live(copy) => copy.is_settled,
        other => panic!("{other:?}"),
    };
    let sound = rig.crash().await;
    assert!(is_settled(&sound, 2).await);
    let disk = sound.disk.restart();
    flip(&disk, slot_place(0, 1) + 20, 3).await;
    let rig = Rig::open(&rig.env, &disk).await;
    assert!(!is_settled(&rig, 1).await && !is_settled(&rig, 2).await);
    assert_eq!(rig.ask(0, id(1), write(0, 2, "goes on")).await, done(live(2)));
    let rig = rig.crash().await;
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"goes on");
    assert_eq!(rig.store.stats().headers_fallen_back, 0, "the damaged slot was written again");
}

/// The same after the newest header has rotted.
async fn fallen_back() -> Rig {
    let rig = with_two_headers().await;
    let disk = rig.disk.restart();
    flip(&disk, slot_place(0, 1) + 20, 3).await;
    Rig::open(&rig.env, &disk).await
}

fn mend(version: ChunkVersion, content: &str) -> NodeRequest {
    NodeRequest::Mend { era: Era::default(), version, is_compared: true, content: text(content) }
}

/// One of them had an older version for ever, and counted as sound: what was acknowledged was lost with the other copy.
#[tokio::test(start_paused = true)]
async fn copies_of_a_header_that_fell_back_are_told_of_until_they_were_compared() {
    let rig = fallen_back().await;
    let told = |rig: &Rig| rig.store.rotten(SHARD, 9);
    assert_eq!(told(&rig), [(id(1), 0), (id(2), 0)]);
    assert_eq!(rig.store.rotten(ChunkId::default().shard, 9), []);
    assert_eq!(rig.content(0, id(1)).await.expect("others may be worse"), b"first");
    assert_eq!(rig.ask(0, id(1), mend(version(1), "second")).await, done(live(1)));
    assert_eq!(told(&rig), [(id(2), 0)]);
    assert_eq!(rig.ask(0, id(2), mend(ChunkVersion::default(), "neighbour")).await, done(live(0)));
    assert_eq!(told(&rig), [], "it was as the others");
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"second");
}

/// A mend may only make it what it was, while a node is away that has something newer.
#[tokio::test(start_paused = true)]
async fn a_doubted_copy_that_cannot_be_read_is_doubted_after_it_was_mended() {
    let rig = fallen_back().await;
    let told = |rig: &Rig| rig.store.rotten(SHARD, 9).contains(&(id(1), 0));
    flip(&rig.disk, rig.content_place(0, id(1)), 0).await;
    assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged));
    let (era, version) = (Era::default(), ChunkVersion::default());
    let again = |is_compared| NodeRequest::Mend { era, version, is_compared, content: text("first") };
    for _ in 0..2 {
        assert_eq!(rig.ask(0, id(1), again(false)).await, done(live(0)));
        assert_eq!(rig.content(0, id(1)).await.expect("sound"), b"first");
        assert!(told(&rig), "it may be older than it was");
    }
    assert_eq!(rig.ask(0, id(1), again(true)).await, done(live(0)));
    assert!(!told(&rig));
}

/// It was written to while the others were asked. Caught: a copy that was compared again and again, and was moved in the end, as long as somebody wrote to it.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_newer_than_the_others_were_is_not_doubted() {
    let rig = fallen_back().await;
    assert_eq!(rig.ask(0, id(1), write(0, 2, "third")).await, done(live(2)));
    assert_eq!(rig.ask(0, id(1), mend(version(1), "second")).await, done(live(2)));
    assert_eq!(rig.store.rotten(SHARD, 9), [(id(2), 0)]);
}

/// Clients may have said so before something newer was lost here, and be heard late. Caught: a copy that was settled, and read without a question to others, by what
/// had been said of the write before.
#[tokio::test(start_paused = true)]
async fn neither_a_write_nor_what_is_said_of_all_copies_ends_a_doubt() {
    let rig = fallen_back().await;
    let told = |rig: &Rig| rig.store.rotten(SHARD, 9);
    for mark in [live(0), live(1)] {
        rig.ask(0, id(1), NodeRequest::Settle(mark)).await;
        rig.ask(0, id(1), write(0, 1, "second")).await;
        assert_eq!(told(&rig), [(id(1), 0), (id(2), 0)]);
        assert!(!rig.entry(id(1)).is_settled);
    }
    assert_eq!(rig.ask(0, id(1), mend(version(1), "second")).await, done(live(1)));
    rig.ask(0, id(1), NodeRequest::Settle(live(1))).await;
    assert!(rig.entry(id(1)).is_settled, "it was compared");
    rig.ask(0, id(2), end(0)).await;
    assert_eq!(told(&rig), [], "it has ended");
}

/// The header that is written next covers the one that was damaged. Caught: a doubt that was over with the next start of the node.
#[tokio::test(start_paused = true)]
async fn a_doubt_outlives_its_node() {
    let rig = fallen_back().await;
    rig.ask(0, id(4), put(100, "another")).await;
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().headers_fallen_back, 0, "otherwise this tests nothing");
    assert_eq!(rig.store.rotten(SHARD, 9), [(id(1), 0), (id(2), 0)]);
    assert_eq!(rig.ask(0, id(2), mend(ChunkVersion::default(), "neighbour")).await, done(live(0)));
    rig.ask(0, id(4), end(0)).await;
    let rig = rig.crash().await;
    assert_eq!(rig.store.rotten(SHARD, 9), [(id(1), 0)], "the other one was compared");
}

/// A block that is nearly full is written in place, between two headers. Caught: a copy of the first of them, when the second was lost, that nobody doubted once it
/// was written to.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_being_overwritten_again_is_doubted() {
    let rig = Rig::new(7).await;
    rig.ask(0, id(1), put(3 << 20, "first")).await;
    rig.ask(0, id(1), write(0, 2, "second")).await;
    let disk = rig.disk.restart();
    flip(&disk, slot_place(0, 1) + 20, 3).await;
    let rig = Rig::open(&rig.env, &disk).await;
    assert_eq!(rig.entry(id(1)).state, CopyState::Overwriting, "otherwise this tests nothing");
    assert_eq!(rig.ask(0, id(1), write(0, 1, "late")).await, done(live(1)));
    assert_eq!(rig.store.rotten(SHARD, 9), [(id(1), 0)]);
    assert_eq!(rig.ask(0, id(1), mend(version(2), "second")).await, done(live(2)));
    assert_eq!(rig.store.rotten(SHARD, 9), []);
}

/// A write that never reached the medium, or a medium that returns zeros. Caught: a header that counted as the newest, though the one before it had to be there.
#[tokio::test(start_paused = true)]
async fn zeros_beside_a_later_header_are_damage() {
    let rig = with_two_headers().await;
    let disk = rig.disk.restart();
    disk.write(slot_place(0, 1), AlignedBuf::zeroed(4_096), Durability::Durable).await.expect("writes");
    let fallen = Rig::open(&rig.env, &disk).await;
    assert_eq!(fallen.store.stats().headers_fallen_back, 1);
    assert_eq!(fallen.store.rotten(SHARD, 9), [(id(1), 0), (id(2), 0)]);
    assert_eq!(fallen.content(1, id(3)).await.expect("alive"), b"elsewhere");
    assert!(fallen.entry(id(3)).is_settled, "nothing stands beside a block's first header");
}

#[tokio::test(start_paused = true)]
async fn a_block_without_a_header_that_can_be_believed_is_left_alone() {
    let rig = with_two_headers().await;
    let disk = rig.disk.restart();
    for slot in [0, 1] {
        flip(&disk, slot_place(0, slot) + 20, 3).await;
    }
    let mut rig = Rig::open(&rig.env, &disk).await;
    for _ in 0..2 {
        assert_eq!(rig.store.damaged_blocks(), [(0, false)]);
        assert_eq!(rig.store.stats().blocks_damaged, 1);
        let before = rig.disk.mutations();
        for number in [1, 2, 9] {
            assert_eq!(rig.ask(0, id(number), NodeRequest::Read).await, NodeAnswer::Damaged);
            for request in [put(100, "x"), write(0, 5, "x"), end(0), forget(0, 99, 99)] {
                assert_eq!(rig.ask(0, id(number), request).await, NodeAnswer::Refused(NodeRefusal::Failed));
            }
        }
        assert_eq!(rig.disk.mutations(), before);
        assert_eq!(rig.content(1, id(3)).await.expect("alive"), b"elsewhere");
        rig = rig.crash().await;
    }
}

/// A write that went to the wrong place: a sound header of another block, or of the other slot.
#[tokio::test(start_paused = true)]
async fn a_header_that_stands_elsewhere_is_not_believed() {
    let rig = with_two_headers().await;
    let mut disk = rig.disk.restart();
    for (from, to) in [(slot_place(1, 1), slot_place(0, 1)), (slot_place(0, 0), slot_place(0, 1))] {
        let stray = disk.peek(from, 4_096);
        let sound = disk.peek(to, 4_096);
        disk.write(to, AlignedBuf::copy_of(&stray), Durability::Durable).await.expect("writes");
        let wrong = Rig::open(&rig.env, &disk).await;
        assert_eq!(wrong.store.stats().headers_fallen_back, 1);
        assert_eq!(wrong.content(0, id(1)).await.expect("alive"), b"first");
        assert_eq!(wrong.content(0, id(3)).await, Err(NodeAnswer::Absent));
        disk = wrong.disk.restart();
        disk.write(to, AlignedBuf::copy_of(&sound), Durability::Durable).await.expect("writes");
    }
}

#[tokio::test(start_paused = true)]
async fn one_slot_of_the_fences_is_enough_and_none_is_too_few() {
    let rig = with_two_headers().await;
    rig.ask(0, id(2), end(0)).await;
    rig.ask(0, id(2), forget(0, 3, 0)).await;
    let disk = rig.disk.restart();
    let slots = [VOLUME_START, VOLUME_START + format::chunk_fences::FENCES_SLOT_BYTES];
    // The fence was written under number 2, to the first slot; the other one is older.
    flip(&disk, slots[1] + 20, 3).await;
    let rig = Rig::open(&rig.env, &disk).await;
    assert_eq!(rig.ask(0, id(2), put(100, "late")).await, NodeAnswer::Refused(NodeRefusal::Resolved));
    let disk = rig.disk.restart();
    flip(&disk, slots[0] + 20, 3).await;
    let error = try_open(&rig.env, &disk).await.err().expect("what was deleted could come back");
    assert!(matches!(error, BlocksError::FencesLost { block, .. } if block < BLOCKS), "{error}");
}
