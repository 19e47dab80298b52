//! What the failure of a node and its return do to the foreground at the others (paper, figure 8): the walk of the logs for its gateway, and
//! the copies that its target lacks when it is back, paced and not.
//!
//! ```text
//!   load at nodes 1 and 2 ── before ── node 3 is killed ── decided ── away ── started again ── serves ── copies made ── after
//! ```

use super::args::Scale;
use super::client::Client;
use super::load;
use super::{NODES, SLICE};
use crate::clock;
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::systems::{Lab, Setup, System};
use crate::tell;
use crate::timeline::Timeline;
use anyhow::{Context, ensure};
use std::sync::Arc;
use std::time::Duration;

/// Connections' pairs: a PUT and a GET each.
const WORKERS: usize = 8;
const BODY_BYTES: usize = 4096;
const WARM_UP: Duration = Duration::from_secs(1);
/// How long each quiet part lasts.
const PART: Duration = Duration::from_secs(6);
const QUICK_PART: Duration = Duration::from_secs(3);
/// How long the node is away after its gateway is decided.
const AWAY: Duration = Duration::from_secs(10);
const QUICK_AWAY: Duration = Duration::from_secs(3);
/// Writes before, which no checkpoint has: for so long, on so many connections.
const FILL: Duration = Duration::from_secs(12);
const QUICK_FILL: Duration = Duration::from_secs(2);
const FILL_CONNECTIONS: u32 = 48;
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// No copy is made for so long: all have been made.
const STILL: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// Pause of a client after a failed request.
const RETRY: Duration = Duration::from_millis(20);
/// The node that fails.
const VICTIM: usize = NODES - 1;
/// What a paced run copies in a second; and what nothing reaches.
const RATES: [(&str, &str); 2] = [("paced", "4MiB"), ("unpaced", "1000GiB")];
/// More entries than are written: only time makes checkpoints.
const CHECKPOINT_ENTRIES: &str = "1000000000";

struct Sample {
    name: &'static str,
    /// Writes that no checkpoint had when the node was killed.
    unsaved: f64,
    killed: Duration,
    decided: Duration,
    restarted: Duration,
    serves: Duration,
    repaired: Duration,
    copies: f64,
    failures: u64,
    timeline: Arc<Timeline>,
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let mut samples = Vec::new();
    for (name, rate) in RATES {
        tell!("  a node is killed and comes back, {name}")?;
        let settings =
            vec![("TRILITH_BACKGROUND_RATE", rate.to_owned()), ("TRILITH_CHECKPOINT_ENTRIES", CHECKPOINT_ENTRIES.to_owned())];
        let mut system = lab.cluster(Setup { name: "failing", settings, device_size: "24GiB", ..Setup::default() }, NODES)?;
        samples.push(one(&mut system, name, scale)?);
    }
    Ok(report(&samples))
}

fn one(system: &mut System, name: &'static str, scale: &Scale) -> anyhow::Result<Sample> {
    let (part, away, fill) = match scale.quick {
        true => (QUICK_PART, QUICK_AWAY, QUICK_FILL),
        false => (PART, AWAY, FILL),
    };
    load::run(system, &["--mix", "put", "--unique"], FILL_CONNECTIONS, fill)?;
    let timeline = Arc::new(Timeline::begin(SLICE));
    let places: Vec<String> = system.nodes[..VICTIM].iter().map(|node| node.s3.clone()).collect();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (places, timeline) = (places.clone(), timeline.clone());
            std::thread::spawn(move || work(&places, worker, &timeline))
        })
        .collect();
    std::thread::sleep(WARM_UP + part);
    let outcome = happens(system, &timeline, part, away);
    timeline.stop();
    for worker in workers {
        worker.join().expect("a worker does not panic");
    }
    let Happened { unsaved, times: [killed, decided, restarted, serves, repaired], copies } = outcome?;
    Ok(Sample { name, unsaved, killed, decided, restarted, serves, repaired, copies, failures: timeline.failures(), timeline })
}

/// What [`happens`] has seen.
struct Happened {
    unsaved: f64,
    /// Killed, decided, started again, serves, copies made.
    times: [Duration; 5],
    copies: f64,
}

fn happens(system: &mut System, timeline: &Timeline, part: Duration, away: Duration) -> anyhow::Result<Happened> {
    let unsaved = system.metric(0, "trilith_gateway_index_unsaved_keys")?;
    system.kill(VICTIM)?;
    let killed = timeline.elapsed();
    wait("the others decide", || {
        let status = system.status(0)?;
        let cell = &status["cell"];
        let is_decided = cell["undecided"].as_array().is_some_and(Vec::is_empty);
        Ok(cell["gateways"].as_u64() == Some(NODES as u64 - 1) && is_decided)
    })?;
    let decided = timeline.elapsed();
    std::thread::sleep(away);
    system.restart(VICTIM)?;
    let restarted = timeline.elapsed();
    wait("the node serves again", || Ok(system.all_serve()))?;
    let serves = timeline.elapsed();
    let (repaired, copies) = copies_made(system, timeline)?;
    std::thread::sleep(part);
    Ok(Happened { unsaved, times: [killed, decided, restarted, serves, repaired], copies })
}

fn wait(what: &str, is_so: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let until = clock::now() + PATIENCE;
    while !is_so()? {
        ensure!(clock::now() < until, "waiting until {what} takes more than {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// When the last copy was made, and how many were.
fn copies_made(system: &System, timeline: &Timeline) -> anyhow::Result<(Duration, f64)> {
    let until = timeline.elapsed() + PATIENCE;
    let (mut last, mut made) = (timeline.elapsed(), 0.0);
    while timeline.elapsed() < until && timeline.elapsed() - last < STILL {
        let now = system.metrics("trilith_gateway_added_copies_total")?;
        if now > made {
            (last, made) = (timeline.elapsed(), now);
        }
        std::thread::sleep(LOOK);
    }
    Ok((last, made))
}

/// Writes new objects through one node and reads older ones through the other, until the timeline is over. What fails is tried again.
fn work(places: &[String], worker: usize, timeline: &Timeline) {
    let (put, get) = (&places[worker % places.len()], &places[(worker + 1) % places.len()]);
    let mut random = Random::new(1, worker as u64);
    let mut number = 0;
    while !timeline.is_over() {
        if connected(put, get, (worker, &mut number), &mut random, timeline).is_err() {
            timeline.note_failure();
            std::thread::sleep(RETRY);
        }
    }
}

fn connected(
    put: &str,
    get: &str,
    (worker, number): (usize, &mut u64),
    random: &mut Random,
    timeline: &Timeline,
) -> anyhow::Result<()> {
    let (mut writer, mut reader) = (Client::connect(put)?, Client::connect(get)?);
    let key = |number: u64| format!("failing/{worker}-{number}");
    while !timeline.is_over() {
        writer.send_put(&key(*number), &[worker as u8; BODY_BYTES])?;
        writer.receive().context("a PUT")?;
        timeline.note(1);
        *number += 1;
        reader.send_get(&key(random.below(*number)))?;
        ensure!(reader.receive().context("a GET")?.len() == BODY_BYTES, "an object of another length");
        timeline.note(1);
    }
    Ok(())
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "",
        "before, /s",
        "decided after, s",
        "longest pause, s",
        "away, /s",
        "copies",
        "copies made in, s",
        "while they are made, /s",
        "after, /s",
        "failed requests",
    ]);
    let mut data = Table::new(&["run", "second", "requests_per_s"]);
    let mut series = Vec::new();
    for sample in samples {
        let Sample { name, killed, decided, restarted, serves, repaired, copies, timeline, .. } = sample;
        summary.row(vec![
            (*name).to_owned(),
            format!("{:.0}", timeline.usual(WARM_UP, *killed)),
            format!("{:.1}", (*decided - *killed).as_secs_f64()),
            format!("{:.1}", timeline.longest_gap(*killed, *restarted).as_secs_f64()),
            format!("{:.0}", timeline.usual(*decided, *restarted)),
            format!("{copies:.0}"),
            format!("{:.1}", (*repaired - *serves).as_secs_f64()),
            format!("{:.0}", timeline.usual(*serves, *repaired)),
            format!("{:.0}", timeline.usual(*repaired, timeline.elapsed())),
            sample.failures.to_string(),
        ]);
        for (second, rate) in timeline.points() {
            data.row(vec![(*name).to_owned(), format!("{second:.3}"), format!("{rate:.0}")]);
        }
        let marks = format!("killed {:.0} s, back {:.0} s", killed.as_secs_f64(), serves.as_secs_f64());
        series.push(Series { name: format!("{name}: {marks}"), points: timeline.points() });
    }
    let plot = Plot {
        title: "Requests at two nodes while the third is killed and comes back".to_owned(),
        x_label: "seconds".to_owned(),
        y_label: "requests per second".to_owned(),
        series,
    };
    let unsaved: Vec<String> = samples.iter().map(|sample| format!("{:.0}", sample.unsaved)).collect();
    let notes = vec![
        format!("Three nodes; {WORKERS} workers write new objects of 4 KiB through one of the first two nodes and read older ones through the other; \
         node 3, gateway and target, is killed (SIGKILL) and started again later."),
        "Decided: from the kill until the cell has a view without the node, and its leader has walked the logs, told all members what the \
         node left, and written a checkpoint (figure 8b). The pause is what clients see: the lease."
            .to_owned(),
        "Copies: of what was written while the node was away, made on its device when it is back (figure 8a); paced by `background_rate`, \
         4 MiB in a second, or not at all."
            .to_owned(),
        format!("Entries that no checkpoint had when the node was killed: {}; a checkpoint comes every 30 s.", unsaved.join(", ")),
        "The paper fails a target alone, of six, and copies every object that lost a replica to the others; with three nodes and three copies \
         there is no other place, so what is copied is what the node missed. It walks 1 to 10 million entries; here as many as the time gives."
            .to_owned(),
        "The walk is not paced: reads and writes of what the dead gateway left wait for it. Only the copies are.".to_owned(),
    ];
    Report {
        title: "What a node's failure does to the foreground (figure 8)".to_owned(),
        notes,
        summary,
        data,
        plots: vec![("rate", plot)],
    }
}
