//! Commands over several trees in memory, by clients at once. Orders are lost by chance before or behind their effect, or come twice and late; leaders are dropped
//! half-way, and their trees begun again from rows. What the clients have seen must be what one tree would have shown them.

mod cases;
mod clients;
mod judge;
mod world;

use clients::History;
use judge::Reference;
use world::{Faults, World};

/// Commands of each client between two looks at everything.
const COMMANDS: usize = 3;
const ROUNDS: usize = 12;

/// Runs random commands; how many had an effect, what happened on the way, and how many trees have names at the end.
fn run(seed: u64, clients: u64, faults: Faults) -> (usize, world::Seen, usize) {
    let world = World::new(seed, clients);
    let (mut reference, mut history) = (Reference::new(clients), History::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut done = 0;
    for round in 0..ROUNDS {
        runtime.block_on(history.run(&world, faults, COMMANDS));
        runtime.block_on(world.settle_all());
        done += history.entries.iter().filter(|entry| entry.reply.is_ok()).count();
        let explained = world.walk().and_then(|left| {
            let explained = reference.explain(&history.entries, &left);
            explained.ok_or_else(|| format!("no order of these is what one tree would do: {left:?}"))
        });
        reference = explained.unwrap_or_else(|reason| panic!("seed {seed}, round {round}: {reason}\n{}", history.text()));
        history.entries.clear();
    }
    runtime.block_on(world.end());
    let left = world.walk().unwrap();
    reference.explain(&[], &left).expect("copies that come late have no effect");
    world.check_nothing_left_over(&left);
    (done, world.seen(), world::trees_of(&left))
}

fn run_many(seeds: std::ops::Range<u64>, clients: u64, faults: Faults) -> world::Seen {
    let (mut done, mut spread, mut seen, count) = (0, 0, world::Seen::default(), seeds.end - seeds.start);
    for seed in seeds {
        let found = run(seed, clients, faults);
        (done, spread) = (done + found.0 as u64, spread + u64::from(found.2 == usize::from(world::TREES)));
        seen.add(&found.1);
    }
    let all = count * clients * (ROUNDS * COMMANDS) as u64;
    assert!(done > all / 5 && spread > count / 2, "{done} of {all} had an effect, {spread} of {count} are spread: {seen:?}");
    seen
}

#[test]
fn one_client_after_the_other() {
    let seen = run_many(1..120, 1, Faults::default());
    assert!(seen.transactions > 500, "{seen:?}");
}

#[test]
fn clients_at_once() {
    let seen = run_many(1..150, 4, Faults::default());
    assert!(seen.transactions > 2000 && seen.again > 200, "{seen:?}");
}

#[test]
fn orders_are_lost() {
    let seen = run_many(1..120, 3, Faults { lost: 15, ..Faults::default() });
    assert!(seen.lost > 2000, "{seen:?}");
}

#[test]
fn orders_come_twice_and_late() {
    let seen = run_many(1..120, 3, Faults { late: 30, ..Faults::default() });
    assert!(seen.late > 2000, "{seen:?}");
}

#[test]
fn leaders_are_dropped_and_trees_begin_from_rows() {
    let seen = run_many(1..120, 3, Faults { dropped: 15, ..Faults::default() });
    assert!(seen.dropped > 100, "{seen:?}");
}

#[test]
fn all_at_once() {
    let seen = run_many(1..250, 4, Faults { lost: 8, late: 15, dropped: 8 });
    assert!(seen.lost > 2000 && seen.late > 2000 && seen.dropped > 100, "{seen:?}");
}
