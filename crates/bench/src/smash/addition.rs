//! What happens when a node comes (paper, table 4): how soon it has its first chunk, and what moves to it.
//!
//! ```text
//!   load ── process started ── space registered ── first put ends that has a copy there     the chunk store
//!                              └──────── what the paper times ────────┘
//!   no load ── a seventh node ── every copy moved that the map of seven nodes has elsewhere  CRUSH
//! ```

use super::by_map::ByMap;
use super::chunks::{self, COPIES, NODES, Placing, Stored, prepare};
use super::load::{Load, Mix};
use super::{SmashArgs, Write};
use crate::EnterCluster;
use crate::clock;
use crate::report::{Report, Table, spread};
use crate::systems::{Lab, System};
use crate::tell;
use anyhow::{Context, ensure};
use chunkstore::chunk_client::ChunkClient;
use chunkstore::protocol::ChunkMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::DeviceId;

const BYTES: usize = 4096;
const MIX: Mix = Mix { putters: 4, getters: 2, bytes: BYTES, looks: true };
const CHUNKS: u64 = 2000;
const QUICK_CHUNKS: u64 = 40;
/// Nodes that come, one after the other.
const COMERS: usize = 6;
const WARM_UP: Duration = Duration::from_secs(3);
/// Between two of them.
const PAUSE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// What a node logs before it asks the manager to note its space.
const REGISTERS: &str = "registers the space for chunks";

/// A node that came.
struct Comer {
    /// Nodes before it.
    nodes: usize,
    /// From the start of its process until it registers its space.
    start_ms: f64,
    /// From there until the first put ended that has a copy on it.
    joined_ms: f64,
    /// Brought to all nodes by relocations from its start on.
    moved_bytes: f64,
    /// Copies that it has a moment later.
    copies: f64,
}

/// What CRUSH has to move to a seventh node.
struct Moved {
    copies: usize,
    all_copies: u64,
    took: Duration,
    bytes: f64,
}

pub fn run(args: &SmashArgs, lab: &Lab, enter: EnterCluster, write: Write<'_>) -> anyhow::Result<()> {
    let (count, comers) = if args.quick { (QUICK_CHUNKS, 1) } else { (CHUNKS, COMERS) };
    tell!("  nodes come to the chunk store")?;
    let (came, failed) = additions(lab, enter, count, comers)?;
    tell!("  a node comes to CRUSH")?;
    let moved = crush(lab, enter, count)?;
    write(("addition", report(&came, failed, &moved)))
}

fn start(lab: &Lab, enter: EnterCluster, placer: &'static str, count: u64) -> anyhow::Result<Ground> {
    let system = chunks::start(lab, "growing", Placing { placer, shard_chunks: 1 << 20 })?;
    let runtime = chunks::runtime()?;
    let (client, stored) = runtime.block_on(async {
        let client = chunks::enter(&system, enter).await?;
        let stored = prepare(&client, 1..count + 1, BYTES).await?;
        anyhow::Ok((client, stored))
    })?;
    Ok(Ground { system, runtime, client, stored })
}

struct Ground {
    system: System,
    runtime: tokio::runtime::Runtime,
    client: Arc<ChunkClient>,
    stored: Vec<Stored>,
}

/// Those that came, and requests that failed meanwhile.
fn additions(lab: &Lab, enter: EnterCluster, count: u64, comers: usize) -> anyhow::Result<(Vec<Comer>, f64)> {
    let Ground { mut system, runtime, client, stored } = start(lab, enter, "least-loaded", count)?;
    let load = Load::begin(system.nodes[0].data.clone(), enter, MIX, stored);
    std::thread::sleep(WARM_UP);
    let mut came = Vec::new();
    for _ in 0..comers {
        came.push(addition(&mut system, &runtime, &client, &load)?);
        std::thread::sleep(PAUSE);
    }
    Ok((came, load.end()?.failed.total()))
}

fn addition(
    system: &mut System,
    runtime: &tokio::runtime::Runtime,
    client: &Arc<ChunkClient>,
    load: &Load,
) -> anyhow::Result<Comer> {
    let (nodes, brought_before) = (system.nodes.len(), system.metrics("trilith_chunk_brought_bytes_total")?);
    let number = system.join()?;
    let before = runtime.block_on(client.look_around());
    let (started, started_ns) = (clock::now(), clock::unix_nanos());
    system.start_joined(number)?;
    let until = started + PATIENCE;
    let (device, first_put) = loop {
        ensure!(clock::now() < until, "no chunk is put on the new node within {PATIENCE:?}");
        std::thread::sleep(LOOK);
        let map = runtime.block_on(client.look_around());
        let Some(device) = new_device(&before, &map) else { continue };
        if let Some(at) = load.done.first_on(device) {
            break (device, at);
        }
    };
    let registers_ns = registers_at(system, number)?;
    let start = Duration::from_nanos(registers_ns.saturating_sub(started_ns));
    std::thread::sleep(PAUSE);
    let moved_bytes = system.metrics("trilith_chunk_brought_bytes_total")? - brought_before;
    let copies = system.metric(number, "trilith_chunk_writes_total")?;
    let joined_ms = ms(first_put, started) - start.as_secs_f64() * 1e3;
    tell!("    {} of {}: {joined_ms:.1} ms", device, system.nodes[number].name)?;
    Ok(Comer { nodes, start_ms: start.as_secs_f64() * 1e3, joined_ms, moved_bytes, copies })
}

fn ms(later: Instant, earlier: Instant) -> f64 {
    later.saturating_duration_since(earlier).as_secs_f64() * 1e3
}

fn new_device(before: &ChunkMap, now: &ChunkMap) -> Option<DeviceId> {
    now.devices.iter().find(|(device, _)| !before.devices.iter().any(|(known, _)| known == device)).map(|(device, _)| *device)
}

/// When a node began to register its space, in nanoseconds since 1970, as its log says.
fn registers_at(system: &System, node: usize) -> anyhow::Result<u64> {
    let path = system.nodes[node].data.join("trilith.log");
    let log = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let line =
        log.lines().find(|line| line.contains(REGISTERS)).with_context(|| format!("{} does not say it", path.display()))?;
    let stamp = line.split_ascii_whitespace().next().unwrap_or_default();
    let of_day = nanos_of_day(stamp).with_context(|| format!("{stamp} is no time"))?;
    const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
    let now = clock::unix_nanos();
    let midnight = now - now % DAY_NS;
    // A run over midnight: it was yesterday.
    Ok(if midnight + of_day > now { midnight + of_day - DAY_NS } else { midnight + of_day })
}

/// Of a time such as `2026-01-31T23:59:58.123456Z`.
fn nanos_of_day(stamp: &str) -> Option<u64> {
    let (_, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let mut parts = time.split(':');
    let (hours, minutes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some((hours * 3600 + minutes * 60) * 1_000_000_000 + (seconds * 1e9) as u64)
}

/// Brings every chunk to where the map of seven nodes has it, as a system must that finds chunks by the map alone.
fn crush(lab: &Lab, enter: EnterCluster, count: u64) -> anyhow::Result<Moved> {
    let Ground { mut system, runtime, client, stored } = start(lab, enter, "crush", count)?;
    let number = system.join()?;
    system.start_joined(number)?;
    let before = system.metrics_of_first(NODES, "trilith_chunk_brought_bytes_total")?;
    let moved = runtime.block_on(async {
        let map = all_devices(&client, NODES + 1).await?;
        // Until the unit has space on the new device nothing can go there.
        tokio::time::sleep(PAUSE).await;
        let by_map = ByMap::new("crush", map.clone())?;
        let began = clock::now();
        let mut moves = Vec::new();
        for chunk in &stored {
            let places = client.places(chunk.id).await.context("the places of a chunk")?;
            let nodes = by_map.nodes(chunk.id, places.as_slice().len())?;
            let device_of = |node| map.devices.iter().find(|(_, of)| *of == node).map(|(device, _)| *device);
            let wanted: Vec<DeviceId> = nodes.into_iter().filter_map(device_of).collect();
            let has: Vec<DeviceId> = places.iter().map(|place| place.device()).collect();
            let leave = has.iter().filter(|device| !wanted.contains(device));
            let go = wanted.iter().filter(|device| !has.contains(device));
            moves.push((*chunk, leave.copied().zip(go.copied()).collect::<Vec<_>>()));
        }
        let copies = moves.iter().map(|(_, moves)| moves.len()).sum();
        let moves = Arc::new(moves);
        let numbers = 0..moves.len() as u64;
        let carry = move |client: Arc<ChunkClient>, number: u64| {
            let (chunk, moves) = moves[number as usize].clone();
            async move {
                for (from, to) in moves {
                    carry_out(&client, chunk, from, to).await?;
                }
                Ok(())
            }
        };
        chunks::together(&client, numbers, carry).await?;
        anyhow::Ok((copies, clock::now() - began))
    })?;
    let (copies, took) = moved;
    let bytes = system.metrics("trilith_chunk_brought_bytes_total")? - before;
    Ok(Moved { copies, all_copies: count * u64::from(COPIES), took, bytes })
}

async fn all_devices(client: &ChunkClient, count: usize) -> anyhow::Result<Arc<ChunkMap>> {
    let until = clock::now() + PATIENCE;
    loop {
        let map = client.look_around().await;
        if map.devices.len() == count {
            return Ok(map);
        }
        ensure!(clock::now() < until, "{} devices of {count} are there", map.devices.len());
        tokio::time::sleep(LOOK).await;
    }
}

async fn carry_out(client: &ChunkClient, chunk: Stored, from: DeviceId, to: DeviceId) -> anyhow::Result<()> {
    let until = clock::now() + PATIENCE;
    while let Err(error) = client.relocate(chunk.id, from, Some(to)).await {
        ensure!(clock::now() < until, "chunk {} can't be moved from device {from} to {to}: {error}", chunk.id);
        tokio::time::sleep(LOOK).await;
    }
    loop {
        let places = client.places(chunk.id).await.context("the places of a chunk")?;
        if !places.iter().any(|place| place.device() == from) {
            return Ok(());
        }
        ensure!(clock::now() < until, "chunk {} is not moved from device {from} to {to}", chunk.id);
        tokio::time::sleep(LOOK).await;
    }
}

fn report(came: &[Comer], failed: f64, moved: &Moved) -> Report {
    let mut summary = Table::new(&["what", "result"]);
    let of = |pick: fn(&Comer) -> f64| came.iter().map(pick).collect::<Vec<f64>>();
    let total = |pick: fn(&Comer) -> f64| came.iter().map(pick).sum::<f64>();
    let mut row = |what: &str, result: String| summary.row(vec![what.to_owned(), result]);
    row("nodes that came", format!("{}, the first to {NODES}", came.len()));
    row("space registered to first put with a copy there, ms", spread(&of(|comer| comer.joined_ms), 1));
    row("start of the process to its space registered, ms", spread(&of(|comer| comer.start_ms), 0));
    row("bytes moved between nodes", format!("{:.0}", total(|comer| comer.moved_bytes)));
    row("copies that were put on it in the next 2 s", spread(&of(|comer| comer.copies), 0));
    row("requests that failed meanwhile", format!("{failed:.0}"));
    row("CRUSH: copies moved to fit the map of seven nodes", format!("{} of {}", moved.copies, moved.all_copies));
    row("CRUSH: time for that, s", format!("{:.2}", moved.took.as_secs_f64()));
    row("CRUSH: bytes moved", format!("{:.0}", moved.bytes));
    let mut data = Table::new(&["nodes_before", "start_ms", "joined_ms", "moved_bytes", "copies"]);
    for Comer { nodes, start_ms, joined_ms, moved_bytes, copies } in came {
        let figures =
            [format!("{start_ms:.1}"), format!("{joined_ms:.1}"), format!("{moved_bytes:.0}"), format!("{copies:.0}")];
        data.row([vec![nodes.to_string()], figures.to_vec()].concat());
    }
    Report { title: "Nodes come (table 4)".to_owned(), notes: notes(), summary, data, plots: Vec::new() }
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "{NODES} nodes as processes with {CHUNKS} chunks of 4 KiB in {COPIES} copies; {} clients put and {} get all the time. Nodes come one after \
             the other: `trilith cluster join`, then `trilith serve` on an empty folder.",
            MIX.putters, MIX.getters
        ),
        "Timed, as in the paper: from the moment at which the new node begins to register its space with the manager (by its log; the clock is the \
         same) until the end of the first put that has a copy on it. In between the manager decides twice (the space; a bulk of it for the shard), the \
         unit once (the bulk is its), the node reports to the unit's leader, and the put itself is carried out."
            .to_owned(),
        "Not in it: the start of the process, with formatting the device and joining the manager's group.".to_owned(),
        "Bytes moved: contents that relocations brought to any node, by its counter `trilith_chunk_brought_bytes_total`, from before the start until 2 s \
         after the first put."
            .to_owned(),
        format!(
            "CRUSH: the same processes with `chunk_placer = \"crush\"`, {CHUNKS} chunks, no load. When the seventh node is there, the client computes where \
             the map has every chunk now and has the copies relocated that are elsewhere, 16 at a time: what a system must do that finds chunks by the \
             map. The time grows with the chunks that there are. MapX moves nothing, but can't use a single node: it waits until there are three."
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::nanos_of_day;

    #[test]
    fn times_of_a_log() {
        assert_eq!(nanos_of_day("2026-11-23T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(nanos_of_day("2026-11-23T10:02:00.000250Z"), Some(36_120_000_250_000));
        assert_eq!(nanos_of_day("yesterday"), None);
    }
}
