//! Seeds of the matrix; the long run is `soak_of_seeds`.

use super::run::{Failure, Report, run, run_with};
use super::table::{RARE, RARE_EVERY, SCENARIOS, scenario_of};
use crate::trace::Trace;
use std::collections::BTreeSet;

mod soak;

/// Seeds of a default run.
const SEEDS: u64 = 14;

fn within_runtime<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run)
}

fn simulate(seed: u64) -> Result<Report, Failure> {
    within_runtime(run(seed))
}

#[test]
fn a_seed_run_twice_is_the_same() {
    for seed in [4, 5] {
        let once = || simulate(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(once(), once(), "seed {seed}");
    }
}

#[test]
fn each_scenario_has_its_place() {
    let names = |seed| {
        let scenario = scenario_of(seed);
        (scenario.topology.name, scenario.workload.name, scenario.faults.name)
    };
    let of_matrix = |seed: &u64| scenario_of(*seed).faults.name != RARE.name;
    let all: BTreeSet<_> = (0..2 * SCENARIOS).filter(of_matrix).map(names).collect();
    let rare = (0..2 * SCENARIOS).filter(|seed| !of_matrix(seed)).count() as u64;
    assert_eq!((all.len() as u64, rare), (SCENARIOS, 2 * SCENARIOS / RARE_EVERY));
    assert_eq!(names(3), names(SCENARIOS + 3));
}

/// Each mix of faults twice, on a part of the matrix; and what is rare, with three nodes and with five.
#[test]
fn seeds_of_the_matrix() {
    for seed in (0..SEEDS).chain([RARE_EVERY - 1, 2 * RARE_EVERY - 1]) {
        if let Err(failure) = simulate(seed) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// 34: a founder left before the gateway that joined it had its maps, and what former gateways had written since the checkpoint was lost.
/// 604: a deadline was 1 ns away by a clock that drifts, and no time passed any more.
/// 622: a put-if-absent was refused for an object that a gateway which joined had found in an old run of the checkpoint.
/// 711: a gateway left its cell while it completed an upload, and called the part invalid that it could not look up any more.
/// 3169: a checkpoint of a leader that others leave meanwhile covered what one of them had acknowledged, without having it.
#[test]
fn seeds_that_found_something() {
    for seed in [34, 604, 622, 711, 3169] {
        if let Err(failure) = simulate(seed) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --lib cluster::tests::a_seed_from_outside -- --nocapture`.
/// With `TRILITH_CLUSTER_LOG=FILTER` (`info`, `logstore=debug`, ...) it tells all events, and what the code under test logs between them.
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
    match within_runtime(run_with(seed, trace)) {
        Ok(report) => println!("nothing is wrong: {report:#?}"),
        Err(failure) => panic!("{failure}"),
    }
}
