//! Hundreds of seeded runs of cells whose view changes; each must be linearizable and end.

use super::super::Consistency;
use super::cell_world::{CellReport, CellSetup, CellWorld, Wrong};
use super::world::Failure;
use model::choice::Seeded;

/// Runs of each setup; `TRILITH_SOAK` multiplies.
const SEEDS: u64 = 500;
const SOAK_FACTOR: u64 = 100;
/// A broken rule must be found within this many runs.
const WRONG_SEEDS: u64 = 2_500;
/// One whose breach takes much to show, within this many short ones.
const RARE_SEEDS: u64 = 200_000;

fn usual() -> CellSetup {
    CellSetup { removals: 2, joins: 2, ..quiet() }
}

fn quiet() -> CellSetup {
    CellSetup {
        gateways: 3,
        keys: 2,
        clients: 5,
        calls_per_client: 7,
        mix: [4, 4, 3],
        removals: 0,
        joins: 0,
        consistency: Consistency::Linearizable,
        is_mixed: false,
        wrong: None,
    }
}

/// Gateways that acknowledge what all have published and announce nothing.
fn weaker() -> CellSetup {
    CellSetup { consistency: Consistency::ReadAfterWrite, ..usual() }
}

/// What broken rules are looked for with.
fn broken(wrong: Option<Wrong>) -> CellSetup {
    CellSetup { keys: 1, wrong, ..usual() }
}

fn run(setup: &CellSetup, seed: u64) -> Result<CellReport, Failure> {
    let mut choices = Seeded::new(seed);
    CellWorld::new(setup.clone(), &mut choices).run(&mut choices)
}

fn run_all(setup: &CellSetup, count: u64) -> CellReport {
    let count = if std::env::var_os("TRILITH_SOAK").is_some() { count * SOAK_FACTOR } else { count };
    let mut total = CellReport::default();
    for seed in 0..count {
        let report = run(setup, seed).unwrap_or_else(|Failure(text)| panic!("seed {seed} of {setup:?}: {text}"));
        total.answered += report.answered;
        total.lost += report.lost;
        total.recovered += report.recovered;
        total.repeated_recoveries += report.repeated_recoveries;
        total.joined += report.joined;
        total.refused_appends += report.refused_appends;
        total.carried_freezes += report.carried_freezes;
        total.torn_histories += report.torn_histories;
        total.spread_again += report.spread_again;
        total.steps += report.steps;
    }
    total
}

#[test]
fn cells_that_change_their_views_are_linearizable() {
    let total = run_all(&usual(), SEEDS);
    // The runs must mean something.
    assert!(total.lost > 100 && total.recovered > 100 && total.joined > 100, "{total:?}");
    assert!(total.repeated_recoveries > 20 && total.refused_appends > 20 && total.carried_freezes > 20, "{total:?}");
}

#[test]
fn one_hot_key_of_a_cell_that_changes_is_linearizable() {
    run_all(&broken(None), SEEDS);
    run_all(&CellSetup { keys: 1, clients: 6, calls_per_client: 5, mix: [2, 3, 4], ..usual() }, SEEDS);
}

#[test]
fn two_and_five_gateways_change_their_views() {
    run_all(&CellSetup { gateways: 2, removals: 1, ..usual() }, SEEDS / 2);
    run_all(&CellSetup { gateways: 5, removals: 4, joins: 3, clients: 7, ..usual() }, SEEDS / 2);
}

/// Whatever happens to the view, a read sees what was acknowledged before it was made, and all members end with the same.
#[test]
fn cells_in_read_after_write_mode_change_their_views() {
    let total = run_all(&weaker(), SEEDS);
    assert!(total.lost > 100 && total.recovered > 100 && total.joined > 100, "{total:?}");
    assert!(total.carried_freezes > 20 && total.spread_again > 20 && total.torn_histories > 0, "{total:?}");
    run_all(&CellSetup { keys: 1, ..weaker() }, SEEDS);
    run_all(&CellSetup { gateways: 2, removals: 1, ..weaker() }, SEEDS / 2);
    run_all(&CellSetup { gateways: 5, removals: 4, joins: 3, clients: 7, ..weaker() }, SEEDS / 2);
}

/// Every second gateway announces: all promise what the weakest does.
#[test]
fn cells_with_gateways_of_both_modes_change_their_views() {
    let total = run_all(&CellSetup { is_mixed: true, ..weaker() }, SEEDS);
    assert!(total.recovered > 100 && total.spread_again > 10, "{total:?}");
    run_all(&of_both_modes(None), SEEDS);
}

/// One hot key: whose gateway is removed, who leads, who follows and who lags are four.
fn of_both_modes(wrong: Option<Wrong>) -> CellSetup {
    CellSetup { gateways: 4, keys: 1, removals: 1, joins: 0, is_mixed: true, wrong, ..weaker() }
}

/// A member that says that it holds what was recovered before it has heard of what others wrote after it. One run in some 25,000 finds it.
#[test]
fn a_member_that_has_not_heard_the_others_out_is_found() {
    let calls = CellSetup { clients: 4, calls_per_client: 3, mix: [1, 1, 0], ..of_both_modes(Some(Wrong::HoldsUnheard)) };
    assert!((0..RARE_SEEDS).any(|seed| run(&calls, seed).is_err()), "not found in {RARE_SEEDS} runs");
}

/// A gateway that takes what an older view's members have published for what the new ones have.
#[test]
fn a_write_that_who_joins_has_not_published_is_not_acknowledged() {
    let setup = CellSetup { keys: 1, wrong: Some(Wrong::KeepsAcknowledgements), ..weaker() };
    assert!((0..WRONG_SEEDS).any(|seed| run(&setup, seed).is_err()), "not found in {WRONG_SEEDS} runs");
}

/// Rules whose breach shows in a few runs; the model (`crates/model/tests/models/views`) breaks all of them.
#[test]
fn broken_rules_are_found() {
    let all = [
        Wrong::NoWaitForLease,
        Wrong::KeepsAcknowledgements,
        Wrong::VoidsBeforeWalk,
        Wrong::ForgetsFreezes,
        Wrong::DecidesUnheard,
        Wrong::PublishesOnArrival,
        Wrong::OldAnswersCount,
        Wrong::JoinsWithoutMaps,
    ];
    for wrong in all {
        let setup = broken(Some(wrong));
        let found = (0..WRONG_SEEDS).find_map(|seed| run(&setup, seed).err().map(|failure| (seed, failure.0)));
        let (seed, text) = found.unwrap_or_else(|| panic!("{wrong:?} not found in {WRONG_SEEDS} runs"));
        println!("{wrong:?}: seed {seed}: {}", text.lines().next().unwrap_or_default());
    }
}
