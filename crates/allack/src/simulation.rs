//! Seeded runs of one group: a manager, five nodes and clients, over a network and media that fail.
//!
//! Messages are lost, delayed, doubled and reordered; nodes are cut off, crash and lose what was not persisted, one at a time or all at once. The
//! manager names views by its rules, and more of them than it must. The logs are short, so they are full, trimmed, and left behind by learners.
//!
//! Judged: the history of each key is that of a register (crate `model`); every entry that is applied finds the old value that it names; what is
//! built on a log in memory is the log's, also after rollbacks; in the end, when all is well again, the group serves, and all members hold the
//! same. A failure prints its seed: `TRILITH_SEED=n cargo test -p allack simulation::one_seed -- --ignored`.

mod manager;
mod node;
mod world;

use world::{Faults, World};

/// Seeds of an ordinary run.
const SEEDS: u64 = 300;
/// Seeds of a long run, unless `TRILITH_SEEDS` says otherwise.
const SOAK_SEEDS: u64 = 10_000;

const CALM: Faults = Faults { drop: 0, repeat: 0, crash: 0, power: 0, cut: 0, view: 10, sharp: 0, delay_ms: 4 };
const LOSSY: Faults = Faults { drop: 10, repeat: 10, delay_ms: 60, ..CALM };
const CRASHES: Faults = Faults { drop: 2, repeat: 4, crash: 12, sharp: 15, delay_ms: 20, ..CALM };
const CUTS: Faults = Faults { drop: 2, repeat: 4, cut: 20, view: 20, delay_ms: 20, ..CALM };
const ALL_AT_ONCE: Faults = Faults { drop: 5, repeat: 5, crash: 8, power: 3, cut: 12, view: 25, sharp: 8, delay_ms: 40 };
const ALL: [Faults; 5] = [CALM, LOSSY, CRASHES, CUTS, ALL_AT_ONCE];

fn run(seed: u64) -> world::Summary {
    println!("seed {seed}");
    let mut world = World::new(seed, ALL[seed as usize % ALL.len()]);
    world.run();
    world.judge()
}

fn sweep(seeds: impl Iterator<Item = u64>) {
    let mut sum = world::Summary::default();
    for seed in seeds {
        sum.add(&run(seed));
    }
    println!("{sum:?}");
    sum.assert_all_happened();
}

#[test]
fn histories_are_those_of_registers() {
    sweep(0..SEEDS);
}

#[test]
fn a_seed_run_twice_is_the_same() {
    for seed in 0..ALL.len() as u64 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
#[ignore = "long"]
fn many_seeds() {
    let count = std::env::var("TRILITH_SEEDS").map_or(SOAK_SEEDS, |text| text.parse().expect("TRILITH_SEEDS is a number"));
    sweep(SEEDS..SEEDS + count);
}

#[test]
#[ignore = "one seed, from TRILITH_SEED"]
fn one_seed() {
    let seed = std::env::var("TRILITH_SEED").expect("a seed in TRILITH_SEED").parse().expect("a number");
    println!("{:?}", run(seed));
}
