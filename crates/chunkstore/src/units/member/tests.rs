//! A member that leads a unit alone, over a simulated disk, with nodes that answer nothing but what they are asked to.

mod short;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consensus::{BASE_BYTES, Group, GroupId, LogPlace, Node, SimulatedTransport};
use disk::{SimDisk, SimOptions};
use env::Env;
use format::chunk_command::{ChunkCommand, ClientCall, Registration};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::Stream;
use manager::{DeviceState, Manager, RegisterNode};
use types::{DeviceId, DeviceUuid, NodeId, NodeIdentity};
use wal::RegionStore;

use super::UnitMember;
use crate::limits::{LOSS_WAIT, MAX_DUTIES, MAX_SILENT_ERRANDS, NODE_SILENCE};
use crate::maintenance::{self, Refusal};
use crate::played::{Answer, Played, map_of_nodes};
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::settings::ChunkSettings;
use crate::units::machine::UnitMachine;

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
    /// Ends with its handles.
    _node: Node,
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

impl Rig {
    /// Devices 1 and 2 have volumes when they are registered.
    async fn new(seed: u64) -> Rig {
        Rig::of_nodes(seed, &[OWN, OTHER], Box::new(|_, _, _| Bytes::new())).await
    }

    /// Nodes with a device each, of the same number.
    async fn of_nodes(seed: u64, nodes: &[NodeId], answer: Answer) -> Rig {
        let env = Env::simulated(seed);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
        for number in 0..=nodes.len() as u8 {
            manager.add_device(DeviceUuid([number; 16]), "/dev/x", 1 << 40).await.expect("a device");
        }
        for id in nodes.iter().copied() {
            assert_eq!(manager.register_node(node(id)).await.expect("a node").id, id);
            manager.place_device(DeviceId(id.0), Some(id)).await.expect("the node is there");
        }
        manager.open_shard(1, CAPACITY, vec![OWN], vec![OWN]).await.expect("the first shard");
        let id = consensus::NodeId::of_identity(&node(OWN).identity.0);
        let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
        let disk = Arc::new(SimDisk::new(&env, SimOptions { size_bytes, ..SimOptions::default() }));
        let segments = RegionStore::new(disk.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS);
        let log = LogPlace::new(Arc::new(segments), disk, SEGMENTS);
        let consensus = Node::open(&env, id, &log, SimulatedTransport::new(&env).port(id)).await.expect("a log");
        let group = consensus.start_group(GroupId(9), UnitMachine::new(SHARD, CAPACITY)).await.expect("a group");
        group.initialize(&BTreeMap::from([(id, node(OWN).address)])).await.expect("it is new");
        let played = Arc::new(Played::new(&env, map_of_nodes(nodes.len() as u32 + 1, &[1], &[1]), answer));
        let reach = Arc::new(played.clone());
        let member = UnitMember::start(&env, SHARD, group.clone(), manager.clone(), reach, ChunkSettings::default());
        let rig = Rig { env, manager, group, played, member, calls: 0, _node: consensus };
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

    /// A chunk with one copy that is there.
    async fn chunk(&mut self, at: BlockPlace) -> ChunkId {
        self.calls += 1;
        let call = ClientCall { session: 7, request: self.calls };
        let places = ChunkPlaces::new(&[at]).expect("one");
        let deadline_ms = self.env.wall_clock_ms() + 60_000;
        let registration = Registration { call, nonce: ChunkNonce(1), bytes: 100, places, wanted: 1, deadline_ms };
        let maintenance::Answer::Registered { id, .. } = self.apply(ChunkCommand::Register(registration)).await else {
            panic!("an id")
        };
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
