//! The whole way from a tree to devices.

use super::*;
use proptest::prelude::{ProptestConfig, Strategy, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::{BTreeMap, BTreeSet};
use types::DeviceId;

const GROUPS: u32 = 20_000;
/// A test of thousands of draws that is right fails once in a million runs.
const DEVIATIONS: f64 = 5.0;

fn leaf(device: u32, [zone, pod, rack, host]: [u32; 4], weight: u64) -> Leaf {
    Leaf { device: DeviceId(device), weight, branch: Branch { zone, pod, rack, host } }
}

/// `zones` of one pod of `racks` of `hosts` of `devices`, all of one weight.
fn even(zones: u32, racks: u32, hosts: u32, devices: u32) -> Vec<Leaf> {
    let count = zones * racks * hosts * devices;
    let place = |at: u32| [at / (racks * hosts * devices), 0, at / (hosts * devices) % racks, at / devices % hosts];
    (0..count).map(|at| leaf(at, place(at), 100)).collect()
}

fn groups() -> PlacementGroups {
    PlacementGroups::new(1, GROUPS).unwrap()
}

fn placed(leaves: &[Leaf], copies: usize, apart: Level) -> Vec<Vec<DeviceId>> {
    let tree = Tree::new(leaves).unwrap();
    groups().all().map(|group| groups().devices(group, &tree, Rule { copies, apart }, &[]).unwrap()).collect()
}

/// Copies that move, as a share of all.
fn moved(before: &[Vec<DeviceId>], after: &[Vec<DeviceId>]) -> f64 {
    let copies: usize = before.iter().map(Vec::len).sum();
    let moves: usize = before.iter().zip(after).map(|(before, after)| moved_copies(before, after)).sum();
    moves as f64 / copies as f64
}

/// What chance may add to or take from a share of all groups.
fn chance(share: f64) -> f64 {
    DEVIATIONS * (share * (1.0 - share) / f64::from(GROUPS)).sqrt()
}

fn leaves() -> impl Strategy<Value = Vec<Leaf>> {
    let one = (0u32..3, 0u32..2, 0u32..3, 0u32..3, 1u64..50);
    prop::collection::vec(one, 1..24).prop_map(|found| {
        let leaf = |(device, (zone, pod, rack, host, weight))| leaf(device, [zone, pod, rack, host], weight);
        (0..).zip(found).map(leaf).collect()
    })
}

fn domain_of(leaf: &Leaf, level: Level) -> Vec<u32> {
    let Branch { zone, pod, rack, host } = leaf.branch;
    let whole = [zone, pod, rack, host, leaf.device.0];
    let depth = Level::DOWNWARDS.iter().position(|other| *other == level).unwrap();
    whole[..=depth].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Copies are apart whenever they can be, and a rule that can't be met says what was found.
    #[test]
    fn copies_are_in_different_domains(leaves in leaves(), copies in 1usize..6, level in 0usize..5, question in 0u64..1000) {
        let tree = Tree::new(&leaves).unwrap();
        let apart = Level::DOWNWARDS[level];
        let domains: BTreeSet<Vec<u32>> = leaves.iter().map(|leaf| domain_of(leaf, apart)).collect();
        prop_assert_eq!(tree.count(apart), domains.len());
        match tree.select(question, Rule { copies, apart }) {
            Ok(chosen) => {
                let found: BTreeSet<Vec<u32>> =
                    chosen.iter().map(|device| domain_of(&leaves[device.0 as usize], apart)).collect();
                prop_assert_eq!((chosen.len(), found.len()), (copies, copies));
            }
            Err(error) => {
                prop_assert!(copies > domains.len());
                prop_assert_eq!(error, SelectError { level: apart, wanted: copies, found: domains.len() });
            }
        }
    }

    /// More copies are apart from those that are there, and the order in which a tree is told of its devices does not matter.
    #[test]
    fn further_copies_avoid_the_others(mut leaves in leaves(), question in 0u64..1000) {
        let tree = Tree::new(&leaves).unwrap();
        let rule = Rule { copies: 1, apart: Level::Host };
        let first = tree.select(question, rule).unwrap();
        if tree.count(Level::Host) > 1 {
            let second = tree.select_beside(question, rule, &first).unwrap();
            let host = |device: DeviceId| domain_of(leaves.iter().find(|leaf| leaf.device == device).unwrap(), Level::Host);
            prop_assert!(host(first[0]) != host(second[0]));
            let both = tree.select(question, Rule { copies: 2, apart: Level::Host }).unwrap();
            prop_assert_eq!(vec![first[0], second[0]], both, "further copies are those that would have come next");
        }
        leaves.reverse();
        prop_assert_eq!(first, Tree::new(&leaves).unwrap().select(question, rule).unwrap());
    }

    /// One copy: a device gets its share of the weight.
    #[test]
    fn load_follows_weights(leaves in leaves()) {
        let total: u64 = leaves.iter().map(|leaf| leaf.weight).sum();
        let mut counts: BTreeMap<DeviceId, u32> = BTreeMap::new();
        for devices in placed(&leaves, 1, Level::Device) {
            *counts.entry(devices[0]).or_default() += 1;
        }
        for leaf in &leaves {
            let share = leaf.weight as f64 / total as f64;
            let found = f64::from(counts.get(&leaf.device).copied().unwrap_or(0)) / f64::from(GROUPS);
            prop_assert!((found - share).abs() <= chance(share) + 1e-9, "{}: {found}, not {share}", leaf.device);
        }
    }

    /// One copy: a device that comes or gains weight moves at least its share, and at most that for each level of the tree.
    #[test]
    fn growth_moves_little(leaves in leaves(), place in (0u32..4, 0u32..2, 0u32..3, 0u32..4), weight in 1u64..50) {
        let before = placed(&leaves, 1, Level::Device);
        let total: u64 = leaves.iter().map(|leaf| leaf.weight).sum();
        let mut grown = leaves.clone();
        let place = [place.0, place.1, place.2, place.3];
        grown.push(leaf(leaves.len() as u32, place, weight));
        let least = weight as f64 / (total + weight) as f64;
        let found = moved(&before, &placed(&grown, 1, Level::Device));
        let levels = Level::DOWNWARDS.len() as f64;
        prop_assert!(found >= least - chance(least), "{found} of at least {least}");
        prop_assert!(found <= levels * least + chance((levels * least).min(0.5)), "{found}, {levels} times {least}");
    }
}

/// Three copies on hosts: what each device holds is within five standard deviations.
#[test]
fn three_copies_are_even() {
    let leaves = even(3, 4, 5, 2);
    let mut counts = vec![0u32; leaves.len()];
    for devices in placed(&leaves, 3, Level::Host) {
        devices.iter().for_each(|device| counts[device.0 as usize] += 1);
    }
    let mean = 3.0 * f64::from(GROUPS) / leaves.len() as f64;
    assert!(counts.iter().all(|count| (f64::from(*count) - mean).abs() < DEVIATIONS * mean.sqrt()), "{mean}: {counts:?}");
}

/// Where only one level branches, straw2 moves exactly the least there can be.
#[test]
fn a_flat_tree_moves_the_least() {
    let ten = even(1, 1, 10, 1);
    let (nine, eleven) = (ten[..9].to_vec(), even(1, 1, 11, 1));
    let before = placed(&ten, 1, Level::Host);
    for (leaves, least) in [(&nine, 1.0 / 10.0), (&eleven, 1.0 / 11.0)] {
        let found = moved(&before, &placed(leaves, 1, Level::Host));
        assert!((found - least).abs() < chance(least), "{found}, not {least}");
    }
    let mut heavier = ten.clone();
    heavier[3].weight = 200;
    let (found, least) = (moved(&before, &placed(&heavier, 1, Level::Host)), 2.0 / 11.0 - 1.0 / 10.0);
    assert!((found - least).abs() < chance(least), "{found}, not {least}");
}

/// Three copies over racks: for each change that a person makes, between the least and that once for each of the four levels that branch.
/// A domain that gains weight takes from its siblings at every level, and what comes into it falls on all of its devices.
#[test]
fn changes_move_the_least_once_a_level() {
    let base = even(4, 4, 4, 2);
    let before = placed(&base, 3, Level::Rack);
    let total: u64 = base.iter().map(|leaf| leaf.weight).sum();
    let added = |leaves: Vec<Leaf>| [base.clone(), leaves].concat();
    let next = base.len() as u32;
    let mut reweighted = base.clone();
    reweighted[17].weight = 200;
    let mut drained = base.clone();
    drained[17].weight = 0;
    let changes = [
        ("a device more", added(vec![leaf(next, [1, 0, 1, 1], 100)]), 100),
        ("a host more", added(vec![leaf(next, [2, 0, 3, 9], 100), leaf(next + 1, [2, 0, 3, 9], 100)]), 200),
        ("a device less", base[1..].to_vec(), 100),
        ("a host less", base[2..].to_vec(), 200),
        ("twice the weight", reweighted, 100),
        ("no weight", drained, 100),
    ];
    for (what, after, change) in changes {
        let most: u64 = after.iter().map(|leaf| leaf.weight).sum::<u64>().max(total);
        let least = change as f64 / most as f64;
        let found = moved(&before, &placed(&after, 3, Level::Rack));
        assert!(found >= 0.9 * least && found <= 4.0 * least, "{what}: {found}, the least is {least}");
    }
}

#[test]
fn what_weighs_nothing_holds_nothing() {
    let mut leaves = even(1, 1, 4, 1);
    leaves[2].weight = 0;
    assert!(placed(&leaves, 3, Level::Host).iter().flatten().all(|device| device.0 != 2));
    let tree = Tree::new(&leaves).unwrap();
    let error = tree.select(7, Rule { copies: 4, apart: Level::Host }).unwrap_err();
    assert_eq!(error, SelectError { level: Level::Host, wanted: 4, found: 3 });
    assert_eq!(tree.weight(), 300);
    assert_eq!(tree.devices().map(|device| device.0).collect::<Vec<_>>(), [0, 1, 3]);
}

/// One of three hosts wins all but one in ten million attempts: the others are found after the last of them.
#[test]
fn a_giant_does_not_keep_copies_from_the_others() {
    let leaves = [leaf(0, [0, 0, 0, 0], 1 << 40), leaf(1, [0, 0, 0, 1], 1 << 10), leaf(2, [0, 0, 0, 2], 1 << 10)];
    let tree = Tree::new(&leaves).unwrap();
    for question in 0..100 {
        let mut chosen = tree.select(question, Rule { copies: 3, apart: Level::Host }).unwrap();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 2].map(DeviceId));
    }
}

#[test]
fn trees_and_groups_that_are_refused() {
    let one = leaf(1, [0, 0, 0, 0], u64::MAX);
    assert_eq!(Tree::new(&[one, one]).unwrap_err(), TreeError::Twice(DeviceId(1)));
    assert_eq!(Tree::new(&[one, leaf(2, [0, 0, 0, 1], 1)]).unwrap_err(), TreeError::TooHeavy);
    let error = Tree::new(&[]).unwrap().select(1, Rule { copies: 1, apart: Level::Device }).unwrap_err();
    assert_eq!(error, SelectError { level: Level::Device, wanted: 1, found: 0 });
    assert_eq!(PlacementGroups::new(1, 0), Err(GroupCountError(0)));
    assert_eq!(PlacementGroups::new(1, MAX_GROUPS + 1), Err(GroupCountError(MAX_GROUPS + 1)));
}

#[test]
fn twice_as_many_groups_split_each_in_two() {
    let (few, many) = (PlacementGroups::new(1, 500).unwrap(), PlacementGroups::new(1, 1000).unwrap());
    let mut counts = vec![0u32; 500];
    for object in 0..50_000 {
        let group = few.group_of(object);
        assert_eq!(many.group_of(object).0 / 2, group.0);
        counts[group.0 as usize] += 1;
    }
    assert!(counts.iter().all(|count| (f64::from(*count) - 100.0).abs() < DEVIATIONS * 10.0), "{counts:?}");
}

#[test]
fn branches_part_at_their_widest_difference() {
    let branch = |zone, pod, rack, host| Branch { zone, pod, rack, host };
    assert_eq!(branch(1, 2, 3, 4).parts_at(&branch(1, 2, 3, 4)), None);
    assert_eq!(branch(1, 2, 3, 4).parts_at(&branch(1, 2, 3, 5)), Some(Level::Host));
    assert_eq!(branch(1, 2, 3, 4).parts_at(&branch(1, 2, 4, 4)), Some(Level::Rack));
    assert_eq!(branch(1, 2, 3, 4).parts_at(&branch(2, 2, 3, 4)), Some(Level::Zone));
}

/// What was chosen once is chosen ever after: copies are where they are.
#[test]
fn golden_selections() {
    let tree = Tree::new(&even(2, 2, 3, 2)).unwrap();
    let select = |question| tree.select(question, Rule { copies: 3, apart: Level::Rack }).unwrap();
    let chosen: Vec<[u32; 3]> = (0..4).map(|question| [0, 1, 2].map(|at| select(question)[at].0)).collect();
    assert_eq!(chosen, GOLDEN);
}

const GOLDEN: [[u32; 3]; 4] = [[14, 0, 23], [16, 9, 19], [2, 21, 10], [3, 18, 9]];
