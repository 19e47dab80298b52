//! Seeded runs of everything in this crate together: clients, hosts, nodes and a unit, over a network and disks that fail.
//!
//! The network drops, delays, duplicates and reorders; nodes crash and lose or tear what was not durable; hosts forget everything; leaders
//! change with proposals under way; a device is lost for good, or its leader hears nothing of it though others do; chunks are relocated, also to where they once stood; some are put with two copies of three, some have a lost place given up,
//! and all of them get a third one. The unit itself is replicated by others, so here it is
//! one state that outlives its leaders, and a second one that is told the same through the records.
//!
//! What is judged: every chunk's history is that of one register (the crate `model`); in the end, when all is well again, no node holds what
//! the unit does not know, every chunk has its copies, the sums of space are right, and every host finds every chunk. A failure prints its
//! seed: `TRILITH_SEED=n cargo test -p chunkstore simulation::one_seed -- --ignored`.

mod check;
mod disk;
mod workload;
mod world;

use world::{Faults, World};

/// Seeds of an ordinary run.
const SEEDS: u64 = 60;
/// Seeds of a long run.
const SOAK_SEEDS: u64 = 5_000;

const CALM: Faults = Faults {
    drop: 0,
    repeat: 0,
    crash: 0,
    host_crash: 0,
    leader: 0,
    relocate: 3,
    loses_device: false,
    few: 0,
    give_up: 0,
    returns: 0,
    cut: 0,
    lag: 0,
};
const LOSSY: Faults = Faults { drop: 8, repeat: 8, host_crash: 1, leader: 1, ..CALM };
const CRASHES: Faults = Faults { drop: 2, repeat: 4, crash: 3, host_crash: 2, leader: 2, ..CALM };
const LOSS: Faults = Faults { drop: 2, repeat: 4, crash: 1, host_crash: 1, leader: 2, relocate: 4, loses_device: true, ..CALM };
const FEW: Faults = Faults { drop: 4, repeat: 8, few: 60, give_up: 10, ..CRASHES };
const FEW_AND_LOSS: Faults = Faults { few: 40, give_up: 40, ..LOSS };
const RETURNS: Faults = Faults { leader: 1, relocate: 8, few: 20, give_up: 10, returns: 60, cut: 10, lag: 95, ..CALM };
const ALL: [Faults; 7] = [CALM, LOSSY, CRASHES, LOSS, FEW, FEW_AND_LOSS, RETURNS];

fn run(seed: u64, faults: Faults) -> String {
    println!("seed {seed}, {faults:?}");
    let mut world = World::new(seed, faults);
    world.run();
    world.judge();
    world.summary()
}

fn all_faults(seed: u64) -> Faults {
    ALL[seed as usize % ALL.len()]
}

#[test]
fn histories_are_those_of_registers() {
    for seed in 0..SEEDS {
        run(seed, all_faults(seed));
    }
}

#[test]
fn a_seed_runs_the_same_again() {
    for seed in 0..ALL.len() as u64 {
        assert_eq!(run(seed, all_faults(seed)), run(seed, all_faults(seed)));
    }
}

#[test]
#[ignore = "minutes"]
fn soak() {
    for seed in SEEDS..SEEDS + SOAK_SEEDS {
        run(seed, all_faults(seed));
    }
}

#[test]
#[ignore = "for the seed in TRILITH_SEED"]
fn one_seed() {
    let seed = std::env::var("TRILITH_SEED").expect("a seed in TRILITH_SEED").parse().expect("a number");
    println!("{}", run(seed, all_faults(seed)));
}
