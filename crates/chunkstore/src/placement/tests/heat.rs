//! Relocation plans.

use super::super::heat::{HotChunk, Limits, Move, plan};
use super::*;
use std::collections::BTreeMap;

const ALL: Limits = Limits { tolerance: Permille(0), moves: usize::MAX };

/// Nodes, and chunks as (heat, node, another node with a copy).
fn situations() -> impl Strategy<Value = (Cluster, Vec<HotChunk<usize>>, BTreeMap<NodeId, u64>)> {
    let chunks = prop::collection::vec((0u64..100, 0u32..24, 0u32..24, any::<bool>()), 0..200);
    (clusters(), chunks).prop_map(|(cluster, found)| {
        let chunk = |(chunk, (heat, at, other, has_other)): (usize, (u64, u32, u32, bool))| HotChunk {
            chunk,
            heat,
            at: NodeId(at),
            others: if has_other && other != at { vec![NodeId(other)] } else { Vec::new() },
        };
        let chunks: Vec<HotChunk<usize>> = found.into_iter().enumerate().map(chunk).collect();
        let mut heats: BTreeMap<NodeId, u64> = BTreeMap::new();
        chunks.iter().for_each(|chunk| *heats.entry(chunk.at).or_default() += chunk.heat);
        (cluster, chunks, heats)
    })
}

fn carry_out(heats: &mut BTreeMap<NodeId, u64>, step: &Move<usize>) {
    *heats.entry(step.from).or_default() -= step.heat;
    *heats.entry(step.to).or_default() += step.heat;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Each move leaves its target cooler than its source was, uses a node that may hold the chunk, and moves no chunk twice.
    #[test]
    fn moves_only_help((cluster, chunks, mut heats) in situations(), limit in 0usize..50) {
        let moves = plan(&cluster, &heats, &chunks, Level::Host, Limits { tolerance: Permille(0), moves: limit });
        prop_assert!(moves.len() <= limit);
        let mut seen = BTreeSet::new();
        let mut given: BTreeMap<NodeId, u32> = BTreeMap::new();
        for step in &moves {
            let chunk = &chunks[step.chunk];
            prop_assert_eq!((chunk.heat, chunk.at), (step.heat, step.from));
            prop_assert!(seen.insert(step.chunk), "chunk {} moves twice", step.chunk);
            let before = heats[&step.from];
            carry_out(&mut heats, step);
            prop_assert!(heats[&step.to] < before);
            let target = cluster.node(step.to).unwrap();
            let taken = given.entry(step.to).or_default();
            *taken += 1;
            prop_assert!(target.is_open() && *taken <= target.load.free_blocks);
            let held = domains(chunk.others.iter().filter_map(|id| cluster.node(*id)), Level::Host);
            prop_assert!(!held.contains(&domain(target, Level::Host)));
        }
    }
}

/// Ten nodes of very different heat, many small chunks: all come within a chunk of the mean.
#[test]
fn small_chunks_are_balanced() {
    let cluster = even([1, 1, 2, 5], 1000);
    let mut random = dice(8);
    let mut heats = BTreeMap::new();
    let mut chunks = Vec::new();
    for id in 0..10u32 {
        for _ in 0..40 * (id + 1) {
            let heat = below(&mut random, 10);
            chunks.push(HotChunk { chunk: chunks.len(), heat, at: NodeId(id), others: Vec::new() });
            *heats.entry(NodeId(id)).or_default() += heat;
        }
    }
    let mean = heats.values().sum::<u64>() / 10;
    let moves = plan(&cluster, &heats, &chunks, Level::Host, ALL);
    moves.iter().for_each(|step| carry_out(&mut heats, step));
    assert!(heats.values().all(|heat| heat.abs_diff(mean) <= 10), "{mean}: {heats:?}");
    assert!(moves.len() < chunks.len() / 3, "{} moves of {} chunks", moves.len(), chunks.len());
}

#[test]
fn nodes_near_the_mean_are_left_alone() {
    let cluster = even([1, 1, 1, 2], 8);
    let heats = BTreeMap::from([(NodeId(0), 104), (NodeId(1), 96)]);
    let chunks = [HotChunk { chunk: 'a', heat: 3, at: NodeId(0), others: Vec::new() }];
    let limits = |tolerance| Limits { tolerance: Permille(tolerance), moves: 9 };
    assert_eq!(plan(&cluster, &heats, &chunks, Level::Host, limits(40)), []);
    let step = Move { chunk: 'a', heat: 3, from: NodeId(0), to: NodeId(1) };
    assert_eq!(plan(&cluster, &heats, &chunks, Level::Host, limits(39)), [step]);
}

/// The hottest node holds one chunk that would make any other as hot; the next hottest is helped all the same.
#[test]
fn a_node_that_cannot_be_helped_does_not_stop_the_plan() {
    let cluster = even([1, 1, 1, 3], 8);
    let heats = BTreeMap::from([(NodeId(0), 100), (NodeId(1), 60)]);
    let chunk = |chunk, heat, at| HotChunk { chunk, heat, at: NodeId(at), others: Vec::new() };
    let chunks = [chunk('a', 100, 0), chunk('b', 30, 1), chunk('c', 30, 1)];
    let moves = plan(&cluster, &heats, &chunks, Level::Host, ALL);
    assert_eq!(moves, [Move { chunk: 'c', heat: 30, from: NodeId(1), to: NodeId(2) }]);
}
