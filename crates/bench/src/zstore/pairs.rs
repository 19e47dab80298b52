//! What a cell of three nodes costs beside one process: processor time of the servers per request, in turn, round by round.

use super::NODES;
use super::args::Scale;
use super::load::{self, Spent};
use crate::report::{Report, Table, median, spread};
use crate::systems::{Lab, Setup, System};
use crate::tell;
use std::time::Duration;

/// Objects that are read.
const KEYS: u64 = 20_000;
/// Load before anything is measured: zones are opened, caches filled.
const WARM_UP: Duration = Duration::from_secs(2);
/// How long the systems are watched doing nothing.
const IDLE: Duration = Duration::from_secs(2);
/// Of all clients together: the same for one process and for three nodes, which then have a third of them each.
const CONNECTIONS: [u32; 4] = [16, 64, 192, 384];
/// Most processor time of a cluster's request, in those of one process with one replica.
const BARS: [(&str, f64); 2] = [("put", 2.9), ("get", 1.15)];

/// One measurement.
struct Sample {
    op: &'static str,
    connections: u32,
    round: u32,
    system: usize,
    spent: Spent,
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let setup = |name, place| Setup { name, place, device_size: "24GiB", ..Setup::default() };
    let systems = [
        lab.single(setup("one-replica", 0), 1)?,
        lab.single(setup("three-replicas", 1), 3)?,
        lab.cluster(setup("three-nodes", 0), NODES)?,
    ];
    for system in &systems {
        load::prepare(system, KEYS)?;
        load::run(system, &options("put"), CONNECTIONS[0], WARM_UP.min(scale.duration))?;
    }
    let idle = idle(&systems)?;
    let mut samples = Vec::new();
    for round in 0..scale.rounds {
        for connections in CONNECTIONS {
            for (op, _) in BARS {
                // Each round begins with another system, so that none always runs after the same.
                for turn in 0..systems.len() {
                    let system = (turn + round as usize) % systems.len();
                    let spent = load::run(&systems[system], &options(op), connections, scale.duration)?;
                    samples.push(Sample { op, connections, round, system, spent });
                }
            }
        }
        tell!("  round {} of {}", round + 1, scale.rounds)?;
    }
    Ok(report(&systems, &samples, &idle, scale))
}

fn options(op: &'static str) -> Vec<&'static str> {
    match op {
        "put" => vec!["--mix", "put", "--unique"],
        _ => vec!["--mix", "get", "--keys", "20000", "--prefix", "read/"],
    }
}

/// Processor time per second of each system when nobody asks anything.
fn idle(systems: &[System]) -> anyhow::Result<Vec<f64>> {
    let before = systems.iter().map(System::cpu).collect::<anyhow::Result<Vec<_>>>()?;
    std::thread::sleep(IDLE);
    let after = systems.iter().map(System::cpu).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(before.iter().zip(after).map(|(before, after)| (after - *before).as_secs_f64() / IDLE.as_secs_f64()).collect())
}

fn report(systems: &[System], samples: &[Sample], idle: &[f64], scale: &Scale) -> Report {
    let mut data = Table::new(&[
        "op",
        "connections",
        "round",
        "system",
        "requests",
        "errors",
        "requests_per_s",
        "cpu_us_per_request",
        "p50_ms",
        "p99_ms",
    ]);
    for Sample { op, connections, round, system, spent } in samples {
        data.row(vec![
            (*op).to_owned(),
            connections.to_string(),
            round.to_string(),
            systems[*system].name.to_owned(),
            spent.requests.to_string(),
            spent.errors.to_string(),
            format!("{:.0}", spent.requests_per_s()),
            format!("{:.2}", spent.cpu_us_per_request()),
            format!("{:.3}", spent.p50_ms),
            format!("{:.3}", spent.p99_ms),
        ]);
    }
    let idle: Vec<String> =
        systems.iter().zip(idle).map(|(system, share)| format!("{} {:.1}%", system.name, share * 100.0)).collect();
    let notes = vec![
        format!("4 KiB objects, anonymous, {} rounds of {:?}; every PUT a new key, GETs of {KEYS} objects that the page cache holds.", scale.rounds, scale.duration),
        "Three nodes: `trilith cluster dev`, a process and a device each, requests to all three; one process: one device, or three.".to_owned(),
        "Processor time is user and system time of the servers (/proc/PID/stat) over the requests answered, the client's not included; what they spend doing nothing is in it.".to_owned(),
        format!("Doing nothing, of one core: {}.", idle.join(", ")),
        "Connections are those of all clients together: of three nodes each has a third, and less that goes through the kernel at once.".to_owned(),
        "Ratios are medians of the rounds' own ratios to one process with one replica, with the extremes.".to_owned(),
    ];
    Report { title: "What a cell of three nodes costs".to_owned(), notes, summary: summary(samples), data, plots: Vec::new() }
}

fn summary(samples: &[Sample]) -> Table {
    let mut table = Table::new(&[
        "request",
        "connections",
        "one replica, µs",
        "three replicas, µs",
        "three nodes, µs",
        "three replicas / one",
        "three nodes / one",
        "bar",
        "met",
        "requests/s: one, three, nodes",
    ]);
    for connections in CONNECTIONS {
        for (op, bar) in BARS {
            let of = |system: usize| -> Vec<&Sample> {
                let is_it = |sample: &&Sample| (sample.op, sample.connections, sample.system) == (op, connections, system);
                samples.iter().filter(is_it).collect()
            };
            let costs = |system| -> Vec<f64> { of(system).iter().map(|sample| sample.spent.cpu_us_per_request()).collect() };
            let rate = |system| median(&of(system).iter().map(|sample| sample.spent.requests_per_s()).collect::<Vec<_>>());
            let ratios = |system| -> Vec<f64> { costs(system).iter().zip(costs(0)).map(|(cost, one)| cost / one).collect() };
            let is_met = if median(&ratios(2)) <= bar { "yes" } else { "no" };
            table.row(vec![
                format!("{} 4 KiB", op.to_uppercase()),
                connections.to_string(),
                format!("{:.1}", median(&costs(0))),
                format!("{:.1}", median(&costs(1))),
                format!("{:.1}", median(&costs(2))),
                spread(&ratios(1), 2),
                spread(&ratios(2), 2),
                format!("{bar}"),
                is_met.to_owned(),
                format!("{:.0}, {:.0}, {:.0}", rate(0), rate(1), rate(2)),
            ]);
        }
    }
    table
}
