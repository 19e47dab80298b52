use super::run::{run, run_in};
use super::{FAULTS, MUST_OCCUR, scenario_of};
use crate::cluster::ranges::{gather_panics, outcome, replay, soak};
use crate::cluster::run::{Failure, Report};
use crate::cluster::scenario::{FaultMix, Scenario};
use crate::trace::Trace;

mod judges;

/// From so many seeds on every branch must have been taken.
const MANY_SEEDS: u64 = 100;

fn within_runtime<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run)
}

fn simulate(seed: u64, trace: Trace) -> Result<Report, Failure> {
    within_runtime(run(seed, trace))
}

/// Programs on all nodes, and nothing goes wrong: no call fails but for what it asks.
#[test]
fn a_cluster_without_faults_serves_files() {
    let faults = FaultMix { name: "none", strikes: 0, weights: &[], ..FAULTS[0] };
    let report = within_runtime(run_in(Scenario { faults, ..scenario_of(0) }, 0, Trace::default()));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    let failed: Vec<&&str> =
        report.counts.keys().filter(|what| what.starts_with("program: ") && **what != "program: refused").collect();
    assert_eq!(failed, Vec::<&&str>::new());
    assert!(report.calls > 500, "{report:?}");
}

/// Crashes of all kinds.
#[test]
fn files_of_a_cluster_with_crashes() {
    gather_panics();
    let report = outcome(|| simulate(0, Trace::default())).unwrap_or_else(|what| panic!("{what}"));
    assert!(report.calls > 1_000, "{report:?}");
}

#[test]
#[ignore = "long; `soak_of_seeds` is the same for others"]
fn a_seed_run_twice_is_the_same() {
    let once = || simulate(4, Trace::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(once(), once());
}

/// `TRILITH_CLUSTER_FIRST=A TRILITH_CLUSTER_LAST=B cargo test -p sim --test sim cluster::files::tests::soak_of_seeds -- --ignored --nocapture`
#[test]
#[ignore = "as long as one likes"]
fn soak_of_seeds() {
    soak(simulate, MUST_OCCUR, MANY_SEEDS);
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --test sim cluster::files::tests::a_seed_from_outside -- --nocapture`.
#[test]
fn a_seed_from_outside() {
    replay(|seed, trace| {
        println!("{:?}", scenario_of(seed));
        simulate(seed, trace)
    });
}
