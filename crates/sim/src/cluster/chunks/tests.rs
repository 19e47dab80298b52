mod archive;
mod few_hosts;
mod space;

use super::run::{run, run_in, wait_for_shard};
use super::{FAULTS, SMALL_SHARDS, TOPOLOGIES, WITH_CHUNKS, scenario_of, workload};
use crate::cluster::host::address;
use crate::cluster::host::chunks_of;
use crate::cluster::run::{Failure, Report};
use crate::cluster::scenario::{FaultMix, Scenario, Strike, Topology};
use crate::cluster::strike::CUT;
use crate::cluster::table::CRASHES;
use crate::cluster::world::World;
use crate::trace::Trace;
use bytes::Bytes;
use chunkstore::chunk_client::ChunkError;
use chunkstore::limits::{CONTACT_LEASE, IDLE_LOOK, LOAD_INTERVAL};
use env::MachineUse;
use format::chunk_id::ChunkId;
use manager::modules::chunks::limits::{BULK_BLOCKS, FIRST_SHARD};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Seeds of a default run: every topology with every mix of faults.
const SEEDS: u64 = (TOPOLOGIES.len() * FAULTS.len()) as u64;

/// Hosts are fewer than copies are wanted: a mix of its own, beside the matrix.
const FEW_HOSTS: FaultMix = FaultMix {
    name: "hosts are away for long, and go",
    strikes: 4,
    weights: &[
        (Strike::KillForLong, 4),
        (Strike::ReplaceLate, 4),
        (Strike::Kill, 2),
        (Strike::PowerCut, 1),
        (Strike::CutNode, 2),
        (Strike::KillLeader, 1),
    ],
    ..CRASHES
};

/// Seeds of a default run with few hosts: every topology of them twice.
const FEW_SEEDS: u64 = 8;

/// The scenario of a seed in a cluster that lacks hosts: three nodes, mostly.
fn scenario_of_few(seed: u64) -> Scenario {
    let topologies = [WITH_CHUNKS, SMALL_SHARDS, WITH_CHUNKS, TOPOLOGIES[1]];
    Scenario { topology: topologies[seed as usize % topologies.len()], workload: workload(), faults: FEW_HOSTS }
}

fn simulate_few(seed: u64, trace: Trace) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run_in(scenario_of_few(seed), seed, trace))
}

fn simulate(seed: u64, trace: Trace) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run(seed, trace))
}

#[test]
fn histories_of_chunks_are_those_of_registers() {
    for seed in 0..SEEDS {
        match simulate(seed, Trace::default()) {
            Ok(report) => assert!(report.counts["chunks: stored"] > 0, "seed {seed} did nothing"),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
}

#[test]
fn histories_of_chunks_with_few_hosts_are_those_of_registers() {
    let mut counts = BTreeMap::new();
    for seed in 0..FEW_SEEDS {
        let report =
            simulate_few(seed, Trace::default()).unwrap_or_else(|failure| panic!("seed {seed} of few hosts: {failure}"));
        report.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_insert(0) += count);
    }
    for what in ["chunks: a copy added", "chunks: a lost copy done without"] {
        assert!(counts.contains_key(what), "{what}: never, in {counts:?}");
    }
}

/// 36: a copy whose header had fallen back was missed by nobody but the daily audit: modifications of its chunk, and gets after one, failed until then.
#[test]
fn seeds_that_found_something() {
    for seed in [36] {
        if let Err(failure) = simulate(seed, Trace::default()) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// The manager may have forgotten its devices meanwhile, and others may have newer copies: it must not answer from its own.
#[test]
fn a_node_that_does_not_hear_the_manager_answers_nothing_about_its_blocks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(scenario_of(0), 0, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let cut_off = &world.running()[2];
        let client = &chunks_of(&cut_off.node).client;
        let id = cut_off.env.within(client.put(Bytes::from_static(b"content"), 3)).await.unwrap();
        for other in 0..2 {
            world.network.set_link(&address(other), &address(2), CUT);
            world.network.set_link(&address(2), &address(other), CUT);
        }
        // With its leave it is right to answer from its own copy, if its own lookup unit is asked.
        world.env.sleep(CONTACT_LEASE + Duration::from_secs(1)).await;
        for _ in 0..5 {
            assert_eq!(cut_off.env.within(client.get(id)).await, Err(ChunkError::Unavailable));
        }
        world.network.clear_links();
        world.settle().await.unwrap();
        assert_eq!(cut_off.env.within(client.get(id)).await, Ok(Bytes::from_static(b"content")));
    });
}

/// A client waits for the next shard, and for its space: it is told of neither.
#[test]
fn puts_go_on_when_a_shard_is_full() {
    const SHARDS: u64 = 6;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let scenario = Scenario { topology: SMALL_SHARDS, ..scenario_of(0) };
        let world = World::new(scenario, 0, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let node = &world.running()[1];
        let client = &chunks_of(&node.node).client;
        for number in 0..SHARDS * SMALL_SHARDS.shard_chunks {
            let content = Bytes::from(number.to_string());
            let id =
                node.env.within(client.put(content.clone(), 3)).await.unwrap_or_else(|error| panic!("put {number}: {error}"));
            assert_eq!(node.env.within(client.get(id)).await, Ok(content), "put {number}");
        }
        assert!(node.node.manager().snapshot().shards().count() as u64 >= SHARDS);
    });
}

/// Whatever the node did, and whether its links end or go silent. It may have led the shard's unit, and then puts wait for another leader; else who meets it waits,
/// and then only who tries whether it is back.
#[test]
fn the_end_of_one_node_of_four_is_felt_for_a_moment() {
    const MOST: Duration = Duration::from_secs(6);
    const USUAL: Duration = Duration::from_millis(300);
    const CALLS: usize = 40;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for (victim, is_silent) in [(1, false), (2, true), (3, false), (3, true)] {
        runtime.block_on(async {
            let topology = TOPOLOGIES[1];
            let world = World::new(Scenario { topology, ..scenario_of(0) }, victim as u64, Arc::default()).await.unwrap();
            wait_for_shard(&world).await.unwrap();
            let asker = &world.running()[0];
            let client = &chunks_of(&asker.node).client;
            let content = Bytes::from_static(b"content");
            let mut ids = Vec::new();
            for _ in 0..CALLS {
                ids.push(asker.env.within(client.put(content.clone(), 3)).await.unwrap());
            }
            match is_silent {
                false => world.end(victim, true).await,
                true => (0..topology.nodes).filter(|other| *other != victim).for_each(|other| {
                    world.network.set_link(&address(other), &address(victim), CUT);
                    world.network.set_link(&address(victim), &address(other), CUT);
                }),
            }
            let mut waits = Vec::new();
            for id in ids {
                let began = world.env.now();
                assert_eq!(asker.env.within(client.get(id)).await, Ok(content.clone()));
                let got = world.env.now();
                asker.env.within(client.put(content.clone(), 3)).await.unwrap();
                waits.extend([got - began, world.env.now() - got]);
            }
            let case = format!("node {victim}, silent: {is_silent}: {waits:?}");
            assert!(waits.iter().all(|wait| *wait <= MOST), "{case}");
            assert!(waits.iter().filter(|wait| **wait > USUAL).count() <= CALLS / 4, "{case}");
        });
    }
}

/// Three of four nodes have what everybody asks for: some of it moves to the fourth, and then no more.
#[test]
fn hot_copies_move_to_a_node_that_does_less() {
    const IDLE: usize = 3;
    const HOT: usize = 12;
    const PAUSE: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(70);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(Scenario { topology: TOPOLOGIES[1], ..scenario_of(0) }, 0, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let asker = &world.running()[0];
        let client = &chunks_of(&asker.node).client;
        let stands_on_idle = async |id: ChunkId| {
            let (map, places) = (client.look_around().await, client.places(id).await.unwrap());
            places.iter().any(|place| map.node_of(place.device()).is_some_and(|node| node.address == address(IDLE)))
        };
        let mut hot = Vec::new();
        while hot.len() < HOT {
            let content = Bytes::from(hot.len().to_string());
            let id = asker.env.within(client.put(content.clone(), 3)).await.unwrap();
            if !asker.env.within(stands_on_idle(id)).await {
                hot.push((id, content));
            }
        }
        let ask = async |until: Duration| {
            let began = world.env.now();
            while world.env.now() - began < until {
                for (id, content) in &hot {
                    assert_eq!(asker.env.within(client.get(*id)).await.as_ref(), Ok(content));
                }
                world.env.sleep(PAUSE).await;
            }
        };
        let loads = || world.running().into_iter().map(|running| chunks_of(&running.node).loads().clone());
        let moves = || loads().map(|loads| loads.moves()).sum::<u64>();
        ask(LONG).await;
        let first = moves();
        let mut on_idle = 0;
        for (id, _) in &hot {
            on_idle += u64::from(asker.env.within(stands_on_idle(*id)).await);
        }
        assert!(first > 0 && on_idle == first, "{on_idle} of {first} moves went to the node that did nothing");
        // What was measured while they moved may lead to some more.
        ask(LONG).await;
        let later = moves();
        ask(LONG).await;
        assert!(later <= 2 * first && moves() == later, "{} moves, {later} and {first} before", moves());
        let heats: Vec<u64> = loads().flat_map(|loads| loads.recent()).map(|report| report.heat).collect();
        let mean = heats.iter().sum::<u64>() / TOPOLOGIES[1].nodes as u64;
        assert!(
            heats.len() == TOPOLOGIES[1].nodes && heats.iter().all(|heat| heat * 2 > mean && heat * 2 < 3 * mean),
            "{heats:?}"
        );
    });
}

/// Where the machine of one of four nodes has much to do others get the new chunks; where all have, chunks are put all the same.
#[test]
fn nodes_with_much_to_do_get_no_new_chunks_where_others_will_do() {
    const BUSY: usize = 3;
    const PUTS: usize = 24;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(Scenario { topology: TOPOLOGIES[1], ..scenario_of(0) }, 0, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let asker = &world.running()[0];
        let client = &chunks_of(&asker.node).client;
        let on_busy = async || {
            let map = client.look_around().await;
            let mut count = 0;
            for number in 0..PUTS {
                let id = client.put(Bytes::from(number.to_string()), 3).await.unwrap();
                let places = client.places(id).await.unwrap();
                let is_busy = |device| map.node_of(device).is_some_and(|node| node.address == address(BUSY));
                count += usize::from(places.iter().any(|place| is_busy(place.device())));
            }
            count
        };
        assert!(asker.env.within(on_busy()).await > 0, "a node like the others");
        let makes_busy = async |node: usize| {
            world.running()[node].env.simulation().unwrap().set_machine_use(MachineUse { cpu: 950, ..MachineUse::default() });
            world.env.sleep(LOAD_INTERVAL + Duration::from_secs(3)).await;
        };
        makes_busy(BUSY).await;
        assert_eq!(asker.env.within(on_busy()).await, 0);
        for node in 0..BUSY {
            makes_busy(node).await;
        }
        assert!(asker.env.within(on_busy()).await > 0, "all have much to do");
    });
}

/// Bulks of shards that are closed go to later ones when nothing is in them any more.
#[test]
fn space_comes_back_from_shards_that_are_closed() {
    const SHARDS: u64 = 4;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let topology = Topology { chunk_blocks: 2 * BULK_BLOCKS, ..SMALL_SHARDS };
        let world = World::new(Scenario { topology, ..scenario_of(0) }, 0, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let node = &world.running()[1];
        let client = &chunks_of(&node.node).client;
        for number in 0..SHARDS * topology.shard_chunks {
            let put = node.env.within(client.put(Bytes::from_static(b"content"), 3)).await;
            let id = put.unwrap_or_else(|error| panic!("put {number}: {error}"));
            assert_eq!(node.env.within(client.delete(id)).await, Ok(()));
            if (number + 1).is_multiple_of(topology.shard_chunks) {
                world.env.sleep(IDLE_LOOK + Duration::from_secs(5)).await;
            }
        }
        let state = node.node.manager().snapshot();
        assert!(state.shards().count() as u64 >= SHARDS);
        for volume in state.volumes() {
            assert_eq!(volume.bulks_of(FIRST_SHARD).count(), 0, "device {}", volume.device);
        }
    });
}

#[test]
fn a_seed_run_twice_is_the_same() {
    let once = || simulate(1, Trace::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(once(), once());
}

/// `TRILITH_CLUSTER_FIRST=A TRILITH_CLUSTER_LAST=B cargo test -p sim --test sim cluster::chunks::tests::soak_of_seeds -- --ignored --nocapture`; with
/// `TRILITH_CLUSTER_FEW=1` those with few hosts.
#[test]
#[ignore = "as long as one likes"]
fn soak_of_seeds() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, last) = (number("TRILITH_CLUSTER_FIRST", 0), number("TRILITH_CLUSTER_LAST", 200));
    let mut failed = Vec::new();
    let simulate = if is_few() { simulate_few } else { simulate };
    for seed in first..last {
        match simulate(seed, Trace::default()) {
            Ok(report) => println!("seed {seed}: {} calls, {:?}", report.calls, report.counts),
            Err(failure) => {
                println!("seed {seed} FAILED: {failure}");
                failed.push(seed);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

fn is_few() -> bool {
    std::env::var_os("TRILITH_CLUSTER_FEW").is_some()
}

/// Replays what a failure printed: `TRILITH_CLUSTER_SEED=N cargo test -p sim --test sim cluster::chunks::tests::a_seed_from_outside -- --nocapture`.
/// With `TRILITH_CLUSTER_LOG=FILTER` it tells all events, and what the code under test logs between them.
#[test]
fn a_seed_from_outside() {
    let Ok(seed) = std::env::var("TRILITH_CLUSTER_SEED") else { return };
    let seed = seed.parse().expect("TRILITH_CLUSTER_SEED is a number");
    let trace = match std::env::var("TRILITH_CLUSTER_LOG") {
        Ok(filter) => {
            tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).init();
            Trace::told()
        }
        Err(_) => Trace::default(),
    };
    let simulate = if is_few() { simulate_few } else { simulate };
    match simulate(seed, trace) {
        Ok(report) => println!("nothing is wrong: {report:#?}"),
        Err(failure) => panic!("{failure}"),
    }
}
