//! What linearizability costs (paper, figure 6): the same load on a linearizable cell and on one in read-after-write mode, by the share of
//! reads that are close to a write of the same key at another gateway.
//!
//! Each worker has a connection to one node and one to the next. It sends a PUT on the first and, within a millisecond, a GET on the second,
//! then waits for both: of the same key (a close read), or of another. So both shares are the same work at the same concurrency.

use super::NODES;
use super::args::Scale;
use super::client::Client;
use crate::clock;
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table, median, spread};
use crate::systems::{Lab, Setup, System};
use crate::tell;
use anyhow::Context;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Shares of close reads, in percent.
const SHARES: [u64; 7] = [0, 1, 3, 5, 10, 50, 100];
const QUICK_SHARES: [u64; 3] = [0, 5, 100];
/// Two connections each.
const WORKERS: usize = 8;
/// Keys of one worker: no two workers write one key, so that writes don't queue.
const KEYS_PER_WORKER: u64 = 512;
const BODY_BYTES: usize = 4096;
/// The GET follows the PUT by less than this, at random: it arrives before the write is announced, while it is in flight, or after.
const MAX_DELAY_US: u64 = 1000;
/// Latencies are kept up to here, with so many digits.
const MAX_LATENCY_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;
/// Rounds of each share; each is as long as one measurement.
const MAX_ROUNDS: u32 = 5;
/// Most that linearizability may cost at the worst.
const BAR: f64 = 1.25;

/// One measurement.
struct Sample {
    share: u64,
    round: u32,
    system: usize,
    pairs: u64,
    wall: Duration,
    cpu: Duration,
    slow_reads: f64,
    get: Histogram<u64>,
    put: Histogram<u64>,
}

impl Sample {
    fn cpu_us_per_request(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (2 * self.pairs.max(1)) as f64
    }

    fn requests_per_s(&self) -> f64 {
        2.0 * self.pairs as f64 / self.wall.as_secs_f64()
    }
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let setup = |name, place, mode: &str| {
        let settings = vec![("TRILITH_CONSISTENCY", mode.to_owned())];
        Setup { name, place, settings, device_size: "24GiB", engine: None }
    };
    let systems = [
        lab.cluster(setup("linearizable", 0, "linearizable"), NODES)?,
        lab.cluster(setup("read-after-write", NODES as u32, "read-after-write"), NODES)?,
    ];
    for system in &systems {
        prepare(system)?;
        load(system, 10, scale.duration, 0)?;
    }
    let shares = if scale.quick { &QUICK_SHARES[..] } else { &SHARES[..] };
    let mut samples = Vec::new();
    for round in 0..scale.rounds.min(MAX_ROUNDS) {
        for share in shares {
            for turn in 0..systems.len() {
                let system = (turn + round as usize) % systems.len();
                let before = systems[system].metrics("trilith_gateway_slow_reads_total")?;
                let (cpu, seed) = (systems[system].cpu()?, u64::from(round) * 1000 + share);
                let (pairs, wall, get, put) = load(&systems[system], *share, scale.duration, seed)?;
                let cpu = systems[system].cpu()?.saturating_sub(cpu);
                let slow_reads = systems[system].metrics("trilith_gateway_slow_reads_total")? - before;
                samples.push(Sample { share: *share, round, system, pairs, wall, cpu, slow_reads, get, put });
            }
        }
        tell!("  round {} of {}", round + 1, scale.rounds.min(MAX_ROUNDS))?;
    }
    Ok(report(&systems, shares, &samples, scale))
}

fn key(worker: usize, number: u64) -> String {
    format!("close/{worker}-{number}")
}

/// Writes every key once.
fn prepare(system: &System) -> anyhow::Result<()> {
    in_parallel(|worker| {
        let mut client = Client::connect(&system.nodes[worker % system.nodes.len()].s3)?;
        for number in 0..KEYS_PER_WORKER {
            client.send_put(&key(worker, number), &[7; BODY_BYTES])?;
            client.receive().context("writing a key that is to be read")?;
        }
        Ok(())
    })
    .map(|_| ())
}

fn in_parallel<T: Send>(work: impl Fn(usize) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        running.into_iter().map(|run| run.join().expect("a worker does not panic")).collect()
    })
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_NS, DIGITS).expect("these bounds make a histogram")
}

type Loaded = (u64, Duration, Histogram<u64>, Histogram<u64>);

/// Pairs of a PUT and a GET for a while; how many, how long, and the latencies of GETs and PUTs.
fn load(system: &System, share: u64, duration: Duration, seed: u64) -> anyhow::Result<Loaded> {
    let began = clock::now();
    let until = began + duration;
    let outcomes = in_parallel(|worker| work(system, worker, share, until, seed))?;
    let (mut pairs, mut get, mut put) = (0, histogram(), histogram());
    for (count, of_get, of_put) in outcomes {
        pairs += count;
        get.add(of_get).context("adding latencies")?;
        put.add(of_put).context("adding latencies")?;
    }
    Ok((pairs, clock::now() - began, get, put))
}

type Worked = (u64, Histogram<u64>, Histogram<u64>);

fn work(system: &System, worker: usize, share: u64, until: Instant, seed: u64) -> anyhow::Result<Worked> {
    let nodes = &system.nodes;
    let mut writer = Client::connect(&nodes[worker % nodes.len()].s3)?;
    let mut reader = Client::connect(&nodes[(worker + 1) % nodes.len()].s3)?;
    let mut random = Random::new(seed, worker as u64);
    let (mut pairs, mut get, mut put) = (0, histogram(), histogram());
    let body = [worker as u8; BODY_BYTES];
    while clock::now() < until {
        let written = random.below(KEYS_PER_WORKER);
        let is_close = random.below(100) < share;
        let read = if is_close { written } else { (written + 1 + random.below(KEYS_PER_WORKER - 1)) % KEYS_PER_WORKER };
        let began = clock::now();
        writer.send_put(&key(worker, written), &body)?;
        std::thread::sleep(Duration::from_micros(random.below(MAX_DELAY_US)));
        let asked = clock::now();
        reader.send_get(&key(worker, read))?;
        let found = reader.receive().context("a GET")?;
        anyhow::ensure!(found.len() == BODY_BYTES, "an object of {} bytes, {BODY_BYTES} were written", found.len());
        get.saturating_record((clock::now() - asked).as_nanos() as u64);
        writer.receive().context("a PUT")?;
        put.saturating_record((clock::now() - began).as_nanos() as u64);
        pairs += 1;
    }
    Ok((pairs, get, put))
}

fn report(systems: &[System], shares: &[u64], samples: &[Sample], scale: &Scale) -> Report {
    let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    let mut data = Table::new(&[
        "close_percent",
        "round",
        "system",
        "pairs",
        "requests_per_s",
        "cpu_us_per_request",
        "slow_reads",
        "get_p50_ms",
        "get_p99_ms",
        "put_p50_ms",
        "put_p99_ms",
    ]);
    for sample in samples {
        data.row(vec![
            sample.share.to_string(),
            sample.round.to_string(),
            systems[sample.system].name.to_owned(),
            sample.pairs.to_string(),
            format!("{:.0}", sample.requests_per_s()),
            format!("{:.2}", sample.cpu_us_per_request()),
            format!("{:.0}", sample.slow_reads),
            format!("{:.3}", ms(&sample.get, 0.5)),
            format!("{:.3}", ms(&sample.get, 0.99)),
            format!("{:.3}", ms(&sample.put, 0.5)),
            format!("{:.3}", ms(&sample.put, 0.99)),
        ]);
    }
    let notes = vec![
        format!(
            "{WORKERS} workers, each with a connection to one node and one to the next: a PUT of 4 KiB on the first and, up to 1 ms \
             later at random, a GET on the second; of the same key (a close read) or of another."
        ),
        format!(
            "Two clusters of three nodes run at the same time, one in each mode, and are loaded in turn; {} rounds of {:?} for each share.",
            scale.rounds.min(MAX_ROUNDS),
            scale.duration
        ),
        "A slow read is one that asked another gateway. Medians; ratios are of the rounds' own, with the extremes.".to_owned(),
        "The paper changes a trace (2 PUTs to a GET, objects of many sizes) and separates the close pair by 5 operations; here half of the \
         requests are reads and the pair is as close as a client can make it."
            .to_owned(),
    ];
    let plots = vec![
        ("cpu", plot("Processor time per request", "µs per request", systems, shares, samples, Sample::cpu_us_per_request)),
        ("rate", plot("Throughput", "requests per second", systems, shares, samples, Sample::requests_per_s)),
    ];
    Report { title: "What linearizability costs (figure 6)".to_owned(), notes, summary: summary(shares, samples), data, plots }
}

/// The samples of one share in one system, by round.
fn of(samples: &[Sample], share: u64, system: usize) -> Vec<&Sample> {
    let mut found: Vec<&Sample> = samples.iter().filter(|sample| (sample.share, sample.system) == (share, system)).collect();
    found.sort_by_key(|sample| sample.round);
    found
}

fn values(samples: &[&Sample], value: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(|sample| value(sample)).collect()
}

fn plot(title: &str, label: &str, systems: &[System], shares: &[u64], samples: &[Sample], value: fn(&Sample) -> f64) -> Plot {
    let series = systems.iter().enumerate().map(|(at, system)| {
        let point = |share: &u64| (*share as f64, median(&values(&of(samples, *share, at), value)));
        Series { name: system.name.to_owned(), points: shares.iter().map(point).collect() }
    });
    Plot {
        title: title.to_owned(),
        x_label: "reads close to a write of the same key elsewhere, percent".to_owned(),
        y_label: label.to_owned(),
        series: series.collect(),
    }
}

fn summary(shares: &[u64], samples: &[Sample]) -> Table {
    let mut table = Table::new(&[
        "close reads",
        "linearizable, µs",
        "read-after-write, µs",
        "cost ratio",
        "requests/s",
        "rate ratio",
        "slow reads of close ones",
        "GET p50 ms",
        "bar",
        "met",
    ]);
    for share in shares {
        let (strong, weak) = (of(samples, *share, 0), of(samples, *share, 1));
        let (strong_cost, weak_cost) = (values(&strong, Sample::cpu_us_per_request), values(&weak, Sample::cpu_us_per_request));
        let (strong_rate, weak_rate) = (values(&strong, Sample::requests_per_s), values(&weak, Sample::requests_per_s));
        let ratio =
            |one: &[f64], other: &[f64]| -> Vec<f64> { one.iter().zip(other).map(|(one, other)| one / other).collect() };
        let costs = ratio(&strong_cost, &weak_cost);
        let slow = |samples: &[&Sample]| {
            let close = samples.iter().map(|sample| sample.pairs as f64 * *share as f64 / 100.0).sum::<f64>();
            let slow = samples.iter().map(|sample| sample.slow_reads).sum::<f64>();
            if close > 0.0 { format!("{:.0}%", slow / close * 100.0) } else { format!("{slow:.0}") }
        };
        let p50 = |samples: &[&Sample]| median(&values(samples, |sample| sample.get.value_at_quantile(0.5) as f64 / 1e6));
        table.row(vec![
            format!("{share}%"),
            format!("{:.1}", median(&strong_cost)),
            format!("{:.1}", median(&weak_cost)),
            spread(&costs, 2),
            format!("{:.0}, {:.0}", median(&strong_rate), median(&weak_rate)),
            spread(&ratio(&strong_rate, &weak_rate), 2),
            format!("{}, {}", slow(&strong), slow(&weak)),
            format!("{:.2}, {:.2}", p50(&strong), p50(&weak)),
            format!("{BAR}"),
            (if median(&costs) <= BAR { "yes" } else { "no" }).to_owned(),
        ]);
    }
    table
}
