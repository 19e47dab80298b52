//! Figure 15: the primary of placement groups is killed under load. The servers are processes; all that a crash takes is in it.
//!
//! ```text
//!   puts and gets at the other nodes ── before ── SIGKILL ── silence ── next views ── served ── started again ── filled ── three copies ── after
//! ```

use super::{CheetahArgs, Named};
use crate::clock;
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::systems::{Lab, Setup, System};
use crate::tell;
use crate::timeline::Timeline;
use crate::zstore::client::Client;
use anyhow::{Context, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NODES: usize = 3;
/// Clients that put, and as many that get. The paper has a concurrency of 100.
const CLIENTS: usize = 24;
const BODY_BYTES: usize = 8 << 10;
const SLICE: Duration = Duration::from_millis(250);
const WARM_UP: Duration = Duration::from_secs(1);
/// Each quiet part, and how long a node is away.
const PART: Duration = Duration::from_secs(6);
const AWAY: Duration = Duration::from_secs(12);
const QUICK_PART: Duration = Duration::from_secs(2);
const QUICK_AWAY: Duration = Duration::from_secs(8);
/// Requests go on again when their rate is at least this share of before, for [`WINDOW`].
const AS_BEFORE: f64 = 0.5;
const WINDOW: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(20);
/// What `trilith status` calls the engine's line.
const STATUS_LABEL: &str = "volumes";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Primary,
    /// The manager's leader is there, too.
    ManagersLeader,
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Victim::Primary => "a primary",
            Victim::ManagersLeader => "a primary with the manager's leader",
        }
    }
}

/// What the clients have done.
struct Load {
    puts: Timeline,
    gets: Timeline,
    /// Objects that each client has put.
    put: Vec<AtomicU64>,
}

struct Sample {
    victim: Victim,
    led: u64,
    killed: Duration,
    restarted: Duration,
    whole: Duration,
    ended: Duration,
    load: Arc<Load>,
}

pub fn run(args: &CheetahArgs) -> anyhow::Result<Vec<Named>> {
    let lab = Lab::new(&args.lab)?;
    let victims = [Victim::Primary, Victim::ManagersLeader];
    let mut samples = Vec::new();
    for victim in victims.into_iter().take(if args.quick { 1 } else { victims.len() }) {
        tell!("  {} is killed", victim.name())?;
        samples.push(one(args, &lab, victim).with_context(|| victim.name())?);
    }
    Ok(vec![("fig15", report(&samples))])
}

fn one(args: &CheetahArgs, lab: &Lab, victim: Victim) -> anyhow::Result<Sample> {
    let (part, away) = if args.quick { (QUICK_PART, QUICK_AWAY) } else { (PART, AWAY) };
    let setup = Setup { name: "crash", device_size: "2GiB", engine: Some("volume"), ..Setup::default() };
    let mut system = lab.cluster(setup, NODES)?;
    until_whole(&system, 0)?;
    let at = choose(&system, victim)?;
    let others: Vec<usize> = (0..NODES).filter(|node| *node != at).collect();
    let places: Vec<String> = others.iter().map(|node| system.nodes[*node].s3.clone()).collect();
    let put = std::iter::repeat_with(AtomicU64::default).take(CLIENTS).collect();
    let load = Arc::new(Load { puts: Timeline::begin(SLICE), gets: Timeline::begin(SLICE), put });
    let clients = (0..2 * CLIENTS).map(|client| {
        let (load, place) = (load.clone(), places[client % places.len()].clone());
        std::thread::spawn(move || work(&load, client, &place))
    });
    let clients: Vec<_> = clients.collect();
    std::thread::sleep(WARM_UP + part);
    let happened = happens(&mut system, at, others[0], &load, [away, part]);
    let ended = load.puts.elapsed();
    load.puts.stop();
    for client in clients {
        client.join().expect("a client does not panic");
    }
    let (led, [killed, restarted, whole]) = happened?;
    Ok(Sample { victim, led, killed, restarted, whole, ended, load })
}

/// Groups that the victim has led, and when it was killed, started again, and all copies were whole.
fn happens(
    system: &mut System,
    victim: usize,
    other: usize,
    load: &Load,
    [away, part]: [Duration; 2],
) -> anyhow::Result<(u64, [Duration; 3])> {
    let led = number_in(system, victim, "leads")?.context("how many groups it leads")?;
    system.kill(victim)?;
    let killed = load.puts.elapsed();
    std::thread::sleep(away);
    system.restart(victim)?;
    let restarted = load.puts.elapsed();
    until_whole(system, other)?;
    let whole = load.puts.elapsed();
    std::thread::sleep(part);
    Ok((led, [killed, restarted, whole]))
}

fn choose(system: &System, victim: Victim) -> anyhow::Result<usize> {
    let leader = system.status(0)?["cell"]["manager_leader"].as_str().map(str::to_owned);
    for node in 0..NODES {
        let is_leader = leader.as_ref() == Some(&system.nodes[node].name);
        if is_leader == (victim == Victim::ManagersLeader) && number_in(system, node, "leads")?.unwrap_or(0) > 0 {
            return Ok(node);
        }
    }
    anyhow::bail!("no node leads groups and is {}", victim.name())
}

/// The engine's line of a node's status.
fn line_of(system: &System, node: usize) -> anyhow::Result<Option<String>> {
    let status = system.status(node)?;
    let lines = status["subsystems"].as_array().map_or(&[][..], Vec::as_slice);
    let line = lines.iter().find(|line| line["label"] == STATUS_LABEL);
    Ok(line.and_then(|line| line["text"].as_str()).map(str::to_owned))
}

/// The number behind a word of it.
fn number_in(system: &System, node: usize, word: &str) -> anyhow::Result<Option<u64>> {
    let line = line_of(system, node)?;
    Ok(line.and_then(|line| line.split_ascii_whitespace().skip_while(|other| *other != word).nth(1)?.parse().ok()))
}

/// Waits until every group has three copies, as a node sees it.
fn until_whole(system: &System, node: usize) -> anyhow::Result<()> {
    let all = format!("{0} placement groups of {0} have {NODES} copies", manager::PLACEMENT_GROUPS);
    let until = clock::now() + PATIENCE;
    while !line_of(system, node).is_ok_and(|line| line.is_some_and(|line| line.starts_with(&all))) {
        ensure!(clock::now() < until, "not all groups have three copies after {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// One half of the clients puts new objects, the other half gets objects that were put.
fn work(load: &Load, client: usize, place: &str) {
    let mut random = Random::new(1, client as u64);
    while !load.puts.is_over() {
        let ended = match client < CLIENTS {
            true => put(load, client, place),
            false => get(load, &mut random, place),
        };
        if ended.is_err() {
            load.puts.note_failure();
            std::thread::sleep(RETRY);
        }
    }
}

fn key(client: usize, number: u64) -> String {
    format!("crash/{client}-{number}")
}

fn put(load: &Load, client: usize, place: &str) -> anyhow::Result<()> {
    let mut connection = Client::connect(place)?;
    while !load.puts.is_over() {
        let number = load.put[client].load(Ordering::Relaxed);
        connection.send_put(&key(client, number), &[client as u8; BODY_BYTES])?;
        connection.receive().context("a PUT")?;
        load.put[client].store(number + 1, Ordering::Relaxed);
        load.puts.note(1);
    }
    Ok(())
}

fn get(load: &Load, random: &mut Random, place: &str) -> anyhow::Result<()> {
    let mut connection = Client::connect(place)?;
    while !load.puts.is_over() {
        let client = random.below(CLIENTS as u64) as usize;
        let count = load.put[client].load(Ordering::Relaxed);
        if count == 0 {
            std::thread::sleep(RETRY);
            continue;
        }
        connection.send_get(&key(client, random.below(count)))?;
        let found = connection.receive().context("a GET")?;
        ensure!(found == [client as u8; BODY_BYTES], "an object has other bytes");
        load.gets.note(1);
    }
    Ok(())
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "killed",
        "groups that it led",
        "",
        "before, /s",
        "longest pause, s",
        "half of before again after, s",
        "while it is away, /s",
        "while copies are made, /s",
        "after, /s",
        "start to three copies, s",
        "failed requests",
    ]);
    let mut data = Table::new(&["killed", "second", "puts_per_s", "gets_per_s"]);
    let mut plots = Vec::new();
    for (sample, end) in samples.iter().zip(["primary", "leader"]) {
        let Sample { victim, led, killed, restarted, whole, ended, load } = sample;
        let points = |timeline: &Timeline| {
            timeline.points().into_iter().filter(|(second, _)| *second < ended.as_secs_f64()).collect::<Vec<_>>()
        };
        for (what, timeline) in [("puts", &load.puts), ("gets", &load.gets)] {
            let before = timeline.usual(WARM_UP, *killed);
            let back = timeline.back_after(*killed, before * AS_BEFORE, WINDOW);
            let served = back.map_or(*killed, |back| back.max(*killed));
            let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
            summary.row(vec![
                victim.name().to_owned(),
                led.to_string(),
                what.to_owned(),
                format!("{before:.0}"),
                seconds(timeline.longest_gap(*killed, *restarted)),
                back.map_or("not".to_owned(), |back| seconds(back - *killed)),
                format!("{:.0}", timeline.usual(served, *restarted)),
                format!("{:.0}", timeline.usual(*restarted, *whole)),
                format!("{:.0}", timeline.usual(*whole, *ended)),
                seconds(*whole - *restarted),
                load.puts.failures().to_string(),
            ]);
        }
        for ((second, puts), (_, gets)) in points(&load.puts).into_iter().zip(points(&load.gets)) {
            data.row(vec![victim.name().replace('\'', ""), format!("{second:.3}"), format!("{puts:.0}"), format!("{gets:.0}")]);
        }
        let marks = format!(
            "killed at {:.0} s, started at {:.0} s, whole at {:.0} s",
            killed.as_secs_f64(),
            restarted.as_secs_f64(),
            whole.as_secs_f64()
        );
        let series = [("puts", &load.puts), ("gets", &load.gets)];
        plots.push((
            end,
            Plot {
                title: format!("{} is killed (figure 15)", victim.name()),
                x_label: format!("seconds; {marks}"),
                y_label: "requests per second".to_owned(),
                series: series.map(|(name, timeline)| Series { name: name.to_owned(), points: points(timeline) }).into(),
            },
        ));
    }
    let notes = vec![
        format!("Three servers as processes, on loopback; {CLIENTS} clients put new objects of 8 KB and as many get older ones, through S3 at the two nodes that stay. One node is killed (SIGKILL), and started again later."),
        "In the pause are: the others find the node silent, the manager names views without it (and elects a leader, in the second case), new primaries wait for the former lease (2.2 s) and open their groups.".to_owned(),
        "Clients wait for the answer to each request. So those that have asked for a group without a primary stand still, and the rate of all falls to nothing, though two thirds of the groups are served soon after.".to_owned(),
        "Half of before: the first second whose mean rate is at least half of the usual rate before.".to_owned(),
        "Start to three copies: from the start of the process until all groups name the node as a voter again. The paper reads that all metadata is recovered within a few seconds.".to_owned(),
    ];
    Report { title: "The primary of placement groups is killed (figure 15)".to_owned(), notes, summary, data, plots }
}
