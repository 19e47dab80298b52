//! Random runs of [`super::world`].

use env::Env;

use super::world::{Twin, World};

/// Runs of the same test with `TRILITH_SOAK=1`.
const SOAK_FACTOR: u64 = 50;
const WILD_MS: u64 = 240_000;
/// Runs with each twin.
const TWIN_RUNS: u64 = 40;
/// Longer than the longest wait of a node that could not be reached.
const CALM_MS: u64 = 400_000;

fn seeds(count: u64) -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { count * SOAK_FACTOR } else { count }
}

fn world(seed: u64, twin: Twin) -> World {
    World::new(Env::simulated(seed), twin, 2 + (seed % 4) as usize)
}

fn with_runtime<T>(run: impl FnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _inside = runtime.enter();
    run()
}

/// Nobody answers reads outside of the view, everything that must rise does, and when it is calm all are members again.
#[test]
fn leases_hold_and_everybody_comes_back() {
    with_runtime(|| {
        let (mut views, mut foundings) = (0, 0);
        for seed in 0..seeds(40) {
            let mut world = world(seed, Twin::Sound);
            world.run(WILD_MS).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            (views, foundings) = (views + world.views_seen, foundings + world.foundings_seen);
            world.calm_down();
            let mut calm_ms = 0;
            while let Some(unwell) = world.unwell() {
                assert!(calm_ms < CALM_MS, "seed {seed}: {unwell}");
                world.run(1_000).unwrap_or_else(|wrong| panic!("seed {seed}, calm: {wrong}"));
                calm_ms += 1_000;
            }
            // And it stays so.
            let settled = world.views_seen;
            world.run(20_000).unwrap_or_else(|wrong| panic!("seed {seed}, settled: {wrong}"));
            assert_eq!((world.unwell(), world.views_seen), (None, settled), "seed {seed}");
        }
        assert!(views > 400 && foundings > 100, "{views} views and {foundings} foundings: little was tested");
    });
}

/// A twin's fault is seen in several runs.
fn assert_found(twin: Twin) {
    let found = with_runtime(|| (0..TWIN_RUNS).filter(|seed| world(*seed, twin).run(WILD_MS).is_err()).count());
    assert!(found >= 3, "{twin:?} was found in {found} of {TWIN_RUNS} runs");
}

#[test]
fn a_view_that_does_not_wait_for_leases_is_found() {
    assert_found(Twin::NoWait);
}

#[test]
fn a_granter_that_forgets_drift_is_found() {
    assert_found(Twin::NoDrift);
}

#[test]
fn a_new_leader_that_forgets_leases_is_found() {
    assert_found(Twin::Amnesia);
}

#[test]
fn a_former_leader_that_goes_on_granting_is_found() {
    assert_found(Twin::TwoLeaders);
}

#[test]
fn a_former_process_that_goes_on_is_found() {
    assert_found(Twin::LivingFormer);
}

#[test]
fn a_run_repeats_itself() {
    with_runtime(|| {
        let outcome = || {
            let mut world = world(7, Twin::Sound);
            world.run(WILD_MS).unwrap();
            (world.views_seen, world.foundings_seen, world.unwell())
        };
        assert_eq!(outcome(), outcome());
    });
}
