//! Figures 5 and 15 and table IV: five repeated writes of many objects, timed.
//!
//! ```text
//!   round ── path ── scheme ── a new device ── write 1 of all objects, what is deferred ── write 2 of all objects … write 5
//! ```
//!
//! As in the paper, the rate of a write is that of all objects, one after the other. It includes what was deferred.

use super::ground::{BATCH, Ground, PAPER_UNIT_BYTES};
use super::path::{WritePath, content};
use super::schemes::{LENGTH, PATHS, ROOM_BYTES, SCHEMES, Scheme, WRITES};
use super::{FaststoreArgs, Named};
use crate::clock;
use crate::report::{Plot, Report, Series, Table, median, spread};
use crate::tell;

/// The paper's.
const OBJECTS: u32 = 100;
const QUICK_OBJECTS: u32 = 8;
const ROUNDS: u32 = 7;
/// What the paper's table IV has.
const PAPER: [[f64; WRITES as usize]; 2] = [[1.42, 123.06, 122.67, 122.79, 122.92], [1.42, 7.09, 2.65, 7.57, 7.00]];

/// One write of all objects of a device.
#[derive(Clone, Debug)]
pub struct Sample {
    pub round: u32,
    pub path: usize,
    pub scheme: usize,
    pub write: u32,
    /// Writes per second, with what was deferred.
    pub rate: f64,
    /// Of each object, in ms, until acknowledged.
    pub latency: Vec<f64>,
}

pub fn run(args: &FaststoreArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let (objects, rounds) = if args.quick { (QUICK_OBJECTS, 1) } else { (OBJECTS, ROUNDS) };
    let mut samples = Vec::new();
    for round in 1..=rounds {
        tell!("  round {round} of {rounds}")?;
        ground.run(async || {
            for (number, scheme) in SCHEMES.iter().enumerate() {
                let place = (round, 0, number);
                let mut path = ground.bluestore(objects * ROOM_BYTES, PAPER_UNIT_BYTES, BATCH).await?;
                samples.extend(time(&mut path, place, scheme, objects, args.seed).await?);
                drop(path);
                let place = (round, 1, number);
                samples.extend(time(&mut ground.in_place(objects).await?, place, scheme, objects, args.seed).await?);
            }
            Ok(())
        })?;
    }
    let shape = format!("{objects} objects, {rounds} rounds, a new device in each: medians of the rounds.");
    Ok(vec![("fig5", rates(&samples, &shape)), ("table4", deviations(&samples, &shape))])
}

async fn time(
    path: &mut impl WritePath,
    (round, number, scheme_number): (u32, usize, usize),
    scheme: &Scheme,
    objects: u32,
    seed: u64,
) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for write in 1..=WRITES {
        let contents: Vec<_> = (0..objects).map(|object| content(seed ^ u64::from(object * WRITES + write), LENGTH)).collect();
        let (began, mut latency) = (clock::now(), Vec::new());
        for (object, data) in (0..).zip(contents) {
            let started = clock::now();
            path.write(object, scheme.offset(write), data).await?;
            latency.push((clock::now() - started).as_secs_f64() * 1e3);
        }
        path.settle().await?;
        let rate = f64::from(objects) / (clock::now() - began).as_secs_f64();
        samples.push(Sample { round, path: number, scheme: scheme_number, write, rate, latency });
    }
    Ok(samples)
}

/// Those of a path, a scheme and a write: one for each round.
fn of(samples: &[Sample], path: usize, scheme: usize, write: u32) -> Vec<&Sample> {
    let is_wanted = |sample: &&Sample| (sample.path, sample.scheme, sample.write) == (path, scheme, write);
    samples.iter().filter(is_wanted).collect()
}

/// Mean and standard deviation, of the values as they are.
pub fn deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

fn rates(samples: &[Sample], shape: &str) -> Report {
    let mut summary = Table::new(&[
        "path",
        "scheme",
        "write",
        "writes/s",
        "of the first write",
        "latency, mean ms",
        "standard deviation ms",
        "p50 ms",
        "p99 ms",
    ]);
    let mut data = Table::new(&["round", "path", "scheme", "write", "writes_per_s", "mean_ms", "deviation_ms"]);
    let mut plots = Vec::new();
    for (path, name) in PATHS.into_iter().enumerate() {
        let mut series = Vec::new();
        for (number, scheme) in SCHEMES.iter().enumerate() {
            let rate = |write| median(&of(samples, path, number, write).iter().map(|sample| sample.rate).collect::<Vec<f64>>());
            for write in 1..=WRITES {
                let found = of(samples, path, number, write);
                let mut latency: Vec<f64> = found.iter().flat_map(|sample| sample.latency.iter().copied()).collect();
                latency.sort_by(f64::total_cmp);
                let (mean, spread_ms) = deviation(&latency);
                let at = |quantile: f64| latency[((latency.len() - 1) as f64 * quantile) as usize];
                let mut cells = vec![name.to_owned(), scheme.number.to_string(), write.to_string()];
                cells.push(spread(&found.iter().map(|sample| sample.rate).collect::<Vec<f64>>(), 0));
                cells.push(format!("{:.0}%", rate(write) / rate(1) * 100.0));
                cells.extend([mean, spread_ms, at(0.5), at(0.99)].map(|value| format!("{value:.3}")));
                summary.row(cells);
            }
            let points = (1..=WRITES).map(|write| (f64::from(write), rate(write))).collect();
            series.push(Series { name: format!("scheme {}", scheme.number), points });
        }
        let (end, figure) = [("bluestore", "figure 5"), ("in-place", "figure 15")][path];
        let title = format!("{name}: five repeated writes ({figure})");
        plots.push((end, Plot { title, x_label: "write".to_owned(), y_label: "writes per second".to_owned(), series }));
    }
    for sample in samples {
        let (mean, spread_ms) = deviation(&sample.latency);
        let place =
            [sample.round, sample.path as u32, SCHEMES[sample.scheme].number, sample.write].map(|value| value.to_string());
        let mut cells = place.to_vec();
        cells[1] = PATHS[sample.path].to_owned();
        cells.extend([format!("{:.1}", sample.rate), format!("{mean:.4}"), format!("{spread_ms:.4}")]);
        data.row(cells);
    }
    let notes = vec![
        shape.to_owned(),
        "One write of 64 KiB at a time. Rates include what BlueStore deferred, in batches of 64; latencies end with the acknowledgement, and one write \
         of each batch waits for the batch."
            .to_owned(),
        "The file of each device was written over before: no write meets blocks that the file system never wrote.".to_owned(),
    ];
    let title = "Rates and latencies of five repeated writes (figures 5 and 15)".to_owned();
    Report { title, notes, summary, data, plots }
}

/// Mean and deviation of the three schemes' rates in a round.
pub fn over_schemes(samples: &[Sample], round: u32, path: usize, write: u32) -> (f64, f64) {
    let is_wanted = |sample: &&Sample| (sample.round, sample.path, sample.write) == (round, path, write);
    deviation(&samples.iter().filter(is_wanted).map(|sample| sample.rate).collect::<Vec<f64>>())
}

fn deviations(samples: &[Sample], shape: &str) -> Report {
    let mut summary = Table::new(&[
        "write",
        "paper: BlueStore",
        "paper: FastStore",
        "paper: ratio",
        "BlueStore",
        "in place",
        "ratio",
        "BlueStore, of its mean",
        "in place, of its mean",
    ]);
    let mut data = Table::new(&["round", "path", "write", "mean_writes_per_s", "deviation_writes_per_s"]);
    let rounds = samples.iter().map(|sample| sample.round).max().unwrap_or(0);
    for write in 1..=WRITES {
        let found = [0, 1].map(|path| (1..=rounds).map(|round| over_schemes(samples, round, path, write)).collect::<Vec<_>>());
        let middle = |path: usize, of: fn(&(f64, f64)) -> f64| median(&found[path].iter().map(of).collect::<Vec<f64>>());
        let theirs = PAPER.map(|row| row[write as usize - 1]);
        let ours = [0, 1].map(|path| middle(path, |(_, deviation)| *deviation));
        let mut cells = vec![write.to_string()];
        cells.extend(theirs.map(|value| format!("{value:.2}")));
        cells.push(format!("{:.2}", theirs[1] / theirs[0]));
        cells.extend(ours.map(|value| format!("{value:.0}")));
        cells.push(format!("{:.2}", ours[1] / ours[0]));
        cells.extend([0, 1].map(|path| format!("{:.0}%", middle(path, |(mean, deviation)| deviation / mean * 100.0))));
        summary.row(cells);
        for (path, found) in PATHS.into_iter().zip(&found) {
            for (round, (mean, deviation)) in (1..).zip(found) {
                let round: u32 = round;
                let numbers = [format!("{mean:.1}"), format!("{deviation:.1}")];
                data.row([vec![round.to_string(), path.to_owned(), write.to_string()], numbers.to_vec()].concat());
            }
        }
    }
    let notes = vec![
        shape.to_owned(),
        "The standard deviation of the rates (writes per second) of the three schemes, for each of the five writes. The paper does not print the \
         rates themselves: what can be compared is the ratio of both paths."
            .to_owned(),
    ];
    let title = "How much the rates of the three schemes vary (table IV)".to_owned();
    Report { title, notes, summary, data, plots: Vec::new() }
}
