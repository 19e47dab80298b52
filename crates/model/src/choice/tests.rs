use super::{Choose, Exhaustive, Seeded};
use std::collections::BTreeSet;

#[test]
fn a_seed_replays_and_another_differs() {
    let draw = |seed| {
        let mut choices = Seeded::new(seed);
        (0..64).map(|_| choices.below(1000)).collect::<Vec<_>>()
    };
    assert_eq!(draw(5), draw(5));
    assert_ne!(draw(5), draw(6));
}

#[test]
fn seeded_choices_reach_every_possibility() {
    let mut choices = Seeded::new(1);
    let seen: BTreeSet<usize> = (0..1000).map(|_| choices.below(7)).collect();
    assert_eq!(seen, (0..7).collect());
}

#[test]
fn every_path_is_taken_once_even_if_later_choices_depend_on_earlier_ones() {
    let mut paths = Exhaustive::default();
    let mut seen = Vec::new();
    while paths.begin() {
        let first = paths.below(3);
        let rest: Vec<usize> = (0..first).map(|_| paths.below(2)).collect();
        assert_eq!(paths.path().len(), first + 1);
        seen.push((first, rest));
    }
    let distinct: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(seen.len(), 1 + 2 + 4);
    assert_eq!(distinct.len(), seen.len());
}
