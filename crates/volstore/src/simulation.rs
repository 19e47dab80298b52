//! Clusters of one to three nodes in one process: groups on simulated disks, over a network that loses answers, while nodes are killed and lose power.
//!
//! What was answered is there, with its bytes, through every gateway; what was deleted stays deleted. When all is well again, each group has three copies
//! that are the same.

mod adversarial;
mod faults;
mod wire;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use ::engine::{Condition, EngineError, ListQuery, ObjectEngine};
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use futures_util::future::join_all;
use manager::PLACEMENT_GROUPS;
use model::choice::{Choose, Seeded};
use types::{BucketId, DeviceId, NodeId, ViewNumber};

use crate::place::Place;
use crate::store::test_support::{bytes, get, key, put};
use crate::wire::{BlockAnswer, BlockAsk, BlockQuestion};
use world::World;

const ROUNDS: usize = 25;
const NAMES: usize = 8;

/// Of an ordinary run: each branch is taken. `TRILITH_VOLUME_SEEDS=FROM..TO` runs those instead, and says after each that it has passed.
const FIRST_SEED: u64 = 16;
const SEEDS: u64 = 8;
const SOAK_SEEDS: u64 = 200;

fn seeds() -> Range<u64> {
    let usual = if std::env::var_os("TRILITH_SOAK").is_some() { SOAK_SEEDS } else { SEEDS };
    let Ok(text) = std::env::var("TRILITH_VOLUME_SEEDS") else { return FIRST_SEED..FIRST_SEED + usual };
    let (from, to) = text.split_once("..").expect("TRILITH_VOLUME_SEEDS is FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn tell_passed(seed: u64) {
    if std::env::var_os("TRILITH_VOLUME_SEEDS").is_some() {
        println!("seed {seed} has passed");
    }
}

type Known = BTreeMap<String, Vec<Option<Vec<u8>>>>;

async fn act(world: &World, node: NodeId, name: &str, content: Option<&Vec<u8>>) -> Result<(), EngineError> {
    let gateway = world.gateway(node);
    match content {
        Some(content) => put(&gateway, name, content.clone()).await,
        None => gateway.delete(&key(name), Condition::None).await,
    }
}

fn content(choices: &mut Seeded, version: u64) -> Option<Vec<u8>> {
    match choices.below(10) {
        0..6 => Some(bytes(version, choices.below(9_000))),
        6 | 7 => Some(bytes(version, 140_000 + choices.below(70_000))),
        _ => None,
    }
}

/// Some requests at once, each for another name, through nodes that are up.
async fn round(world: &World, choices: &mut Seeded, known: &mut Known, number: usize) {
    let first = choices.below(NAMES);
    let mut acts = Vec::new();
    for at in 0..4 {
        let name = format!("{}", (first + at) % NAMES);
        let up = world.up();
        let node = up[choices.below(up.len())];
        acts.push((node, name, content(choices, (number * 10 + at) as u64 + 1)));
    }
    for (_, name, content) in &acts {
        known.entry(name.clone()).or_insert_with(|| vec![None]).push(content.clone());
    }
    let asked = acts.iter().map(async |(node, name, content)| {
        let asked = act(world, *node, name, content.as_ref());
        tokio::time::timeout(Duration::from_secs(90), world.until_killed(*node, asked)).await.expect("a request ends")
    });
    let trouble = choices.below(6);
    let victim = NodeId(1 + choices.below(3) as u32);
    let troubled = async {
        // Within the time that a put takes, which is some twelve milliseconds, so that its bytes are in some copies alone.
        tokio::time::sleep(Duration::from_micros(500 + choices.below(12_000) as u64)).await;
        match trouble {
            0 | 1 if world.up().len() == 3 => world.kill(victim),
            2 if world.up().len() == 2 => world.start_all(choices.percent(50)).await,
            _ => {}
        }
    };
    let (answers, ()) = tokio::join!(join_all(asked), troubled);
    for ((_, name, content), answer) in acts.into_iter().zip(answers) {
        if let Some(Ok(())) = answer {
            known.insert(name, vec![content]);
        }
    }
}

async fn look(world: &World, known: &Known, seed: u64) {
    for node in world.up() {
        let gateway = world.gateway(node);
        for (name, allowed) in known {
            let found = get(&gateway, name).await.unwrap_or_else(|error| panic!("seed {seed}, {name} at node {node}: {error}"));
            let lens: Vec<_> = allowed.iter().map(|one| one.as_ref().map(Vec::len)).collect();
            assert!(
                allowed.contains(&found),
                "seed {seed}, {name} at node {node}: {:?}, not one of {lens:?}",
                found.map(|found| found.len())
            );
        }
        let query = ListQuery {
            bucket: BucketId(7),
            prefix: Bytes::new(),
            start_after: Bytes::new(),
            delimiter: Bytes::new(),
            max_items: 1000,
        };
        let listed = gateway.list(&query).await.expect("lists").items.len();
        let least = known.values().filter(|allowed| !allowed.contains(&None)).count();
        let most = known.values().filter(|allowed| **allowed != [None]).count();
        assert!((least..=most).contains(&listed), "seed {seed}: {listed} names, not {least} to {most}");
    }
}

/// Runs something on a runtime of its own, whose clock is simulated: what a seed leaves running ends with it, and slows no later one down.
fn on_its_own_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn what_was_answered_outlives_nodes() {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .without_time()
            .with_ansi(false)
            .init();
    }
    env::keep_marks();
    let mut kills = 0;
    for seed in seeds() {
        kills += on_its_own_runtime(nodes_die(seed));
        tell_passed(seed);
    }
    let marks = env::take_marks();
    println!("{kills} nodes were killed; {marks:?}");
    for what in ["a copy was mended", "a copy that counts has failed", "a learner was filled"] {
        assert!(marks.contains_key(&*format!("volume engine: {what}")), "no time in all of these seeds: {what}");
    }
    assert!(kills > seeds().count(), "{kills} kills are too few");
}

/// Three nodes die and come back under writers. How many kills there were.
async fn nodes_die(seed: u64) -> usize {
    let mut choices = Seeded::new(seed);
    let world = World::new(seed, 3, 1).await;
    world.until_whole().await;
    let mut known = Known::new();
    for number in 0..ROUNDS {
        round(&world, &mut choices, &mut known, number).await;
    }
    world.start_all(false).await;
    world.until_whole().await;
    look(&world, &known, seed).await;
    world.check_copies().await;
    world.kills()
}

#[test]
fn a_lone_server_grows_and_is_outlived() {
    let mut kills = 0;
    for seed in seeds() {
        kills += on_its_own_runtime(a_lone_server(seed));
        tell_passed(seed);
    }
    println!("{kills} kills");
}

/// A server of its own with two devices is killed, and loses power, under writers. Then it gets company, and is killed for good.
async fn a_lone_server(seed: u64) -> usize {
    let mut choices = Seeded::new(seed);
    let world = World::new(seed, 1, 2).await;
    let first = world.up()[0];
    let mut known = Known::new();
    for number in 0..ROUNDS {
        if world.up().is_empty() {
            world.start_all(choices.percent(50)).await;
        }
        let work = round(&world, &mut choices, &mut known, number);
        let is_killed = number % 5 == 4;
        let end = async {
            if is_killed {
                tokio::time::sleep(Duration::from_millis(number as u64)).await;
                world.kill(first);
            }
        };
        tokio::join!(work, end);
    }
    world.start_all(false).await;
    world.until_whole().await;
    let devices: BTreeSet<DeviceId> = (0..PLACEMENT_GROUPS).map(|group| world.device_of(first, group)).collect();
    assert_eq!(devices.len(), 2, "seed {seed}: groups stand on both devices");
    look(&world, &known, seed).await;
    for _ in 0..2 {
        world.join(1).await;
    }
    for number in ROUNDS..2 * ROUNDS {
        round(&world, &mut choices, &mut known, number).await;
    }
    world.start_all(false).await;
    world.until_whole().await;
    world.check_copies().await;
    world.kill(first);
    look(&world, &known, seed).await;
    world.kills()
}

/// Groups of a device that fails are read, and not written, until the server starts again. Those of another device do not notice.
#[tokio::test(start_paused = true)]
async fn a_device_that_fails_or_is_missing_stops_its_own_groups() {
    let world = World::new(7, 1, 2).await;
    world.until_whole().await;
    let node = world.up()[0];
    let gateway = world.gateway(node);
    let names: Vec<String> = (0..40).map(|number| format!("{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        put(&gateway, name, bytes(number as u64, 5000)).await.expect("puts");
    }
    let failing = world.device_of(node, 0);
    let is_hit = |name: &String| {
        let group = Place::group_of(&crate::name::Name::of(&key(name)));
        world.device_of(node, group) == failing
    };
    let hit: Vec<bool> = names.iter().map(is_hit).collect();
    assert!(hit.contains(&true) && hit.contains(&false));
    let at = usize::from(failing.0 % 10 != 7);
    let disks = world.disks(node);
    disks[at].add_rule(FaultRule::always(Operation::Write, Fault::Fail));
    for ((number, name), hit) in names.iter().enumerate().zip(&hit) {
        let outcome = put(&gateway, name, bytes(100 + number as u64, 5000)).await;
        assert_eq!(outcome.is_err(), *hit, "{name}: {outcome:?}");
        let refusal = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!hit || refusal.contains(&format!("device {failing}")), "it names the device: {refusal}");
        let version = if *hit { number as u64 } else { 100 + number as u64 };
        assert_eq!(get(&gateway, name).await.expect("reads go on"), Some(bytes(version, 5000)));
    }
    // It is away: its names are no absent names, and are told at once.
    world.kill(node);
    world.register_device_that_is_away().await;
    let other = disks[1 - at].restart();
    world.replace_disk(node, 1 - at, other.clone());
    world.start(node, vec![other]).await;
    let gateway = world.gateway(node);
    for ((number, name), hit) in names.iter().enumerate().zip(&hit) {
        match get(&gateway, name).await {
            Ok(found) => assert_eq!((found, *hit), (Some(bytes(100 + number as u64, 5000)), false), "{name}"),
            Err(error) => assert!(*hit && matches!(error, EngineError::DeviceMissing { .. }), "{name}: {error}"),
        }
    }
    // It is back, and well.
    world.kill(node);
    disks[at].clear_faults();
    world.start_all(false).await;
    world.until_whole().await;
    let gateway = world.gateway(node);
    for (number, name) in names.iter().enumerate() {
        put(&gateway, name, bytes(200 + number as u64, 5000)).await.expect("puts");
        assert_eq!(get(&gateway, name).await.expect("reads"), Some(bytes(200 + number as u64, 5000)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_takes_no_blocks_of_another_view() {
    let world = World::new(1, 3, 1).await;
    world.until_whole().await;
    let record = world.placement(3);
    let backup = *record.voters.iter().find(|node| **node != record.primary).expect("three have it");
    let question = |view: u64, ask: BlockAsk| BlockQuestion { from: record.primary, group: 3, view: ViewNumber(view), ask };
    let write = || BlockAsk::Write { offset: 8192, bytes: Bytes::from(vec![7; 4096]) };
    for view in [record.view.0 - 1, record.view.0 + 1] {
        let refused = world.ask_blocks(backup, question(view, write())).await;
        assert!(refused.is_err(), "view {view}, and {} is the newest", record.view);
    }
    world.ask_blocks(backup, question(record.view.0, write())).await.expect("the view that it has promised");
    let read = BlockAsk::Read { offset: 8192, len: 4096, is_from_medium: true };
    let answer = world.ask_blocks(backup, question(record.view.0, read)).await.expect("reads");
    assert_eq!(answer, BlockAnswer::Bytes(Bytes::from(vec![7; 4096])));
}
