//! Chunks with fewer copies than are wanted: three nodes that do what they are asked to, of which one goes, or comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, ClientCall};
use format::chunk_id::ChunkId;
use format::chunk_place::ChunkPlaces;
use manager::DeviceState;
use net::ServiceTag;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::{CAPACITY, Rig, SHARD};
use crate::limits::{CLOSED_SILENCE, LOSS_WAIT, NODE_SILENCE, REPORT_INTERVAL, SHRINK_WAIT};
use crate::maintenance::Refusal;
use crate::message::{Change, Found, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{BLOCKS, BlockRequest, NodeReport, UnitAnswer, UnitRequest};
use crate::storage_node::tests::rig::Rig as Store;
use crate::units::leading::fixture::report;
use crate::wire;

const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
/// The one that goes and comes.
const THIRD: NodeId = NodeId(3);
const BYTES: u32 = 1_000;
/// Of each device: those that the nodes here have.
const VOLUME_BLOCKS: u32 = 4;

type Stores = Arc<Mutex<BTreeMap<DeviceId, Store>>>;

pub(super) struct Cluster {
    pub(super) rig: Rig,
    stores: Stores,
    /// Who reports.
    up: Vec<NodeId>,
    /// Devices that take no writes, as their nodes say.
    stuck: Vec<DeviceId>,
    requests: u32,
}

/// A node's part, which asks its device.
fn answer(stores: &Stores, service: ServiceTag, payload: &Bytes) -> Bytes {
    if service != BLOCKS {
        return Bytes::new();
    }
    let Ok(BlockRequest::Direct(ToNode { place, id, request })) = wire::decode(payload) else { return Bytes::new() };
    let mut stores = stores.lock();
    let store = stores.entry(place.device()).or_insert_with(Store::new);
    wire::encode(&store.ask_at(place.block(), id, request).1)
}

impl Cluster {
    /// Whose third node has space, and is away.
    async fn of_two(seed: u64) -> Cluster {
        let mut cluster = Cluster::of_three(seed, CAPACITY).await;
        cluster.go(THIRD).await;
        cluster
    }

    /// With a shard that takes so many chunks.
    pub(super) async fn of_three(seed: u64, capacity: u64) -> Cluster {
        let stores = Stores::default();
        let nodes = stores.clone();
        let answer = Box::new(move |_, service, payload: &Bytes| answer(&nodes, service, payload));
        let rig = Rig::over(seed, capacity, &NODES, answer).await;
        for device in 1..=3 {
            rig.volume(device, VOLUME_BLOCKS).await;
        }
        let mut cluster = Cluster { rig, stores, up: NODES.to_vec(), stuck: Vec::new(), requests: 0 };
        cluster.rest(NODE_SILENCE).await;
        cluster
    }

    async fn go(&mut self, node: NodeId) {
        self.up.retain(|up| *up != node);
        self.rig.played.silence(node);
        self.rest(2 * NODE_SILENCE).await;
    }

    fn come(&mut self, node: NodeId) {
        self.rig.played.hear_again(node);
        self.up.push(node);
    }

    /// Time passes, and those that are up say so.
    pub(super) async fn rest(&mut self, time: Duration) {
        let until = self.rig.env.now() + time;
        while self.rig.env.now() < until {
            for node in self.up.iter().copied() {
                let stuck = self.stuck.iter().copied().filter(|device| device.0 == node.0).collect();
                let report = NodeReport { stuck, ..report(node.0, Vec::new(), Vec::new()) };
                self.rig.member.answer(UnitRequest::Report(report)).await;
            }
            self.rig.env.sleep(REPORT_INTERVAL).await;
        }
    }

    pub(super) async fn register(&mut self, copies: u8) -> UnitAnswer {
        self.requests += 1;
        let call = ClientCall { session: 9, request: self.requests };
        self.rig.member.answer(UnitRequest::Register { shard: SHARD, call, bytes: BYTES, copies, avoid: Vec::new() }).await
    }

    /// A put of three copies, as a client does it; where they are.
    pub(super) async fn put(&mut self) -> (ChunkId, ChunkPlaces) {
        let UnitAnswer::Registered { id, places } = self.register(3).await else { panic!("no places") };
        let content = Bytes::from_static(b"content");
        let era = Era::first(places.as_slice().len());
        for place in places.iter() {
            let request = NodeRequest::Put { era, capacity: BYTES, content: content.clone() };
            assert!(matches!(self.ask(place.device(), id, request), NodeAnswer::Done(_)));
        }
        self.rig.apply(ChunkCommand::Commit(id)).await;
        (id, places)
    }

    /// Of the copy that the unit has on a device.
    fn ask(&self, device: DeviceId, id: ChunkId, request: NodeRequest) -> NodeAnswer {
        let places = self.places(id).expect("it is there");
        let place = places.iter().find(|place| place.device() == device).expect("a copy");
        let mut stores = self.stores.lock();
        stores.entry(device).or_insert_with(Store::new).ask_at(place.block(), id, request).1
    }

    /// As a client does that knows all places: whether all take it.
    fn modify(&self, id: ChunkId, counter: u64) -> bool {
        let places = self.places(id).expect("it is there");
        let first = self.ask(places.as_slice()[0].device(), id, NodeRequest::Query);
        let NodeAnswer::Live(copy) = first else { panic!("{first:?}") };
        let change = Change::Content { version: ChunkVersion { counter, writer: 1 }, content: Bytes::from_static(b"other") };
        let write = NodeRequest::Write { era: copy.era, change };
        let mut answers = places.iter().map(|place| self.ask(place.device(), id, write.clone()));
        copy.era.copies() == places.as_slice().len() && answers.all(|answer| matches!(answer, NodeAnswer::Done(_)))
    }

    fn places(&self, id: ChunkId) -> Option<ChunkPlaces> {
        self.rig.group.look(|machine| machine.unit().places_of(id))
    }

    fn devices(&self, id: ChunkId) -> Vec<u32> {
        let mut devices: Vec<u32> = self.places(id).expect("it is there").iter().map(|place| place.device().0).collect();
        devices.sort_unstable();
        devices
    }

    fn is_at_rest(&self, id: ChunkId) -> bool {
        self.rig.group.look(|machine| machine.unit().is_at_rest(id))
    }

    async fn forget(&self, device: u32) {
        self.rig.manager.set_device_state(DeviceId(device), DeviceState::Failed).await.expect("a device");
        self.rig.manager.remove_device(DeviceId(device)).await.expect("it has failed");
    }
}

#[tokio::test(start_paused = true)]
async fn puts_go_on_with_two_copies_and_get_the_third_one_later() {
    let mut cluster = Cluster::of_two(11).await;
    let (id, places) = cluster.put().await;
    assert_eq!(places.as_slice().len(), 2);
    assert_eq!(cluster.devices(id), [1, 2]);
    assert_eq!(cluster.rig.member.short_chunks(), 1);
    cluster.rest(SHRINK_WAIT).await;
    assert!(cluster.is_at_rest(id), "there is nowhere to go");
    assert!(cluster.modify(id, 1));
    cluster.come(THIRD);
    cluster.rest(Duration::from_secs(3)).await;
    assert_eq!((cluster.devices(id), cluster.rig.member.short_chunks()), (vec![1, 2, 3], 0));
    let NodeAnswer::Live(copy) = cluster.ask(DeviceId(3), id, NodeRequest::Read) else { panic!("a copy") };
    assert_eq!((copy.content, copy.version.counter), (Some(Bytes::from_static(b"other")), 1));
    assert!(cluster.modify(id, 2));
}

/// One copy is no put, two are those of who wants two, and hosts that are full do not make it fewer.
#[tokio::test(start_paused = true)]
async fn a_put_has_two_copies_at_least() {
    let mut cluster = Cluster::of_two(12).await;
    assert!(matches!(cluster.register(2).await, UnitAnswer::Registered { .. }));
    cluster.go(NodeId(2)).await;
    for copies in [2, 3] {
        assert_eq!(cluster.register(copies).await, UnitAnswer::Refused(Refusal::NoPlaces));
    }
    assert!(matches!(cluster.register(1).await, UnitAnswer::Registered { .. }));
    NODES[1..].iter().for_each(|node| cluster.come(*node));
    cluster.rest(Duration::from_secs(1)).await;
    let mut last = cluster.register(3).await;
    while let UnitAnswer::Registered { places, .. } = last {
        assert_eq!(places.as_slice().len(), 3);
        cluster.requests += 1;
        let call = ClientCall { session: 9, request: cluster.requests };
        let bytes = format::chunk_block::BLOCK_DATA_BYTES;
        let full = UnitRequest::Register { shard: SHARD, call, bytes, copies: 3, avoid: Vec::new() };
        last = cluster.rig.member.answer(full).await;
    }
    assert_eq!(last, UnitAnswer::Refused(Refusal::NoPlaces));
}

/// It would be raised where it is there, and nobody could modify it, as long as the other one is away.
#[tokio::test(start_paused = true)]
async fn a_chunk_does_not_grow_while_one_of_its_copies_is_away() {
    let mut cluster = Cluster::of_two(15).await;
    let (id, _) = cluster.put().await;
    cluster.go(NodeId(2)).await;
    cluster.come(THIRD);
    cluster.rest(Duration::from_secs(10)).await;
    assert!(cluster.is_at_rest(id));
    assert_eq!(cluster.devices(id), [1, 2]);
    cluster.come(NodeId(2));
    cluster.rest(Duration::from_secs(3)).await;
    assert_eq!(cluster.devices(id), [1, 2, 3]);
}

/// What is being made again for a lost copy is made elsewhere, or not at all, when its node goes away as well.
#[tokio::test(start_paused = true)]
async fn a_lost_copy_whose_new_node_goes_away_is_done_without() {
    let mut cluster = Cluster::of_two(16).await;
    let (id, _) = cluster.put().await;
    cluster.go(NodeId(2)).await;
    // It reports, and does not do what it is asked to.
    cluster.up.push(THIRD);
    cluster.forget(2).await;
    cluster.rest(LOSS_WAIT + Duration::from_secs(4)).await;
    assert!(!cluster.is_at_rest(id), "its copy is being made");
    cluster.go(THIRD).await;
    cluster.rest(SHRINK_WAIT + Duration::from_secs(3)).await;
    assert_eq!(cluster.devices(id), [1]);
    assert!(cluster.is_at_rest(id) && cluster.modify(id, 1));
}

/// Modifications waited for ever for a place for the third copy.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_lost_for_good_is_done_without() {
    let mut cluster = Cluster::of_two(13).await;
    cluster.come(THIRD);
    cluster.rest(Duration::from_secs(1)).await;
    let (id, places) = cluster.put().await;
    assert_eq!(places.as_slice().len(), 3);
    cluster.go(THIRD).await;
    cluster.rest(3 * SHRINK_WAIT).await;
    assert_eq!(cluster.devices(id), [1, 2, 3], "it is silent, and may come back");
    cluster.forget(3).await;
    cluster.rest(LOSS_WAIT + SHRINK_WAIT / 2).await;
    assert_eq!(cluster.devices(id), [1, 2, 3], "another one may be about to come");
    cluster.rest(SHRINK_WAIT).await;
    assert_eq!((cluster.devices(id), cluster.rig.member.short_chunks()), (vec![1, 2], 1));
    assert!(cluster.is_at_rest(id) && cluster.modify(id, 1));
}

/// Modifications would wait for a node that they can do without.
#[tokio::test(start_paused = true)]
async fn a_copy_is_not_waited_for_whose_node_goes_away_while_it_is_made() {
    let mut cluster = Cluster::of_two(14).await;
    let (id, _) = cluster.put().await;
    // It reports, and does not do what it is asked to.
    cluster.up.push(THIRD);
    cluster.rest(Duration::from_secs(4)).await;
    assert!(!cluster.is_at_rest(id), "its copy is being made");
    assert!(!cluster.modify(id, 1), "it would miss the third one");
    cluster.go(THIRD).await;
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(cluster.devices(id), [1, 2]);
    assert!(cluster.is_at_rest(id) && cluster.modify(id, 1));
    cluster.come(THIRD);
    cluster.rest(Duration::from_secs(30)).await;
    assert_eq!(cluster.devices(id), [1, 2, 3]);
    assert!(cluster.modify(id, 2));
}

/// They stayed in memory, as no page was written with fewer than three copies: when there was no room for more, nothing else that was lost was looked for.
#[tokio::test(start_paused = true)]
async fn rows_of_a_closed_shard_go_back_to_pages_when_two_hosts_are_left() {
    const CHUNKS: u64 = 10;
    let mut cluster = Cluster::of_three(17, CHUNKS).await;
    let mut ids = Vec::new();
    for _ in 0..CHUNKS {
        let (id, places) = cluster.put().await;
        assert_eq!(places.as_slice().len(), 3);
        ids.push(id);
    }
    let pages = |cluster: &Cluster| -> Vec<ChunkPlaces> {
        cluster.rig.group.look(|machine| machine.unit().pages().map(|page| page.places).collect())
    };
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!((cluster.rig.member.rows(), pages(&cluster).len()), ((1, CHUNKS), 1), "all but the page's own are in it");
    let first = pages(&cluster);
    assert_eq!(first[0].as_slice().len(), 3);
    cluster.go(THIRD).await;
    cluster.forget(3).await;
    cluster.rest(LOSS_WAIT + SHRINK_WAIT + CLOSED_SILENCE + Duration::from_secs(30)).await;
    assert_eq!((cluster.rig.member.rows(), cluster.rig.member.short_chunks()), ((1, CHUNKS), CHUNKS + 1));
    let again = pages(&cluster);
    assert!(again.len() == 1 && again != first && again[0].as_slice().len() == 2, "{again:?}");
    for id in ids {
        let found = cluster.rig.member.answer(UnitRequest::Find(id)).await;
        let UnitAnswer::Found(Found::Known { places, wanted: 3 }) = found else { panic!("{found:?}") };
        assert_eq!(places.as_slice().len(), 2);
    }
}

/// It was chosen again and again: each put that it fell to waited for it, or was refused.
#[tokio::test(start_paused = true)]
async fn a_device_that_takes_no_writes_gets_no_chunks_until_it_does() {
    let mut cluster = Cluster::of_three(18, CAPACITY).await;
    let (id, places) = cluster.put().await;
    assert_eq!(places.as_slice().len(), 3);
    cluster.stuck.push(DeviceId(3));
    cluster.rest(REPORT_INTERVAL).await;
    for _ in 0..20 {
        let (short, _) = cluster.put().await;
        assert_eq!(cluster.devices(short), [1, 2], "it is left out at once");
    }
    assert!(cluster.is_at_rest(id), "its copy there is not lost");
    let to_it = UnitRequest::Relocate { id, from: DeviceId(1), to: Some(DeviceId(3)) };
    assert_eq!(cluster.rig.member.answer(to_it).await, UnitAnswer::Refused(Refusal::NoPlaces));
    cluster.rest(SHRINK_WAIT).await;
    assert_eq!((cluster.devices(id), cluster.rig.member.short_chunks()), (vec![1, 2, 3], 20));
    // Of somebody else's devices a node knows nothing.
    cluster.stuck.clear();
    let slander = NodeReport { stuck: vec![DeviceId(3)], ..report(1, Vec::new(), Vec::new()) };
    cluster.rig.member.answer(UnitRequest::Report(slander)).await;
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(cluster.rig.member.short_chunks(), 0, "it takes copies again");
    let (id, _) = cluster.put().await;
    assert_eq!(cluster.devices(id), [1, 2, 3]);
}

/// Modifications of its chunk waited for the copy, for as long as the disk hung.
#[tokio::test(start_paused = true)]
async fn a_copy_is_not_waited_for_whose_device_takes_no_writes() {
    let mut cluster = Cluster::of_two(19).await;
    let (id, _) = cluster.put().await;
    // It reports, and does not do what it is asked to.
    cluster.up.push(THIRD);
    cluster.rest(Duration::from_secs(4)).await;
    assert!(!cluster.is_at_rest(id), "its copy is being made");
    cluster.stuck.push(DeviceId(3));
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(cluster.devices(id), [1, 2]);
    assert!(cluster.is_at_rest(id) && cluster.modify(id, 1));
}
