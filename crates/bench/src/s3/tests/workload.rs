//! Mixes, sizes, key choice and stripes.

use std::collections::HashSet;

use super::super::mix::{Mix, MixError, Op, Sizes, parse_size};
use super::super::source::{Distribution, FRESH_REMEMBERED_LIMIT, Key, KeySet, Load, Plan, Source, Step, Stripe};
use super::super::zipf::Zipf;
use crate::random::{Random, mix64};

fn load(mix: &str, distribution: Distribution, shared: u64, doomed: u64, unique: bool) -> Load {
    Load { mix: mix.parse().unwrap(), distribution, shared, doomed, unique, seed: 11 }
}

fn source(load: Load, worker: u64, workers: u64) -> Source {
    Source::new(Plan::Load(load), Stripe { worker, workers })
}

#[test]
fn mixes_parse_and_print() {
    assert_eq!("get".parse::<Mix>().unwrap(), Mix::only(Op::Get));
    assert_eq!("get=70, put=30".parse::<Mix>().unwrap().to_string(), "put=30,get=70");
    assert_eq!("get=7".parse::<Mix>().unwrap().to_string(), "get");
    for (text, error) in [
        ("read", MixError::UnknownOp("read".to_owned())),
        ("", MixError::UnknownOp(String::new())),
        ("get=x", MixError::BadWeight("x".to_owned())),
        ("get=4294967296", MixError::BadWeight("4294967296".to_owned())),
        ("get=0", MixError::NoWeight),
        ("get=1,get=2", MixError::Twice(Op::Get)),
    ] {
        assert_eq!(text.parse::<Mix>(), Err(error), "{text:?}");
    }
    assert_eq!("delete".parse::<Mix>().unwrap().without(Op::Delete), None);
}

#[test]
fn draws_follow_the_weights() {
    let mix: Mix = "put=10,get=60,list=30".parse().unwrap();
    let mut random = Random::new(1, 0);
    let mut counts = [0u32; Op::ALL.len()];
    for _ in 0..100_000 {
        counts[mix.draw(&mut random).index()] += 1;
    }
    // Five standard deviations of a binomial count are below 800.
    for (op, expected) in [(Op::Put, 10_000u32), (Op::Get, 60_000), (Op::List, 30_000)] {
        assert!(counts[op.index()].abs_diff(expected) < 800, "{op}: {}", counts[op.index()]);
    }
    assert_eq!((counts[Op::Head.index()], counts[Op::Delete.index()]), (0, 0));
}

#[test]
fn sizes_parse_and_follow_from_the_key() {
    assert_eq!((parse_size("4096"), parse_size("4K"), parse_size("1MiB")), (Ok(4096), Ok(4096), Ok(1 << 20)));
    for bad in ["", "K", "4X", "6G", "-1", "99999999999999999999"] {
        assert_eq!(parse_size(bad), Err(MixError::BadSize(bad.to_owned())));
    }
    let sizes: Sizes = "4K=80,1M=20".parse().unwrap();
    let large = (0..10_000u64).filter(|index| sizes.of(mix64(*index)) == 1 << 20).count();
    assert!(large.abs_diff(2_000) < 200, "{large} of 10,000 are large");
    assert!((0..100).all(|hash| sizes.of(hash) == sizes.of(hash)));
    assert_eq!("0".parse::<Sizes>().unwrap().of(5), 0);
}

#[test]
fn zipf_frequencies_match_the_law() {
    const DRAWS: u32 = 200_000;
    for theta in [0.5, 0.99, 1.0, 1.5] {
        let count = 1_000;
        let zipf = Zipf::new(count, theta);
        let mut random = Random::new(42, 0);
        let mut seen = vec![0u32; count as usize];
        for _ in 0..DRAWS {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        let norm: f64 = (1..=count).map(|rank| (rank as f64).powf(-theta)).sum();
        // Each of the first ranks within six standard deviations, and the tail as a whole.
        for (rank, seen) in seen.iter().enumerate().take(20) {
            let expected = f64::from(DRAWS) * ((rank + 1) as f64).powf(-theta) / norm;
            let deviation = (f64::from(*seen) - expected).abs();
            assert!(deviation < 6.0 * expected.sqrt(), "theta {theta}, rank {rank}: {seen} for {expected}");
        }
        let tail: u32 = seen[500..].iter().sum();
        let expected: f64 = (501..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>() / norm * f64::from(DRAWS);
        assert!((f64::from(tail) - expected).abs() < 6.0 * expected.sqrt(), "theta {theta}: tail {tail} for {expected}");
    }
    assert_eq!(Zipf::new(1, 0.99).draw(&mut Random::new(1, 1)), 0);
}

#[test]
fn zipf_scatters_its_ranks_over_all_keys() {
    let mut source = source(load("get", Distribution::Zipf(0.99), 1_000, 0, false), 0, 1);
    let mut counts = vec![0u32; 1_000];
    for _ in 0..100_000 {
        let Step::On(Op::Get, key) = source.next_step() else { panic!("a mix of gets only gets") };
        counts[key.index as usize] += 1;
    }
    let mut order: Vec<usize> = (0..1_000).collect();
    order.sort_by_key(|index| std::cmp::Reverse(counts[*index]));
    assert!(order[0].abs_diff(order[1]) > 100, "the two hottest keys are {} and {}", order[0], order[1]);
    assert!(counts.iter().filter(|count| **count > 0).count() > 950, "the permutation reaches all keys");
}

#[test]
fn distributions_parse() {
    assert_eq!("uniform".parse(), Ok(Distribution::Uniform));
    assert_eq!("zipf".parse(), Ok(Distribution::Zipf(0.99)));
    assert_eq!("zipf:1.2".parse(), Ok(Distribution::Zipf(1.2)));
    assert_eq!("zipf(0.8)".parse(), Ok(Distribution::Zipf(0.8)));
    for bad in ["zipf:0", "zipf:-1", "zipf:x", "zipf(1", "pareto"] {
        bad.parse::<Distribution>().unwrap_err();
    }
}

#[test]
fn stripes_delete_every_doomed_key_once() {
    for workers in [1, 3, 8] {
        let mut deleted = Vec::new();
        for worker in 0..workers {
            let mut source = source(load("delete", Distribution::Uniform, 100, 100, false), worker, workers);
            while let Step::On(Op::Delete, Key { set: KeySet::Doomed, index }) = source.next_step() {
                deleted.push(index);
            }
            assert_eq!(source.next_step(), Step::Finished);
        }
        deleted.sort_unstable();
        assert_eq!(deleted, (0..100).collect::<Vec<u64>>());
    }
}

#[test]
fn sweeps_visit_every_key_once() {
    let mut keys = HashSet::new();
    for worker in 0..3 {
        let plan = Plan::Sweep { op: Op::Put, set: KeySet::Shared, count: 1_000 };
        let mut source = Source::new(plan, Stripe { worker, workers: 3 });
        while let Step::On(Op::Put, key) = source.next_step() {
            assert!(keys.insert(key), "{key:?} twice");
        }
    }
    assert_eq!(keys.len(), 1_000);
}

#[test]
fn unique_puts_never_repeat_and_never_collide_between_workers() {
    let mut keys = HashSet::new();
    for worker in 0..4 {
        let mut source = source(load("put", Distribution::Uniform, 10, 0, true), worker, 4);
        for _ in 0..1_000 {
            let Step::On(Op::Put, key) = source.next_step() else { panic!("a mix of puts only puts") };
            assert_eq!(key.set, KeySet::Fresh);
            assert!(keys.insert(key), "{key:?} twice");
        }
    }
}

#[test]
fn deletes_go_on_with_keys_that_were_stored() {
    let mut source = source(load("delete", Distribution::Uniform, 10, 1, true), 0, 1);
    assert_eq!(source.next_step(), Step::On(Op::Delete, Key { set: KeySet::Doomed, index: 0 }));
    assert_eq!(source.next_step(), Step::Finished);
    let fresh = Key { set: KeySet::Fresh, index: 5 };
    source.stored(fresh);
    source.stored(Key { set: KeySet::Shared, index: 5 });
    assert_eq!(source.next_step(), Step::On(Op::Delete, fresh));
    assert_eq!(source.next_step(), Step::Finished);
    for index in 0..FRESH_REMEMBERED_LIMIT as u64 + 10 {
        source.stored(Key { set: KeySet::Fresh, index });
    }
    let remembered = std::iter::from_fn(|| (source.next_step() != Step::Finished).then_some(())).count();
    assert_eq!(remembered, FRESH_REMEMBERED_LIMIT);
}

#[test]
fn a_mix_without_keys_to_delete_keeps_its_other_operations() {
    let mut source = source(load("delete=9,get=1", Distribution::Sequential, 3, 0, false), 0, 1);
    let keys: Vec<Step> = (0..4).map(|_| source.next_step()).collect();
    let get = |index| Step::On(Op::Get, Key { set: KeySet::Shared, index });
    assert_eq!(keys, [get(0), get(1), get(2), get(0)]);
}

#[test]
fn the_seed_fixes_the_choices() {
    let steps = |seed| {
        let mut load = load("get=5,put=5,list=1", Distribution::Zipf(0.99), 1_000, 0, false);
        load.seed = seed;
        let mut source = source(load, 0, 2);
        (0..100).map(|_| source.next_step()).collect::<Vec<Step>>()
    };
    assert_eq!(steps(3), steps(3));
    assert_ne!(steps(3), steps(4));
}

#[test]
fn sequential_keys_wrap_with_more_workers_than_keys() {
    let mut source = source(load("get", Distribution::Sequential, 2, 0, false), 3, 4);
    for _ in 0..4 {
        assert_eq!(source.next_step(), Step::On(Op::Get, Key { set: KeySet::Shared, index: 1 }));
    }
}
