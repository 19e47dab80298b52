//! Copies that may be older than they were, where nothing better is known of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, CopyOf};
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::{OTHER, OWN, Rig, place};
use crate::limits::{LEADER_TICK, MEND_PATIENCE, STOCK_AGE};
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::units::leading::fixture::report;

/// Counters of the versions that devices have, for all of their copies.
type Held = Arc<Mutex<BTreeMap<u32, u64>>>;

/// Nodes with such copies, and what was written again there.
async fn cluster(seed: u64, held: &Held) -> (Rig, Arc<Mutex<Vec<(u32, u64)>>>) {
    let mended = Arc::new(Mutex::new(Vec::new()));
    let (noted, held) = (mended.clone(), held.clone());
    let about = move |ToNode { place, request, .. }: ToNode| {
        let device = place.device().0;
        let mut held = held.lock();
        let counter = held.get_mut(&device)?;
        let version = |counter| ChunkVersion { counter, writer: 0 };
        let copy = |content| LiveCopy { version: version(*counter), era: Era(0), capacity: 100, is_settled: false, content };
        match request {
            NodeRequest::Query => Some(NodeAnswer::Live(copy(None))),
            NodeRequest::Read => Some(NodeAnswer::Live(copy(Some(Bytes::from_static(b"content"))))),
            NodeRequest::Mend { version: brought, .. } => {
                noted.lock().push((device, brought.counter));
                *counter = brought.counter.max(*counter);
                Some(NodeAnswer::Done(Some(Mark::Live(version(*counter)))))
            }
            _ => None,
        }
    };
    let rig = Rig::with(seed, about).await;
    for device in [1, 2] {
        rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }).await;
    }
    (rig, mended)
}

async fn tell(rig: &Rig, node: NodeId, id: ChunkId, at: BlockPlace) {
    let report = UnitRequest::Report(report(node.0, vec![CopyOf { id, place: at }], Vec::new()));
    assert_eq!(rig.member.answer(report).await, UnitAnswer::Done);
}

/// The power went everywhere, and each of their headers was torn.
#[tokio::test(start_paused = true)]
async fn copies_that_are_all_doubted_get_the_newest_of_them() {
    let held = Held::default();
    let (mut rig, mended) = cluster(40, &held).await;
    let id = rig.chunk_at(&[place(1, 0), place(2, 0)]).await;
    held.lock().extend([(1, 6)]);
    for (node, device) in [(OWN, 1), (OTHER, 2)] {
        tell(&rig, node, id, place(device, 0)).await;
    }
    for _ in 0..MEND_PATIENCE.as_secs() {
        rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
        for (node, device) in [(OWN, 1), (OTHER, 2)] {
            tell(&rig, node, id, place(device, 0)).await;
        }
    }
    assert_eq!(*mended.lock(), [], "what does not answer may be newer");
    held.lock().extend([(2, 7)]);
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    mended.lock().sort_unstable();
    assert_eq!(*mended.lock(), [(1, 7), (2, 7)]);
}

#[tokio::test(start_paused = true)]
async fn the_only_copy_is_doubted_no_longer_than_it_takes_to_read_it() {
    let held = Held::new(Mutex::new([(1, 6)].into()));
    let (mut rig, mended) = cluster(41, &held).await;
    let id = rig.chunk(place(1, 0)).await;
    tell(&rig, OWN, id, place(1, 0)).await;
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(*mended.lock(), [(1, 6)]);
}
