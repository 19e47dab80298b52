//! What holds for all placers that see the load; each one's own purpose has a file of its own.

mod baselines;
mod heat;
mod purposes;

use super::*;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

const LEVELS: [Level; 5] = [Level::Device, Level::Host, Level::Rack, Level::Pod, Level::Zone];

/// SplitMix64.
fn dice(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

fn branch([zone, pod, rack, host]: [u32; 4]) -> Branch {
    Branch { zone, pod, rack, host }
}

fn node(id: u32, place: [u32; 4], load: Load) -> Node {
    Node { id: NodeId(id), branch: branch(place), load, is_up: true }
}

/// A node on each of `hosts` hosts in each of `racks` racks in each of `pods` pods in each of `zones` zones.
fn even([zones, pods, racks, hosts]: [u32; 4], blocks: u32) -> Cluster {
    let count = zones * pods * racks * hosts;
    let place = |at: u32| [at / (pods * racks * hosts), at / (racks * hosts) % pods, at / hosts % racks, at % hosts];
    Cluster::new((0..count).map(|at| node(at, place(at), Load::empty(blocks))).collect()).unwrap()
}

fn request(copies: usize, apart: Level) -> Request<'static> {
    Request { copies, apart, has: &[], writer: None, chunk: 0, made: Made(0) }
}

/// The domain of a level that a node stands in.
fn domain(node: &Node, level: Level) -> Vec<u32> {
    let Branch { zone, pod, rack, host } = node.branch;
    let whole = [zone, pod, rack, host, node.id.0];
    let depth = LEVELS.iter().rev().position(|other| *other == level).unwrap();
    whole[..=depth].to_vec()
}

fn domains<'a>(nodes: impl Iterator<Item = &'a Node>, level: Level) -> BTreeSet<Vec<u32>> {
    nodes.map(|node| domain(node, level)).collect()
}

/// Clusters of which some nodes are full, busy or away.
fn clusters() -> impl Strategy<Value = Cluster> {
    let share = || (0u16..1000).prop_map(Permille);
    let load = (0u32..4, share(), share(), share());
    let one = ((0u32..3, 0u32..2, 0u32..3, 0u32..3), load, prop::bool::weighted(0.9));
    prop::collection::vec(one, 0..24).prop_map(|found| {
        let node = |(id, ((zone, pod, rack, host), (free_blocks, network, memory, cpu), is_up))| Node {
            id: NodeId(id),
            branch: branch([zone, pod, rack, host]),
            load: Load { blocks: 4, free_blocks, network, memory, cpu },
            is_up,
        };
        Cluster::new((0..).zip(found).map(node).collect()).unwrap()
    })
}

/// A cluster, nodes that have a copy (some of no known node) and where the writer is.
fn situations() -> impl Strategy<Value = (Cluster, Vec<NodeId>, Option<Branch>)> {
    let writer = prop::option::of((0u32..4, 0u32..2, 0u32..3, 0u32..3).prop_map(|(a, b, c, d)| branch([a, b, c, d])));
    (clusters(), prop::collection::btree_set((0u32..30).prop_map(NodeId), 0..3), writer)
        .prop_flat_map(|(cluster, has, writer)| (Just(cluster), Just(has.into_iter().collect()), Just(writer)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Nodes differ, take chunks and are apart, also from those that have a copy; and if copies find no place there is none.
    #[test]
    fn placers_find_what_there_is(
        (cluster, has, writer) in situations(),
        copies in 1usize..5,
        level in 0usize..5,
        which in 0usize..3,
        seed in any::<u64>(),
    ) {
        let apart = LEVELS[level];
        let request = Request { copies, apart, has: &has, writer, chunk: 7, made: Made(0) };
        let locality = Locality { beyond: apart };
        let placer: &dyn Placer = [&LeastLoaded as &dyn Placer, &locality, &Spread][which];
        let held = domains(has.iter().filter_map(|id| cluster.node(*id)), apart);
        let open = domains(cluster.nodes().iter().filter(|node| node.is_open()), apart);
        let free = open.difference(&held).count();
        match placer.place(&cluster, &request, &mut dice(seed)) {
            Ok(chosen) => {
                let nodes: Vec<&Node> = chosen.iter().map(|id| cluster.node(*id).unwrap()).collect();
                prop_assert!(nodes.iter().all(|node| node.is_open()));
                let found = domains(nodes.iter().copied(), apart);
                prop_assert_eq!((nodes.len(), found.len()), (copies, copies));
                prop_assert!(found.is_disjoint(&held));
            }
            Err(PlaceError::Lacking(lacking)) => {
                prop_assert!(free < copies, "{free} domains are free: {lacking}");
                let known = has.len();
                prop_assert_eq!((lacking.wanted, lacking.found, lacking.has), (copies, free, known));
                prop_assert_eq!(lacking.open_domains, open.len());
                prop_assert_eq!(lacking.domains, domains(cluster.nodes().iter(), apart).len());
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    /// What domains know of their nodes stays right while nodes report and blocks are taken.
    #[test]
    fn domains_count_their_nodes(
        cluster in clusters(),
        changes in prop::collection::vec((0u32..30, prop::option::of((0u32..4, 0u16..1000, any::<bool>()))), 0..30),
    ) {
        let mut changed = cluster.clone();
        for (id, change) in changes {
            let id = NodeId(id);
            let before = changed.node(id).copied();
            match change {
                None => {
                    let has_block = before.is_some_and(|node| !node.load.is_full());
                    prop_assert_eq!(changed.take_block(id), has_block);
                }
                Some((free_blocks, cpu, is_up)) => {
                    let load = Load { blocks: 4, free_blocks, cpu: Permille(cpu), ..Load::default() };
                    prop_assert_eq!(changed.report(id, load, is_up), before.is_some());
                }
            }
        }
        let again = Cluster::new(changed.nodes().to_vec()).unwrap();
        for level in LEVELS {
            prop_assert_eq!(changed.count(level), again.count(level));
            let whole = 0..changed.nodes().len();
            for (one, other) in changed.domains_in(&whole, level).iter().zip(again.domains_in(&whole, level)) {
                prop_assert_eq!((one.open, one.free_blocks), (other.open, other.free_blocks));
                let open = changed.nodes()[one.nodes.clone()].iter().filter(|node| node.is_open()).count();
                prop_assert_eq!(one.open, open);
            }
        }
    }
}

#[test]
fn a_node_stands_in_a_cluster_once() {
    let cluster = even([1, 1, 1, 2], 4);
    assert_eq!(cluster.with(node(1, [0, 0, 5, 0], Load::empty(4))).unwrap_err(), ClusterError(NodeId(1)));
    let grown = cluster.with(node(2, [0, 0, 0, 5], Load::empty(4))).unwrap();
    assert_eq!((grown.nodes().len(), cluster.count(Level::Host), grown.count(Level::Host)), (3, (2, 2), (3, 3)));
}

#[test]
fn utilisation_is_that_of_the_resource_that_is_used_most() {
    let load = Load { blocks: 200, free_blocks: 150, network: Permille(300), memory: Permille(100), cpu: Permille(0) };
    assert_eq!(load.utilisation(), Permille(300));
    assert_eq!(Load { free_blocks: 50, ..load }.utilisation(), Permille(750));
    assert_eq!(Load::default().utilisation(), Permille(1000), "without blocks there is nothing free");
    assert!(!Load { cpu: HIGH_LOAD, ..load }.is_busy());
    assert!(Load { cpu: Permille(HIGH_LOAD.0 + 1), ..load }.is_busy());
    let full_memory = Load { memory: Permille(950), ..load };
    assert!(full_memory.is_busy() && full_memory.utilisation() == load.utilisation() && !full_memory.relieved().is_busy());
}

#[test]
fn errors_say_what_is_lacking() {
    let full = Load { blocks: 4, ..Load::default() };
    let busy = Load { cpu: Permille(950), ..Load::empty(4) };
    let away = Node { is_up: false, ..node(3, [0, 0, 1, 0], Load::empty(4)) };
    let nodes = vec![node(0, [0, 0, 0, 0], Load::empty(4)), node(1, [0, 0, 0, 1], full), node(2, [0, 0, 2, 0], busy), away];
    let cluster = Cluster::new(nodes).unwrap();
    let error = Spread.place(&cluster, &request(2, Level::Rack), &mut dice(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 new copies on different racks: 1 found a place; of 3 racks 1 have a node that takes chunks; \
         of 4 nodes 1 are full, 1 busy, 1 away"
    );
    let has = [NodeId(0)];
    let error = LeastLoaded.place(&cluster, &Request { has: &has, ..request(1, Level::Device) }, &mut dice(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 new copies on different nodes, apart from 1 that are there: 0 found a place; of 4 nodes 1 have a node that takes chunks; \
         of 4 nodes 1 are full, 1 busy, 1 away"
    );
    let error = LeastLoaded.place(&cluster, &request(MAX_COPIES + 1, Level::Device), &mut dice(1)).unwrap_err();
    assert_eq!(error, PlaceError::TooManyCopies { copies: 9 });
}
