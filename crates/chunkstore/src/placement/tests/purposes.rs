//! What each placer is for.

use super::*;

/// 40,000 chunks on 100 nodes, each counted as it is placed: chance alone would spread by 20 around the mean of 400.
#[test]
fn least_loaded_keeps_nodes_level() {
    let mut cluster = even([1, 1, 10, 10], 1000);
    let mut random = dice(3);
    for _ in 0..40_000 {
        let chosen = LeastLoaded.place(&cluster, &request(1, Level::Device), &mut random).unwrap();
        assert!(cluster.take_block(chosen[0]));
    }
    let used: Vec<u32> = cluster.nodes().iter().map(|node| 1000 - node.load.free_blocks).collect();
    assert!(used.iter().all(|used| (392..=405).contains(used)), "{used:?}");
}

/// A new node is chosen whenever it is drawn until it is as full as the others, and nothing moves.
#[test]
fn least_loaded_fills_a_new_node() {
    let mut cluster = even([1, 1, 1, 9], 1000);
    let ids: Vec<NodeId> = cluster.nodes().iter().map(|node| node.id).collect();
    ids.iter().for_each(|id| (0..500).for_each(|_| assert!(cluster.take_block(*id))));
    let cluster = cluster.with(node(9, [0, 0, 0, 9], Load::empty(1000))).unwrap();
    let mut random = dice(4);
    let is_new =
        |random: &mut Random<'_>| LeastLoaded.place(&cluster, &request(1, Level::Device), random).unwrap()[0] == NodeId(9);
    let drawn = (0..10_000).filter(|_| is_new(&mut random)).count();
    // 1 − 0.9², within five standard deviations.
    assert!((1704..=2096).contains(&drawn), "{drawn}");
}

#[test]
fn the_only_open_nodes_are_found_among_many() {
    let mut cluster = even([2, 2, 10, 25], 4);
    let ids: Vec<NodeId> = cluster.nodes().iter().map(|node| node.id).collect();
    let is_kept = |id: NodeId| [17, 400, 999].contains(&id.0);
    ids.iter().filter(|id| !is_kept(**id)).for_each(|id| assert!(cluster.report(*id, Load::default(), true)));
    let placers: [&dyn Placer; 3] = [&LeastLoaded, &Spread, &Locality { beyond: Level::Host }];
    for placer in placers {
        let mut chosen = placer.place(&cluster, &request(3, Level::Rack), &mut dice(5)).unwrap();
        chosen.sort_unstable();
        assert_eq!(chosen, [17, 400, 999].map(NodeId));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No node that might have got the copy is nearer to the writer.
    #[test]
    fn locality_is_nearest((cluster, has, writer) in situations(), seed in any::<u64>()) {
        let writer = writer.unwrap_or_default();
        let request = Request { has: &has, writer: Some(writer), ..request(1, Level::Host) };
        let held = domains(has.iter().filter_map(|id| cluster.node(*id)), Level::Host);
        let may = |node: &&Node| node.is_open() && !held.contains(&domain(node, Level::Host));
        if let Ok(chosen) = (Locality { beyond: Level::Host }).place(&cluster, &request, &mut dice(seed)) {
            let parts = |node: &Node| node.branch.parts_at(&writer);
            let nearest = cluster.nodes().iter().filter(may).map(parts).min();
            prop_assert_eq!(Some(parts(cluster.node(chosen[0]).unwrap())), nearest);
        }
    }

    /// As many zones as there are, and in a zone that has two copies as many pods.
    #[test]
    fn spread_uses_all_zones(cluster in clusters(), copies in 1usize..6, seed in any::<u64>()) {
        if let Ok(chosen) = Spread.place(&cluster, &request(copies, Level::Device), &mut dice(seed)) {
            let nodes: Vec<&Node> = chosen.iter().map(|id| cluster.node(*id).unwrap()).collect();
            let open = domains(cluster.nodes().iter().filter(|node| node.is_open()), Level::Zone);
            prop_assert_eq!(domains(nodes.iter().copied(), Level::Zone).len(), copies.min(open.len()));
        }
    }
}

#[test]
fn locality_stays_near_and_leaves_the_rack_once() {
    let cluster = even([2, 2, 4, 5], 8);
    let place = [1, 0, 2, 3];
    let request = Request { writer: Some(branch(place)), ..request(3, Level::Host) };
    for seed in 0..200 {
        let chosen = (Locality { beyond: Level::Rack }).place(&cluster, &request, &mut dice(seed)).unwrap();
        let branches: Vec<Branch> = chosen.iter().map(|id| cluster.node(*id).unwrap().branch).collect();
        let parts: Vec<Option<Level>> = branches.iter().map(|other| other.parts_at(&branch(place))).collect();
        assert_eq!(parts, [None, Some(Level::Host), Some(Level::Rack)], "its host, its rack, its pod");
    }
}

/// The last copy may not be where all the others are, also when the others were there before.
#[test]
fn locality_repairs_away_from_the_others() {
    let cluster = even([2, 1, 2, 4], 8);
    let has = [NodeId(0), NodeId(1)];
    let request = Request { has: &has, writer: Some(branch([0, 0, 0, 0])), ..request(1, Level::Host) };
    for seed in 0..50 {
        let chosen = (Locality { beyond: Level::Zone }).place(&cluster, &request, &mut dice(seed)).unwrap();
        assert_eq!(cluster.node(chosen[0]).unwrap().branch.zone, 1);
    }
    let alone = even([1, 1, 2, 4], 8);
    let error = (Locality { beyond: Level::Zone }).place(&alone, &request, &mut dice(1)).unwrap_err();
    assert!(matches!(error, PlaceError::Lacking(Lacking { found: 0, .. })), "{error}");
}

#[test]
fn spread_goes_down_the_hierarchy() {
    let cluster = even([2, 2, 2, 2], 8);
    for seed in 0..100 {
        let chosen = Spread.place(&cluster, &request(8, Level::Host), &mut dice(seed)).unwrap();
        for (copies, level, most) in [(2, Level::Zone, 2), (4, Level::Pod, 4), (8, Level::Rack, 8)] {
            let nodes = chosen[..copies].iter().map(|id| cluster.node(*id).unwrap());
            assert_eq!(domains(nodes, level).len(), most, "the first {copies}");
        }
    }
}

/// Among equals, a zone gets the share of its free blocks.
#[test]
fn spread_follows_free_space() {
    let nodes = vec![node(0, [0, 0, 0, 0], Load::empty(300)), node(1, [1, 0, 0, 0], Load::empty(100))];
    let cluster = Cluster::new(nodes).unwrap();
    let mut random = dice(6);
    let mut first = || Spread.place(&cluster, &request(1, Level::Host), &mut random).unwrap()[0] == NodeId(0);
    let count = (0..10_000).filter(|_| first()).count();
    assert!((7284..=7716).contains(&count), "{count}");
}
