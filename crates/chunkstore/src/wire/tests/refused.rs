//! What is no message, and what must not be made of one.

use bytes::Bytes;
use env::MachineUse;
use format::chunk_block::ChunkVersion;
use format::chunk_block::Era;
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::BlockPlace;
use format::chunk_update::Stream;
use format::decode::Fault;
use types::{DeviceId, NodeId};

use super::{refused, survives};
use crate::message::{LiveCopy, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{
    BlockRequest, ChunkMap, Delivery, Gaps, HostAnswer, HostRequest, LoadReport, NodeReport, ReplyTo, ShardPlace,
    SnapshotPiece, UnitAnswer, UnitRequest,
};
use crate::wire::limits::{
    MAX_ADDRESS_BYTES, MAX_CONTENT_BYTES, MAX_FREED, MAX_HEAD_BYTES, MAX_PIECE_BYTES, MAX_SHARD_NODES, MAX_SNAPSHOT_BYTES,
};
use crate::wire::{Message, decode, encode};

fn head(request: NodeRequest) -> ToNode {
    let place = BlockPlace::new(DeviceId(1), 2).expect("fits");
    ToNode { place, id: ChunkId::default(), request }
}

fn put(content: Bytes) -> BlockRequest {
    BlockRequest::Direct(head(NodeRequest::Put { era: Era(6), capacity: 7, content }))
}

/// A kind that there is not, an older and a newer version.
fn only_known_kinds<M: Message + std::fmt::Debug>(kinds: u8) {
    for kind in [0, kinds + 1, 255] {
        let error = refused::<M>(vec![1, kind]);
        assert_eq!((error.record, error.offset), (M::NAME, 1), "{error}");
        assert_eq!(error.fault, Fault::Unknown { found: u64::from(kind) });
    }
    for version in [0, 2] {
        let error = refused::<M>(vec![version, 1]);
        assert_eq!((error.field, error.offset), ("version", 0), "{error}");
    }
}

#[test]
fn unknown_kinds_and_versions() {
    only_known_kinds::<BlockRequest>(4);
    only_known_kinds::<Gaps>(1);
    only_known_kinds::<NodeAnswer>(8);
    only_known_kinds::<Delivery>(1);
    only_known_kinds::<HostRequest>(4);
    only_known_kinds::<HostAnswer>(5);
    only_known_kinds::<UnitRequest>(8);
    only_known_kinds::<UnitAnswer>(7);
    only_known_kinds::<ChunkMap>(1);
    only_known_kinds::<LoadReport>(1);
}

#[test]
fn values_without_a_meaning_within_a_message() {
    let read = encode(&BlockRequest::Direct(head(NodeRequest::Read)));
    let request_at = read.len() - 1;
    for (at, field) in [(9, "place"), (request_at, "request")] {
        let mut bytes = read.to_vec();
        bytes[at] = 0xff;
        let error = refused::<BlockRequest>(bytes);
        assert_eq!(error.field, field, "{error}");
    }
    let dead = |settled| vec![1, 2, 0, 0, 0, 0, settled];
    assert_eq!(refused::<NodeAnswer>(dead(2)).to_string(), "node's answer: field is_settled at byte 6: value 2 has no meaning");
    assert_eq!(refused::<NodeAnswer>(vec![1, 6, 3]).field, "mark");
    assert_eq!(refused::<NodeAnswer>(vec![1, 8, 8]).field, "refusal");
    assert_eq!(refused::<UnitAnswer>(vec![1, 4, 14]).field, "refusal");
    assert_eq!(refused::<HostAnswer>(vec![1, 1, 0]).field, "received", "an answer says what was received");
    let mut settle = encode(&BlockRequest::Direct(head(NodeRequest::Settle(crate::message::Mark::Dead)))).to_vec();
    *settle.last_mut().expect("a mark") = 0;
    assert_eq!(refused::<BlockRequest>(settle).field, "mark", "something is settled");
}

#[test]
fn content_is_a_part_of_its_message() {
    let bytes = encode(&put(Bytes::from(vec![7; 1000])));
    let BlockRequest::Direct(ToNode { request: NodeRequest::Put { content, .. }, .. }) = decode(&bytes).expect("whole") else {
        panic!("a put");
    };
    assert_eq!(content.as_ptr(), bytes[bytes.len() - 1000..].as_ptr());
}

#[test]
fn the_longest_content_fits_a_frame() {
    let content = Bytes::from(vec![7; MAX_CONTENT_BYTES]);
    let bring = NodeRequest::Bring {
        relocation: 1,
        era: Default::default(),
        capacity: 7,
        version: ChunkVersion::default(),
        is_settled: true,
        content: content.clone(),
    };
    let to = head(bring);
    let places = format::chunk_place::ChunkPlaces::new(&[to.place]).expect("one");
    let reply = ReplyTo { address: "a".repeat(MAX_ADDRESS_BYTES), token: 1 };
    let request = BlockRequest::Forwarded { to, places, reply };
    let bytes = encode(&request);
    assert!(bytes.len() <= MAX_HEAD_BYTES + MAX_CONTENT_BYTES && bytes.len() <= net::MAX_PAYLOAD_BYTES, "{}", bytes.len());
    assert_eq!(decode(&bytes), Ok(request));
    let live = LiveCopy {
        version: ChunkVersion::default(),
        era: Default::default(),
        capacity: 7,
        is_settled: true,
        content: Some(content),
    };
    let answer = NodeAnswer::Live(live);
    assert_eq!(decode(&encode(&answer)), Ok(answer));
}

/// Whatever is said, room is made only for what can be there and may be there.
#[test]
fn lengths_are_believed_only_within_their_limits() {
    let mut bytes = encode(&put(Bytes::new())).to_vec();
    let length_at = bytes.len() - 4;
    for length in [1, MAX_CONTENT_BYTES as u32 + 1, u32::MAX] {
        bytes[length_at..].copy_from_slice(&length.to_le_bytes());
        let error = refused::<BlockRequest>(bytes.clone());
        assert_eq!((error.field, error.offset), ("content", length_at), "{error}");
    }
    bytes[length_at..].copy_from_slice(&(MAX_CONTENT_BYTES as u32 + 1).to_le_bytes());
    bytes.extend(vec![0; MAX_CONTENT_BYTES + 1]);
    let error = refused::<BlockRequest>(bytes);
    let most = MAX_CONTENT_BYTES as u64;
    assert_eq!(error.fault, Fault::OutOfRange { least: 0, most, found: most + 1 });

    let mut map = encode(&ChunkMap::default()).to_vec();
    for (at, field) in [(10, "nodes"), (14, "devices"), (22, "shards")] {
        let before = map.clone();
        map[at..at + 4].copy_from_slice(&1_000_u32.to_le_bytes());
        assert_eq!(refused::<ChunkMap>(map).field, field);
        map = before;
    }
}

#[test]
fn lists_have_limits() {
    let report = |count| {
        let freed = vec![ChunkId::default(); count];
        UnitRequest::Report(NodeReport {
            node: NodeId(1),
            shard: ShardId(1),
            host: None,
            freed,
            rotten: Vec::new(),
            damaged: Vec::new(),
            stuck: Vec::new(),
            rooms: Vec::new(),
            machine: MachineUse::default(),
        })
    };
    let longest = encode(&report(MAX_FREED));
    assert_eq!(decode(&longest), Ok(report(MAX_FREED)));
    let mut longer = longest.to_vec();
    longer[11..15].copy_from_slice(&(MAX_FREED as u32 + 1).to_le_bytes());
    longer.extend([0; 20]);
    assert_eq!(refused::<UnitRequest>(longer).field, "freed");

    let map = |count: usize| {
        let members = vec![NodeId(1); count];
        let shard = ShardPlace { shard: ShardId(1), is_open: false, members, hosts: Vec::new() };
        ChunkMap { shards: vec![shard], ..ChunkMap::default() }
    };
    survives(&map(MAX_SHARD_NODES));
    let mut longer = encode(&map(MAX_SHARD_NODES)).to_vec();
    let at = longer.len() - 1 - 4 * MAX_SHARD_NODES - 1;
    assert_eq!(longer[at], MAX_SHARD_NODES as u8);
    longer[at] += 1;
    longer.extend([0; 4]);
    assert_eq!(refused::<ChunkMap>(longer).field, "members");
}

#[test]
#[should_panic(expected = "at most")]
fn too_long_a_list_is_not_sent() {
    let freed = vec![ChunkId::default(); MAX_FREED + 1];
    encode(&UnitRequest::Report(NodeReport {
        node: NodeId(1),
        shard: ShardId(1),
        host: None,
        freed,
        rotten: Vec::new(),
        damaged: Vec::new(),
        stuck: Vec::new(),
        rooms: Vec::new(),
        machine: MachineUse::default(),
    }));
}

#[test]
fn addresses_are_text_of_limited_length() {
    let route = |address: String| {
        let reply = ReplyTo { address, token: 1 };
        HostRequest::Route { id: ChunkId::default(), has_content: false, reply }
    };
    survives(&route("a".repeat(MAX_ADDRESS_BYTES)));
    let at = 2 + 20 + 1;
    let mut bytes = encode(&route("abc".to_owned())).to_vec();
    bytes[at + 3] = 0xff;
    let error = refused::<HostRequest>(bytes.clone());
    assert_eq!((error.field, error.offset, error.fault), ("address", at + 3, Fault::Unknown { found: 0xff }));
    bytes[at..at + 2].copy_from_slice(&(MAX_ADDRESS_BYTES as u16 + 1).to_le_bytes());
    bytes.extend([0; MAX_ADDRESS_BYTES]);
    let error = refused::<HostRequest>(bytes);
    assert_eq!((error.field, error.offset), ("address", at), "{error}");
}

#[test]
fn pieces_lie_in_their_snapshot() {
    let piece = |total_bytes, offset, length| {
        let bytes = vec![7; length];
        HostRequest::Piece(SnapshotPiece { stream: Stream::default(), number: 1, total_bytes, offset, bytes })
    };
    survives(&piece(10, 8, 2));
    survives(&piece(10, 10, 0));
    let longest = piece(MAX_SNAPSHOT_BYTES as u32, 0, MAX_PIECE_BYTES);
    assert_eq!(decode(&encode(&longest)), Ok(longest));
    for (wrong, field) in [
        (piece(10, 9, 2), "piece"),
        (piece(10, 11, 0), "offset"),
        (piece(MAX_SNAPSHOT_BYTES as u32 + 1, 0, 1), "total_bytes"),
        (piece(u32::MAX, u32::MAX, 1), "total_bytes"),
    ] {
        assert_eq!(refused::<HostRequest>(encode(&wrong)).field, field, "{wrong:?}");
    }
}
