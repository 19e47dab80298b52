use std::collections::{BTreeMap, BTreeSet};

use super::{Ends, Forest, Ties};

const SIDE_A: u64 = 40;
const SIDE_B: u64 = 30;
const SLOTS: u64 = 60;

/// The nodes that can be reached from `start` over the edges.
fn tree(edges: &BTreeMap<u32, Ends>, start: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([start]);
    loop {
        let before = found.len();
        for [a, b] in edges.values() {
            if found.contains(a) || found.contains(b) {
                found.extend([*a, *b]);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn assert_ties(forest: &Forest, edges: &BTreeMap<u32, Ends>, ends: Ends) -> bool {
    let trees = ends.map(|node| tree(edges, node));
    match forest.ties(ends) {
        Ties::Joined => assert!(trees[0].contains(&ends[1]), "{ends:?} are in two trees"),
        Ties::Apart(nodes) => {
            let nodes = BTreeSet::from_iter(nodes);
            assert!(trees.contains(&nodes), "{nodes:?} is neither tree of {ends:?}");
            assert!(!trees[0].contains(&ends[1]));
            return true;
        }
    }
    false
}

proptest::proptest! {
    #[test]
    fn equals_a_plain_search(steps in proptest::collection::vec((0..3_u8, 0..SLOTS as u32, 0..SIDE_A as u32, 0..SIDE_B as u32), 0..150)) {
        let mut forest = Forest::new(SIDE_A, SIDE_B, SLOTS);
        let mut edges = BTreeMap::<u32, Ends>::new();
        for (kind, slot, a, b) in steps {
            let ends = [a, SIDE_A as u32 + b];
            match (kind, edges.get(&slot).copied()) {
                (_, None) => {
                    if assert_ties(&forest, &edges, ends) {
                        forest.link(slot, ends);
                        edges.insert(slot, ends);
                    }
                }
                (0, Some(ends)) => {
                    forest.unlink(slot, ends);
                    edges.remove(&slot);
                }
                (1, Some(ends)) => {
                    let free = (0..SLOTS as u32).find(|slot| !edges.contains_key(slot));
                    if let Some(free) = free {
                        forest.relabel(slot, free, ends);
                        edges.remove(&slot);
                        edges.insert(free, ends);
                    }
                }
                (_, Some(ends)) => {
                    let part = BTreeSet::from_iter(forest.smaller_part(slot, ends));
                    let mut others = edges.clone();
                    others.remove(&slot);
                    assert!(ends.iter().any(|node| tree(&others, *node) == part));
                }
            }
        }
    }
}
