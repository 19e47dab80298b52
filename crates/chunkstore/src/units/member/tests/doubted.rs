//! Copies that can't be read, or may be older than they were: they get the newest that there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, CopyOf};
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::DeviceState;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::{CAPACITY, OTHER, OWN, Rig, about_copies, place};
use crate::limits::{LEADER_TICK, LOSS_WAIT, MEND_PATIENCE, STOCK_AGE};
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::units::leading::fixture::report;

/// Has device 3.
const THIRD: NodeId = NodeId(3);

/// A device's copies.
#[derive(Clone, Copy)]
struct Held {
    counter: u64,
    era: Era,
    is_settled: bool,
    is_readable: bool,
}

/// Not settled: of these more is asked.
fn held(counter: u64) -> Held {
    Held { counter, era: Era::first(3), is_settled: false, is_readable: true }
}

#[derive(Clone, Default)]
struct Copies {
    held: Arc<Mutex<BTreeMap<u32, Held>>>,
    /// What was written again: device and counter.
    mended: Arc<Mutex<Vec<(u32, u64)>>>,
    /// Devices of which a copy was said to be as new as any other.
    trusted: Arc<Mutex<BTreeSet<u32>>>,
}

impl Copies {
    fn of(held: impl IntoIterator<Item = (u32, Held)>) -> Copies {
        Copies { held: Arc::new(Mutex::new(held.into_iter().collect())), ..Copies::default() }
    }

    fn answer(&self, ToNode { place, request, .. }: ToNode) -> Option<NodeAnswer> {
        let device = place.device().0;
        let mut held = self.held.lock();
        let Held { counter, era, is_settled, is_readable } = held.get_mut(&device)?;
        let version = |counter| ChunkVersion { counter, writer: 0 };
        let copy =
            |content| LiveCopy { version: version(*counter), era: *era, capacity: 100, is_settled: *is_settled, content };
        match request {
            NodeRequest::Query => Some(NodeAnswer::Live(copy(None))),
            NodeRequest::Read if !*is_readable => Some(NodeAnswer::Damaged),
            NodeRequest::Read => Some(NodeAnswer::Live(copy(Some(Bytes::from_static(b"content"))))),
            NodeRequest::Mend { era: brought, .. } if brought != *era => Some(NodeAnswer::OtherEra),
            NodeRequest::Mend { version: brought, is_compared, .. } => {
                if is_compared {
                    self.trusted.lock().insert(device);
                }
                if brought.counter >= *counter {
                    self.mended.lock().push((device, brought.counter));
                    (*counter, *is_readable) = (brought.counter, true);
                }
                Some(NodeAnswer::Done(Some(Mark::Live(version(*counter)))))
            }
            _ => None,
        }
    }

    /// Nodes with these.
    async fn cluster(&self, seed: u64) -> Rig {
        let copies = self.clone();
        let answer = about_copies(move |to| copies.answer(to));
        let rig = Rig::over(seed, CAPACITY, &[OWN, OTHER, THIRD], answer).await;
        for device in [1, 2, 3] {
            rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }).await;
        }
        rig
    }

    fn take_mended(&self) -> Vec<(u32, u64)> {
        let mut mended = std::mem::take(&mut *self.mended.lock());
        mended.sort_unstable();
        mended.dedup();
        mended
    }
}

async fn tell(rig: &Rig, node: NodeId, rotten: Vec<CopyOf>) {
    let report = UnitRequest::Report(report(node.0, rotten, Vec::new()));
    assert_eq!(rig.member.answer(report).await, UnitAnswer::Done);
}

fn copy_of(id: ChunkId, place: BlockPlace) -> Vec<CopyOf> {
    vec![CopyOf { id, place }]
}

/// A chunk with copies on devices 1, 2 and 3, of which the first is told to be rotten.
async fn with_a_rotten_one(rig: &mut Rig) -> ChunkId {
    let id = rig.chunk_at(&[place(1, 0), place(2, 0), place(3, 0)]).await;
    tell(rig, OWN, copy_of(id, place(1, 0))).await;
    id
}

/// All nodes that are not silent are heard of for so long.
async fn wait_for(rig: &Rig, id: ChunkId, time: Duration) {
    let ends = rig.env.now() + time;
    while rig.env.now() < ends {
        tell(rig, OWN, copy_of(id, place(1, 0))).await;
        for node in [OTHER, THIRD] {
            if !rig.played.silent.lock().contains(&node) {
                tell(rig, node, Vec::new()).await;
            }
        }
        rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    }
}

/// The copies on devices 1 and 2 are told to be doubted, for as long as others are mended.
async fn are_both_doubted(rig: &Rig, id: ChunkId) {
    for _ in 0..MEND_PATIENCE.as_secs() {
        for (node, device) in [(OWN, 1), (OTHER, 2)] {
            tell(rig, node, copy_of(id, place(device, 0))).await;
        }
        rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    }
}

/// The power went everywhere, and each of their headers was torn.
#[tokio::test(start_paused = true)]
async fn copies_that_are_all_doubted_get_the_newest_of_them() {
    let copies = Copies::of([(1, held(6))]);
    let mut rig = copies.cluster(40).await;
    let id = rig.chunk_at(&[place(1, 0), place(2, 0)]).await;
    are_both_doubted(&rig, id).await;
    assert_eq!(copies.take_mended(), [], "what does not answer may be newer");
    copies.held.lock().insert(2, held(7));
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(copies.take_mended(), [(1, 7), (2, 7)]);
}

#[tokio::test(start_paused = true)]
async fn the_only_copy_is_doubted_no_longer_than_it_takes_to_read_it() {
    let copies = Copies::of([(1, held(6))]);
    let mut rig = copies.cluster(41).await;
    let id = rig.chunk(place(1, 0)).await;
    tell(&rig, OWN, copy_of(id, place(1, 0))).await;
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(copies.take_mended(), [(1, 6)]);
}

/// What it had was newer and rotten, and stayed so: the mend was refused in favour of that, and counted as done.
#[tokio::test(start_paused = true)]
async fn a_copy_that_rotted_is_not_mended_by_an_older_one() {
    let unreadable = Held { is_readable: false, ..held(7) };
    let copies = Copies::of([(1, unreadable), (2, held(6)), (3, held(6))]);
    let mut rig = copies.cluster(42).await;
    let id = with_a_rotten_one(&mut rig).await;
    wait_for(&rig, id, STOCK_AGE).await;
    copies.held.lock().insert(3, held(7));
    // Its node says nothing more of it.
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(copies.take_mended(), [(1, 7)]);
}

/// It got the content of the first that seemed sound, whose node had lost a header too and not told of it yet: what was acknowledged had one copy left.
#[tokio::test(start_paused = true)]
async fn a_doubted_copy_gets_the_newest_of_those_that_seem_sound() {
    let copies = Copies::of([(1, held(6)), (2, held(6)), (3, held(7))]);
    let mut rig = copies.cluster(43).await;
    with_a_rotten_one(&mut rig).await;
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(copies.take_mended(), [(1, 7)]);
}

#[tokio::test(start_paused = true)]
async fn a_doubted_copy_waits_for_one_that_is_silent() {
    let copies = Copies::of([(1, held(6)), (2, held(6)), (3, held(7))]);
    let mut rig = copies.cluster(44).await;
    rig.played.silence(THIRD);
    let id = with_a_rotten_one(&mut rig).await;
    wait_for(&rig, id, 2 * MEND_PATIENCE).await;
    assert_eq!(copies.take_mended(), [], "what does not answer may be newer");
    rig.played.hear_again(THIRD);
    wait_for(&rig, id, 2 * STOCK_AGE).await;
    assert_eq!(copies.take_mended(), [(1, 7)]);
}

/// It never answers: what the others have is all that there is.
#[tokio::test(start_paused = true)]
async fn a_doubted_copy_does_not_wait_for_a_node_that_is_removed() {
    let copies = Copies::of([(1, held(6)), (2, held(6)), (3, held(7))]);
    let mut rig = copies.cluster(45).await;
    rig.played.silence(THIRD);
    let id = with_a_rotten_one(&mut rig).await;
    rig.manager.set_device_state(DeviceId(3), DeviceState::Failed).await.expect("a device");
    wait_for(&rig, id, LOSS_WAIT).await;
    rig.manager.remove_device(DeviceId(3)).await.expect("it has failed");
    rig.manager.remove_node(THIRD).await.expect("it has no device");
    wait_for(&rig, id, LOSS_WAIT / 2).await;
    assert_eq!(copies.take_mended(), [], "it may answer yet");
    wait_for(&rig, id, LOSS_WAIT / 2 + 2 * STOCK_AGE).await;
    assert_eq!(copies.take_mended(), [(1, 6)]);
}

/// All copies had what a settled one has: nobody was told anything newer.
#[tokio::test(start_paused = true)]
async fn what_is_settled_mends_while_another_node_is_silent() {
    let settled = Held { is_settled: true, ..held(6) };
    let copies = Copies::of([(1, held(5)), (2, settled)]);
    let mut rig = copies.cluster(46).await;
    rig.played.silence(THIRD);
    let id = with_a_rotten_one(&mut rig).await;
    wait_for(&rig, id, MEND_PATIENCE).await;
    assert_eq!(copies.take_mended(), [(1, 6)]);
    assert!(copies.trusted.lock().contains(&1));
}

/// A node that is away, perhaps for long, kept nobody from making a copy more of a content that can be read once.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_becomes_what_it_was_while_another_node_is_silent() {
    let unreadable = Held { is_readable: false, ..held(6) };
    let copies = Copies::of([(1, unreadable), (2, held(7))]);
    let mut rig = copies.cluster(47).await;
    rig.played.silence(THIRD);
    let id = with_a_rotten_one(&mut rig).await;
    wait_for(&rig, id, MEND_PATIENCE).await;
    assert_eq!(copies.take_mended(), [], "there may be something newer than both");
    copies.held.lock().insert(2, held(6));
    wait_for(&rig, id, 2 * STOCK_AGE).await;
    assert_eq!(copies.take_mended(), [(1, 6)]);
    assert!(copies.trusted.lock().is_empty(), "there may be something newer");
}

/// A chunk with these copies on devices 1 and 2, which are both doubted for long enough.
async fn both_doubted(seed: u64, own: Held, other: Held) -> Copies {
    let copies = Copies::of([(1, own), (2, other)]);
    let mut rig = copies.cluster(seed).await;
    let id = rig.chunk_at(&[place(1, 0), place(2, 0)]).await;
    are_both_doubted(&rig, id).await;
    copies
}

/// One of them is of the era before the last relocation, and neither counts as sound. Caught: two that could not be brought each other's content, and were doubted for
/// ever.
#[tokio::test(start_paused = true)]
async fn of_two_eras_the_copy_of_the_newer_one_is_trusted() {
    let (own, other) = (Held { era: Era::first(2), ..held(6) }, Held { era: Era(0), ..held(7) });
    let copies = both_doubted(48, own, other).await;
    assert_eq!(copies.take_mended(), [(1, 6)], "by what it has");
    assert!(copies.trusted.lock().contains(&1));
}

/// A relocation raised it while the others were asked. Caught: one that was older than another, and trusted for its era.
#[tokio::test(start_paused = true)]
async fn a_copy_of_an_era_to_come_is_not_trusted() {
    let own = Held { era: Era::first(2).next(2), ..held(6) };
    let other = Held { era: Era::first(2), is_settled: true, ..held(7) };
    let copies = both_doubted(49, own, other).await;
    assert!(copies.take_mended().contains(&(1, 6)));
    assert!(!copies.trusted.lock().contains(&1));
}
