//! What the end of a node does to clients, and how long it takes until every chunk has three copies again (paper, figure 10).
//!
//! ```text
//!   load ── before ── a node is killed ── away ── it is removed from the cluster ── copies made ── after
//! ```

use super::chunks::{self, COPIES, NODES, Placing, Stored, prepare};
use super::load::{Done, Load, Mix};
use super::{SmashArgs, Write};
use crate::EnterCluster;
use crate::clock;
use crate::report::{Plot, Report, Series, Table};
use crate::systems::{Lab, System};
use crate::tell;
use anyhow::{Context, ensure};
use chunkstore::chunk_client::ChunkClient;
use chunkstore::limits::LOSS_WAIT;
use chunkstore::message::NodeAnswer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::DeviceId;

const BYTES: usize = 4096;
const MIX: Mix = Mix { putters: 4, getters: 4, bytes: BYTES, looks: false };
const CHUNKS: u64 = 2000;
const QUICK_CHUNKS: u64 = 40;
const WARM_UP: Duration = Duration::from_secs(1);
/// How long each quiet part lasts, and how long the node is away before it is removed.
const PART: Duration = Duration::from_secs(5);
const AWAY: Duration = Duration::from_secs(8);
const QUICK_PART: Duration = Duration::from_secs(1);
/// A rate is that of before when it is at least this share of it for [`WINDOW`].
const AS_BEFORE: f64 = 0.8;
const WINDOW: Duration = Duration::from_secs(1);
/// How long the copies may take, and how often is looked.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// Which node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// It has copies and nothing else.
    Storage,
    /// It leads the open shard's unit as well.
    Leader,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    file: &'static str,
    placer: &'static str,
    victim: Victim,
}

const CASES: [Case; 3] = [
    Case { name: "a storage node", file: "storage", placer: "least-loaded", victim: Victim::Storage },
    Case { name: "the unit's leader", file: "leader", placer: "least-loaded", victim: Victim::Leader },
    Case { name: "a storage node, CRUSH", file: "crush", placer: "crush", victim: Victim::Storage },
];

struct Sample {
    case: Case,
    killed: Duration,
    removed: Duration,
    first_copy: Duration,
    whole: Duration,
    ended: Duration,
    /// Chunks that had a copy on the node, and copies that were brought elsewhere.
    lost: usize,
    brought: f64,
    done: Arc<Done>,
}

pub fn run(args: &SmashArgs, lab: &Lab, enter: EnterCluster, write: Write<'_>) -> anyhow::Result<()> {
    let mut samples = Vec::new();
    for case in CASES.iter().take(if args.quick { 1 } else { CASES.len() }) {
        tell!("  {}", case.name)?;
        samples.push(one(args, lab, enter, *case).with_context(|| case.name)?);
        write(("failure", report(&samples)))?;
    }
    Ok(())
}

fn one(args: &SmashArgs, lab: &Lab, enter: EnterCluster, case: Case) -> anyhow::Result<Sample> {
    let (count, part, away) = if args.quick { (QUICK_CHUNKS, QUICK_PART, QUICK_PART) } else { (CHUNKS, PART, AWAY) };
    let system = chunks::start(lab, "failing", Placing { placer: case.placer, shard_chunks: 1 << 20 })?;
    let runtime = chunks::runtime()?;
    let (client, stored) = runtime.block_on(async {
        let client = chunks::enter(&system, enter).await?;
        let stored = prepare(&client, 1..count + 1, BYTES).await?;
        anyhow::Ok((client, stored))
    })?;
    let victim = choose(&system, case.victim)?;
    let by = (0..NODES).find(|node| *node != victim).context("another node")?;
    let gone = runtime.block_on(devices_of(&client, &system, victim))?;
    let load = Load::begin(system.nodes[by].data.clone(), enter, MIX, stored);
    std::thread::sleep(WARM_UP + part);
    system.kill(victim)?;
    let killed = load.done.elapsed();
    std::thread::sleep(away);
    let brought_before = brought(&system, victim)?;
    system.remove(victim, by)?;
    let removed = load.done.elapsed();
    let repaired = runtime.block_on(repaired(&client, &load.done, &gone, || Ok(brought(&system, victim)? - brought_before)));
    std::thread::sleep(part);
    let ended = load.done.elapsed();
    let done = load.end()?;
    let Repaired { lost, first_copy, whole } = repaired?;
    let brought = brought(&system, victim)? - brought_before;
    let all = done.stored.lock().clone();
    runtime.block_on(audit(&client, all, gone))?;
    Ok(Sample { case, killed, removed, first_copy, whole, ended, lost, brought, done })
}

/// The node that is to end. Not one that leads the manager, unless it leads the unit.
fn choose(system: &System, victim: Victim) -> anyhow::Result<usize> {
    let manager_leader = system.status(0)?["cell"]["manager_leader"].as_str().map(str::to_owned);
    for node in 0..NODES {
        let led = system.metric(node, "trilith_chunk_led_units")?;
        let member_of = system.metric(node, "trilith_chunk_member_units")?;
        let leads_manager = manager_leader.as_ref() == Some(&system.nodes[node].name);
        let is_it = match victim {
            Victim::Storage => member_of == 0.0 && !leads_manager,
            Victim::Leader => led > 0.0,
        };
        if is_it {
            return Ok(node);
        }
    }
    anyhow::bail!("no node is {victim:?} only")
}

async fn devices_of(client: &ChunkClient, system: &System, node: usize) -> anyhow::Result<BTreeSet<DeviceId>> {
    let map = client.look_around().await;
    let address = format!("{}:", system.nodes[node].address);
    let id = map.nodes.iter().find(|place| place.address.starts_with(&address)).context("the node in the map")?.id;
    Ok(map.devices.iter().filter(|(_, of)| *of == id).map(|(device, _)| *device).collect())
}

/// Copies that relocations have brought to the nodes that run.
fn brought(system: &System, without: usize) -> anyhow::Result<f64> {
    let others = (0..system.nodes.len()).filter(|node| *node != without);
    others.map(|node| system.metric(node, "trilith_chunk_brought_copies_total")).sum()
}

struct Repaired {
    lost: usize,
    first_copy: Duration,
    whole: Duration,
}

/// Waits until no chunk that was acknowledged is said to have a copy on the devices.
async fn repaired(
    client: &Arc<ChunkClient>,
    done: &Done,
    gone: &BTreeSet<DeviceId>,
    brought: impl Fn() -> anyhow::Result<f64>,
) -> anyhow::Result<Repaired> {
    let until = clock::now() + PATIENCE;
    let all = done.stored.lock().clone();
    let mut left = still_on(client, all, gone).await?;
    let (lost, mut first_copy) = (left.len(), None);
    while !left.is_empty() {
        ensure!(clock::now() < until, "{} chunks lack a copy after {PATIENCE:?}", left.len());
        if first_copy.is_none() {
            tokio::time::sleep(LOOK).await;
            if brought()? == 0.0 {
                continue;
            }
            first_copy = Some(done.elapsed());
        }
        left = still_on(client, left, gone).await?;
    }
    let whole = done.elapsed();
    Ok(Repaired { lost, first_copy: first_copy.unwrap_or(whole), whole })
}

async fn still_on(client: &Arc<ChunkClient>, chunks: Vec<Stored>, gone: &BTreeSet<DeviceId>) -> anyhow::Result<Vec<Stored>> {
    let (all, gone) = (Arc::new(chunks), Arc::new(gone.clone()));
    let numbers = 0..all.len() as u64;
    let look = {
        let all = all.clone();
        move |client: Arc<ChunkClient>, number: u64| {
            let (chunk, gone) = (all[number as usize], gone.clone());
            async move {
                let places = client.places(chunk.id).await.with_context(|| format!("nobody knows chunk {}", chunk.id))?;
                Ok(places.iter().any(|place| gone.contains(&place.device())))
            }
        }
    };
    let is_left = chunks::together(client, numbers, look).await?;
    Ok(all.iter().zip(is_left).filter(|(_, is_left)| *is_left).map(|(chunk, _)| *chunk).collect())
}

/// Every chunk has as many live copies as it should, none of them on the devices.
async fn audit(client: &Arc<ChunkClient>, all: Vec<Stored>, gone: BTreeSet<DeviceId>) -> anyhow::Result<()> {
    client.look_around().await;
    let (numbers, all, gone) = (0..all.len() as u64, Arc::new(all), Arc::new(gone));
    let look = move |client: Arc<ChunkClient>, number: u64| {
        let (chunk, gone) = (all[number as usize], gone.clone());
        async move {
            let copies = client.locate(chunk.id).await?.copies;
            let live = copies.iter().filter(|copy| matches!(copy.answer, Some(NodeAnswer::Live(_))));
            let live = live.filter(|copy| !gone.contains(&copy.place.device())).count();
            ensure!(live == usize::from(COPIES), "chunk {} has {live} copies: {copies:?}", chunk.id);
            Ok(())
        }
    };
    chunks::together(client, numbers, look).await.map(|_| ())
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "what ends",
        "before: gets, puts /s",
        "gets back after, s",
        "puts back after, s",
        "slowest get, put, s",
        "failed",
        "away: gets, puts /s",
        "chunks that lack a copy",
        "first copy after the removal, s",
        "all copies after the removal, s",
        "copies /s",
        "after: gets, puts /s",
    ]);
    let mut data = Table::new(&["run", "second", "gets_per_s", "puts_per_s", "failures_per_s"]);
    for sample in samples {
        let Sample { case, killed, removed, first_copy, whole, ended, lost, brought, done } = sample;
        let rates = |from, to| format!("{:.0}, {:.0}", done.gets.mean(from, to), done.puts.mean(from, to));
        let back = |timeline: &crate::timeline::Timeline| {
            let usual = timeline.mean(WARM_UP, *killed);
            let back = timeline.back_after(*killed, usual * AS_BEFORE, WINDOW);
            back.map_or("not".to_owned(), |back| format!("{:.1}", back.saturating_sub(*killed).as_secs_f64()))
        };
        let (slowest_put, slowest_get) = done.slowest_ms();
        let after = |time: Duration| time.saturating_sub(*removed).as_secs_f64();
        summary.row(vec![
            case.name.to_owned(),
            rates(WARM_UP, *killed),
            back(&done.gets),
            back(&done.puts),
            format!("{:.2}, {:.2}", slowest_get / 1e3, slowest_put / 1e3),
            format!("{:.0}", done.failed.total()),
            rates(*killed, *removed),
            lost.to_string(),
            format!("{:.2}", after(*first_copy)),
            format!("{:.2}", after(*whole)),
            format!("{:.0}", brought / (after(*whole) - after(*first_copy)).max(0.001)),
            rates(*whole, *ended),
        ]);
        let (puts, failed) = (done.puts.points(), done.failed.points());
        for ((second, gets), ((_, puts), (_, failed))) in done.gets.points().into_iter().zip(puts.into_iter().zip(failed)) {
            data.row(vec![
                case.file.to_owned(),
                format!("{second:.2}"),
                format!("{gets:.0}"),
                format!("{puts:.0}"),
                format!("{failed:.0}"),
            ]);
        }
    }
    let title = "A node of six ends (figure 10)".to_owned();
    let plots = samples.iter().map(|sample| (sample.case.file, plot(sample))).collect();
    Report { title, notes: notes(), summary, data, plots }
}

fn plot(sample: &Sample) -> Plot {
    let Sample { case, killed, removed, whole, done, .. } = sample;
    let [killed, removed, whole] = [killed, removed, whole].map(Duration::as_secs_f64);
    Plot {
        title: format!("{} killed at {killed:.1} s, removed at {removed:.1} s, all copies at {whole:.1} s", case.name),
        x_label: "seconds".to_owned(),
        y_label: "requests per second (100 ms)".to_owned(),
        series: vec![
            Series { name: "gets".to_owned(), points: done.gets.points() },
            Series { name: "puts".to_owned(), points: done.puts.points() },
            Series { name: "failures".to_owned(), points: done.failed.points() },
        ],
    }
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "{NODES} nodes as processes, {COPIES} copies, {CHUNKS} chunks of 4 KiB at first; {} clients put new ones and {} get all kinds, all the \
             time. The node's process is killed (SIGKILL), and {} s later removed from the cluster (`trilith cluster remove --force`); what is lost \
             counts from there. Slices of 100 ms.",
            MIX.putters,
            MIX.getters,
            AWAY.as_secs()
        ),
        format!(
            "Back: from the kill until the mean rate of the next {} s is {:.0}% of that of before. A put that met the dead node is registered anew at \
             other nodes by the client; after 3 s of silence the unit's leader chooses it no more.",
            WINDOW.as_secs(),
            AS_BEFORE * 100.0
        ),
        format!(
            "The first copy comes {} s after the removal at the earliest: a device that was given up may belong to a node that is only cut off, which \
             answers about its blocks for 5 s (RFD 12). The copies per second are those of the time from the first to the last.",
            LOSS_WAIT.as_secs()
        ),
        "At the end every chunk that was ever acknowledged has three live copies on other nodes, each of which was asked.".to_owned(),
        "CRUSH places in the same processes (`chunk_placer = \"crush\"`). It chooses the dead node until it is removed, and a put that it places there \
         has to be registered anew, with another hash, until that spares the node; Ceph would write two copies meanwhile. Copies that are made again \
         go where CRUSH has them without the node. MapX is not run: a layer of three nodes has no other place for a copy."
            .to_owned(),
    ]
}
