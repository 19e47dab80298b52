//! What a GET costs with an index without keys (`index = "ludo"`, docs/rfd/0013) beside the full map: processor time of the server per
//! request, in turn, round by round.
//!
//! A second server with the full map runs beside them. What it differs by from the first is noise: of place on the disk and in memory, and of
//! the machine.

use super::args::Scale;
use super::load::{self, Spent};
use crate::report::{Report, Table, median, spread};
use crate::systems::{Lab, Setup, System};
use crate::tell;
use anyhow::{Context, ensure};
use std::time::Duration;

/// Objects that are read: enough that neither index lies in a processor's first caches.
const KEYS: u64 = 100_000;
const QUICK_KEYS: u64 = 2_000;
const CONNECTIONS: [u32; 3] = [16, 64, 192];
const WARM_UP: Duration = Duration::from_secs(2);
const DEVICE_SIZE: &str = "4GiB";
/// Name and index of each; ratios are to the first.
const SYSTEMS: [(&str, &str); 3] = [("full", "full"), ("ludo", "ludo"), ("full-again", "full")];

struct Sample {
    connections: u32,
    round: u32,
    system: usize,
    spent: Spent,
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let keys = if scale.quick { QUICK_KEYS } else { KEYS };
    let mut systems = Vec::new();
    for (place, (name, index)) in SYSTEMS.into_iter().enumerate() {
        let settings = vec![("TRILITH_INDEX", index.to_owned())];
        systems.push(lab.single(Setup { name, place: place as u32, settings, device_size: DEVICE_SIZE, engine: None }, 1)?);
    }
    let mut bytes = Vec::new();
    for (system, (_, index)) in systems.iter_mut().zip(SYSTEMS) {
        load::prepare(system, keys)?;
        // A start seals all that is written down. The others are started again too: they shall differ in nothing else.
        system.start_again()?;
        bytes.push(check_index(system, index, keys)?);
    }
    let number = keys.to_string();
    let get = ["--mix", "get", "--keys", &number, "--prefix", "read/"];
    for system in &systems {
        load::run(system, &get, CONNECTIONS[0], WARM_UP.min(scale.duration))?;
    }
    let mut samples = Vec::new();
    for round in 0..scale.rounds {
        for connections in CONNECTIONS {
            // Each round begins with another system, so that none always runs after the same.
            for turn in 0..systems.len() {
                let system = (turn + round as usize) % systems.len();
                let spent = load::run(&systems[system], &get, connections, scale.duration)?;
                ensure!(spent.errors == 0, "{} GETs of {} failed", spent.errors, systems[system].name);
                samples.push(Sample { connections, round, system, spent });
            }
        }
        tell!("  round {} of {}", round + 1, scale.rounds)?;
    }
    Ok(report(&samples, &bytes, keys, scale))
}

/// The bytes of a server's index. An error if it is not in the form that is to be measured.
fn check_index(system: &System, index: &str, keys: u64) -> anyhow::Result<u64> {
    let status = system.status(0)?;
    let figure = |name: &str| status["engine"][name].as_u64().with_context(|| format!("the status has no {name}"));
    let (all, sealed) = (figure("keys")?, figure("sealed_keys")?);
    // No unit takes the few keys that two of them would hold.
    let least = if index == "ludo" { all - all / 100 } else { 0 };
    let is_as_wanted = all >= keys && (sealed >= least) && (index == "ludo" || sealed == 0);
    ensure!(is_as_wanted, "{}: {sealed} of {all} keys are sealed, of {keys} that were written", system.name);
    figure("index_bytes")
}

fn report(samples: &[Sample], bytes: &[u64], keys: u64, scale: &Scale) -> Report {
    let mut data =
        Table::new(&["connections", "round", "system", "requests", "requests_per_s", "cpu_us_per_request", "p50_ms", "p99_ms"]);
    for Sample { connections, round, system, spent } in samples {
        data.row(vec![
            connections.to_string(),
            round.to_string(),
            SYSTEMS[*system].0.to_owned(),
            spent.requests.to_string(),
            format!("{:.0}", spent.requests_per_s()),
            format!("{:.2}", spent.cpu_us_per_request()),
            format!("{:.3}", spent.p50_ms),
            format!("{:.3}", spent.p99_ms),
        ]);
    }
    let memory: Vec<String> =
        SYSTEMS.iter().zip(bytes).map(|((name, _), bytes)| format!("{name} {:.1}", *bytes as f64 / keys as f64)).collect();
    let notes = vec![
        format!("GET of {keys} objects of 4 KiB, anonymous, uniformly, {} rounds of {:?}; single servers with one device.", scale.rounds, scale.duration),
        "Processor time is user and system time of the server (/proc/PID/stat) over the requests answered, the client's not included.".to_owned(),
        "All keys are saved, and sealed in the server with `index = \"ludo\"`: each server was started again after the objects were written.".to_owned(),
        format!("Bytes of the index per key: {}.", memory.join(", ")),
        "Ratios are medians of the rounds' own ratios to the first server, with the extremes. What the second server with the full map differs by is noise.".to_owned(),
    ];
    Report {
        title: "What a GET costs without keys in the index".to_owned(),
        notes,
        summary: summary(samples),
        data,
        plots: Vec::new(),
    }
}

fn summary(samples: &[Sample]) -> Table {
    let mut table = Table::new(&[
        "connections",
        "full, µs",
        "ludo, µs",
        "full again, µs",
        "ludo / full",
        "full again / full",
        "requests/s: full, ludo, full again",
    ]);
    for connections in CONNECTIONS {
        let of = |system: usize, figure: fn(&Spent) -> f64| -> Vec<f64> {
            let is_it = |sample: &&Sample| (sample.connections, sample.system) == (connections, system);
            samples.iter().filter(is_it).map(|sample| figure(&sample.spent)).collect()
        };
        let costs = |system| of(system, Spent::cpu_us_per_request);
        let ratios = |system| -> Vec<f64> { costs(system).iter().zip(costs(0)).map(|(cost, full)| cost / full).collect() };
        let rates: Vec<String> =
            (0..SYSTEMS.len()).map(|system| format!("{:.0}", median(&of(system, Spent::requests_per_s)))).collect();
        let mut row = vec![connections.to_string()];
        row.extend((0..SYSTEMS.len()).map(|system| format!("{:.1}", median(&costs(system)))));
        row.extend([spread(&ratios(1), 3), spread(&ratios(2), 3), rates.join(", ")]);
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests;
