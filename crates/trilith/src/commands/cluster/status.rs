//! `trilith cluster status`: nodes, gateways and devices, as one node's member of the manager knows them.

use super::StatusArgs;
use crate::commands::size::human;
use crate::commands::{status, table, verdict};
use admin::{CellNode, CellStatus, NodeGateway, Status};
use anyhow::{Context, bail};
use std::process::ExitCode;

/// Prints it; fails if something is away.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let text = crate::commands::run(status::fetch(&args.admin))?;
    let status: Status =
        serde_json::from_str(&text).context("the admin port gave a status that this version does not understand")?;
    let Some(cell) = &status.cell else { bail!("{} is a server of its own, no node of a cluster", args.admin) };
    if args.json {
        println!("{}", serde_json::to_string_pretty(cell)?);
    } else {
        print(&status, cell);
    }
    let is_there = |node: &CellNode| node.gateway() != NodeGateway::Away;
    Ok(verdict(cell.nodes.iter().all(is_there) && cell.undecided.is_empty()))
}

fn print(status: &Status, cell: &CellStatus) {
    let unknown = || "-".to_owned();
    println!("Cluster {}", status.cluster.clone().unwrap_or_else(unknown));
    println!("  view     {} of {} gateways, led by {}", cell.view, cell.gateways, cell.leader.clone().unwrap_or_else(unknown));
    println!("  manager  led by {}", cell.manager_leader.clone().unwrap_or_else(unknown));
    println!("  copies   {} of each object", cell.copies);
    if !cell.undecided.is_empty() {
        println!("  recovering what gateways {:?} left", cell.undecided);
    }
    if !cell.alone.is_empty() {
        println!("  written to devices {:?} alone: keep them up", cell.alone);
    }
    for address in &cell.unregistered {
        println!("  {address} is joining; if it does not come: trilith cluster remove {address}");
    }
    if cell.nodes.iter().any(|node| node.waits) {
        println!("  {} gateways are as many as a cell may have: those that wait come in when one goes", cell.gateways);
    }
    println!();
    let rows: Vec<[String; 5]> = cell
        .nodes
        .iter()
        .map(|node| {
            let votes = if node.votes { "votes" } else { "follows" };
            [node.name.clone(), node.address.clone(), node.gateway().to_string(), votes.to_owned(), node.version.clone()]
        })
        .collect();
    table::print(["node", "address", "gateway", "manager", "version"], &rows);
    println!();
    let rows: Vec<[String; 4]> = cell
        .devices
        .iter()
        .map(|device| {
            let written = if device.is_written { "written" } else { "away" };
            let node = device.node.clone().unwrap_or_else(unknown);
            [device.device.to_string(), node, written.to_owned(), human(device.capacity_bytes)]
        })
        .collect();
    table::print(["device", "node", "state", "capacity"], &rows);
}
