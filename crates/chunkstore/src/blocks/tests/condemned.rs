//! Copies that are to be made again elsewhere, and blocks that count as lost for good.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use disk::{AlignedBuf, DiskExt, Durability, Fault, FaultRule, Operation};
use format::chunk_block::Era;
use format::chunk_command::CopyOf;
use format::chunk_id::ShardId;
use subsystem::ScrubStep;
use types::DeviceId;

use super::damage::flip;
use super::support::{BLOCKS, Rig, slot_place};
use crate::block_service::BlockService;
use crate::blocks::limits::{HEAL_LOOK, HEAL_PATIENCE};
use crate::blocks::scrub::Scrubbed;
use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest};
use crate::played::Played;
use crate::protocol::{ChunkMap, DamagedBlock};
use crate::reach::Reach;
use crate::storage_node::tests::rig::{SHARD, done, end, id, live, put, text, version, write};

/// A device whose block 0, with two chunks, has no header; and what stood in its slots.
async fn without_header() -> (Rig, Vec<Vec<u8>>) {
    let rig = Rig::new(3).await;
    rig.ask(0, id(1), put(100, "first")).await;
    rig.ask(0, id(2), put(100, "neighbour")).await;
    rig.ask(1, id(3), put(100, "elsewhere")).await;
    let disk = rig.disk.restart();
    let before = [0, 1].map(|slot| disk.peek(slot_place(0, slot), 4_096).to_vec()).to_vec();
    for slot in [0, 1] {
        flip(&disk, slot_place(0, slot) + 20, 3).await;
    }
    (Rig::open(&rig.env, &disk).await, before)
}

/// The medium is readable again, where nothing was written since.
async fn restore(disk: &disk::SimDisk, slot: usize, before: &[Vec<u8>]) {
    let place = slot_place(0, slot as u64);
    disk.write(place, AlignedBuf::copy_of(&before[slot]), Durability::Durable).await.expect("writes");
}

#[tokio::test(start_paused = true)]
async fn a_condemned_block_is_out_of_use_for_good() {
    let (mut rig, _) = without_header().await;
    assert_eq!(rig.store.damaged_blocks(), [(0, false)]);
    assert_eq!(rig.store.condemn(1).await, NodeAnswer::Refused(NodeRefusal::InUse), "it is sound");
    assert_eq!(rig.store.condemn(0).await, NodeAnswer::Done(None));
    let before = rig.disk.mutations();
    assert_eq!(rig.store.condemn(0).await, NodeAnswer::Done(None));
    assert_eq!(rig.disk.mutations(), before, "it is so already");
    for _ in 0..3 {
        assert_eq!(rig.store.damaged_blocks(), [(0, true)]);
        assert_eq!(rig.ask(0, id(1), NodeRequest::Read).await, NodeAnswer::Damaged);
        assert_eq!(rig.ask(0, id(9), put(100, "x")).await, NodeAnswer::Refused(NodeRefusal::Failed));
        assert_eq!(rig.content(1, id(3)).await.expect("alive"), b"elsewhere");
        rig = rig.crash().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_that_can_be_read_again_before_it_is_condemned_is_as_it_was() {
    let (rig, before) = without_header().await;
    let disk = rig.disk.restart();
    for slot in [0, 1] {
        restore(&disk, slot, &before).await;
    }
    let rig = Rig::open(&rig.env, &disk).await;
    assert!(rig.store.damaged_blocks().is_empty());
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"first");
    assert_eq!(rig.store.condemn(0).await, NodeAnswer::Refused(NodeRefusal::InUse));
    assert_eq!(rig.content(0, id(2)).await.expect("alive"), b"neighbour");
}

/// The disk failed reads for a moment when the store was opened, and the block was destroyed for that.
#[tokio::test(start_paused = true)]
async fn a_block_that_can_be_read_again_is_not_condemned_and_is_as_it_was() {
    let (rig, before) = without_header().await;
    for slot in [0, 1] {
        restore(&rig.disk, slot, &before).await;
    }
    assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged), "nobody has looked");
    let (first, second) = tokio::join!(rig.store.condemn(0), rig.store.condemn(0));
    assert_eq!([first, second], [const { NodeAnswer::Refused(NodeRefusal::InUse) }; 2]);
    assert!(rig.store.damaged_blocks().is_empty());
    let mut rig = rig;
    for version in 1..=2 {
        assert_eq!(rig.content(0, id(2)).await.expect("alive"), b"neighbour");
        assert_eq!(rig.ask(0, id(1), write(0, version, "goes on")).await, done(live(version)));
        rig = rig.crash().await;
    }
}

/// Whatever a power cut leaves of it, and whatever can be read again after it: copies that were made again elsewhere never answer here.
#[tokio::test(start_paused = true)]
async fn a_cut_while_a_block_is_condemned_leaves_it_damaged_or_condemned() {
    let mut outcomes = std::collections::BTreeSet::new();
    for cut in 0.. {
        let (rig, before) = without_header().await;
        rig.disk.power_cut_after(cut);
        let is_whole = tokio::time::timeout(Duration::from_secs(1), rig.store.condemn(0)).await.is_ok();
        let rig = rig.crash().await;
        let damaged = rig.store.damaged_blocks();
        let is_condemned = damaged == [(0, true)];
        assert!(is_condemned || (damaged == [(0, false)] && !is_whole), "cut {cut}: {damaged:?}");
        assert_eq!(rig.ask(0, id(1), NodeRequest::Read).await, NodeAnswer::Damaged);
        outcomes.insert(is_condemned);
        if !is_condemned {
            // One slot says that it is condemned, the other is what it was: that must not win.
            let disk = rig.disk.restart();
            let is_begun = disk.peek(slot_place(0, 0), 16)[9] == 1;
            if is_begun {
                restore(&disk, 1, &before).await;
                let rig = Rig::open(&rig.env, &disk).await;
                assert_eq!(rig.store.damaged_blocks(), [(0, false)], "cut {cut}");
                assert_eq!(rig.store.condemn(0).await, NodeAnswer::Done(None));
                assert_eq!(rig.crash().await.store.damaged_blocks(), [(0, true)]);
            }
        }
        if is_whole {
            break;
        }
    }
    assert_eq!(outcomes.len(), 2, "cuts before and after");
}

/// Whoever asked had gone while the disk stood still; the next one found the block readable, and then what the first one had written came to the disk: the copies were there
/// until the next start.
#[tokio::test(start_paused = true)]
async fn nobody_looks_at_a_block_that_is_being_condemned() {
    let (rig, before) = without_header().await;
    rig.disk.add_rule(FaultRule::next(Operation::Write, Fault::Hold));
    let condemned = || tokio::time::timeout(Duration::from_secs(1), rig.store.condemn(0));
    assert!(condemned().await.is_err(), "its write is held");
    for slot in [0, 1] {
        restore(&rig.disk, slot, &before).await;
    }
    assert!(condemned().await.is_err(), "it waits for the first one");
    assert!(tokio::time::timeout(Duration::from_secs(1), rig.store.close()).await.is_err(), "something is being written");
    rig.disk.release();
    rig.store.close().await;
    assert_eq!(rig.store.damaged_blocks(), [(0, true)]);
    assert_eq!(rig.crash().await.store.damaged_blocks(), [(0, true)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_condemned_in_a_closed_store() {
    let (rig, _) = without_header().await;
    rig.store.close().await;
    let before = rig.disk.mutations();
    assert_eq!(rig.store.condemn(0).await, NodeAnswer::Refused(NodeRefusal::Failed));
    assert_eq!(rig.disk.mutations(), before);
}

#[tokio::test(start_paused = true)]
async fn what_rots_is_told_until_it_is_written_again() {
    let rig = Rig::new(1).await;
    for number in 1..=3 {
        rig.ask(0, id(number), put(100, "content")).await;
    }
    flip(&rig.disk, rig.content_place(0, id(1)), 0).await;
    flip(&rig.disk, rig.content_place(0, id(2)), 0).await;
    assert!(rig.store.rotten(SHARD, 10).is_empty(), "nobody has read it");
    assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged));
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(1), 0)]);
    let scrubbed = rig.store.scrub_blocks(0..BLOCKS, Duration::ZERO).await;
    assert_eq!(scrubbed, Scrubbed { copies: 3, bytes: 21, rotten: 2 });
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(1), 0), (id(2), 0)]);
    assert_eq!(rig.store.rotten(SHARD, 1), [(id(1), 0)]);
    assert_eq!(rig.ask(0, id(1), write(0, 1, "content")).await, done(live(1)));
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(2), 0)], "the same content elsewhere");
    rig.ask(0, id(2), end(0)).await;
    assert!(rig.store.rotten(SHARD, 10).is_empty(), "a dead copy has no content");
}

/// Those that can't be made again stood first in each report, and no others were told; so did those of one device.
#[tokio::test(start_paused = true)]
async fn what_rots_is_told_in_turn() {
    const LIMIT: usize = 2;
    let (rig, other) = (Rig::new(1).await, Rig::new(2).await);
    for (rig, count) in [(&rig, 5), (&other, 1)] {
        for number in 1..=count {
            rig.ask(0, id(number), put(100, "content")).await;
            flip(&rig.disk, rig.content_place(0, id(number)), 0).await;
        }
        rig.store.scrub_blocks(0..BLOCKS, Duration::ZERO).await;
    }
    let reach: Arc<dyn Reach> =
        Arc::new(Arc::new(Played::new(&rig.env, ChunkMap::default(), Box::new(|_, _, _| Bytes::new()))));
    let stores = [(DeviceId(1), rig.store.clone()), (DeviceId(2), other.store.clone())].into();
    let service = BlockService::new(&rig.env, reach, stores, Arc::default());
    let told = |limit| -> Vec<(u32, u64)> {
        let copy = |copy: CopyOf| (copy.place.device().0, copy.id.number.0);
        service.rotten(SHARD, limit).into_iter().map(copy).collect()
    };
    let rounds: Vec<(u32, u64)> = (0..6).flat_map(|_| told(LIMIT)).collect();
    let round = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1)];
    assert_eq!(rounds, [round, round].concat());
    assert_eq!(told(4), round[..4]);
    rig.ask(0, id(4), write(0, 1, "content")).await;
    let rest = told(10);
    assert_eq!(rest, [(1, 5), (2, 1), (1, 1), (1, 2), (1, 3)], "all of them, each once");
    assert_eq!(told(10), [(1, 1), (1, 2), (1, 3), (1, 5), (2, 1)]);
}

/// A device with so many blocks without a header.
async fn with_damaged(seed: u64, blocks: u32) -> Rig {
    let rig = Rig::new(seed).await;
    let disk = rig.disk.restart();
    for block in 0..blocks {
        flip(&disk, slot_place(block, 0), 0).await;
    }
    Rig::open(&rig.env, &disk).await
}

/// Whatever stood behind the first ones was never told, and its copies counted as sound.
#[tokio::test(start_paused = true)]
async fn damaged_blocks_are_told_in_turn() {
    const LIMIT: usize = 2;
    let (rig, other) = (with_damaged(1, 3).await, with_damaged(2, 2).await);
    let reach: Arc<dyn Reach> =
        Arc::new(Arc::new(Played::new(&rig.env, ChunkMap::default(), Box::new(|_, _, _| Bytes::new()))));
    let stores = [(DeviceId(1), rig.store.clone()), (DeviceId(2), other.store.clone())].into();
    let service = BlockService::new(&rig.env, reach, stores, Arc::default());
    let told = |shard, limit| -> Vec<(u32, u32)> {
        let place = |block: DamagedBlock| (block.place.device().0, block.place.block());
        service.damaged(shard, limit).into_iter().map(place).collect()
    };
    let rounds: Vec<(u32, u32)> = (0..5).flat_map(|_| told(SHARD, LIMIT)).collect();
    let round = [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)];
    assert_eq!(rounds, [round, round].concat());
    assert_eq!(told(SHARD, LIMIT), round[..2]);
    assert_eq!(told(ShardId(SHARD.0 + 1), LIMIT), round[..2], "another shard has heard nothing of it yet");
    assert_eq!(rig.store.condemn(0).await, NodeAnswer::Done(None));
    assert_eq!(told(SHARD, 10), [(1, 2), (2, 0), (2, 1), (1, 0), (1, 1)], "all of them, each once");
    assert_eq!(service.damaged(SHARD, 10).iter().filter(|block| block.is_condemned).count(), 1);
}

fn mend(counter: u64, content: &str) -> NodeRequest {
    NodeRequest::Mend { era: Era(0), version: version(counter), is_compared: true, content: text(content) }
}

#[tokio::test(start_paused = true)]
async fn what_another_copy_has_mends_a_rotten_one() {
    let rig = Rig::new(1).await;
    rig.ask(0, id(1), put(100, "first")).await;
    rig.ask(0, id(1), write(0, 1, "second")).await;
    flip(&rig.disk, rig.content_place(0, id(1)), 0).await;
    assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged));
    let before = rig.store.stats();
    assert_eq!(rig.ask(0, id(1), mend(1, "sec0nd")).await, NodeAnswer::Damaged, "that is not what was written");
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(1), 0)]);
    assert_eq!(rig.ask(0, id(1), mend(0, "first")).await, done(live(1)), "that is older");
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(1), 0)], "and it can be read no more than before");
    assert_eq!(rig.ask(0, id(1), mend(1, "second")).await, done(live(1)));
    assert_eq!(rig.store.stats().header_writes, before.header_writes, "the header says it already");
    assert!(rig.store.rotten(SHARD, 10).is_empty());
    let rig = rig.crash().await;
    assert_eq!(rig.content(0, id(1)).await.expect("sound"), b"second");
    assert_eq!(rig.ask(0, id(1), mend(2, "third")).await, done(live(2)), "another copy may be further");
    assert_eq!(rig.content(0, id(1)).await.expect("sound"), b"third");
    let of_other_era = NodeRequest::Mend { era: Era(1), version: version(2), is_compared: true, content: text("third") };
    assert_eq!(rig.ask(0, id(1), of_other_era).await, NodeAnswer::OtherEra);
    assert_eq!(rig.ask(0, id(9), mend(2, "third")).await, NodeAnswer::Absent);
    rig.ask(0, id(1), end(0)).await;
    assert_eq!(rig.ask(0, id(1), mend(3, "late")).await, NodeAnswer::Done(Some(Mark::Dead)));
}

/// A block that is full is overwritten where it stands; a power cut leaves it half old and half new.
#[tokio::test(start_paused = true)]
async fn what_was_being_overwritten_is_told() {
    let mut is_seen = false;
    for cut in 0..8 {
        let rig = Rig::new(1).await;
        let whole = format::chunk_block::BLOCK_DATA_BYTES;
        rig.ask(0, id(1), put(whole, "old")).await;
        rig.disk.power_cut_after(cut);
        rig.try_ask(0, id(1), write(0, 1, "new")).await;
        let rig = rig.crash().await;
        let is_half = rig.content(0, id(1)).await == Err(NodeAnswer::Damaged);
        assert_eq!(rig.store.rotten(SHARD, 10), if is_half { vec![(id(1), 0)] } else { Vec::new() }, "cut {cut}");
        is_seen |= is_half;
        if is_half {
            assert_eq!(rig.ask(0, id(1), mend(1, "new")).await, done(live(1)), "the others have it");
            assert_eq!(rig.crash().await.content(0, id(1)).await.expect("whole"), b"new");
        }
    }
    assert!(is_seen);
}

/// Every block comes up in a round, wherever it begins, and a scrub that is never at its end goes on.
#[tokio::test(start_paused = true)]
async fn a_scrub_finds_what_rots_within_its_period() {
    let rig = Rig::new(5).await;
    for block in 0..BLOCKS {
        rig.ask(block, id(u64::from(block)), put(100, "content")).await;
    }
    let period = Duration::from_secs(60);
    let scrub = rig.store.scrub(period);
    tokio::pin!(scrub);
    assert!(tokio::time::timeout(period, &mut scrub).await.is_err(), "it has no end");
    for block in 0..BLOCKS {
        flip(&rig.disk, rig.content_place(block, id(u64::from(block))), 0).await;
    }
    assert!(tokio::time::timeout(2 * period, &mut scrub).await.is_err());
    assert_eq!(rig.store.rotten(SHARD, 10).len(), BLOCKS as usize);
}

/// Whoever asked for a scrub hears what it found, and when that is made again.
#[tokio::test(start_paused = true)]
async fn a_scrub_that_is_asked_for_is_done_when_what_it_found_is_made_again() {
    let rig = Rig::new(6).await;
    assert_eq!(rig.store.asked_scrub(), None);
    for number in 1..=3 {
        rig.ask(0, id(number), put(100, "content")).await;
    }
    flip(&rig.disk, rig.content_place(0, id(2)), 0).await;
    let begun = rig.store.begin_scrub();
    assert_eq!((begun.step, begun.bytes, begun.read_bytes), (ScrubStep::Reading, 21, 0));
    rig.env.sleep(2 * HEAL_LOOK).await;
    let found = rig.store.begin_scrub();
    assert_eq!((found.step, found.read_bytes, found.damaged, found.left), (ScrubStep::Healing, 21, 1, 1), "the same one");
    assert_eq!(rig.store.rotten(SHARD, 10), [(id(2), 0)], "its unit hears of it");
    assert!(matches!(rig.ask(0, id(2), mend(0, "content")).await, NodeAnswer::Done(Some(Mark::Live(_)))));
    rig.env.sleep(2 * HEAL_LOOK).await;
    let healed = rig.store.asked_scrub().expect("there was one");
    assert_eq!((healed.step, healed.damaged, healed.left), (ScrubStep::Done, 1, 0));
    // What nobody makes again is told as left, after a while.
    flip(&rig.disk, rig.content_place(0, id(3)), 0).await;
    assert_eq!(rig.store.begin_scrub().damaged, 0, "another one");
    rig.env.sleep(HEAL_PATIENCE + 2 * HEAL_LOOK).await;
    let left = rig.store.asked_scrub().expect("there was one");
    assert_eq!((left.step, left.damaged, left.left), (ScrubStep::Done, 1, 1));
}
