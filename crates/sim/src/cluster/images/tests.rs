use super::run::run;
use super::{FAULTS, MUST_OCCUR, TOPOLOGIES, scenario_of};
use crate::cluster::ranges::{replay, soak};
use crate::cluster::run::{Failure, Report};
use crate::trace::Trace;

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

/// `TRILITH_CLUSTER_FIRST=A TRILITH_CLUSTER_LAST=B cargo test -p sim --test sim cluster::images::tests::soak_of_seeds -- --ignored --nocapture`
#[test]
#[ignore = "as long as one likes"]
fn soak_of_seeds() {
    soak(simulate, MUST_OCCUR, MANY_SEEDS);
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --test sim cluster::images::tests::a_seed_from_outside -- --nocapture`.
/// With `TRILITH_CLUSTER_LOG=FILTER` it tells all events, and what the code under test logs between them.
#[test]
fn a_seed_from_outside() {
    replay(|seed, trace| {
        println!("{:?}", scenario_of(seed));
        simulate(seed, trace)
    });
}
