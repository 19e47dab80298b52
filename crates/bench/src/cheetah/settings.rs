//! Figure 11: settings of the store for metadata. The paper tunes a log-structured merge tree; here it is a log, rows in memory and dumps of them.

use super::ground::Ground;
use super::load::{Catalogue, Measured, Operation, Phase};
use super::volume_engine::Settings;
use super::{CheetahArgs, Named};
use crate::latency::Latency;
use crate::report::{Plot, Report, Series, Table, median, spread};
use crate::tell;
use device::SyncMode;
use std::collections::BTreeSet;

const PUTS: u64 = 30_000;
const QUICK_PUTS: u64 = 8_000;
/// As in the paper: each record is made so long.
const PADDING: usize = 1 << 10;
const WORKERS: [usize; 2] = [20, 500];
const QUICK_WORKERS: [usize; 1] = [500];
/// Puts before, which found the groups' space.
const WARM_UP: u64 = 500;
const FLUSH_MS: u64 = 10;

/// One setting.
struct Case {
    name: &'static str,
    settings: Settings,
}

fn cases() -> Vec<Case> {
    let padded = Settings { padding: PADDING, ..Settings::USUAL };
    let divided = |log_divisor| Settings { log_divisor, ..padded };
    let synced = |sync| Settings { sync, ..padded };
    vec![
        Case { name: "as on a server", settings: padded },
        Case { name: "a group's log: half", settings: divided(2) },
        Case { name: "a group's log: a quarter", settings: divided(4) },
        Case { name: "flushed every 10 ms", settings: synced(SyncMode::Batch { flush_interval_ms: FLUSH_MS }) },
        Case { name: "flushed by the system", settings: synced(SyncMode::Off) },
    ]
}

/// Knobs of the paper's store that have no counterpart.
const WITHOUT: [(&str, &str); 3] = [
    ("trigger of a merge", "there are no levels: each dump writes all rows"),
    (
        "bytes or time that a group commit waits for",
        "there is no wait: what queues up during one write goes into the next one. See the records in a frame",
    ),
    ("block cache, bloom filters", "all rows are in memory: nothing is looked up on the device"),
];

/// A measurement.
struct Sample {
    case: usize,
    workers: usize,
    measured: Measured,
    records_each_frame: f64,
    dumps: u64,
    dump_bytes_each: f64,
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let (cases, workers) = (cases(), if args.quick { &QUICK_WORKERS[..] } else { &WORKERS });
    let mut samples = Vec::new();
    for _ in 0..args.long_rounds() {
        for workers in workers.iter().copied() {
            for (at, case) in cases.iter().enumerate() {
                tell!("  {}, {workers} workers", case.name)?;
                samples.push(measure(args, ground, (at, case), workers)?);
            }
        }
    }
    Ok(vec![("fig11", report(&cases, &samples))])
}

fn measure(args: &CheetahArgs, ground: &Ground, (case, of): (usize, &Case), workers: usize) -> anyhow::Result<Sample> {
    ground.with_engine(of.settings, async |store, tap| {
        let (catalogue, subject) = (Catalogue::new(args.seed), store.clone() as _);
        let puts = |count| Phase::of(Operation::Put, |_| 0, workers, count);
        catalogue.run(&subject, &puts(WARM_UP)).await?;
        let before = tap.frames();
        let measured = catalogue.run(&subject, &puts(if args.quick { QUICK_PUTS } else { PUTS })).await?;
        let after = tap.frames();
        let stats = store.stats();
        let dump_bytes: u64 = stats.iter().map(|stats| stats.dump_bytes).sum();
        Ok(Sample {
            case,
            workers,
            records_each_frame: (after.records - before.records) as f64 / (after.frames - before.frames).max(1) as f64,
            dumps: stats.iter().map(|stats| stats.dumps).sum(),
            dump_bytes_each: dump_bytes as f64 / measured.count() as f64,
            measured,
        })
    })
}

/// How many workers there were.
fn measured(samples: &[Sample]) -> BTreeSet<usize> {
    samples.iter().map(|sample| sample.workers).collect()
}

fn of(samples: &[Sample], case: usize, workers: usize) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(move |sample| (sample.case, sample.workers) == (case, workers))
}

fn rates(samples: &[Sample], case: usize, workers: usize) -> Vec<f64> {
    of(samples, case, workers).map(|sample| sample.measured.rate()).collect()
}

fn report(cases: &[Case], samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "setting",
        "workers",
        "puts/s",
        "of the first",
        "mean ms",
        "p99",
        "records in a frame",
        "device writes each",
        "dumps",
        "bytes of dumps each",
    ]);
    let rates = |case, workers| rates(samples, case, workers);
    for workers in measured(samples) {
        for (at, case) in cases.iter().enumerate() {
            let all: Vec<&Sample> = of(samples, at, workers).collect();
            let mid = |pick: &dyn Fn(&Sample) -> f64| median(&all.iter().map(|sample| pick(sample)).collect::<Vec<f64>>());
            let latency = |sample: &Sample| Latency::of_ns(sample.measured.of(Operation::Put));
            summary.row(vec![
                case.name.to_owned(),
                workers.to_string(),
                spread(&rates(at, workers), 0),
                format!("{:.0}%", median(&rates(at, workers)) / median(&rates(0, workers)) * 100.0),
                format!("{:.3}", mid(&|sample| latency(sample).mean)),
                format!("{:.3}", mid(&|sample| latency(sample).p99)),
                format!("{:.1}", mid(&|sample| sample.records_each_frame)),
                format!("{:.2}", mid(&|sample| sample.measured.writes_each())),
                format!("{:.0}", mid(&|sample| sample.dumps as f64)),
                format!("{:.0}", mid(&|sample| sample.dump_bytes_each)),
            ]);
        }
    }
    for (name, why) in WITHOUT {
        let mut row = vec![name.to_owned(), "none".to_owned(), why.to_owned()];
        row.resize(summary.columns.len(), String::new());
        summary.row(row);
    }
    Report {
        title: "Settings of the store for metadata (figure 11)".to_owned(),
        notes: notes(),
        summary,
        data: data(cases, samples),
        plots: vec![("rate", plot(cases, samples))],
    }
}

/// Every measurement.
fn data(cases: &[Case], samples: &[Sample]) -> Table {
    let mut data = Table::new(&[
        "setting",
        "workers",
        "puts",
        "rate",
        "mean_ms",
        "p99_ms",
        "records_each_frame",
        "dumps",
        "dump_bytes_each",
    ]);
    for sample in samples {
        let latency = Latency::of_ns(sample.measured.of(Operation::Put));
        let figures =
            [sample.measured.rate(), latency.mean, latency.p99, sample.records_each_frame].map(|value| format!("{value:.3}"));
        let mut row =
            vec![cases[sample.case].name.replace(',', ""), sample.workers.to_string(), sample.measured.count().to_string()];
        row.extend(figures);
        row.extend([sample.dumps.to_string(), format!("{:.0}", sample.dump_bytes_each)]);
        data.row(row);
    }
    data
}

fn plot(cases: &[Case], samples: &[Sample]) -> Plot {
    let rate = |case, workers| median(&rates(samples, case, workers));
    let curve = |workers: usize| Series {
        name: format!("{workers} workers"),
        points: cases
            .iter()
            .enumerate()
            .filter(|(_, case)| case.settings.sync == SyncMode::Always)
            .map(|(at, case)| (case.settings.log_divisor as f64, rate(at, workers) / rate(0, workers) * 100.0))
            .collect(),
    };
    Plot {
        title: "Puts of records by how short a group's log is (figure 11)".to_owned(),
        x_label: "a group's log is divided by".to_owned(),
        y_label: "% of the rate with a log of the usual length".to_owned(),
        series: measured(samples).into_iter().map(curve).collect(),
    }
}

fn notes() -> Vec<String> {
    vec![
        format!("Objects without bytes, whose records are padded by {PADDING} bytes, as in the paper. Each case has an empty device."),
        "What the log's length is in the paper: the size of the Memtable, 64 MB. A group's log has 2 MiB or 8192 entries; when half of it is used, all rows \
         of the group are dumped, and the log is cut. A log of a quarter has four times as many dumps; a shorter one would have no room beside what a start needs."
            .to_owned(),
        "Flushed every 10 ms, or by the system: puts are acknowledged before they are durable. The paper's RocksDB does so unless it is told otherwise.".to_owned(),
        "Records in a frame: what the group commit gathers by itself. Dumps and their bytes are counted by the store, frames at the device.".to_owned(),
    ]
}
