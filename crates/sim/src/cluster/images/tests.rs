use super::run::run;
use super::{FAULTS, MUST_OCCUR, TOPOLOGIES, scenario_of};
use crate::cluster::run::{Failure, Report};
use crate::trace::Trace;
use std::collections::BTreeMap;

/// Seeds of a default run: every topology with every mix of faults.
const SEEDS: u64 = (TOPOLOGIES.len() * FAULTS.len()) as u64;

/// From so many seeds on every branch must have been taken.
const MANY_SEEDS: u64 = 100;

fn simulate(seed: u64, trace: Trace) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run(seed, trace))
}

#[test]
fn blocks_of_images_are_registers() {
    for seed in 0..SEEDS {
        match simulate(seed, Trace::default()) {
            Ok(report) => assert!(report.calls > 1_000, "seed {seed} did nothing: {report:?}"),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
}

#[test]
fn a_seed_run_twice_is_the_same() {
    let once = || simulate(4, Trace::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(once(), once());
}

/// `TRILITH_CLUSTER_FIRST=A TRILITH_CLUSTER_LAST=B cargo test -p sim --lib cluster::images::tests::soak_of_seeds -- --ignored --nocapture`
#[test]
#[ignore = "as long as one likes"]
fn soak_of_seeds() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, last) = (number("TRILITH_CLUSTER_FIRST", 0), number("TRILITH_CLUSTER_LAST", 200));
    let (mut counts, mut failed) = (BTreeMap::<&str, u64>::new(), Vec::new());
    for seed in first..last {
        match simulate(seed, Trace::default()) {
            Ok(report) => {
                println!("seed {seed}: {} calls", report.calls);
                report.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
            }
            Err(failure) => {
                println!("seed {seed} FAILED: {failure}");
                failed.push(seed);
            }
        }
    }
    counts.iter().for_each(|(what, count)| println!("COUNT {count:>10}  {what}"));
    let never: Vec<&&str> = MUST_OCCUR.iter().filter(|what| !counts.contains_key(**what)).collect();
    never.iter().for_each(|what| println!("COUNT          0  {what}"));
    assert!(failed.is_empty(), "{failed:?}");
    assert!(last - first < MANY_SEEDS || never.is_empty(), "branches that no seed took: {never:?}");
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --lib cluster::images::tests::a_seed_from_outside -- --nocapture`.
/// With `TRILITH_CLUSTER_LOG=FILTER` it tells all events, and what the code under test logs between them.
#[test]
fn a_seed_from_outside() {
    let Ok(seed) = std::env::var("TRILITH_CLUSTER_SEED") else { return };
    let seed = seed.parse().expect("TRILITH_CLUSTER_SEED is a number");
    println!("{:?}", scenario_of(seed));
    let trace = match std::env::var("TRILITH_CLUSTER_LOG") {
        Ok(filter) => {
            tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).init();
            Trace::told()
        }
        Err(_) => Trace::default(),
    };
    match simulate(seed, trace) {
        Ok(report) => println!("nothing is wrong: {report:#?}"),
        Err(failure) => panic!("{failure}"),
    }
}
