//! Whatever is sent arrives as it was, and whatever is understood is sent on the same.

use bytes::Bytes;
use env::MachineUse;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ClientCall, CopyOf};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupChange, LookupUpdate, Stream};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use types::{DeviceId, NodeId, NodeIdentity};

use super::survives;
use crate::lookup::{Progress, Received};
use crate::maintenance::Refusal;
use crate::message::{Change, Found, LiveCopy, Located, Mark, NodeAnswer, NodeRefusal, NodeRequest, Resolved, ToNode};
use crate::protocol::{
    BlockRequest, ChunkMap, DamagedBlock, Delivery, DeviceRoom, HostAnswer, HostRequest, HotCopy, LoadReport, NodePlace,
    NodeReport, ReplyTo, ShardPlace, SnapshotPiece, UnitAnswer, UnitRequest,
};
use crate::wire::{Message, decode, encode};

prop_compose! {
    fn machine_use()(cpu: u16, memory: u16, network: u16) -> MachineUse {
        MachineUse { cpu, memory, network }
    }
}

prop_compose! {
    fn id()(shard: u32, number: u64, nonce: u64) -> ChunkId {
        ChunkId { shard: ShardId(shard), number: ChunkNumber(number), nonce: ChunkNonce(nonce) }
    }
}

prop_compose! {
    fn place()(device in 0_u32..=65_534, block in 0_u32..1 << 26) -> BlockPlace {
        BlockPlace::new(DeviceId(device), block).expect("fits")
    }
}

fn places() -> impl Strategy<Value = ChunkPlaces> {
    vec(place(), 1..=3).prop_filter_map("two on one device", |places| ChunkPlaces::new(&places))
}

prop_compose! {
    fn version()(counter: u64, writer: u64) -> ChunkVersion {
        ChunkVersion { counter, writer }
    }
}

fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![version().prop_map(Mark::Live), Just(Mark::Dead)]
}

fn content() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn change() -> impl Strategy<Value = Change> {
    let content = (version(), content()).prop_map(|(version, content)| Change::Content { version, content });
    prop_oneof![content, Just(Change::End)]
}

fn era() -> impl Strategy<Value = Era> {
    any::<u32>().prop_map(Era)
}

prop_compose! {
    fn bring()(relocation: u64, era in era(), capacity: u32, version in version(), is_settled: bool, content in content())
        -> NodeRequest {
        NodeRequest::Bring { relocation, era, capacity, version, is_settled, content }
    }
}

fn request() -> impl Strategy<Value = NodeRequest> {
    prop_oneof![
        (era(), any::<u32>(), content()).prop_map(|(era, capacity, content)| NodeRequest::Put { era, capacity, content }),
        Just(NodeRequest::Read),
        Just(NodeRequest::Query),
        (era(), change()).prop_map(|(era, change)| NodeRequest::Write { era, change }),
        mark().prop_map(NodeRequest::Settle),
        (era(), any::<u64>()).prop_map(|(era, moves)| NodeRequest::Erase { era, moves }),
        (era(), any::<(u64, u64)>()).prop_map(|(era, (puts, moves))| {
            NodeRequest::Forget { era, resolved: Resolved { puts: ChunkNumber(puts), moves } }
        }),
        era().prop_map(|era| NodeRequest::Depart { era }),
        (era(), any::<u64>()).prop_map(|(era, moves)| NodeRequest::Discard { era, moves }),
        era().prop_map(|era| NodeRequest::Raise { era }),
        era().prop_map(|era| NodeRequest::Take { era }),
        bring(),
        (era(), version(), any::<bool>(), content()).prop_map(|(era, version, is_compared, content)| NodeRequest::Mend {
            era,
            version,
            is_compared,
            content
        }),
    ]
}

prop_compose! {
    fn reply()(address in ".{0,40}", token: u64) -> ReplyTo {
        ReplyTo { address, token }
    }
}

fn block_request() -> impl Strategy<Value = BlockRequest> {
    let to = || (place(), id(), request()).prop_map(|(place, id, request)| ToNode { place, id, request });
    prop_oneof![
        to().prop_map(BlockRequest::Direct),
        (to(), places(), reply()).prop_map(|(to, places, reply)| BlockRequest::Forwarded { to, places, reply }),
        place().prop_map(BlockRequest::Condemn),
        (any::<u32>(), vec(any::<u32>(), 0..5))
            .prop_map(|(device, blocks)| BlockRequest::Gaps { device: DeviceId(device), blocks }),
    ]
}

prop_compose! {
    fn copy()(version in version(), era in era(), capacity: u32, is_settled: bool, content in option::of(content())) -> LiveCopy {
        LiveCopy { version, era, capacity, is_settled, content }
    }
}

fn node_refusal() -> impl Strategy<Value = NodeRefusal> {
    prop_oneof![
        Just(NodeRefusal::Full),
        Just(NodeRefusal::TooLong),
        Just(NodeRefusal::Resolved),
        Just(NodeRefusal::Dead),
        Just(NodeRefusal::InUse),
        Just(NodeRefusal::Busy),
        Just(NodeRefusal::Failed),
    ]
}

fn node_answer() -> impl Strategy<Value = NodeAnswer> {
    prop_oneof![
        copy().prop_map(NodeAnswer::Live),
        (era(), any::<bool>()).prop_map(|(era, is_settled)| NodeAnswer::Dead { era, is_settled }),
        Just(NodeAnswer::Absent),
        Just(NodeAnswer::Departed),
        Just(NodeAnswer::Damaged),
        option::of(mark()).prop_map(NodeAnswer::Done),
        Just(NodeAnswer::OtherEra),
        node_refusal().prop_map(NodeAnswer::Refused),
    ]
}

prop_compose! {
    fn delivery()(token: u64, places in places(), place in place(), answer in node_answer()) -> Delivery {
        Delivery { token, places, place, answer }
    }
}

prop_compose! {
    fn stream()(shard: u32, term: u64, generation: u64) -> Stream {
        Stream { shard: ShardId(shard), term, generation }
    }
}

fn lookup_change() -> impl Strategy<Value = LookupChange> {
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(LookupChange::Keyed),
        vec(any::<u8>(), 0..40).prop_map(LookupChange::Snapshot),
        (id(), places(), places()).prop_map(|(id, from, to)| LookupChange::Exchanged { id, from, to }),
    ]
}

prop_compose! {
    fn update()(stream in stream(), number: u64, horizon: u64, change in lookup_change()) -> LookupUpdate {
        LookupUpdate { stream, number, horizon: ChunkNumber(horizon), change }
    }
}

prop_compose! {
    fn piece()(stream in stream(), number: u64, offset in 0_u32..1 << 29, after in 0_u32..1 << 20, bytes in vec(any::<u8>(), 0..40))
        -> SnapshotPiece {
        SnapshotPiece { stream, number, total_bytes: offset + bytes.len() as u32 + after, offset, bytes }
    }
}

fn host_request() -> impl Strategy<Value = HostRequest> {
    prop_oneof![
        update().prop_map(HostRequest::Update),
        piece().prop_map(HostRequest::Piece),
        (id(), any::<bool>(), reply()).prop_map(|(id, has_content, reply)| HostRequest::Route { id, has_content, reply }),
        id().prop_map(HostRequest::Locate),
    ]
}

fn received() -> impl Strategy<Value = Received> {
    let held = (stream(), any::<(u64, u64)>())
        .prop_map(|(stream, (number, horizon))| Received::Held(Progress { stream, number, horizon: ChunkNumber(horizon) }));
    prop_oneof![held, any::<u32>().prop_map(|shard| Received::NeedsSnapshot(ShardId(shard)))]
}

fn host_answer() -> impl Strategy<Value = HostAnswer> {
    let located = prop_oneof![places().prop_map(Located::At), Just(Located::Behind), Just(Located::Nowhere)];
    prop_oneof![
        received().prop_map(HostAnswer::Received),
        Just(HostAnswer::Gathering),
        Just(HostAnswer::Forwarded),
        Just(HostAnswer::NotRouted),
        located.prop_map(HostAnswer::Located),
    ]
}

prop_compose! {
    fn report()(
        node: u32, shard: u32, host in option::of(received()), freed in vec(id(), 0..5),
        rotten in vec((id(), place()), 0..5), damaged in vec((place(), any::<bool>()), 0..5),
        stuck in vec(any::<u32>(), 0..5), rooms in vec(any::<(u32, u32, u64)>(), 0..5), machine in machine_use(),
    ) -> NodeReport {
        let rotten = rotten.into_iter().map(|(id, place)| CopyOf { id, place }).collect();
        let damaged = damaged.into_iter().map(|(place, is_condemned)| DamagedBlock { place, is_condemned }).collect();
        let stuck = stuck.into_iter().map(DeviceId).collect();
        let room = |(device, blocks, span_bytes)| DeviceRoom { device: DeviceId(device), blocks, span_bytes };
        let rooms = rooms.into_iter().map(room).collect();
        NodeReport { node: NodeId(node), shard: ShardId(shard), host, freed, rotten, damaged, stuck, rooms, machine }
    }
}

fn unit_request() -> impl Strategy<Value = UnitRequest> {
    let register = any::<((u32, u32, u32), u32, u8)>();
    let register = (register, vec(any::<u32>(), 0..5)).prop_map(|(((shard, session, request), bytes, copies), avoid)| {
        let (call, avoid) = (ClientCall { session, request }, avoid.into_iter().map(NodeId).collect());
        UnitRequest::Register { shard: ShardId(shard), call, bytes, copies, avoid }
    });
    prop_oneof![
        register,
        id().prop_map(UnitRequest::Commit),
        id().prop_map(UnitRequest::Revoke),
        id().prop_map(UnitRequest::Find),
        (id(), any::<u32>(), option::of(any::<u32>()))
            .prop_map(|(id, from, to)| { UnitRequest::Relocate { id, from: DeviceId(from), to: to.map(DeviceId) } }),
        report().prop_map(UnitRequest::Report),
        (id(), place()).prop_map(|(id, place)| UnitRequest::Suspect(CopyOf { id, place })),
        (any::<u32>(), vec(any::<u32>(), 0..9)).prop_map(|(shard, devices)| {
            UnitRequest::LastCopies { shard: ShardId(shard), devices: devices.into_iter().map(DeviceId).collect() }
        }),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        Just(Refusal::Sealed),
        any::<u32>().prop_map(|limit| Refusal::Size { limit }),
        place().prop_map(|place| Refusal::NoRoom { place }),
        Just(Refusal::Busy),
        Just(Refusal::Unknown),
        Just(Refusal::NotPending),
        Just(Refusal::UnderWay),
        Just(Refusal::Places),
        Just(Refusal::Grant),
        Just(Refusal::Archived),
        Just(Refusal::Page),
        Just(Refusal::NoPlaces),
        Just(Refusal::NoPlacesYet),
    ]
}

fn unit_answer() -> impl Strategy<Value = UnitAnswer> {
    let known = (places(), any::<u8>()).prop_map(|(places, wanted)| Found::Known { places, wanted });
    let found = prop_oneof![Just(Found::Unknown), places().prop_map(Found::Pending), known];
    prop_oneof![
        (id(), places()).prop_map(|(id, places)| UnitAnswer::Registered { id, places }),
        Just(UnitAnswer::Done),
        found.prop_map(UnitAnswer::Found),
        refusal().prop_map(UnitAnswer::Refused),
        option::of(any::<u32>()).prop_map(|leader| UnitAnswer::NotLeader(leader.map(NodeId))),
        Just(UnitAnswer::Unknown),
    ]
}

prop_compose! {
    fn node()(id: u32, identity: [u8; 16], address in ".{0,40}") -> NodePlace {
        NodePlace { id: NodeId(id), identity: NodeIdentity(identity), address }
    }
}

prop_compose! {
    fn shard()(shard: u32, is_open: bool, members in vec(any::<u32>(), 0..4), hosts in vec(any::<u32>(), 0..4)) -> ShardPlace {
        let nodes = |numbers: Vec<u32>| numbers.into_iter().map(NodeId).collect();
        ShardPlace { shard: ShardId(shard), is_open, members: nodes(members), hosts: nodes(hosts) }
    }
}

prop_compose! {
    fn map()(
        version: u64, nodes in vec(node(), 0..4), devices in vec(any::<(u32, u32)>(), 0..4), next_shard: u32,
        shards in vec(shard(), 0..4),
    ) -> ChunkMap {
        let devices = devices.into_iter().map(|(device, node)| (DeviceId(device), NodeId(node))).collect();
        ChunkMap { version, nodes, devices, next_shard, shards }
    }
}

prop_compose! {
    fn load_report()(node: u32, heat: u64, machine in machine_use(), hot in vec((id(), place(), any::<u64>()), 0..5)) -> LoadReport {
        let hot = hot.into_iter().map(|(id, place, heat)| HotCopy { id, place, heat }).collect();
        LoadReport { node: NodeId(node), heat, machine, hot }
    }
}

/// Nothing panics, and there is one way to write a message.
fn is_refused_or_written_the_same<M: Message>(bytes: &Bytes) {
    if let Ok(message) = decode::<M>(bytes) {
        assert_eq!(encode(&message), bytes, "{}", M::NAME);
    }
}

proptest! {
    #[test]
    fn messages_survive(
        block_request in block_request(),
        node_answer in node_answer(),
        delivery in delivery(),
        host_request in host_request(),
        host_answer in host_answer(),
        unit_request in unit_request(),
        unit_answer in unit_answer(),
        map in map(),
        load_report in load_report(),
    ) {
        survives(&load_report);
        survives(&block_request);
        survives(&node_answer);
        survives(&delivery);
        survives(&host_request);
        survives(&host_answer);
        survives(&unit_request);
        survives(&unit_answer);
        survives(&map);
    }

    #[test]
    fn what_is_understood_is_written_the_same(mut bytes in vec(any::<u8>(), 2..120), kind in 0_u8..9) {
        (bytes[0], bytes[1]) = (1, kind);
        let bytes = Bytes::from(bytes);
        is_refused_or_written_the_same::<BlockRequest>(&bytes);
        is_refused_or_written_the_same::<NodeAnswer>(&bytes);
        is_refused_or_written_the_same::<Delivery>(&bytes);
        is_refused_or_written_the_same::<HostRequest>(&bytes);
        is_refused_or_written_the_same::<HostAnswer>(&bytes);
        is_refused_or_written_the_same::<UnitRequest>(&bytes);
        is_refused_or_written_the_same::<UnitAnswer>(&bytes);
        is_refused_or_written_the_same::<ChunkMap>(&bytes);
        is_refused_or_written_the_same::<LoadReport>(&bytes);
    }

    /// One bit flipped in a good message: mostly another good message, never a panic.
    #[test]
    fn a_changed_message_is_refused_or_another(
        block_request in block_request(),
        host_request in host_request(),
        unit_request in unit_request(),
        map in map(),
        at: prop::sample::Index,
        bit in 0_u8..8,
    ) {
        let flipped = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            Bytes::from(bytes)
        };
        is_refused_or_written_the_same::<BlockRequest>(&flipped(encode(&block_request)));
        is_refused_or_written_the_same::<HostRequest>(&flipped(encode(&host_request)));
        is_refused_or_written_the_same::<UnitRequest>(&flipped(encode(&unit_request)));
        is_refused_or_written_the_same::<ChunkMap>(&flipped(encode(&map)));
    }
}
