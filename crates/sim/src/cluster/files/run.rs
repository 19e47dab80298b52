//! One run: a seed, and what came of it.

use super::super::chunks::run::remove_gone;
use super::super::run::{Failure, Report, name_of};
use super::super::scenario::{Scenario, Strike};
use super::super::strike::Chaos;
use super::super::world::World;
use super::door::point_of;
use super::end::{await_whole, look_at_all};
use super::history::FileHistories;
use super::names::new;
use super::space::check_space;
use super::user::{FileUser, Volume, place_at};
use super::{TREES, TWO_VOLUMES_EVERY, YARDS, scenario_of};
use crate::cluster::images::person::caller;
use crate::draw::Draw;
use crate::trace::Trace;
use filesystem::client::{Client, ClientError};
use filesystem::ids::Ino;
use filesystem::meta::Kind;
use filesystem::protocol::{Ask, FILES, MountOptions, Told};
use manager::{FileClass, FileQuota};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Streams of draws.
const CHAOS_STREAM: u64 = 1;
const PROGRAM_STREAMS: u64 = 100;
/// Between the beginning and the first fault.
const CALM_AT_FIRST: Duration = Duration::from_secs(3);
/// What was under way at the last fault has ended after this time: what a process that died has sent waits for 10 s.
const CALM_AT_THE_END: Duration = Duration::from_secs(15);
/// A tree is led before anything is mounted.
const LEAD_TIME: Duration = Duration::from_secs(2);
/// How long a person waits for an answer, and how long a person tries.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
pub(super) const LOOK: Duration = Duration::from_millis(500);

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
    let histories = FileHistories::new(&world.env, trace);
    let outcome = live(&world, &histories, seed).await;
    let marks = env::take_marks();
    // A history without an explanation says more than what came of it.
    if histories.violation().is_some() || outcome.is_ok() {
        histories.judge()?;
    }
    outcome?;
    let mut counts = histories.counts();
    counts.extend(marks.into_iter().filter(|(what, _)| what.starts_with("files: ")));
    counts.extend(world.counts.lock().iter().filter(|(what, _)| what.starts_with("fault: ")));
    Ok(Report { fingerprint: trace.fingerprint(), calls: histories.calls(), counts })
}

/// What a node answers; an error for a refusal, or no answer.
pub(super) async fn ask(world: &World, number: usize, ask: &Ask) -> Result<(), String> {
    let asked = postcard::to_stdvec(ask).map_err(|error| error.to_string())?;
    let answer = caller(world, number, FILES).call(asked.into(), world.env.now() + ANSWER_PATIENCE).await;
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    match postcard::from_bytes(&answer).map_err(|error| error.to_string())? {
        Told::Refused(reason) => Err(reason),
        _ => Ok(()),
    }
}

/// Has a volume mounted on a node, until it is told otherwise.
pub(super) async fn mount(world: &World, number: usize, volume: &str) -> Result<(), String> {
    let options = MountOptions { is_kept: true, ..MountOptions::default() };
    ask(world, number, &Ask::Mount { name: volume.to_owned(), point: point_of(volume), options }).await
}

/// Volumes that are mounted on all nodes, with what programs find in them.
async fn make_volumes(world: &Arc<World>, histories: &FileHistories, count: u64, trees: u32) -> Result<Vec<Volume>, String> {
    let names: Vec<String> = (0..count).map(|number| format!("volume-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        ask(
            world,
            number,
            &Ask::Create { name: name.clone(), quota: FileQuota::default(), trees, class: FileClass::Synchronous },
        )
        .await?;
    }
    world.env.sleep(LEAD_TIME).await;
    let mut volumes = Vec::new();
    for name in names {
        for number in world.present() {
            mount(world, number, &name).await?;
        }
        let node = world.running().into_iter().next().ok_or("no node runs")?;
        let place = place_at(node, &name).ok_or("the first node has no mount")?;
        let client = place.mount.client.clone();
        let made = world.ask_node(&place.node, None, make_files(client)).await?.ok_or("the first node ended")?;
        let (directories, files) = made.map_err(|error| error.to_string())?;
        let [first, second, log] = files;
        volumes.push(Volume {
            name,
            yards: directories.into_iter().map(|roots| histories.add_yard(roots.to_vec())).collect(),
            blocks: vec![(histories.add_blocks(), first), (histories.add_blocks(), second)],
            logs: vec![(histories.add_log(), log)],
        });
    }
    Ok(volumes)
}

/// Two directories of each yard, two files of blocks, and a log.
async fn make_files(client: Arc<Client>) -> Result<([[u64; 2]; YARDS], [u64; 3]), ClientError> {
    let (mut directories, mut files) = ([[0; 2]; YARDS], [0; 3]);
    let inos = directories.iter_mut().flatten().map(|ino| (ino, Kind::Directory));
    for (number, (ino, kind)) in inos.chain(files.iter_mut().map(|ino| (ino, Kind::File))).enumerate() {
        let name = format!("always-{number}").into_bytes();
        *ino = client.make(Ino::ROOT, &name, new(kind)).await?.0.ino.0;
    }
    Ok((directories, files))
}

fn user(
    world: &Arc<World>,
    histories: &Arc<FileHistories>,
    volumes: &Arc<Vec<Volume>>,
    draw: Draw,
    is_over: &Arc<AtomicBool>,
) -> FileUser {
    let (world, histories, volumes, is_over) = (world.clone(), histories.clone(), volumes.clone(), is_over.clone());
    FileUser { world, histories, volumes, draw, is_over }
}

async fn live(world: &Arc<World>, histories: &Arc<FileHistories>, seed: u64) -> Result<(), String> {
    let count = if seed % TWO_VOLUMES_EVERY == TWO_VOLUMES_EVERY - 1 { 2 } else { 1 };
    let trees = TREES[seed as usize % TREES.len()];
    let volumes = Arc::new(make_volumes(world, histories, count, trees).await?);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut working = tokio::task::JoinSet::new();
    for number in 0..world.scenario.workload.clients {
        working.spawn(user(world, histories, &volumes, Draw::new(seed, PROGRAM_STREAMS + number), &is_over).run());
    }
    let mut chaos = Chaos::new(world, Draw::new(seed, CHAOS_STREAM));
    world.env.sleep(CALM_AT_FIRST).await;
    strike_all(world, histories, &volumes, &mut chaos).await?;
    if histories.violation().is_some() {
        return Ok(());
    }
    world.network.set_weather(net::LinkWeather::default());
    world.settle().await?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| error.to_string())?;
    }
    world.env.sleep(CALM_AT_THE_END).await;
    histories.calm();
    let user = user(world, histories, &volumes, Draw::new(seed, PROGRAM_STREAMS - 1), &is_over);
    look_at_all(&user).await?;
    chaos.strike(Strike::PowerCutOfAll).await;
    world.settle().await?;
    look_at_all(&user).await.map_err(|what| format!("after the last start: {what}"))?;
    if histories.violation().is_none() {
        check_space(&user).await?;
    }
    Ok(())
}

async fn strike_all(
    world: &Arc<World>,
    histories: &FileHistories,
    volumes: &[Volume],
    chaos: &mut Chaos,
) -> Result<(), String> {
    for strike in chaos.choose() {
        let calm = chaos.draw.duration(world.scenario.faults.calm);
        world.env.sleep(calm).await;
        world.count(name_of(strike), 1);
        let takes_disks = matches!(strike, Strike::ReplaceDisks | Strike::Replace);
        if takes_disks {
            // Nothing must be lost that a real cluster would not lose.
            await_whole(world, volumes).await?;
        }
        chaos.strike(strike).await;
        if strike == Strike::Replace {
            remove_gone(world).await?;
            for volume in volumes {
                await_mounted(world, &volume.name).await?;
            }
        }
        if takes_disks {
            await_whole(world, volumes).await?;
        }
        if let Some(broken) = world.broken.lock().clone() {
            return Err(broken);
        }
        if histories.violation().is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// A volume is mounted on all nodes, also on those that have come to be there.
pub(super) async fn await_mounted(world: &Arc<World>, volume: &str) -> Result<(), String> {
    let until = world.env.now() + PATIENCE;
    let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
    loop {
        let running = world.running();
        let lacking: Vec<usize> = world
            .present()
            .into_iter()
            .filter(|number| !running.iter().any(|node| node.number == *number && place_at(node.clone(), volume).is_some()))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        if world.env.now() > until {
            return Err(format!("{volume} is not mounted on {lacking:?}, though nothing is wrong any more: {reasons:?}"));
        }
        for number in lacking {
            if let Err(reason) = mount(world, number, volume).await {
                reasons.insert(number, reason);
            }
        }
        world.env.sleep(LOOK).await;
    }
}
