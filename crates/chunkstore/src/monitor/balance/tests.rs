use std::collections::BTreeMap;

use env::MachineUse;
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use topology::Branch;
use types::{DeviceId, NodeId};

use super::{candidates, others_there};
use crate::limits::{BALANCE_FLOOR, MAX_BALANCE_LOOKS};
use crate::placement::{Cluster, Load, Node};
use crate::protocol::{HotCopy, LoadReport};

fn copy(number: u64, node: u32, heat: u64) -> HotCopy {
    let id = ChunkId { shard: ShardId(1), number: ChunkNumber(number), nonce: ChunkNonce(1) };
    HotCopy { id, place: BlockPlace::new(DeviceId(node), 0).expect("a place"), heat }
}

/// Nodes with these heats, each with copies of chunks 1, 2, 3 … of these heats.
fn chosen(nodes: &[(u64, &[u64])], rests: u64) -> Vec<(NodeId, ChunkNumber, u64)> {
    let branch = |host| Branch { zone: 0, pod: 0, rack: 0, host };
    let node = |id: u32| Node { id: NodeId(id), branch: branch(id), load: Load::empty(1), is_up: true };
    let cluster = Cluster::new((0..nodes.len() as u32).map(node).collect()).expect("each once");
    let report = |(node, (heat, hot)): (usize, &(u64, &[u64]))| LoadReport {
        node: NodeId(node as u32),
        heat: *heat,
        machine: MachineUse::default(),
        hot: (1..).zip(*hot).map(|(number, heat)| copy(number, node as u32, *heat)).collect(),
    };
    let reports: Vec<LoadReport> = nodes.iter().enumerate().map(report).collect();
    let heats: BTreeMap<NodeId, u64> = reports.iter().map(|report| (report.node, report.heat)).collect();
    let found = candidates(&cluster, &heats, &reports, |id| id.number.0 == rests);
    found.into_iter().map(|(node, copy)| (node, copy.id.number, copy.heat)).collect()
}

#[test]
fn only_nodes_far_above_the_mean_give_chunks_away() {
    let (base, much) = (10 * BALANCE_FLOOR, 20 * BALANCE_FLOOR);
    assert_eq!(chosen(&[(base, &[50]), (base + base / 10, &[60]), (base, &[70])], 0), []);
    assert_eq!(
        chosen(&[(base, &[50]), (much, &[60, 80]), (base, &[70])], 0),
        [(NodeId(1), ChunkNumber(2), 80), (NodeId(1), ChunkNumber(1), 60)]
    );
    // What was to move a moment ago rests.
    assert_eq!(chosen(&[(base, &[50]), (much, &[60, 80]), (base, &[70])], 2), [(NodeId(1), ChunkNumber(1), 60)]);
}

#[test]
fn an_idle_cluster_is_left_alone() {
    assert_eq!(chosen(&[(BALANCE_FLOOR, &[50]), (0, &[]), (0, &[])], 0), []);
}

#[test]
fn a_chunk_is_looked_at_once_and_no_more_than_some() {
    let many: Vec<u64> = (1..=2 * MAX_BALANCE_LOOKS as u64).collect();
    let found = chosen(&[(9 * BALANCE_FLOOR, &many), (9 * BALANCE_FLOOR, &many), (0, &[]), (0, &[])], 0);
    let numbers: std::collections::BTreeSet<ChunkNumber> = found.iter().map(|(_, number, _)| *number).collect();
    assert_eq!((found.len(), numbers.len()), (MAX_BALANCE_LOOKS, MAX_BALANCE_LOOKS));
    assert!(found.iter().all(|(_, _, heat)| *heat > MAX_BALANCE_LOOKS as u64));
}

/// Its relocation would wait for that node.
#[test]
fn a_chunk_stays_while_the_node_of_another_copy_is_not_heard() {
    let place = |device| BlockPlace::new(DeviceId(device), 0).expect("a place");
    let places = ChunkPlaces::new(&[place(1), place(2), place(3)]).expect("three");
    let others = |heard: &[u32]| {
        let heats = heard.iter().map(|node| (NodeId(*node), 1)).collect();
        others_there(&places, place(1), |device| Some(NodeId(device.0)), &heats)
    };
    assert_eq!(others(&[1, 2, 3]), Some(vec![NodeId(2), NodeId(3)]));
    assert_eq!(others(&[1, 2]), None);
    assert_eq!(others_there(&places, place(1), |_| None, &BTreeMap::new()), None, "nobody has that device");
}
