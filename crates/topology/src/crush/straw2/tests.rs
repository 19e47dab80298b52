use super::*;
use std::collections::BTreeMap;

const QUESTIONS: u64 = 40_000;

fn winners(items: &[(u64, u64)]) -> Vec<u64> {
    (0..QUESTIONS).map(|question| choose(scatter(question), items.iter().copied()).unwrap()).collect()
}

#[test]
fn the_table_holds_logarithms() {
    for (index, entry) in LOGARITHMS.iter().enumerate() {
        let expected = (1.0 + index as f64 / 256.0).log2();
        let found = *entry as f64 / (1u64 << FRACTION_BITS) as f64;
        assert!((found - expected).abs() < 1e-9, "{index}: {found}, not {expected}");
    }
}

#[test]
fn logarithms_are_close_and_never_rise() {
    let mut before = u64::MAX;
    for step in 1..100_000u64 {
        let hash = step * (u64::MAX / 100_000);
        let found = negative_log2(hash);
        let expected = -(hash as f64 / 2f64.powi(64)).log2();
        assert!((found as f64 / (1u64 << FRACTION_BITS) as f64 - expected).abs() < 4e-6, "{hash}: {found}, not {expected}");
        assert!(found <= before, "{hash}");
        before = found;
    }
    assert_eq!(negative_log2(1 << 63), 1 << FRACTION_BITS);
    assert_eq!(negative_log2(0), 64 << FRACTION_BITS);
}

/// Five standard deviations of a binomial share.
#[test]
fn shares_follow_the_weights() {
    let items = [(10, 1), (11, 2), (12, 3), (13, 10), (14, 4)];
    let mut wins: BTreeMap<u64, u64> = BTreeMap::new();
    winners(&items).into_iter().for_each(|item| *wins.entry(item).or_default() += 1);
    for (item, weight) in items {
        let share = weight as f64 / 20.0;
        let (expected, deviation) = (QUESTIONS as f64 * share, (QUESTIONS as f64 * share * (1.0 - share)).sqrt());
        assert!((wins[&item] as f64 - expected).abs() < 5.0 * deviation, "{item}: {wins:?}");
    }
}

#[test]
fn only_what_an_item_wins_or_loses_moves() {
    let items = [(10, 5), (11, 5), (12, 5), (13, 5)];
    let before = winners(&items);
    for (one, other) in before.iter().zip(winners(&items[1..])) {
        assert!(*one == 10 || *one == other, "{one} became {other} although it is still there");
    }
    let heavier = winners(&[(10, 8), (11, 5), (12, 5), (13, 5)]);
    assert!(before.iter().zip(&heavier).all(|(one, other)| one == other || *other == 10));
    assert!(before != heavier);
}

#[test]
fn golden_choices() {
    let items = [(1, 1 << 40), (2, 1 << 41), (3, 1 << 40)];
    let chosen: Vec<u64> = (0..16).map(|question| choose(question, items.into_iter()).unwrap()).collect();
    assert_eq!(chosen, GOLDEN);
    assert_eq!(choose(7, std::iter::empty()), None);
    assert_eq!(choose(7, [(5, 0)].into_iter()), Some(5));
}

const GOLDEN: [u64; 16] = [3, 2, 2, 2, 2, 3, 2, 3, 2, 2, 2, 2, 2, 2, 2, 1];
