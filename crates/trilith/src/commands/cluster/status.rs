//! `trilith cluster status`: nodes, gateways and devices, as one node's member of the manager knows them.

use super::StatusArgs;
use crate::commands::size::human;
use crate::commands::{status, table, verdict};
use admin::{CellDevice, CellNode, CellStatus, NodeGateway, Status};
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::tell;
use env::Env;
use std::process::ExitCode;
use std::time::Duration;

/// How often a cluster is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(500);
/// Nothing is left when nothing was for so long: what a change of the view leaves to do is known everywhere a moment after it.
const SETTLED: Duration = Duration::from_secs(3);
/// How long a node may take to say what it knows.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Prints it; fails if something is away, or is left to do after the time that it may take.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let status = crate::commands::run(async {
        match args.wait {
            Some(patience) => settled(&args.admin, patience).await,
            None => fetch(&args.admin).await,
        }
    })?;
    let cell = cell_of(&status, &args.admin)?;
    if args.json {
        tell!("{}", serde_json::to_string_pretty(cell)?)?;
    } else {
        print(&status, cell)?;
    }
    Ok(verdict(cell.nodes.iter().all(is_there) && cell.undecided.is_empty()))
}

async fn fetch(address: &str) -> anyhow::Result<Status> {
    let text = status::fetch(address).await?;
    serde_json::from_str(&text).context("the admin port gave a status that this version does not understand")
}

fn cell_of<'a>(status: &'a Status, address: &str) -> anyhow::Result<&'a CellStatus> {
    status.cell.as_ref().with_context(|| format!("{address} does not know its cluster yet: it starts"))
}

fn is_there(node: &CellNode) -> bool {
    node.gateway() != NodeGateway::Away
}

/// What a node says when nothing is left to do.
async fn settled(address: &str, patience: Duration) -> anyhow::Result<Status> {
    let env = Env::real_with_cores(1);
    let deadline = env.now() + patience;
    let mut well_since = None;
    loop {
        let answer = tokio::select! {
            biased;
            status = fetch(address) => status,
            () = env.sleep(ANSWER_PATIENCE) => Err(anyhow::anyhow!("{address} does not answer")),
        };
        // It may be the one that is started.
        let left = answer.as_ref().map_or_else(|error| vec![format!("{error:#}")], |status| left_of(status, address));
        if left.is_empty() {
            if env.now() - *well_since.get_or_insert(env.now()) >= SETTLED {
                return answer;
            }
        } else {
            well_since = None;
            if env.now() >= deadline {
                bail!("after {} seconds: {}", patience.as_secs(), left.join("; "));
            }
        }
        env.sleep(LOOK).await;
    }
}

fn left_of(status: &Status, address: &str) -> Vec<String> {
    match &status.cell {
        Some(cell) => what_is_left(cell),
        None => vec![format!("{address} does not know its cluster yet: it starts")],
    }
}

/// What is to be waited for before a node may be stopped.
fn what_is_left(cell: &CellStatus) -> Vec<String> {
    let mut left: Vec<String> =
        cell.nodes.iter().filter(|node| !is_there(node)).map(|node| format!("{} is away", node.name)).collect();
    if cell.manager_leader.is_none() {
        left.push("nobody leads the manager".to_owned());
    }
    if !cell.undecided.is_empty() {
        left.push(format!("what gateways {:?} left is being recovered", cell.undecided));
    }
    if !cell.alone.is_empty() {
        left.push(format!("a checkpoint is to end that devices {:?} alone have something", cell.alone));
    }
    let is_missed = |device: &&CellDevice| !device.is_written && !is_going(device);
    let missed = cell.devices.iter().filter(is_missed);
    left.extend(missed.map(|device| format!("device {} of {} is not written to", device.device, node_of(device))));
    match cell.repair_left {
        Some(0) => {}
        Some(parts) => left.push(format!("{parts} parts of the index are to be looked through for copies that are missing")),
        None => left.push("which copies are missing is not known: the node that leads the cell is not heard".to_owned()),
    }
    left
}

/// Whether nothing is to be written to a device ever again.
fn is_going(device: &CellDevice) -> bool {
    matches!(device.state.as_str(), "failed" | "replaced")
}

fn node_of(device: &CellDevice) -> String {
    device.node.clone().unwrap_or_else(|| "-".to_owned())
}

fn print(status: &Status, cell: &CellStatus) -> Printed {
    let unknown = || "-".to_owned();
    tell!("Cluster {}", status.cluster.clone().unwrap_or_else(unknown))?;
    tell!("  view     {} of {} gateways, led by {}", cell.view, cell.gateways, cell.leader.clone().unwrap_or_else(unknown))?;
    tell!("  manager  led by {}", cell.manager_leader.clone().unwrap_or_else(unknown))?;
    tell!("  copies   {} of each object", cell.copies)?;
    if !cell.undecided.is_empty() {
        tell!("  recovering what gateways {:?} left", cell.undecided)?;
    }
    if let Some(parts) = cell.repair_left.filter(|parts| *parts > 0) {
        tell!("  {parts} parts of the index are to be looked through for copies that are missing")?;
    }
    if !cell.alone.is_empty() {
        tell!("  written to devices {:?} alone: keep them up", cell.alone)?;
    }
    for address in &cell.unregistered {
        tell!("  {address} is joining; if it does not come: trilith cluster remove {address}")?;
    }
    if cell.nodes.iter().any(|node| node.waits) {
        tell!("  {} gateways are as many as a cell may have: those that wait come in when one goes", cell.gateways)?;
    }
    for line in cell.nodes.iter().filter_map(clock) {
        tell!("  {line}")?;
    }
    for device in cell.devices.iter().filter(|device| device.state == "failed") {
        tell!("  {}", unfinished(device))?;
    }
    tell!("")?;
    let rows: Vec<[String; 5]> = cell
        .nodes
        .iter()
        .map(|node| {
            let votes = if node.votes { "votes" } else { "follows" };
            [node.name.clone(), node.address.clone(), node.gateway().to_string(), votes.to_owned(), node.version.clone()]
        })
        .collect();
    table::print(["node", "address", "gateway", "manager", "version"], &rows)?;
    tell!("")?;
    let rows: Vec<[String; 4]> = cell
        .devices
        .iter()
        .map(|device| {
            let state = match (device.is_written, is_going(device)) {
                (true, _) => "written",
                (false, true) => &device.state,
                (false, false) => "away",
            };
            [device.device.to_string(), node_of(device), state.to_owned(), human(device.capacity_bytes)]
        })
        .collect();
    table::print(["device", "node", "state", "capacity"], &rows)
}

/// What is to be said of a node's clock.
fn clock(node: &CellNode) -> Option<String> {
    let off_ms = node.clock_off_ms?;
    let (seconds, way) = (off_ms.unsigned_abs() / 1_000, if off_ms > 0 { "ahead of" } else { "behind" });
    Some(format!(
        "the clock of {} is {seconds} seconds {way} that of the node that was asked: one of the two is wrong. Set it, best with NTP on all nodes",
        node.name
    ))
}

/// A removal has begun with this device, and may have been interrupted: what had copies on it gets others, and it is not taken back, for these count already.
fn unfinished(device: &CellDevice) -> String {
    format!(
        "device {id} is to be forgotten, and nothing is written to it. That ends by itself when {node} does not serve it any more (leave it out of its \
         --devices) and nothing is lost with it; trilith device forget {id} --yes does not wait for either",
        id = device.device,
        node = node_of(device)
    )
}

#[cfg(test)]
mod tests;
