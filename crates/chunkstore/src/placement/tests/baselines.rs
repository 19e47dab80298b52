//! CRUSH and MapX.

use super::*;
use manager::modules::chunks::limits::FIRST_SHARD;
use topology::{Group, PlacementGroups};

const CHUNKS: u64 = 4000;

fn groups(count: u32) -> PlacementGroups {
    PlacementGroups::new(0, count).unwrap()
}

fn placed(placer: &dyn Placer, made: u64) -> Vec<Vec<NodeId>> {
    let nowhere = Cluster::default();
    let place = |chunk| Request { chunk, made: Made(made), ..request(3, Level::Rack) };
    (0..CHUNKS).map(|chunk| placer.place(&nowhere, &place(chunk), &mut dice(0)).unwrap()).collect()
}

fn more(cluster: &Cluster, rack: u32, hosts: u32) -> Vec<Node> {
    let next = cluster.nodes().len() as u32 + 1000 * rack;
    (0..hosts).map(|host| node(next + host, [0, 0, rack, host], Load::empty(8))).collect()
}

#[test]
fn crush_keeps_copies_apart_and_moves_them_when_nodes_come() {
    let cluster = even([1, 1, 5, 4], 8);
    let before = placed(&Crush::new(cluster.nodes(), groups(512)).unwrap(), 0);
    for chosen in &before {
        assert_eq!(domains(chosen.iter().map(|id| cluster.node(*id).unwrap()), Level::Rack).len(), 3);
    }
    let grown = [cluster.nodes(), &more(&cluster, 0, 1)].concat();
    let after = placed(&Crush::new(&grown, groups(512)).unwrap(), 0);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!(moved > CHUNKS as usize / 21, "{moved}");
}

/// It cannot do otherwise: where a chunk is follows from its name.
#[test]
fn crush_chooses_full_nodes() {
    let mut cluster = even([1, 1, 3, 1], 8);
    let crush = Crush::new(cluster.nodes(), groups(16)).unwrap();
    assert!(cluster.report(NodeId(0), Load { blocks: 8, ..Load::default() }, false));
    let chosen = crush.place(&cluster, &request(3, Level::Rack), &mut dice(0)).unwrap();
    assert!(chosen.contains(&NodeId(0)));
    let error = crush.place(&cluster, &request(4, Level::Rack), &mut dice(0)).unwrap_err();
    assert_eq!(error.to_string(), "by the map: 4 copies need as many racks, and 3 that hold none of them have weight");
}

#[test]
fn mapx_expands_without_moving() {
    let cluster = even([1, 1, 3, 2], 8);
    let mut mapx = MapX::new(cluster.nodes(), 64, 3, Level::Rack).unwrap();
    let before = placed(&mapx, 5);
    let added: Vec<Node> = (10..13).flat_map(|rack| more(&cluster, rack, 2)).collect();
    assert_eq!(mapx.expand(Made(6), &added, 64), Ok(1));
    assert_eq!(placed(&mapx, 5), before, "what was made before stays");
    let is_new = |id: &NodeId| added.iter().any(|node| node.id == *id);
    assert!(placed(&mapx, 6).iter().flatten().all(is_new), "what is made now goes to the new nodes");
    assert!(placed(&mapx, 100).iter().flatten().all(is_new));
}

#[test]
fn mapx_moves_whole_groups_when_it_is_told_to() {
    let cluster = even([1, 1, 3, 2], 8);
    let mut mapx = MapX::new(cluster.nodes(), 64, 3, Level::Rack).unwrap();
    let added: Vec<Node> = (10..13).flat_map(|rack| more(&cluster, rack, 2)).collect();
    mapx.expand(Made(6), &added, 64).unwrap();
    let before = placed(&mapx, 0);
    for group in 0..16 {
        mapx.remap(0, Group(group), 1).unwrap();
    }
    let after = placed(&mapx, 0);
    for (chunk, (before, after)) in before.iter().zip(&after).enumerate() {
        let is_moved = groups(64).group_of(chunk as u64).0 < 16;
        assert_eq!(before != after, is_moved, "chunk {chunk}");
    }
    assert_eq!(mapx.remap(1, Group(0), 0), Err(RemapError { from: 1, to: 0, layers: 2 }));
    assert_eq!(mapx.remap(0, Group(0), 2), Err(RemapError { from: 0, to: 2, layers: 2 }));
}

#[test]
fn mapx_refuses_layers_that_hold_no_chunk() {
    let cluster = even([1, 1, 3, 2], 8);
    let mut mapx = MapX::new(cluster.nodes(), 64, 3, Level::Rack).unwrap();
    let one = more(&cluster, 10, 1);
    let error = mapx.expand(Made(6), &one, 64).unwrap_err();
    assert_eq!(error, ExpandError::TooFewDomains { level: Level::Rack, wanted: 3, found: 1 });
    let added: Vec<Node> = (10..13).flat_map(|rack| more(&cluster, rack, 1)).collect();
    assert_eq!(mapx.expand(Made(0), &added, 64), Err(ExpandError::NotLater { last: Made(0) }));
    assert!(matches!(mapx.expand(Made(1), &added, 0), Err(ExpandError::Groups(_))));
    let twice = [added[0], added[0]];
    assert!(matches!(mapx.expand(Made(1), &twice, 64), Err(ExpandError::Tree(_))));
}

#[test]
fn placers_have_names() {
    let named = |name: &str| name.parse::<PlacerChoice>();
    assert_eq!(named("least-loaded"), Ok(PlacerChoice::LeastLoaded));
    assert_eq!(named("crush"), Ok(PlacerChoice::Crush));
    assert_eq!(named("mapx"), Ok(PlacerChoice::MapX));
    assert!(named("hash").unwrap_err().to_string().contains("`least-loaded`, `crush` or `mapx`, not `hash`"));
}

/// The first three nodes take the chunks of the first shard, the others those of later ones.
#[test]
fn a_choice_of_mapx_makes_layers_of_three() {
    let cluster = even([1, 1, 1, 7], 8);
    let placer = PlacerChoice::MapX.over(&cluster).unwrap();
    let chosen = |made: u64| -> BTreeSet<NodeId> {
        let request = |chunk| Request { chunk, made: Made(made), ..request(3, Level::Host) };
        (0..CHUNKS).flat_map(|chunk| placer.place(&cluster, &request(chunk), &mut dice(0)).unwrap()).collect()
    };
    let ids = |from: u32, to: u32| (from..to).map(NodeId).collect::<BTreeSet<_>>();
    assert_eq!(chosen(u64::from(FIRST_SHARD)), ids(0, 3));
    assert_eq!(chosen(u64::from(FIRST_SHARD) + 1), ids(3, 7));
    assert_eq!(chosen(9), ids(3, 7));
    // A copy that is made again goes where there is a fourth node.
    let has = [NodeId(0), NodeId(2)];
    let again = Request { copies: 1, has: &has, ..request(1, Level::Host) };
    let mut gone = cluster.nodes().to_vec();
    gone.remove(1);
    let smaller = Cluster::new(gone).unwrap();
    let placed = PlacerChoice::MapX.over(&smaller).unwrap().place(&smaller, &again, &mut dice(0)).unwrap();
    assert!(placed.len() == 1 && !has.contains(&placed[0]), "{placed:?}");
    assert!(PlacerChoice::MapX.over(&even([1, 1, 1, 2], 8)).is_none(), "two nodes are no layer");
}

/// Where a chunk goes follows from its hash, whatever the dice say.
#[test]
fn a_choice_of_crush_goes_by_the_hash() {
    let cluster = even([1, 1, 1, 6], 8);
    let placer = PlacerChoice::Crush.over(&cluster).unwrap();
    let place = |chunk, seed| {
        let request = Request { chunk, ..request(3, Level::Host) };
        placer.place(&cluster, &request, &mut dice(seed)).unwrap()
    };
    assert!((0..CHUNKS).all(|chunk| place(chunk, 1) == place(chunk, 2)));
    assert!((1..CHUNKS).any(|chunk| place(chunk, 1) != place(0, 1)));
}
