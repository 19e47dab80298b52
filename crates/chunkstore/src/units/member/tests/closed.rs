//! A shard that was closed before it was full: nobody heard of its unit for a while.

use std::time::Duration;

use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, PageRange};
use format::chunk_id::{ChunkNonce, ChunkNumber};
use format::chunk_page::{ChunkPage, ChunkRow};
use format::chunk_place::ChunkPlaces;
use manager::DeviceState;
use types::DeviceId;

use super::short::Cluster;
use super::{CAPACITY, Rig, SHARD, place};
use crate::limits::{IDLE_LOOK, LOSS_WAIT, STOCK_AGE, UNIT_PATIENCE};
use crate::maintenance::Refusal;
use crate::message::{LiveCopy, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{UnitAnswer, UnitRequest};

impl Rig {
    async fn close(&self) {
        self.manager.seal_shard(SHARD.0).await.expect("it is open");
    }

    fn is_sealed(&self) -> bool {
        self.group.look(|machine| machine.unit().is_sealed())
    }

    fn bulks(&self) -> usize {
        self.manager.snapshot().volumes().map(|volume| volume.bulks_of(SHARD.0).count()).sum()
    }
}

/// It took no registrations any more, and was not full: none of its space ever came back.
#[tokio::test(start_paused = true)]
async fn what_is_freed_in_a_shard_that_was_not_full_comes_back() {
    for chunks in [0, 3] {
        let mut rig = Rig::with(20 + chunks, |_| Some(NodeAnswer::Done(None))).await;
        rig.volume(1, 600).await;
        rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
        let mut ids = Vec::new();
        for _ in 0..chunks {
            ids.push(rig.chunk(place(1, 0)).await);
        }
        rig.close().await;
        rig.wait(Rig::is_sealed).await;
        assert_eq!(rig.register(100).await, UnitAnswer::Refused(Refusal::Sealed));
        // Who leads it from now on builds a table for as many as there are.
        rig.member.step_back();
        rig.wait(|rig| rig.member.is_leading()).await;
        if chunks > 0 {
            rig.env.sleep(2 * IDLE_LOOK).await;
            assert_eq!(rig.bulks(), 1, "something is in it");
            rig.apply(ChunkCommand::Freed(ids)).await;
        }
        rig.env.sleep(2 * IDLE_LOOK + STOCK_AGE).await;
        assert_eq!((rig.bulks(), rig.room(place(1, 0))), (0, None));
    }
}

/// They stayed in the memory of its members, and in each snapshot.
#[tokio::test(start_paused = true)]
async fn blocks_of_a_forgotten_device_are_forgotten() {
    let mut rig = Rig::new(26).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 4 }).await;
    let gone = rig.chunk(place(2, 1)).await;
    rig.manager.set_device_state(DeviceId(2), DeviceState::Failed).await.expect("a device");
    rig.manager.remove_device(DeviceId(2)).await.expect("it has failed");
    let blocks = |rig: &Rig| (0..4).filter(|block| rig.room(place(2, *block)).is_some()).collect::<Vec<u32>>();
    rig.env.sleep(LOSS_WAIT + 2 * IDLE_LOOK).await;
    assert_eq!(blocks(&rig), [0, 1, 2, 3], "an open shard needs what it has");
    rig.close().await;
    let asked = rig.manager.snapshot().applied();
    rig.env.sleep(2 * IDLE_LOOK).await;
    assert_eq!(blocks(&rig), [1], "a chunk that is lost is still there");
    assert_eq!(rig.member.answer(UnitRequest::Revoke(gone)).await, UnitAnswer::Done);
    rig.env.sleep(2 * IDLE_LOOK).await;
    assert_eq!(
        rig.manager.snapshot().applied(),
        asked,
        "it knows nothing of the device any more, and is not asked to take its blocks back"
    );
    let rest = rig.group.look(|machine| (machine.unit().devices().count(), machine.unit().released().len()));
    assert_eq!((blocks(&rig), rest), (Vec::new(), (0, 0)));
}

/// It was asked for in vain while others had their turn: another leader had given it back meanwhile, and the shard had got it again.
#[tokio::test(start_paused = true)]
async fn a_bulk_that_the_shard_has_again_is_not_given_back() {
    let rig = Rig::new(27).await;
    rig.volume(1, 600).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
    assert_eq!(rig.bulks(), 1);
    rig.member.settle_bulks(Vec::new(), vec![(DeviceId(1), 0)]);
    rig.env.sleep(STOCK_AGE).await;
    assert_eq!(rig.bulks(), 1, "the unit has it");
}

/// A put that had been registered by then ends as any other.
#[tokio::test(start_paused = true)]
async fn what_is_pending_when_its_shard_is_closed_can_be_committed() {
    let mut rig = Rig::new(24).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(1), first_block: 0, blocks: 1 }).await;
    let register = ChunkCommand::Register(rig.registration(&[place(1, 0)]));
    let pending = rig.apply(register.clone()).await;
    rig.close().await;
    rig.wait(Rig::is_sealed).await;
    assert_eq!(rig.apply(register.clone()).await, pending, "asked again it has the same id");
    let id = rig.commit(register).await;
    assert!(rig.group.look(|machine| machine.unit().is_kept(id)));
}

/// They stayed in the memory and in the log of its members, as long as there were any.
#[tokio::test(start_paused = true)]
async fn rows_of_a_shard_that_was_not_full_go_to_pages() {
    const CHUNKS: u64 = 10;
    let mut cluster = Cluster::of_three(25, CAPACITY).await;
    for _ in 0..CHUNKS {
        cluster.put().await;
    }
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(cluster.rig.member.rows(), (CHUNKS, CHUNKS), "it is open");
    cluster.rig.close().await;
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(cluster.rig.member.rows(), (1, CHUNKS), "all but the page's own are in it");
    assert_eq!(cluster.register(3).await, UnitAnswer::Refused(Refusal::Sealed));
}

/// They were read one after the other: in a full shard that took longer than anybody waited, and no device could be replaced.
#[tokio::test(start_paused = true)]
async fn pages_are_read_several_at_once_to_count_last_copies() {
    const PAGES: u64 = 64;
    let page_of = |ToNode { id, .. }: ToNode| {
        let number = ChunkNumber(id.number.0.checked_sub(PAGES)?);
        let mut page = ChunkPage::new(SHARD, id.number, number, number);
        let places = ChunkPlaces::new(&[place(1, 0)]).expect("few");
        page.push(ChunkRow { number, nonce: ChunkNonce(1), places, bytes: 100, wanted: 1, era: Era::first(1) });
        Some(page.encode().into())
    };
    let about = move |to: ToNode| match to.request {
        NodeRequest::Read => {
            let (version, era, content) = (ChunkVersion::default(), Era::first(1), page_of(to));
            Some(NodeAnswer::Live(LiveCopy { version, era, capacity: 100, is_settled: true, content }))
        }
        _ => None,
    };
    let mut rig = Rig::of(28, PAGES, about).await;
    for device in [1, 2] {
        rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }).await;
    }
    for _ in 0..PAGES {
        rig.chunk(place(1, 0)).await;
    }
    for number in (0..PAGES).map(ChunkNumber) {
        let registration = rig.registration(&[place(2, 0)]);
        let range = PageRange { first: number, last: number };
        rig.commit(ChunkCommand::RegisterPage { registration, range }).await;
    }
    *rig.played.answer_takes.lock() = 2 * UNIT_PATIENCE / PAGES as u32;
    let began = rig.env.now();
    let request = UnitRequest::LastCopies { shard: SHARD, devices: vec![DeviceId(1)] };
    assert_eq!(rig.member.answer(request).await, UnitAnswer::Counted(PAGES));
    assert!(rig.env.now() - began < UNIT_PATIENCE, "{:?}", rig.env.now() - began);
}
