use std::collections::BTreeMap;

use proptest::prelude::*;
use types::{Layer, Pieces};

use super::{Held, Lineage, Step, next_step};
use crate::registry::Branch;

fn held(layer: u32, owned: u64, data: u64) -> Held {
    Held { layer: Layer(layer), owned: Pieces(owned), data: Pieces(data) }
}

fn lineages(layers: &[u32], branches: &[Branch]) -> Vec<Lineage> {
    layers.iter().map(|layer| Lineage::of(Layer(*layer), branches)).collect()
}

fn layers_of(lineage: &Lineage, newest: u32) -> Vec<u32> {
    (0..=newest).rev().filter(|layer| lineage.contains(Layer(*layer))).collect()
}

#[test]
fn layers_follow_each_other_but_for_branches() {
    let branches = [Branch { layer: Layer(4), base: Layer(1) }, Branch { layer: Layer(6), base: Layer(4) }];
    assert_eq!(layers_of(&Lineage::of(Layer(3), &branches), 9), [3, 2, 1, 0]);
    assert_eq!(layers_of(&Lineage::of(Layer(5), &branches), 9), [5, 4, 1, 0]);
    assert_eq!(layers_of(&Lineage::of(Layer(7), &branches), 9), [7, 6, 4, 1, 0]);
    assert_eq!(layers_of(&Lineage::of(Layer(0), &branches), 9), [0]);
}

#[test]
fn a_blob_that_some_view_sees_first_is_needed() {
    // A snapshot of layer 1; the image is at layer 3.
    let views = lineages(&[3, 1], &[]);
    assert_eq!(next_step(&[held(3, 1, 1), held(1, 1, 1)], &views, &[]), None);
    // Without a newer blob, the image itself sees it.
    assert_eq!(next_step(&[held(2, 1, 1)], &views, &[]), None);
    assert_eq!(next_step(&[], &views, &[]), None);
}

#[test]
fn what_a_newer_blob_does_not_own_is_copied_before_a_blob_is_freed() {
    let views = lineages(&[3], &[]);
    let step = next_step(&[held(3, 0b0001, 0b0001), held(2, 0b0111, 0b0011)], &views, &[]);
    let expected = Step::Fill { from: Layer(2), to: Layer(3), filled: Pieces(0b0010), zeroed: Pieces(0b0100) };
    assert_eq!(step, Some(expected));
    let step = next_step(&[held(3, 0b0111, 0b0011), held(2, 0b0111, 0b0011)], &views, &[]);
    assert_eq!(step, Some(Step::Free(Layer(2))));
}

#[test]
fn the_newest_of_several_goes_first() {
    let views = lineages(&[3], &[]);
    let blobs = [held(3, 1, 1), held(2, 2, 2), held(1, 4, 4)];
    let expected = Step::Fill { from: Layer(2), to: Layer(3), filled: Pieces(2), zeroed: Pieces::NONE };
    assert_eq!(next_step(&blobs, &views, &[]), Some(expected));
}

#[test]
fn a_blob_on_which_two_branches_rely_is_copied_to_both() {
    // A rollback to layer 1 began layer 3. Layer 2 has a snapshot; layer 1 has none any more.
    let branches = [Branch { layer: Layer(3), base: Layer(1) }];
    let views = lineages(&[3, 2], &branches);
    let to = |layer| Step::Fill { from: Layer(1), to: Layer(layer), filled: Pieces(1), zeroed: Pieces::NONE };
    assert_eq!(next_step(&[held(3, 2, 2), held(2, 2, 2), held(1, 1, 1)], &views, &branches), Some(to(3)));
    assert_eq!(next_step(&[held(3, 3, 3), held(2, 2, 2), held(1, 1, 1)], &views, &branches), Some(to(2)));
    assert_eq!(next_step(&[held(3, 3, 3), held(2, 3, 3), held(1, 1, 1)], &views, &branches), Some(Step::Free(Layer(1))));
    // Only one of them has a blob: the other sees the old one.
    assert_eq!(next_step(&[held(3, 2, 2), held(1, 1, 1)], &views, &branches), None);
}

#[test]
fn a_branch_that_was_left_without_a_snapshot_is_freed() {
    let branches = [Branch { layer: Layer(3), base: Layer(1) }];
    let views = lineages(&[3, 1], &branches);
    assert_eq!(next_step(&[held(2, 1, 1), held(1, 2, 2)], &views, &branches), Some(Step::Free(Layer(2))));
}

/// For each piece, the layer whose blob has its content, or none.
fn resolved(blobs: &BTreeMap<u32, (u64, u64, [u8; 4])>, view: &Lineage) -> [u8; 4] {
    std::array::from_fn(|piece| {
        let mut newest_first = blobs.iter().rev().filter(|(layer, _)| view.contains(Layer(**layer)));
        let owner = newest_first.find(|(_, (owned, ..))| owned >> piece & 1 == 1);
        owner.map_or(0, |(_, (_, data, content))| if data >> piece & 1 == 1 { content[piece] } else { 0 })
    })
}

proptest! {
    /// Steps change nothing that a view reads, and end with needed blobs only.
    #[test]
    fn steps_keep_what_views_read(
        blobs in proptest::collection::btree_map(0u32..8, (0u64..16, 0u64..16), 0..8),
        bases in proptest::collection::btree_map(1u32..8, 0u32..8, 0..3),
        snapshots in proptest::collection::vec(0u32..7, 0..4),
    ) {
        let branches: Vec<Branch> =
            bases.iter().filter(|(layer, base)| base < layer).map(|(layer, base)| Branch { layer: Layer(*layer), base: Layer(*base) }).collect();
        let mut layers = snapshots;
        layers.push(7);
        let views = lineages(&layers, &branches);
        let mut blobs: BTreeMap<u32, (u64, u64, [u8; 4])> =
            blobs.into_iter().map(|(layer, (owned, data))| (layer, (owned, owned & data, [layer as u8 + 1; 4]))).collect();
        let before: Vec<_> = views.iter().map(|view| resolved(&blobs, view)).collect();
        let mut steps = 0;
        loop {
            let list: Vec<Held> = blobs.iter().rev().map(|(layer, (owned, data, _))| held(*layer, *owned, *data)).collect();
            match next_step(&list, &views, &branches) {
                None => break,
                Some(Step::Free(layer)) => {
                    blobs.remove(&layer.0).unwrap();
                }
                Some(Step::Fill { from, to, filled, zeroed }) => {
                    let source = blobs[&from.0];
                    let target = blobs.get_mut(&to.0).unwrap();
                    prop_assert_eq!(target.0 & (filled.0 | zeroed.0), 0);
                    for piece in 0..4 {
                        if filled.contains(piece) {
                            target.2[piece as usize] = source.2[piece as usize];
                        }
                    }
                    target.0 |= filled.0 | zeroed.0;
                    target.1 |= filled.0;
                }
            }
            let now: Vec<_> = views.iter().map(|view| resolved(&blobs, view)).collect();
            prop_assert_eq!(&now, &before);
            steps += 1;
            prop_assert!(steps < 100, "it ends");
        }
        prop_assert!(blobs.len() <= views.len());
    }
}
