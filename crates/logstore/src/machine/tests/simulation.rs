//! Thousands of seeded runs of three gateways; each must be linearizable, keep the invariants and end.

use super::super::Consistency;
use super::mutant::Mutant;
use super::world::{Failure, Report, Setup, World};
use model::choice::{Exhaustive, Seeded};

/// Runs of the usual setup; `TRILITH_SOAK` multiplies.
const SEEDS: u64 = 2_000;
const SOAK_FACTOR: u64 = 50;
/// A mutant must be found within this many runs.
const MUTANT_SEEDS: u64 = 4_000;

fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("TRILITH_SOAK").is_some() { count * SOAK_FACTOR } else { count }
}

fn run(setup: &Setup, seed: u64) -> Result<Report, Failure> {
    let mut choices = Seeded::new(seed);
    World::new(setup.clone(), &mut choices).run(&mut choices)
}

/// Runs all seeds; a failing one is run again with a trace.
fn run_all(setup: &Setup, count: u64) -> Report {
    let mut total = Report::default();
    for seed in seeds(count) {
        match run(setup, seed) {
            Ok(report) => {
                total.steps += report.steps;
                total.answered += report.answered;
                total.slow_reads += report.slow_reads;
                total.swaps += report.swaps;
                total.refused_swaps += report.refused_swaps;
                total.stale_publishes += report.stale_publishes;
                total.resends += report.resends;
                total.torn_histories += report.torn_histories;
            }
            Err(Failure(text)) => {
                let mut choices = Seeded::new(seed);
                let mut world = World::new(setup.clone(), &mut choices).with_trace();
                let again = world.run(&mut choices);
                panic!("seed {seed} of {setup:?}: {text}\n{}\n(the same again: {})", world.trace(), again.is_err());
            }
        }
    }
    total
}

#[test]
fn three_gateways_are_linearizable() {
    let total = run_all(&Setup::usual(), SEEDS);
    // The runs must mean something: every path of the protocol was taken often.
    assert!(total.slow_reads > 100, "{total:?}");
    assert!(total.swaps > 100 && total.refused_swaps > 100, "{total:?}");
    assert!(total.stale_publishes > 10, "{total:?}");
    assert!(total.resends > 100, "{total:?}");
}

/// Primary first, the protocol does not need the order between answers and notices that RFD 3 speaks of.
#[test]
fn answers_may_overtake_notices() {
    run_all(&Setup { overtaking: true, ..Setup::usual() }, SEEDS);
    run_all(&Setup { overtaking: true, keys: 1, clients: 8, mix: [3, 1, 3, 6], ..Setup::usual() }, SEEDS / 2);
}

#[test]
fn one_hot_key_is_linearizable() {
    let setup = Setup { keys: 1, clients: 8, calls_per_client: 5, mix: [3, 1, 3, 6], ..Setup::usual() };
    run_all(&setup, SEEDS / 2);
}

#[test]
fn blind_writes_beside_freezes_of_two_gateways() {
    let setup = Setup { keys: 1, clients: 6, calls_per_client: 8, mix: [2, 0, 0, 5], impatient: 0, ..Setup::usual() };
    run_all(&setup, SEEDS / 2);
}

/// Read-after-write mode: no read asks anybody, every read sees what was acknowledged before it was made (the world looks at that),
/// conditions are decided under freezes as ever; and the mode is really weaker, or it would be good for nothing.
#[test]
fn in_read_after_write_mode_reads_see_what_was_acknowledged_and_ask_nobody() {
    let weaker = Setup { consistency: Consistency::ReadAfterWrite, ..Setup::usual() };
    let total = run_all(&weaker, SEEDS);
    assert_eq!(total.slow_reads, 0, "{total:?}");
    assert!(total.torn_histories > 10, "{total:?}");
    assert!(total.swaps > 100 && total.refused_swaps > 100 && total.stale_publishes > 10, "{total:?}");
    run_all(&Setup { keys: 1, clients: 8, calls_per_client: 5, mix: [3, 1, 3, 6], ..weaker.clone() }, SEEDS / 2);
    run_all(&Setup { gateways: 5, clients: 8, ..weaker.clone() }, SEEDS / 8);
    run_all(&Setup { overtaking: true, ..weaker.clone() }, SEEDS / 2);
    let wrong = Setup { mutant: Some(Mutant::AcknowledgesUnpublished), invariants: false, keys: 1, ..weaker };
    assert!(found_out(&wrong).is_some(), "acknowledging what members have not published is not found");
}

#[test]
fn two_and_five_gateways_are_linearizable() {
    run_all(&Setup { gateways: 2, ..Setup::usual() }, SEEDS / 4);
    run_all(&Setup { gateways: 5, clients: 8, ..Setup::usual() }, SEEDS / 8);
}

#[test]
fn one_gateway_sends_nothing_and_is_linearizable() {
    let setup = Setup { gateways: 1, ..Setup::usual() };
    let total = run_all(&setup, SEEDS / 4);
    assert_eq!(total.slow_reads + total.resends, 0);
}

#[test]
fn a_seed_run_twice_is_identical() {
    let traced = |seed| {
        let mut choices = Seeded::new(seed);
        let mut world = World::new(Setup::usual(), &mut choices).with_trace();
        let report = world.run(&mut choices).map_err(|failure| failure.0).unwrap();
        (report, world.trace())
    };
    for seed in 0..20 {
        let (first, second) = (traced(seed), traced(seed));
        assert!(
            first.0.digest != 0 && first.0 == second.0 && first.1 == second.1,
            "seed {seed} is not determined by its choices"
        );
    }
    assert_ne!(traced(1).0.digest, traced(2).0.digest);
}

/// Every interleaving of a few calls, without losses.
#[test]
fn all_interleavings_of_short_runs() {
    let quiet = Setup {
        gateways: 2,
        keys: 1,
        clients: 2,
        calls_per_client: 1,
        lost: 0,
        duplicated: 0,
        refused: 0,
        impatient: 0,
        uneven: false,
        rough: false,
        ..Setup::usual()
    };
    for mix in [[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 1]] {
        let setup = Setup { mix, ..quiet.clone() };
        let mut paths = Exhaustive::default();
        let mut runs = 0u64;
        while runs < 60_000 && paths.begin() {
            runs += 1;
            let mut world = World::new(setup.clone(), &mut paths);
            if let Err(Failure(text)) = world.run(&mut paths) {
                panic!("path {:?} of {setup:?}: {text}", paths.path());
            }
        }
        assert!(runs > 1_000, "only {runs} runs of {mix:?}");
    }
}

/// The run that finds a mutant out, if any.
fn found_out(setup: &Setup) -> Option<(u64, String)> {
    (0..MUTANT_SEEDS).find_map(|seed| run(setup, seed).err().map(|failure| (seed, failure.0)))
}

/// Histories alone, as a client sees them, give every mutant away but the one whose rule has become redundant.
#[test]
fn mutants_are_found_by_what_clients_see() {
    for mutant in Mutant::ALL {
        let setup = Setup { mutant: Some(mutant), invariants: false, keys: 1, ..Setup::usual() };
        match found_out(&setup) {
            Some((seed, text)) => println!("{mutant:?}: seed {seed}: {}", text.lines().next().unwrap_or_default()),
            // Entries are published at the acknowledge point only (decision 5), when every member holds the notice; so an early
            // answer can't contain anything that a member has not heard of.
            None => assert_eq!(mutant, Mutant::AnswersUnheard, "not found in {MUTANT_SEEDS} runs"),
        }
    }
}

#[test]
fn mutants_are_found_by_invariants() {
    for mutant in Mutant::ALL {
        let setup = Setup { mutant: Some(mutant), keys: 1, ..Setup::usual() };
        let (seed, text) = found_out(&setup).unwrap_or_else(|| panic!("{mutant:?} not found in {MUTANT_SEEDS} runs"));
        println!("{mutant:?}: seed {seed}: {}", text.lines().next().unwrap_or_default());
    }
}
