use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use super::Peeling;
use crate::classifier::Classifier;
use crate::forest::{Ends, Forest, Ties};
use crate::shape::Shape;

const NODES: (u32, u32) = (21, 18);

fn classifier() -> Classifier<AtomicU64> {
    let shape = Shape::new(10, 8, 0).expect("valid");
    assert!(shape.side_a() >= u64::from(NODES.0) && shape.side_b() >= u64::from(NODES.1), "the test's nodes exist");
    Classifier::new(&shape, 0)
}

fn solve(edges: &[(Ends, u32)], classifier: &Classifier<AtomicU64>) -> bool {
    let mut peeling = Peeling::new(u64::from(NODES.0 + NODES.1));
    edges.iter().for_each(|(ends, choice)| peeling.add(*ends, *choice));
    peeling.solve(classifier)
}

fn bits(classifier: &Classifier<AtomicU64>) -> u32 {
    (0..u64::from(NODES.0 + NODES.1)).map(|node| classifier.array().bit(node)).sum()
}

#[test]
fn two_edges_between_two_nodes_are_a_cycle() {
    let classifier = classifier();
    for choices in [[0, 0], [0, 1]] {
        assert!(!solve(&[([0, 30], choices[0]), ([0, 30], choices[1])], &classifier));
        assert_eq!(bits(&classifier), 0, "nothing was set");
    }
}

#[test]
fn a_cycle_behind_leaves_is_noticed() {
    let classifier = classifier();
    let square = [([0, 30], 1), ([0, 31], 0), ([1, 30], 0), ([1, 31], 0)];
    assert!(!solve(&[&square[..], &[([2, 31], 1), ([2, 32], 1)]].concat(), &classifier));
    assert_eq!(bits(&classifier), 0);
    assert!(solve(&square[..3], &classifier), "a path");
}

proptest::proptest! {
    /// The keyed side's forest, which takes edges one by one, says whether there is a cycle.
    #[test]
    fn agrees_with_the_forest(edges in proptest::collection::vec((0..NODES.0, 0..NODES.1, 0..2_u32), 0..25)) {
        let edges: Vec<(Ends, u32)> = edges.into_iter().map(|(a, b, choice)| ([a, NODES.0 + b], choice)).collect();
        let mut forest = Forest::new(u64::from(NODES.0), u64::from(NODES.1), edges.len() as u64);
        let mut acyclic = true;
        for (slot, (ends, _)) in edges.iter().enumerate() {
            match forest.ties(*ends) {
                Ties::Joined => acyclic = false,
                Ties::Apart(_) => forest.link(slot as u32, *ends),
            }
        }
        let classifier = classifier();
        assert_eq!(solve(&edges, &classifier), acyclic);
        if acyclic {
            for (ends, choice) in &edges {
                assert_eq!(classifier.of_nodes(ends.map(u64::from)), *choice, "{ends:?}");
            }
            let touched: BTreeSet<u32> = edges.iter().flat_map(|(ends, _)| *ends).collect();
            assert!(bits(&classifier) as usize <= touched.len());
        }
    }
}
