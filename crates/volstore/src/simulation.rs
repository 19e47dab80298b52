//! A cluster of three nodes in one process: groups on simulated disks, over a network that loses answers, while nodes are killed and lose power.
//!
//! What was answered is there, with its bytes, through every gateway; what was deleted stays deleted. When all is well again, each group has three copies
//! that are the same.

mod faults;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use ::engine::{Condition, EngineError, ListQuery, ObjectEngine};
use bytes::Bytes;
use futures_util::future::join_all;
use model::choice::{Choose, Seeded};
use types::{BucketId, NodeId, ViewNumber};

use crate::store::test_support::{bytes, get, key, put};
use crate::wire::{BlockAnswer, BlockAsk, BlockQuestion};
use world::World;

const ROUNDS: usize = 25;
const NAMES: usize = 8;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 200 } else { 6 }
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
        tokio::time::sleep(Duration::from_millis(1 + choices.below(30) as u64)).await;
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

#[tokio::test(start_paused = true)]
async fn what_was_answered_outlives_nodes() {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .without_time()
            .with_ansi(false)
            .init();
    }
    env::keep_marks();
    let mut kills = 0;
    for seed in 0..seeds() {
        let mut choices = Seeded::new(seed);
        let world = World::new(seed).await;
        world.until_whole().await;
        let mut known = Known::new();
        for number in 0..ROUNDS {
            round(&world, &mut choices, &mut known, number).await;
        }
        world.start_all(false).await;
        world.until_whole().await;
        look(&world, &known, seed).await;
        world.check_copies().await;
        kills += world.kills();
    }
    let marks = env::take_marks();
    println!("{kills} nodes were killed; {marks:?}");
    for what in ["a copy was mended", "a copy that counts has failed", "a learner was filled"] {
        assert!(marks.contains_key(&*format!("volume engine: {what}")), "no time in all of these seeds: {what}");
    }
    assert!(kills as u64 > seeds(), "{kills} kills are too few");
}

#[tokio::test(start_paused = true)]
async fn a_member_takes_no_blocks_of_another_view() {
    let world = World::new(1).await;
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
