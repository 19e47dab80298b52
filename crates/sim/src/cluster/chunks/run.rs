//! One run: a seed, and what came of it.

use super::super::host::CLUSTER;
use super::super::run::{Failure, Report, name_of};
use super::super::scenario::{Scenario, Strike};
use super::super::strike::Chaos;
use super::super::world::{Running, World};
use super::client::ChunkUser;
use super::history::ChunkHistories;
use super::scenario_of;
use crate::cluster::host::chunks_of;
use crate::draw::Draw;
use crate::trace::Trace;
use chunkstore::chunk_client::CopySeen;
use chunkstore::limits::LOSS_WAIT;
use chunkstore::message::{Found, NodeAnswer};
use format::chunk_id::ChunkId;
use format::chunk_place::ChunkPlaces;
use net::{Identity, RemoteCaller};
use node::Removed;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::NodeIdentity;

/// Streams of draws.
const CHAOS_STREAM: u64 = 1;
const CLIENT_STREAMS: u64 = 100;
/// Longer than leaders of units, lookup hosts and reports take to be as they should, once nothing is wrong: a relocation whose target was forgotten, and
/// whose source has departed, goes on when a new leader has waited until the target is lost, and until then nobody knows whether all copies have the same.
const CALM_AT_THE_END: Duration = LOSS_WAIT.saturating_mul(2);
/// How long the first shard may take to be opened.
const SHARD_PATIENCE: Duration = Duration::from_secs(30);
const SHARD_LOOK: Duration = Duration::from_millis(100);
/// How long the copies of a lost device may take to be made again: chunks are few and small.
const REPAIR_PATIENCE: Duration = Duration::from_secs(120);
const REPAIR_LOOK: Duration = Duration::from_millis(300);

/// Runs a seed, within a runtime whose clock is paused.
pub async fn run(seed: u64, trace: Trace) -> Result<Report, Failure> {
    run_in(scenario_of(seed), seed, trace).await
}

/// The same in a scenario.
pub async fn run_in(scenario: Scenario, seed: u64, trace: Trace) -> Result<Report, Failure> {
    let trace = Arc::new(trace);
    let outcome = within(scenario, seed, &trace).await;
    outcome.map_err(|what| Failure { what, events: trace.last() })
}

async fn within(scenario: Scenario, seed: u64, trace: &Arc<Trace>) -> Result<Report, String> {
    env::keep_marks();
    let world = World::new(scenario, seed, trace.clone()).await?;
    let histories = ChunkHistories::new(&world.env, trace);
    wait_for_shard(&world).await?;
    let outcome = live(&world, &histories, seed).await;
    let marks = env::take_marks();
    // A history without an explanation says more than what came of it.
    if histories.violation().is_some() || outcome.is_ok() {
        histories.judge()?;
    }
    outcome?;
    let mut counts = histories.counts();
    counts.extend(marks.into_iter().filter(|(what, _)| what.starts_with("chunks: ")));
    counts.insert("chunks: stored", histories.ids().len() as u64);
    Ok(Report { fingerprint: trace.fingerprint(), calls: histories.calls(), counts })
}

pub(super) async fn wait_for_shard(world: &Arc<World>) -> Result<(), String> {
    let until = world.elapsed() + SHARD_PATIENCE;
    while world.running().iter().any(|running| running.node.manager().snapshot().open_shard().is_none()) {
        if world.elapsed() > until {
            return Err("no shard was opened".to_owned());
        }
        world.env.sleep(SHARD_LOOK).await;
    }
    Ok(())
}

async fn live(world: &Arc<World>, histories: &Arc<ChunkHistories>, seed: u64) -> Result<(), String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..world.scenario.workload.clients {
        clients.spawn(user(world, histories, seed, number, &is_over).run());
    }
    let mut chaos = Chaos::new(world, Draw::new(seed, CHAOS_STREAM));
    for strike in chaos.choose() {
        let calm = chaos.draw.duration(world.scenario.faults.calm);
        world.env.sleep(calm).await;
        world.count(name_of(strike), 1);
        if takes_disks(strike) {
            // Nothing must be lost that a real cluster would not lose.
            await_all(world, histories, async |id| misplaced(world, id).await).await?;
        }
        chaos.strike(strike).await;
        if strike == Strike::ReplaceLate {
            replace_late(world, histories, &mut chaos).await?;
        }
        if strike == Strike::Replace {
            remove_gone(world).await?;
        }
        if takes_disks(strike) {
            await_all(world, histories, async |id| misplaced(world, id).await).await?;
        }
        if let Some(broken) = world.broken.lock().clone() {
            return Err(broken);
        }
        if histories.violation().is_some() {
            return Ok(());
        }
    }
    world.network.set_weather(net::LinkWeather::default());
    world.settle().await?;
    world.env.sleep(CALM_AT_THE_END).await;
    await_all(world, histories, async |id| misplaced(world, id).await).await?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| error.to_string())?;
    }
    let reader = user(world, histories, seed, world.scenario.workload.clients, &is_over);
    read_all(world, histories, &reader).await?;
    if world.scenario.faults.weights.iter().any(|(strike, _)| *strike == Strike::RotChunks) {
        // Until every content has been read from the medium.
        world.env.sleep(2 * world.scenario.faults.scrub_period).await;
        await_all(world, histories, async |id| ailment(world, id).await).await?;
    }
    chaos.strike(Strike::PowerCutOfAll).await;
    world.settle().await?;
    world.env.sleep(CALM_AT_THE_END).await;
    read_all(world, histories, &reader).await.map_err(|what| format!("after the last start: {what}"))
}

fn user(world: &Arc<World>, histories: &Arc<ChunkHistories>, seed: u64, number: u64, is_over: &Arc<AtomicBool>) -> ChunkUser {
    let draw = Draw::new(seed, CLIENT_STREAMS + number);
    ChunkUser { world: world.clone(), histories: histories.clone(), draw, is_over: is_over.clone() }
}

/// Takes the nodes out of the cluster whose hosts never come back, as a person does.
pub(in crate::cluster) async fn remove_gone(world: &Arc<World>) -> Result<(), String> {
    let gone: Vec<usize> = world.hosts.lock().iter().filter(|host| host.is_gone).map(|host| host.number).collect();
    let until = world.elapsed() + REPAIR_PATIENCE;
    for number in gone {
        let name = format!("node-{number}");
        let mut left = String::new();
        while world.running().first().is_some_and(|running| knows(running, &name)) {
            if world.elapsed() > until {
                return Err(format!("{name} is not removed: {left}"));
            }
            let asked = world.living_address(number).ok_or("nobody runs")?;
            let identity = Identity { cluster: CLUSTER, node: NodeIdentity([u8::MAX; 16]) };
            let caller = RemoteCaller::new(&world.env, Arc::new(world.network.at("a person")), &asked, identity);
            left = format!("{:?}", node::remove(&world.env, &caller, &Removed::Node(name.clone()), false).await);
            world.env.sleep(REPAIR_LOOK).await;
        }
    }
    Ok(())
}

fn takes_disks(strike: Strike) -> bool {
    matches!(strike, Strike::ReplaceDisks | Strike::Replace | Strike::ReplaceLate)
}

/// A node is gone and removed, and the chunks do without it, before another one comes.
async fn replace_late(world: &Arc<World>, histories: &Arc<ChunkHistories>, chaos: &mut Chaos) -> Result<(), String> {
    let victim = chaos.lose_any().await;
    remove_gone(world).await?;
    await_all(world, histories, async |id| lost_copy(world, id).await).await?;
    let calm = chaos.draw.duration(world.scenario.faults.calm);
    world.env.sleep(calm).await;
    chaos.replace_lost(victim).await;
    Ok(())
}

fn knows(running: &Running, name: &str) -> bool {
    running.node.manager().snapshot().nodes().any(|node| node.name == name)
}

/// Waits until nothing is wrong with any chunk any more.
async fn await_all(
    world: &Arc<World>,
    histories: &Arc<ChunkHistories>,
    what_is_wrong: impl AsyncFn(ChunkId) -> Option<String>,
) -> Result<(), String> {
    let until = world.elapsed() + REPAIR_PATIENCE;
    for id in histories.ids() {
        while let Some(what) = what_is_wrong(id).await {
            if world.elapsed() > until {
                return Err(format!("chunk {id} is not as it should be again: {what}"));
            }
            world.env.sleep(REPAIR_LOOK).await;
        }
    }
    Ok(())
}

/// No chunk may have a copy on a device that there is not any more, or fewer than are wanted: nothing must be lost that a real cluster would not lose.
async fn misplaced(world: &Arc<World>, id: ChunkId) -> Option<String> {
    match places(world, id).await {
        Err(what) => Some(what),
        Ok(None) => None,
        Ok(Some((places, wanted))) => {
            let copies = places.as_slice().len();
            let is_short = copies < usize::from(wanted);
            gone_copy(world, &places).or(is_short.then(|| format!("copies {copies} of {wanted}")))
        }
    }
}

/// No chunk may have a copy on a device that there is not any more.
async fn lost_copy(world: &Arc<World>, id: ChunkId) -> Option<String> {
    match places(world, id).await {
        Err(what) => Some(what),
        Ok(found) => found.and_then(|(places, _)| gone_copy(world, &places)),
    }
}

fn gone_copy(world: &Arc<World>, places: &ChunkPlaces) -> Option<String> {
    let running = world.running();
    let state = running.first()?.node.manager().snapshot();
    let gone = places.iter().find(|place| state.device(place.device()).is_none());
    gone.map(|place| format!("a copy on device {}, which is gone", place.device()))
}

/// Where a chunk's copies are, and how many are wanted; none if there is no such chunk.
async fn places(world: &Arc<World>, id: ChunkId) -> Result<Option<(ChunkPlaces, u8)>, String> {
    let running = world.running();
    let node = running.first().ok_or("nobody runs")?;
    match node.env.within(chunks_of(&node.node).client.locate(id)).await.map(|whereabouts| whereabouts.unit) {
        Ok(Found::Known { places, wanted }) => Ok(Some((places, wanted))),
        Ok(Found::Unknown) => Ok(None),
        Ok(Found::Pending(_)) => Err("it is pending".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Every copy must be there, and nothing be known against any content.
async fn ailment(world: &Arc<World>, id: ChunkId) -> Option<String> {
    let running = world.running();
    for store in running.iter().flat_map(|running| chunks_of(&running.node).stores().map(|(_, store)| store)) {
        if let Some(rotten) = store.rotten(id.shard, usize::MAX).iter().find(|(rotten, _)| *rotten == id) {
            return Some(format!("{rotten:?} has rotted"));
        }
    }
    let Some(node) = running.first() else { return Some("nobody runs".to_owned()) };
    match node.env.within(chunks_of(&node.node).client.locate(id)).await {
        Ok(whereabouts) => {
            let is_bad = |copy: &&CopySeen| !matches!(copy.answer, Some(NodeAnswer::Live(_)));
            match whereabouts.unit {
                Found::Known { .. } => whereabouts.copies.iter().find(is_bad).map(|copy| format!("{copy:?}")),
                // It was deleted, or never put.
                Found::Unknown | Found::Pending(_) => None,
            }
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Every chunk through every node: nothing may fail now.
async fn read_all(world: &Arc<World>, histories: &Arc<ChunkHistories>, reader: &ChunkUser) -> Result<(), String> {
    let mut failed = Vec::new();
    for id in histories.ids() {
        for node in world.running() {
            let failed_before = failures(histories);
            reader.get(&node, id).await;
            if failures(histories) > failed_before {
                let seen = node.env.within(chunks_of(&node.node).client.locate(id)).await;
                failed.push(format!("{id} at node {}: {seen:?}", node.number));
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("gets failed though nothing is wrong any more:\n{}", failed.join("\n"))),
    }
}

fn failures(histories: &ChunkHistories) -> u64 {
    let counts = histories.counts();
    counts.iter().filter(|(what, _)| **what != "chunks: a relocation begun").map(|(_, count)| count).sum()
}
