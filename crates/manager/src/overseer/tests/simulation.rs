//! Random runs of [`super::world`].

use env::Env;

use super::super::{BACKOFF_FORGOTTEN_MS, BEHIND_MS, STUCK_MS};
use super::world::{Twin, World};

/// Runs of the same test with `TRILITH_SOAK=1`.
const SOAK_FACTOR: u64 = 50;
const WILD_MS: u64 = 240_000;
/// Runs with each twin. The one that is found least is found in one of seventeen.
const TWIN_RUNS: u64 = 160;
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
        for seed in 0..seeds(48) {
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

/// What one cut link may cost: writes wait for a view without one of the two, which comes within this time, the devices beside it left out
/// at once.
const CUT_LINK_MS: u64 = 3_500;
/// And from when the link is whole again until all are members.
const HEALED_LINK_MS: u64 = 5_000;
/// What the manager decided is not applied somewhere for so long until the view goes on without it: clocks drift by a tenth.
const LEFT_BEHIND_MS: u64 = (BEHIND_MS + STUCK_MS) * 11 / 10 + 3_000;

/// Three to five nodes in a world in which nothing breaks by itself, and how many serve.
fn well(seed: u64) -> (World, usize) {
    let mut world = World::new(Env::simulated(seed), Twin::Sound, 3 + (seed % 3) as usize);
    world.calm_down();
    let count = world.run_until_well(60_000).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    (world, count)
}

/// A link between two nodes is cut for a while that is shorter or longer than every wait. One of them leaves, once, and comes back at once when it
/// is healed: not while it is cut, to stop everybody again.
#[test]
fn a_cut_link_costs_one_change_and_is_over_when_it_is_healed() {
    with_runtime(|| {
        for seed in 0..seeds(12) {
            let (mut world, count) = well(seed);
            for cut_ms in [6_000, 25_000] {
                let before = world.views_seen;
                world.cut(0, 1);
                world.run(CUT_LINK_MS).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                assert_eq!(world.members(), count - 1, "seed {seed}");
                let views = world.views_seen;
                assert_eq!(views, before + 1, "seed {seed}: the device beside it went in another view");
                world.run(cut_ms - CUT_LINK_MS).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                assert_eq!(world.views_seen, views, "seed {seed}: {cut_ms} ms of one cut link");
                world.heal();
                world.run_until_well(HEALED_LINK_MS).unwrap_or_else(|wrong| panic!("seed {seed}, {cut_ms} ms: {wrong}"));
                // Long enough for what happened to be forgotten.
                world.run(BACKOFF_FORGOTTEN_MS + 10_000).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            }
        }
    });
}

/// A node applies nothing more and speaks, for longer than every wait: its gateway leaves, once, and its device stays. It comes back when it follows again.
#[test]
fn a_node_that_does_not_follow_costs_one_change_and_comes_back_when_it_does() {
    with_runtime(|| {
        for seed in 0..seeds(12) {
            let (mut world, count) = well(seed);
            let before = world.views_seen;
            world.set_stuck(1, true);
            world.decide_something();
            world.run(LEFT_BEHIND_MS).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            assert_eq!((world.members(), world.devices()), (count - 1, count), "seed {seed}");
            world.run(60_000).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            assert_eq!(world.views_seen, before + 1, "seed {seed}");
            world.set_stuck(1, false);
            world.run_until_well(HEALED_LINK_MS).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        }
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
