//! Seeded simulation of a cell: clients at all gateways, while gateways die, ways are cut, targets go and come, and the power fails.
//!
//! ```text
//!   scenario (data): workload × faults × topology       seed: all draws
//!     clients ─► gateways ─► wires ─► targets        history of each key ─► linearizable?
//!       chaos ─► processes, ways, targets, power     at the end: every gateway and every list agree, before and after a restart
//!     manager ─► views, leases, manifest
//! ```
//!
//! A list is a read of every key. A call that ended with an error may have its effect later, or never. A failure prints its seed;
//! `TRILITH_CELL_SEED` runs that seed alone, `TRILITH_SOAK` multiplies the seeds.

mod client;
mod faults;
mod life;
mod manager;
mod streets;
mod wire;
mod world;

use super::support::{Draw, simulate, soak};
use client::{Client, Record, look_around};
use faults::{Chaos, Faults};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;
use world::World;

/// Seeds of each scenario in a default run.
const SEEDS: u64 = 12;
/// Longest time until the cell is whole again after the last fault.
const SETTLE_PATIENCE: Duration = Duration::from_secs(40);
/// Longest time until every copy is good after the last fault: scrubs of full devices at their least speed.
const HEAL_PATIENCE: Duration = Duration::from_secs(1200);

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub gateways: usize,
    pub zones: u64,
    pub zone_bytes: u64,
    pub checkpoint_entries: usize,
    pub clients: u64,
    pub keys: usize,
    pub small_bytes: u64,
    /// Longest pause of a client between two calls.
    pub think_us: u64,
    /// Of 1000 messages, so many are lost.
    pub lost: u64,
    pub strikes: u64,
    /// Longest time between two faults.
    pub calm_ms: u64,
    /// Devices are scrubbed once in this time.
    pub scrub_period: Duration,
    pub faults: Faults,
}

const BASE: Scenario = Scenario {
    name: "base",
    gateways: 3,
    zones: 40,
    zone_bytes: 256 * 1024,
    checkpoint_entries: 30,
    clients: 4,
    keys: 5,
    small_bytes: 6_000,
    think_us: 40_000,
    lost: 3,
    strikes: 5,
    calm_ms: 2_000,
    scrub_period: Duration::ZERO,
    faults: Faults {
        kill: 2,
        kill_leader: 2,
        kill_after_install: 2,
        kill_collecting: 2,
        kill_two: 2,
        depose: 3,
        cut: 2,
        cut_and_kill: 3,
        deafen: 1,
        target: 3,
        power: 2,
        rot: 0,
    },
};

/// More keys than are overwritten between two checkpoints, on devices that are short of zones: collection moves what is live.
const CROWDED: Scenario =
    Scenario { name: "crowded", keys: 60, small_bytes: 14_000, zones: 26, think_us: 15_000, checkpoint_entries: 40, ..BASE };

/// One disk rots, again and again, while everything else goes wrong too: all of it is found, and made again.
const ROTTING: Scenario = Scenario {
    name: "rotting",
    keys: 40,
    small_bytes: 14_000,
    strikes: 7,
    scrub_period: Duration::from_secs(10),
    faults: Faults { rot: 12, ..BASE.faults },
    ..BASE
};

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// A panic of a task is a failure of its run.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
    PANICS.set(0);
}

/// What happened in a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ran {
    history: String,
    counts: BTreeMap<&'static str, u64>,
}

async fn until_settled(world: &Arc<World>) -> Result<(), String> {
    let ends = world.env.now() + SETTLE_PATIENCE;
    while !world.is_settled() {
        if world.env.now() > ends {
            return Err(format!("the cell does not come to rest:\n{}", world.describe()));
        }
        world.env.sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Where nothing rots every copy stands where the leader's index says, at any time.
async fn all_stand(world: &Arc<World>) -> Result<(), String> {
    let Some(leader) = world.leader().and_then(|leader| leader.store()) else { return Err("nobody leads".to_owned()) };
    let report = leader.check().await;
    let healed: u64 = world.ever.lock().iter().map(|store| store.stats().healed_copies.get()).sum();
    match report.is_well() && healed == 0 {
        true => Ok(()),
        false => Err(format!("copies do not stand where they should, and {healed} were made again: {report:#?}")),
    }
}

/// Every copy of everything is good again.
async fn until_healed(world: &Arc<World>) -> Result<(), String> {
    // Here, not in a cluster, a device may be nobody's own: then nobody scrubs it.
    if !world.members().iter().any(|process| world.is_near(process.gateway, faults::rotten())) {
        return Ok(());
    }
    let ends = world.env.now() + HEAL_PATIENCE;
    loop {
        world.env.sleep(world.scenario.scrub_period).await;
        let leader = world.leader().and_then(|leader| leader.store());
        let Some(leader) = leader else { continue };
        for device in leader.inner.targets.devices() {
            device.finish_open_zones().await.map_err(|error| error.to_string())?;
        }
        let report = leader.check().await;
        if report.is_well() {
            return Ok(());
        }
        if world.env.now() > ends {
            return Err(format!("damaged copies are not made again: {report:#?}"));
        }
    }
}

async fn run(scenario: Scenario, seed: u64) -> Result<Ran, String> {
    let world = World::new(scenario, seed).await;
    let record = Record::new(scenario.keys);
    let outcome = live(&world, &record, seed).await;
    record.is_over.store(true, Ordering::Relaxed);
    let violation = record.violation.lock().clone();
    outcome.and(violation.map_or(Ok(()), Err)).and(record.check()).map_err(|what| format!("{what}\n{}", world.describe()))?;
    let mut counts = record.answered.lock().clone();
    count_branches(&world, &mut counts);
    Ok(Ran { history: record.text(), counts })
}

async fn live(world: &Arc<World>, record: &Arc<Record>, seed: u64) -> Result<(), String> {
    until_settled(world).await?;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..world.scenario.clients {
        let draw = Draw::new(seed.wrapping_mul(977).wrapping_add(number));
        let client = Client { world: world.clone(), record: record.clone(), draw, seen: BTreeMap::new() };
        clients.spawn(client.run());
    }
    let mut chaos = Chaos { world: world.clone(), draw: Draw::new(!seed) };
    for _ in 0..world.scenario.strikes {
        let calm = Duration::from_micros(chaos.draw.below(world.scenario.calm_ms * 1000));
        world.env.sleep(calm).await;
        chaos.strike().await;
        if record.violation.lock().is_some() {
            return Ok(());
        }
    }
    world.env.sleep(Duration::from_secs(1)).await;
    record.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| error.to_string())?;
    }
    // Everything that was under way has ended.
    world.env.sleep(Duration::from_secs(20)).await;
    until_settled(world).await?;
    look_around(world, record).await?;
    match world.scenario.faults.rot > 0 {
        true => until_healed(world).await?,
        false => all_stand(world).await?,
    }
    world.power_cut(0).await;
    until_settled(world).await?;
    // Leases of the newest view.
    world.env.sleep(Duration::from_millis(300)).await;
    look_around(world, record).await.map_err(|what| format!("after the last restart: {what}"))
}

fn count_branches(world: &World, counts: &mut BTreeMap<&'static str, u64>) {
    let mut add = |what: &'static str, count: u64| *counts.entry(what).or_default() += count;
    for store in world.ever.lock().iter() {
        let stats = store.stats();
        add("checkpoints", stats.checkpoints.get());
        add("damaged copies", stats.damaged_copies.get());
        add("healed copies", stats.healed_copies.get());
        add("merged runs", stats.merged_runs.get());
        add("collected zones", stats.collected_zones.get());
        add("relocated bytes", stats.relocated_bytes.get());
        add("slow reads", stats.slow_reads.get());
        add("rolled forward", stats.rolled_forward.get());
        add("copies made again", stats.recopied.get());
        add("stale reads", stats.stale_reads.get());
        add("moves told again", stats.moves_told_again.get());
        add("early moves", stats.early_moves.get());
        add("manifests taken over", stats.manifests_taken_over.get());
        add("carried freezes", stats.carried_freezes.get());
        add("names told to who joins", stats.names_told.get());
    }
    add("recoveries", world.recoveries_done.load(Ordering::Relaxed));
    add(
        "recoveries begun again",
        world.recoveries_begun.load(Ordering::Relaxed).saturating_sub(world.recoveries_done.load(Ordering::Relaxed)),
    );
    add("recoveries failed", world.recoveries_failed.load(Ordering::Relaxed));
    add("messages doubled", *world.streets.doubled.lock());
}

/// Runs a seed; panics with its name if anything is wrong.
fn must_hold(scenario: Scenario, seed: u64) -> Ran {
    count_panics();
    let ran = simulate(run(scenario, seed));
    let panics = PANICS.get();
    match ran {
        Ok(ran) if panics == 0 => ran,
        Ok(_) => panic!("{} seed {seed}: {panics} tasks panicked", scenario.name),
        Err(what) => panic!("{} seed {seed} ({panics} tasks panicked): {what}", scenario.name),
    }
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("TRILITH_CELL_SEED") {
        Ok(seed) => vec![seed.parse().expect("TRILITH_CELL_SEED is a number")],
        Err(_) => (0..count * soak()).collect(),
    }
}

/// Runs all seeds of a scenario; every branch of `must_occur` must have been taken.
fn all_hold(scenario: Scenario, count: u64, must_occur: &[&'static str]) {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let seeds = seeds(count);
    for seed in &seeds {
        let ran = must_hold(scenario, *seed);
        ran.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    println!("{}: {counts:#?}", scenario.name);
    for what in must_occur.iter().filter(|_| seeds.len() > 1) {
        assert!(
            counts.get(what).is_some_and(|count| *count > 0),
            "{}: no {what} in {} seeds: {counts:?}",
            scenario.name,
            seeds.len()
        );
    }
}

#[test]
fn a_cell_is_linearizable_whatever_fails() {
    let must_occur = [
        "carried freezes",
        "checkpoints",
        "collected zones",
        "manifests taken over",
        "merged runs",
        "messages doubled",
        "names told to who joins",
        "recoveries",
        "recoveries begun again",
        "rolled forward",
        "slow reads",
        "unknown",
    ];
    all_hold(BASE, SEEDS, &must_occur);
}

/// Each lost or brought back a version before its cause was mended: 14 a delete under an epoch that lagged behind a move's, 75 a write that
/// its gateway had written down and not told, 268 a delete between the reading of a record and the making of its third copy, 189 and 248 were found before.
/// 272, crowded, never came to rest: devices too full for the checkpoint of a recovery, with zones in which nothing was live. 342 and 917, crowded, lost
/// an object: a run that was written anew named places that its record had left. 64, crowded, never came to rest: a device without a free zone, whose
/// collection began with the same zones again and again, none of which could go without the checkpoint for which there was no room.
#[test]
fn seeds_that_found_something() {
    for seed in [14, 75, 189, 248, 268] {
        must_hold(BASE, seed);
    }
    for seed in [64, 272, 342, 917] {
        must_hold(CROWDED, seed);
    }
}

#[test]
fn a_crowded_cell_is_linearizable_whatever_fails() {
    all_hold(CROWDED, SEEDS / 2, &["relocated bytes", "moves told again", "collected zones", "manifests taken over"]);
}

#[test]
fn a_rotting_cell_is_linearizable_and_heals() {
    all_hold(ROTTING, SEEDS / 2, &["damaged copies", "healed copies", "recoveries", "collected zones"]);
}

/// 13: collection reset a zone with a live copy of which rot had left nothing that a walk finds; it was missing from then on.
/// 22: a start that found the last frame of a zone damaged took the zone for shorter; the copy there seemed to have moved, and was never made again.
/// 0: an old run that was written anew, and whose installation had no answer, took records back to zones that were reset. 62: the check missed copies of
/// deletes that were written down.
#[test]
fn rotting_seeds_that_found_something() {
    for seed in [0, 13, 22, 62] {
        must_hold(ROTTING, seed);
    }
}

#[test]
fn a_seed_run_twice_gives_the_same_history() {
    assert_eq!(must_hold(BASE, 3), must_hold(BASE, 3));
}
