//! Seeds of the matrix; the long run is `soak_of_seeds`.

use super::run::{Failure, Report, run, run_with};
use super::table::{APART, APART_EVERY, RARE, RARE_EVERY, SCENARIOS, scenario_of};
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
    let (rounds, seeds) = (4, 4 * SCENARIOS);
    let (is_rare, is_apart) = (|name: &str| name == RARE.name, |name: &str| name == APART.name);
    let (rare, others): (Vec<_>, Vec<_>) = (0..seeds).map(names).partition(|(_, _, faults)| is_rare(faults));
    let (apart, matrix): (Vec<_>, Vec<_>) = others.into_iter().partition(|(topology, _, _)| is_apart(topology));
    assert_eq!(matrix.iter().collect::<BTreeSet<_>>().len() as u64, SCENARIOS, "{rounds} rounds");
    assert_eq!(rare.len() as u64, seeds / RARE_EVERY);
    assert_eq!(apart.len() as u64, seeds / APART_EVERY - seeds / (APART_EVERY * RARE_EVERY));
    assert_eq!(names(3), names(SCENARIOS + 3));
}

/// Each mix of faults twice, on a part of the matrix; what is rare, with three nodes and with five; and roles apart.
#[test]
fn seeds_of_the_matrix() {
    for seed in (0..SEEDS).chain([RARE_EVERY - 1, 2 * RARE_EVERY - 1, APART_EVERY - 1, 2 * APART_EVERY - 1]) {
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
/// 4018: crashes had left zones behind almost empty, and the last free one was kept from the checkpoint that would have made room.
/// 20107, 20187: a gateway that joined led, and dropped what it had recovered when it read its checkpoint.
#[test]
fn seeds_that_found_something() {
    for seed in [34, 604, 622, 711, 3169, 4018, 20107, 20187] {
        if let Err(failure) = simulate(seed) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --test sim cluster::tests::a_seed_from_outside -- --nocapture`.
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
