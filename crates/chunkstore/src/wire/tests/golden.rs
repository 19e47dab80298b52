//! Bytes of every kind of message: what was sent once is understood for ever.

use bytes::Bytes;
use env::MachineUse;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ClientCall, CopyOf};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupChange, LookupUpdate, Stream};
use types::{DeviceId, NodeId, NodeIdentity};

use super::stands_as;
use crate::lookup::{Progress, Received};
use crate::maintenance::Refusal;
use crate::message::{Change, Found, LiveCopy, Located, Mark, NodeAnswer, NodeRefusal, NodeRequest, Resolved, ToNode};
use crate::protocol::{
    BlockRequest, ChunkMap, DamagedBlock, Delivery, DeviceRoom, Gaps, HostAnswer, HostRequest, HotCopy, LoadReport, NodePlace,
    NodeReport, ReplyTo, ShardPlace, SnapshotPiece, UnitAnswer, UnitRequest,
};

const ID: &str = "01000000 0200000000000000 0300000000000000";
const PLACE: &str = "0200000400000000";
const PLACES: &str = "02000004 00fcffffffffffffffffff3f";
const VERSION: &str = "0400000000000000 0500000000000000";
const STREAM: &str = "01000000 0200000000000000 0300000000000000";
const REPLY: &str = "0300 613a31 0800000000000000";
const CONTENT: &str = "02000000 abcd";
const ERA: Era = Era(6);
const ERA_HEX: &str = "06000000";

fn id() -> ChunkId {
    ChunkId { shard: ShardId(1), number: ChunkNumber(2), nonce: ChunkNonce(3) }
}

fn place() -> BlockPlace {
    BlockPlace::new(DeviceId(1), 2).expect("fits")
}

fn places() -> ChunkPlaces {
    ChunkPlaces::new(&[place()]).expect("one")
}

fn version() -> ChunkVersion {
    ChunkVersion { counter: 4, writer: 5 }
}

fn stream() -> Stream {
    Stream { shard: ShardId(1), term: 2, generation: 3 }
}

fn reply() -> ReplyTo {
    ReplyTo { address: "a:1".to_owned(), token: 8 }
}

fn content() -> Bytes {
    Bytes::from_static(&[0xab, 0xcd])
}

fn to(request: NodeRequest) -> ToNode {
    ToNode { place: place(), id: id(), request }
}

#[test]
fn requests_to_blocks() {
    let change = Change::Content { version: version(), content: content() };
    let resolved = Resolved { puts: ChunkNumber(9), moves: 10 };
    let bring =
        NodeRequest::Bring { relocation: 11, era: ERA, capacity: 7, version: version(), is_settled: true, content: content() };
    let mend = NodeRequest::Mend { era: ERA, version: version(), is_compared: true, content: content() };
    let rows = [
        (NodeRequest::Put { era: ERA, capacity: 7, content: content() }, format!("01 {ERA_HEX} 07000000 {CONTENT}")),
        (NodeRequest::Read, "02".to_owned()),
        (NodeRequest::Query, "03".to_owned()),
        (NodeRequest::Write { era: ERA, change }, format!("04 {ERA_HEX} 01 {VERSION} {CONTENT}")),
        (NodeRequest::Write { era: ERA, change: Change::End }, format!("04 {ERA_HEX} 02")),
        (NodeRequest::Settle(Mark::Live(version())), format!("05 01 {VERSION}")),
        (NodeRequest::Settle(Mark::Dead), "05 02".to_owned()),
        (NodeRequest::Erase { era: ERA, moves: 10 }, format!("06 {ERA_HEX} 0a00000000000000")),
        (NodeRequest::Forget { era: ERA, resolved }, format!("07 {ERA_HEX} 0900000000000000 0a00000000000000")),
        (NodeRequest::Depart { era: ERA }, format!("08 {ERA_HEX}")),
        (NodeRequest::Raise { era: ERA }, format!("09 {ERA_HEX}")),
        (NodeRequest::Take { era: ERA }, format!("0a {ERA_HEX}")),
        (NodeRequest::Discard { era: ERA, moves: 10 }, format!("0d {ERA_HEX} 0a00000000000000")),
        (mend, format!("0c {ERA_HEX} {VERSION} 01 {CONTENT}")),
        (bring, format!("0b 0b00000000000000 {ERA_HEX} 07000000 {VERSION} 01 {CONTENT}")),
    ];
    for (request, expected) in rows {
        stands_as(&BlockRequest::Direct(to(request.clone())), &format!("0101 {PLACE} {ID} {expected}"));
        stands_as(&BlockRequest::Condemn(place()), &format!("0103 {PLACE}"));
        let gaps = BlockRequest::Gaps { device: DeviceId(8), blocks: vec![9, 10] };
        stands_as(&gaps, "0104 08000000 02000000 09000000 0a000000");
        stands_as(&Gaps(vec![11]), "0101 01000000 0b000000");
        let forwarded = BlockRequest::Forwarded { to: to(request), places: places(), reply: reply() };
        stands_as(&forwarded, &format!("0102 {PLACES} {REPLY} {PLACE} {ID} {expected}"));
    }
}

#[test]
fn answers_of_nodes() {
    let live = |content| LiveCopy { version: version(), era: ERA, capacity: 7, is_settled: true, content };
    let refusals = [
        NodeRefusal::Full,
        NodeRefusal::TooLong,
        NodeRefusal::Resolved,
        NodeRefusal::Dead,
        NodeRefusal::InUse,
        NodeRefusal::Busy,
        NodeRefusal::Failed,
    ];
    let refusals = refusals.into_iter().zip(1..).map(|(why, number)| (NodeAnswer::Refused(why), format!("08 {number:02x}")));
    let rows = [
        (NodeAnswer::Live(live(None)), format!("01 {VERSION} {ERA_HEX} 07000000 01 00")),
        (NodeAnswer::Live(live(Some(content()))), format!("01 {VERSION} {ERA_HEX} 07000000 01 01 {CONTENT}")),
        (NodeAnswer::Dead { era: ERA, is_settled: false }, format!("02 {ERA_HEX} 00")),
        (NodeAnswer::Absent, "03".to_owned()),
        (NodeAnswer::Departed, "04".to_owned()),
        (NodeAnswer::Damaged, "05".to_owned()),
        (NodeAnswer::Done(None), "06 00".to_owned()),
        (NodeAnswer::Done(Some(Mark::Live(version()))), format!("06 01 {VERSION}")),
        (NodeAnswer::Done(Some(Mark::Dead)), "06 02".to_owned()),
        (NodeAnswer::OtherEra, "07".to_owned()),
    ];
    for (answer, expected) in rows.into_iter().chain(refusals) {
        stands_as(&answer, &format!("01 {expected}"));
        let delivery = Delivery { token: 8, places: places(), place: place(), answer };
        stands_as(&delivery, &format!("0101 0800000000000000 {PLACES} {PLACE} {expected}"));
    }
}

#[test]
fn lookup_hosts() {
    let change = LookupChange::Keyed(vec![0xab]);
    let update = LookupUpdate { stream: stream(), number: 4, horizon: ChunkNumber(5), change };
    let update_hex = format!("0101 0000 {STREAM} 0400000000000000 0500000000000000 ab");
    let piece = SnapshotPiece { stream: stream(), number: 4, total_bytes: 9, offset: 3, bytes: content().to_vec() };
    let route = HostRequest::Route { id: id(), has_content: true, reply: reply() };
    stands_as(&HostRequest::Update(update), &format!("0101 29000000 {update_hex}"));
    stands_as(&HostRequest::Piece(piece), &format!("0102 {STREAM} 0400000000000000 09000000 03000000 {CONTENT}"));
    stands_as(&route, &format!("0103 {ID} 01 {REPLY}"));
    stands_as(&HostRequest::Locate(id()), &format!("0104 {ID}"));

    let held = Received::Held(Progress { stream: stream(), number: 4, horizon: ChunkNumber(5) });
    stands_as(&HostAnswer::Received(held), &format!("0101 01 {STREAM} 0400000000000000 0500000000000000"));
    stands_as(&HostAnswer::Received(Received::NeedsSnapshot(ShardId(1))), "0101 02 01000000");
    stands_as(&HostAnswer::Gathering, "0102");
    stands_as(&HostAnswer::Forwarded, "0103");
    stands_as(&HostAnswer::NotRouted, "0104");
    stands_as(&HostAnswer::Located(Located::At(places())), &format!("0105 01 {PLACES}"));
    stands_as(&HostAnswer::Located(Located::Behind), "0105 02");
    stands_as(&HostAnswer::Located(Located::Nowhere), "0105 03");
}

#[test]
fn requests_to_units() {
    let call = ClientCall { session: 5, request: 6 };
    let register = |avoid| UnitRequest::Register { shard: ShardId(1), call, bytes: 7, copies: 3, avoid };
    stands_as(&register(vec![]), "0101 01000000 05000000 06000000 07000000 03 00000000");
    stands_as(&register(vec![NodeId(9)]), "0101 01000000 05000000 06000000 07000000 03 01000000 09000000");
    stands_as(&UnitRequest::Commit(id()), &format!("0102 {ID}"));
    stands_as(&UnitRequest::Revoke(id()), &format!("0103 {ID}"));
    stands_as(&UnitRequest::Find(id()), &format!("0104 {ID}"));
    let relocate = |to| UnitRequest::Relocate { id: id(), from: DeviceId(1), to };
    stands_as(&relocate(None), &format!("0105 {ID} 01000000 00"));
    stands_as(&relocate(Some(DeviceId(2))), &format!("0105 {ID} 01000000 01 02000000"));
    let last_copies = UnitRequest::LastCopies { shard: ShardId(1), devices: vec![DeviceId(2), DeviceId(3)] };
    stands_as(&last_copies, "0107 01000000 02000000 02000000 03000000");
    stands_as(&UnitRequest::Suspect(CopyOf { id: id(), place: place() }), &format!("0108 {ID} {PLACE}"));
    stands_as(&UnitAnswer::Counted(5), "0107 0500000000000000");
    let (rotten, damaged) = (Vec::new(), Vec::new());
    let machine = MachineUse { cpu: 1, memory: 2, network: 3 };
    let (node, shard, freed, stuck, rooms) = (NodeId(2), ShardId(1), Vec::new(), Vec::new(), Vec::new());
    let quiet = NodeReport { node, shard, host: None, freed, rotten, damaged, stuck, rooms, machine };
    let nothing = "00000000 00000000 00000000 00000000 00000000";
    stands_as(&UnitRequest::Report(quiet.clone()), &format!("0106 02000000 01000000 00 {nothing} 0100 0200 0300"));
    let lost = Received::NeedsSnapshot(ShardId(1));
    let report = NodeReport {
        host: Some(lost),
        freed: vec![id()],
        rotten: vec![CopyOf { id: id(), place: place() }],
        damaged: vec![DamagedBlock { place: place(), is_condemned: true }],
        stuck: vec![DeviceId(7)],
        rooms: vec![DeviceRoom { device: DeviceId(8), blocks: 9, span_bytes: 10 }],
        ..quiet
    };
    let lists = format!(
        "01000000 {ID} 01000000 {ID} {PLACE} 01000000 {PLACE} 01 01000000 07000000 01000000 08000000 09000000 0a00000000000000 0100 0200 0300"
    );
    stands_as(&UnitRequest::Report(report), &format!("0106 02000000 01000000 02 01000000 {lists}"));
}

#[test]
fn answers_of_units() {
    let rows = [
        (Refusal::Sealed, "01".to_owned()),
        (Refusal::Size { limit: 7 }, "02 07000000".to_owned()),
        (Refusal::NoRoom { place: place() }, format!("03 {PLACE}")),
        (Refusal::Busy, "04".to_owned()),
        (Refusal::Unknown, "05".to_owned()),
        (Refusal::NotPending, "06".to_owned()),
        (Refusal::UnderWay, "07".to_owned()),
        (Refusal::Places, "08".to_owned()),
        (Refusal::Grant, "09".to_owned()),
        (Refusal::Archived, "0b".to_owned()),
        (Refusal::Page, "0c".to_owned()),
        (Refusal::NoPlaces, "0a".to_owned()),
        (Refusal::NoPlacesYet, "0d".to_owned()),
    ];
    for (refusal, expected) in rows {
        stands_as(&UnitAnswer::Refused(refusal), &format!("0104 {expected}"));
    }
    stands_as(&UnitAnswer::Registered { id: id(), places: places() }, &format!("0101 {ID} {PLACES}"));
    stands_as(&UnitAnswer::Done, "0102");
    stands_as(&UnitAnswer::Found(Found::Unknown), "0103 01");
    stands_as(&UnitAnswer::Found(Found::Pending(places())), &format!("0103 02 {PLACES}"));
    stands_as(&UnitAnswer::Found(Found::Known { places: places(), wanted: 3 }), &format!("0103 03 {PLACES} 03"));
    stands_as(&UnitAnswer::NotLeader(None), "0105 00");
    stands_as(&UnitAnswer::NotLeader(Some(NodeId(2))), "0105 01 02000000");
    stands_as(&UnitAnswer::Unknown, "0106");
}

#[test]
fn maps() {
    let node = NodePlace { id: NodeId(2), identity: NodeIdentity([0x11; 16]), address: "a:1".to_owned() };
    let shard = ShardPlace { shard: ShardId(1), is_open: true, members: vec![NodeId(2)], hosts: vec![NodeId(2), NodeId(3)] };
    let map =
        ChunkMap { version: 9, nodes: vec![node], devices: vec![(DeviceId(1), NodeId(2))], next_shard: 7, shards: vec![shard] };
    let node = format!("02000000 {} 0300 613a31", "11".repeat(16));
    let shard = "01000000 01 01 02000000 02 02000000 03000000";
    stands_as(&map, &format!("0101 0900000000000000 01000000 {node} 01000000 01000000 02000000 07000000 01000000 {shard}"));
    stands_as(&ChunkMap::default(), "0101 0000000000000000 00000000 00000000 00000000 00000000");
}

#[test]
fn load_reports() {
    let place = BlockPlace::new(DeviceId(1), 2).expect("fits");
    let hot = vec![HotCopy { id: id(), place, heat: 7 }];
    let place = format!("{:016x}", place.to_bits().swap_bytes());
    let expected = format!("0101 02000000 0900000000000000 0100 0200 0300 01000000 {ID} {place} 0700000000000000");
    let machine = MachineUse { cpu: 1, memory: 2, network: 3 };
    stands_as(&LoadReport { node: NodeId(2), heat: 9, machine, hot }, &expected);
}
