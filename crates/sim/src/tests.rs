//! Seeds of every scenario; the long run is `cargo xtask soak --suite sim`.

use crate::coverage::Coverage;
use crate::run::{Failure, Report, run};
use crate::scenario::{Faults, Scenario};
use crate::table::{SCENARIOS, scenario};

/// Seeds of each scenario in a short run.
const SEEDS: u64 = 3;
/// Seeds on devices that ignore flushes.
const LYING_SEEDS: u64 = 16;

fn simulate(scenario: &Scenario, seed: u64) -> Result<Report, Box<Failure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run(scenario, seed))
}

fn soak() -> u64 {
    std::env::var("TRILITH_SOAK").map_or(1, |text| text.parse().expect("TRILITH_SOAK is a number"))
}

/// Every seed of this range, on every scenario; what they covered.
fn sweep(seeds: std::ops::Range<u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for scenario in SCENARIOS {
        for seed in seeds.clone() {
            let report = simulate(scenario, seed).unwrap_or_else(|failure| panic!("{}, seed {seed}\n{failure}", scenario.name));
            coverage.merge(&report.coverage);
            coverage.add("runs", 1);
            coverage.add("calls", report.calls as u64);
        }
    }
    println!("{coverage}");
    coverage
}

/// What a short run must have met, or it tests less than it says.
const MUST_HAPPEN: &[&str] = &[
    "power cuts",
    "power cuts in a start",
    "kills",
    "stops in order",
    "starts without a device",
    "starts that failed",
    "answers lost",
    "writes refused",
    "writes whose condition did not hold",
    "records recovered",
    "writes rolled forward",
    "partial writes discarded",
    "copies made again",
    "copies that failed",
    "reads answered by another copy",
    "reads from the cache",
    "reads from a device",
    "checkpoints",
    "runs merged",
    "zones collected",
    "bytes relocated",
];

#[test]
fn seeds_of_every_scenario() {
    let coverage = sweep(0..SEEDS * soak());
    for what in MUST_HAPPEN {
        assert!(coverage.get(what) > 0, "never seen: {what}");
    }
}

#[test]
fn a_seed_replays() {
    for scenario in SCENARIOS {
        let run = |seed| simulate(scenario, seed).unwrap_or_else(|failure| panic!("{failure}"));
        let first = run(100);
        assert_eq!(first, run(100), "{}", scenario.name);
        assert_ne!(first.fingerprint, run(101).fingerprint, "{}", scenario.name);
    }
}

/// On devices that ignore flushes a power cut loses what was acknowledged: the judge must say so.
#[test]
#[expect(clippy::disallowed_methods, reason = "the engine may also stop itself, which counts as noticed")]
fn devices_that_ignore_flushes_are_noticed() {
    let mut refused = 0;
    for ordinary in &SCENARIOS[..2] {
        let faults = Faults { power_cut_percent: 100, ignores_flush: true, may_refuse: true, ..ordinary.faults };
        let lying = Scenario { faults, ..*ordinary };
        let mut noticed = 0;
        for seed in 0..LYING_SEEDS {
            match std::panic::catch_unwind(|| simulate(&lying, seed)) {
                Ok(Ok(_)) => {}
                Ok(Err(failure)) => {
                    noticed += 1;
                    refused += u64::from(failure.violation.contains("not linearizable"));
                }
                Err(_) => noticed += 1,
            }
        }
        assert!(noticed > LYING_SEEDS / 2, "{}: {noticed} of {LYING_SEEDS} runs are noticed", ordinary.name);
    }
    assert!(refused > 0, "no history is refused");
}

/// Replays what a failure printed.
#[test]
fn a_seed_from_outside() {
    let Ok(seed) = std::env::var("TRILITH_SIM_SEED") else { return };
    let name = std::env::var("TRILITH_SIM_SCENARIO").expect("a seed comes with its scenario");
    let scenario = scenario(&name).expect("a scenario of the table");
    match simulate(scenario, seed.parse().expect("a number")) {
        Ok(report) => println!("nothing is wrong: {:?}\n{}", report.fingerprint, report.coverage),
        Err(failure) => panic!("{failure}"),
    }
}
