//! A member that leads a unit alone, over a simulated disk, with nodes that answer nothing but what they are asked to.

mod closed;
mod contents;
mod crowded;
mod doubted;
mod short;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consensus::{BASE_BYTES, Group, GroupId, LogPlace, Node, SimulatedTransport};
use disk::{SimDisk, SimOptions};
use env::Env;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, PageRange, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::Stream;
use groups::Placed;
use groups::limits::START_REST;
use manager::modules::chunks::unit_key;
use manager::{DeviceState, Manager, RegisterNode};
use parking_lot::Mutex;
use types::{DeviceId, DeviceUuid, NodeId, NodeIdentity};
use wal::RegionStore;

use super::super::service::Units;
use super::{Shares, UnitMember};
use crate::limits::{LEADER_TICK, LOSS_WAIT, MAX_DUTIES, MAX_SILENT_ERRANDS, NODE_SILENCE, PAGE_PATIENCE, STOCK_AGE};
use crate::maintenance::{self, Refusal};
use crate::message::{LiveCopy, NodeAnswer, NodeRequest, ToNode};
use crate::played::{Answer, Played, map_of_nodes};
use crate::protocol::{BLOCKS, BlockRequest, NodeReport, UnitAnswer, UnitRequest};
use crate::settings::ChunkSettings;
use crate::units::leading::fixture::report;
use crate::units::machine::UnitMachine;
use crate::wire;

const SHARD: ShardId = ShardId(1);
const CAPACITY: u64 = 1 << 12;
/// Who leads the unit, and has device 1.
const OWN: NodeId = NodeId(1);
/// Has device 2.
const OTHER: NodeId = NodeId(2);
const SEGMENT_BYTES: u64 = 2 << 20;
const SEGMENTS: usize = 16;

struct Rig {
    env: Env,
    manager: Arc<Manager>,
    group: Group<UnitMachine>,
    played: Arc<Played>,
    member: Arc<UnitMember>,
    calls: u32,
    node: Node,
}

fn node(id: NodeId) -> RegisterNode {
    let address = |port| format!("node-{}:{port}", id.0);
    RegisterNode {
        identity: NodeIdentity([id.0 as u8; 16]),
        name: format!("node-{}", id.0),
        address: address(1),
        admin_address: address(2),
        s3_address: address(3),
        host: format!("host-{}", id.0),
        rack: String::new(),
        zone: String::new(),
        version: "1".to_owned(),
        joined_ms: 0,
    }
}

fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), block).expect("small numbers")
}

/// Nodes that answer this to requests about copies, and nothing else.
fn about_copies(about: impl Fn(ToNode) -> Option<NodeAnswer> + Send + Sync + 'static) -> Answer {
    Box::new(move |_, service, request: &Bytes| match wire::decode(request) {
        Ok(BlockRequest::Direct(to)) if service == BLOCKS => about(to).map_or_else(Bytes::new, |answer| wire::encode(&answer)),
        _ => Bytes::new(),
    })
}

impl Rig {
    /// Devices 1 and 2 have volumes when they are registered.
    async fn new(seed: u64) -> Rig {
        Rig::with(seed, |_| None).await
    }

    /// The same, with nodes that answer this to requests about copies.
    async fn with(seed: u64, about: impl Fn(ToNode) -> Option<NodeAnswer> + Send + Sync + 'static) -> Rig {
        Rig::of(seed, CAPACITY, about).await
    }

    /// The same, of a shard that takes so many chunks.
    async fn of(seed: u64, capacity: u64, about: impl Fn(ToNode) -> Option<NodeAnswer> + Send + Sync + 'static) -> Rig {
        Rig::over(seed, capacity, &[OWN, OTHER], about_copies(about)).await
    }

    /// Nodes with a device each, of the same number.
    async fn over(seed: u64, capacity: u64, nodes: &[NodeId], answer: Answer) -> Rig {
        let env = Env::simulated(seed);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
        for number in 0..=nodes.len() as u8 {
            manager.add_device(DeviceUuid([number; 16]), "/dev/x", 1 << 40).await.expect("a device");
        }
        for id in nodes.iter().copied() {
            assert_eq!(manager.register_node(node(id)).await.expect("a node").id, id);
            manager.place_device(DeviceId(id.0), Some(id)).await.expect("the node is there");
        }
        manager.open_shard(1, capacity, vec![OWN], vec![OWN]).await.expect("the first shard");
        let id = consensus::NodeId::of_identity(&node(OWN).identity.0);
        let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
        let disk = Arc::new(SimDisk::new(&env, SimOptions { size_bytes, ..SimOptions::default() }));
        let segments = RegionStore::new(disk.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS);
        let log = LogPlace::new(Arc::new(segments), disk, SEGMENTS);
        let consensus = Node::open(&env, id, &log, SimulatedTransport::new(&env).port(id)).await.expect("a log");
        let group = consensus.start_group(GroupId(9), UnitMachine::new(SHARD, capacity)).await.expect("a group");
        group.initialize(&BTreeMap::from([(id, node(OWN).address)])).await.expect("it is new");
        let played = Arc::new(Played::new(&env, map_of_nodes(nodes.len() as u32 + 1, &[1], &[1]), answer));
        let reach = Arc::new(played.clone());
        let placed = Placed::new(&env, unit_key(SHARD.0), group.clone(), manager.clone());
        let member = UnitMember::start(&env, placed, reach, ChunkSettings::default(), Shares::default());
        let rig = Rig { env, manager, group, played, member, calls: 0, node: consensus };
        rig.wait(|rig| rig.member.is_leading()).await;
        rig
    }

    async fn wait(&self, is_so: impl Fn(&Rig) -> bool) {
        for _ in 0..1_000 {
            if is_so(self) {
                return;
            }
            self.env.sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not come about");
    }

    async fn volume(&self, device: u32, blocks: u32) {
        self.manager.register_volume(DeviceId(device), blocks).await.expect("a device");
    }

    async fn apply(&self, command: ChunkCommand) -> maintenance::Answer {
        let (_, answer) = self.group.propose(&command).await.expect("it leads");
        answer.unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"))
    }

    fn room(&self, at: BlockPlace) -> Option<u32> {
        self.group.look(|machine| machine.unit().room(at))
    }

    fn registration(&mut self, at: &[BlockPlace]) -> Registration {
        self.calls += 1;
        let call = ClientCall { session: 7, request: self.calls };
        let places = ChunkPlaces::new(at).expect("few");
        let deadline_ms = self.env.wall_clock_ms() + 60_000;
        Registration { call, nonce: ChunkNonce(1), bytes: 100, places, wanted: at.len() as u8, deadline_ms }
    }

    /// A chunk with one copy that is there.
    async fn chunk(&mut self, at: BlockPlace) -> ChunkId {
        self.chunk_at(&[at]).await
    }

    /// The same, with a copy at each of these.
    async fn chunk_at(&mut self, at: &[BlockPlace]) -> ChunkId {
        let register = ChunkCommand::Register(self.registration(at));
        self.commit(register).await
    }

    async fn commit(&self, register: ChunkCommand) -> ChunkId {
        let maintenance::Answer::Registered { id, .. } = self.apply(register).await else { panic!("an id") };
        self.apply(ChunkCommand::Commit(id)).await;
        id
    }

    fn register(&mut self, bytes: u32) -> impl Future<Output = UnitAnswer> + use<> {
        self.calls += 1;
        let call = ClientCall { session: 8, request: self.calls };
        let member = self.member.clone();
        async move {
            let request = UnitRequest::Register { shard: SHARD, call, bytes, copies: 1, avoid: Vec::new() };
            member.answer(request).await
        }
    }

    fn stream(&self) -> Option<Stream> {
        self.member.leading.lock().as_ref().map(|leading| leading.leader.stream())
    }
}

/// Errands to it took all that could be under way, and the unit heard of no space any more: puts failed until it came back.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_away_keeps_no_unit_from_its_space() {
    let mut rig = Rig::new(1).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 2 }).await;
    rig.played.silence(OTHER);
    rig.env.sleep(NODE_SILENCE).await;
    let mut freed = Vec::new();
    for number in 0..MAX_DUTIES as u32 + 50 {
        freed.push(rig.chunk(place(2, number / 200)).await);
    }
    rig.played.take_asked();
    rig.apply(ChunkCommand::Freed(freed)).await;
    rig.env.sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.played.take_asked(), vec![OTHER; MAX_SILENT_ERRANDS], "one finds out whether it is there");
    rig.volume(1, 64).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
}

/// Its client has gone, or it took too long: the room that was promised to it came back with the next leader only.
#[tokio::test(start_paused = true)]
async fn a_registration_that_is_given_up_promises_nothing() {
    const BYTES: u32 = 1 << 20;
    let mut rig = Rig::new(2).await;
    rig.volume(1, 1).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some_and(|room| room >= 4 * BYTES)).await;
    for _ in 0..2 {
        let mut given_up = Box::pin(rig.register(BYTES));
        assert!(futures_util::poll!(&mut given_up).is_pending(), "it is being written to the log");
    }
    rig.env.sleep(Duration::from_secs(1)).await;
    // Those that came to the log before they were given up have their space.
    while rig.room(place(1, 0)).is_some_and(|room| room >= BYTES) {
        let answer = rig.register(BYTES).await;
        assert!(matches!(answer, UnitAnswer::Registered { .. }), "{answer:?}");
    }
}

/// No copy could be told that it is deleted, so nobody could delete it, and its number stayed.
#[tokio::test(start_paused = true)]
async fn a_chunk_without_copies_can_be_deleted() {
    let mut rig = Rig::new(4).await;
    rig.volume(1, 8).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 1 }).await;
    let id = rig.chunk(place(2, 0)).await;
    let is_there = |rig: &Rig| rig.group.look(|machine| machine.unit().places_of(id).is_some());
    assert_eq!(rig.member.answer(UnitRequest::Revoke(id)).await, UnitAnswer::Refused(Refusal::NotPending));
    rig.manager.set_device_state(DeviceId(2), DeviceState::Failed).await.expect("a device");
    rig.manager.remove_device(DeviceId(2)).await.expect("it has failed");
    assert_eq!(rig.member.answer(UnitRequest::Revoke(id)).await, UnitAnswer::Refused(Refusal::NotPending), "not yet");
    rig.env.sleep(LOSS_WAIT + Duration::from_secs(2)).await;
    assert!(is_there(&rig));
    let relocate = UnitRequest::Relocate { id, from: DeviceId(2), to: Some(DeviceId(1)) };
    assert_eq!(rig.member.answer(relocate).await, UnitAnswer::Refused(Refusal::Places));
    assert_eq!(rig.member.answer(UnitRequest::Revoke(id)).await, UnitAnswer::Done);
    rig.wait(|rig| !is_there(rig)).await;
}

/// Erasures on nodes that answer late took all that could be under way, for as long as there were any: nothing was relocated or written again.
#[tokio::test(start_paused = true)]
async fn erasures_keep_no_relocation_and_no_mend_waiting() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let mut rig = Rig::with(7, move |to| {
        let is_query = to.request == NodeRequest::Query;
        noted.lock().push(to.request);
        let (version, era) = (ChunkVersion::default(), Era(0));
        is_query.then_some(NodeAnswer::Live(LiveCopy { version, era, capacity: 100, is_settled: true, content: None }))
    })
    .await;
    for device in 0..3 {
        rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 4 }).await;
    }
    let mut freed = Vec::new();
    for number in 0..MAX_DUTIES as u32 {
        for device in [0, 2] {
            freed.push(rig.chunk(place(device, number / 200)).await);
        }
    }
    let (moved, rotten) = (rig.chunk(place(1, 0)).await, rig.chunk_at(&[place(1, 1), place(2, 3)]).await);
    let report = |node, rotten| UnitRequest::Report(report(node, rotten, Vec::new()));
    for (node, rotten) in [(0, Vec::new()), (OTHER.0, vec![CopyOf { id: rotten, place: place(2, 3) }])] {
        // From now on it takes as long as anybody waits.
        rig.played.silence(NodeId(node));
        assert_eq!(rig.member.answer(report(node, rotten)).await, UnitAnswer::Done);
    }
    rig.apply(ChunkCommand::Freed(freed)).await;
    rig.env.sleep(2 * LEADER_TICK).await;
    assert_eq!(rig.member.duties.available_permits(), 0);
    asked.lock().clear();
    let (from, to) = (place(1, 0), place(0, 3));
    rig.apply(ChunkCommand::Relocate(Relocation { id: moved, from: Some(from), to: Some(to), is_lost: false })).await;
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    let asked = std::mem::take(&mut *asked.lock());
    assert!(asked.iter().any(|request| matches!(request, NodeRequest::Depart { .. })), "{asked:?}");
    assert!(asked.contains(&NodeRequest::Read), "the content that the rotten copy is to have: {asked:?}");
}

/// Two copies on one host are lost with it, and counted as two.
#[tokio::test(start_paused = true)]
async fn a_copy_is_not_moved_by_name_to_a_host_that_has_another_one() {
    let mut rig = Rig::new(13).await;
    rig.manager.place_device(DeviceId(0), Some(OWN)).await.expect("the node is there");
    for device in 0..3 {
        rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }).await;
    }
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    let id = rig.chunk_at(&[place(1, 0), place(2, 0)]).await;
    let relocate = |from| UnitRequest::Relocate { id, from: DeviceId(from), to: Some(DeviceId(0)) };
    assert_eq!(rig.member.answer(relocate(2)).await, UnitAnswer::Refused(Refusal::Places));
    assert_eq!(rig.member.answer(relocate(1)).await, UnitAnswer::Done, "the one of the same host leaves");
}

/// Each report of it read the page anew, and took what else is asked of nodes its turn.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_has_ended_is_looked_for_in_its_page_by_one_at_a_time() {
    let mut rig = Rig::of(8, 1, |_| None).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 1 }).await;
    let id = rig.chunk(place(2, 0)).await;
    let range = PageRange { first: id.number, last: id.number };
    let registration = rig.registration(&[place(2, 0)]);
    rig.commit(ChunkCommand::RegisterPage { registration, range }).await;
    assert!(rig.group.look(|machine| machine.unit().page_of(id).is_some()));
    rig.played.silence(OTHER);
    let reports = async |rig: &Rig| {
        rig.played.take_asked();
        for _ in 0..300 {
            let report = NodeReport { freed: vec![id], ..report(OTHER.0, Vec::new(), Vec::new()) };
            assert_eq!(rig.member.answer(UnitRequest::Report(report)).await, UnitAnswer::Done);
        }
        rig.env.sleep(PAGE_PATIENCE / 2).await;
        rig.played.take_asked().into_iter().filter(|node| *node == OTHER).count()
    };
    // The audit reads it as well.
    assert!(reports(&rig).await <= 2);
    assert!(rig.member.duties.available_permits() >= MAX_DUTIES - 1);
    rig.env.sleep(2 * PAGE_PATIENCE).await;
    assert_eq!(reports(&rig).await, 0, "it can't be read, and rests");
}

/// Its copy had departed and nothing could be read of it: nobody could delete it, and nothing that was freed afterwards was forgotten.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_cannot_be_read_while_it_moves_can_be_deleted() {
    let mut rig = Rig::with(5, |to| match to.request {
        NodeRequest::Depart { .. } => Some(NodeAnswer::Departed),
        NodeRequest::Take { .. } => Some(NodeAnswer::Damaged),
        _ => Some(NodeAnswer::Done(None)),
    })
    .await;
    rig.volume(1, 8).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 1 }).await;
    let id = rig.chunk(place(2, 0)).await;
    let relocate = UnitRequest::Relocate { id, from: DeviceId(2), to: Some(DeviceId(1)) };
    assert_eq!(rig.member.answer(relocate).await, UnitAnswer::Done);
    rig.env.sleep(Duration::from_secs(2)).await;
    assert!(rig.group.look(|machine| machine.unit().moves_under_way() == 1), "there is nothing to bring");
    assert_eq!(rig.member.answer(UnitRequest::Revoke(id)).await, UnitAnswer::Done);
    let is_over =
        |rig: &Rig| rig.group.look(|machine| machine.unit().chunks() == 0 && machine.unit().duties().next().is_none());
    rig.wait(is_over).await;
}

/// What is known to be damaged is not moved when nothing else is there.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_cannot_be_read_is_not_moved() {
    let mut rig = Rig::new(6).await;
    rig.volume(1, 8).await;
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
    rig.apply(ChunkCommand::Grant { device: DeviceId(2), first_block: 0, blocks: 1 }).await;
    let id = rig.chunk(place(2, 0)).await;
    let report = |rotten| UnitRequest::Report(report(OTHER.0, rotten, Vec::new()));
    let relocate = UnitRequest::Relocate { id, from: DeviceId(2), to: Some(DeviceId(1)) };
    assert_eq!(rig.member.answer(report(vec![CopyOf { id, place: place(2, 0) }])).await, UnitAnswer::Done);
    assert_eq!(rig.member.answer(relocate.clone()).await, UnitAnswer::Refused(Refusal::Places));
    assert_eq!(rig.member.answer(report(Vec::new())).await, UnitAnswer::Done);
    assert_eq!(rig.member.answer(relocate).await, UnitAnswer::Done);
}

/// A host that has the first stream of a term would take updates of the second one for those of the first.
#[tokio::test(start_paused = true)]
async fn who_begins_to_lead_again_in_his_term_begins_another_stream() {
    let rig = Rig::new(3).await;
    let first = rig.stream().expect("it leads");
    rig.member.step_back();
    rig.wait(|rig| rig.member.is_leading()).await;
    let second = rig.stream().expect("it leads again");
    assert_eq!(second.term, first.term);
    assert!(second > first, "{second:?}");
}

/// Nobody tried again before something else changed.
#[tokio::test(start_paused = true)]
async fn a_unit_that_could_not_start_is_started_later() {
    let rig = Rig::new(10).await;
    let id = GroupId((1 << 32) + u64::from(SHARD.0));
    let other = rig.node.start_group(id, UnitMachine::new(SHARD, CAPACITY)).await.expect("the group is nobody's yet");
    let reach = Arc::new(rig.played.clone());
    let units = Units::new(&rig.env, OWN, rig.node.clone(), rig.manager.clone(), reach, ChunkSettings::default());
    let units = Arc::new(units);
    let following = units.clone();
    rig.env.spawn(async move { following.run().await });
    rig.env.sleep(Duration::from_secs(1)).await;
    assert!(units.unit(SHARD).is_none());
    drop(other);
    rig.node.stop_group(id).await;
    rig.env.sleep(START_REST).await;
    assert!(units.unit(SHARD).is_some());
}

/// It went on in a node that took itself for one without units.
#[tokio::test(start_paused = true)]
async fn a_unit_that_is_starting_when_its_node_leaves_does_not_go_on() {
    let nodes = [OWN, OTHER, NodeId(3)];
    let rig = Rig::over(11, CAPACITY, &nodes, Box::new(|_, _, _| Bytes::new())).await;
    rig.manager.set_group_members(unit_key(SHARD.0), vec![OTHER]).await.expect("the node is there");
    rig.manager.seal_shard(SHARD.0).await.expect("it is open");
    rig.manager.open_shard(SHARD.0 + 1, CAPACITY, nodes.to_vec(), nodes.to_vec()).await.expect("none is open");
    let reach = Arc::new(rig.played.clone());
    let units = Units::new(&rig.env, OWN, rig.node.clone(), rig.manager.clone(), reach, ChunkSettings::default());
    let mut following = std::pin::pin!(units.run());
    assert!(futures_util::poll!(following.as_mut()).is_pending(), "it is starting");
    tokio::join!(biased; units.leave(|| Box::pin(async { None })), following);
    assert_eq!(units.counts(), (0, 0));
}

/// "Add nodes" was said where there is space, and its client did not try again.
#[tokio::test(start_paused = true)]
async fn a_registration_that_waits_in_vain_for_space_that_there_is_may_be_tried_again() {
    let mut rig = Rig::new(12).await;
    assert_eq!(rig.register(100).await, UnitAnswer::Refused(Refusal::NoPlaces), "there is none");
    // The manager can't be asked for it.
    let turn = rig.member.settling.clone().acquire_owned().await.expect("it is open");
    rig.volume(1, 64).await;
    assert_eq!(rig.register(100).await, UnitAnswer::Refused(Refusal::NoPlacesYet));
    drop(turn);
    rig.wait(|rig| rig.room(place(1, 0)).is_some()).await;
    let report = UnitRequest::Report(report(OWN.0, Vec::new(), Vec::new()));
    assert_eq!(rig.member.answer(report).await, UnitAnswer::Done);
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    let answer = rig.register(100).await;
    assert!(matches!(answer, UnitAnswer::Registered { .. }), "{answer:?}");
}
