//! Figure 5: latencies of put, get and delete, by size and concurrency.
//!
//! ```text
//!   round ── size ── concurrency ── store ── an empty device ── puts ── gets of some of them ── deletes of some of them
//! ```

use super::ground::{Ground, Kind};
use super::load::{Catalogue, Lengths, Measured, Operation, Phase};
use super::{CheetahArgs, Named, mean, share};
use crate::latency::Latency;
use crate::report::{Plot, Report, Series, Table};
use crate::tell;
use std::collections::BTreeMap;

/// The paper's sizes. Puts have so many objects at least.
pub const SIZES: [Size; 3] = [
    Size { text: "8 KB", lengths: |_| 8 << 10, puts: 16_000 },
    Size { text: "64 KB", lengths: |_| 64 << 10, puts: 4_000 },
    Size { text: "512 KB", lengths: |_| 512 << 10, puts: 1_000 },
];
/// The paper's, and one alone: what ordering costs where no write has company.
const WORKERS: [usize; 4] = [1, 20, 100, 500];
/// One worker has one put of so many: it waits for each.
const ALONE_SHARE: u64 = 8;
const KINDS: [Kind; 3] = [Kind::Volumes, Kind::Haystack, Kind::Tectonic];
const OPERATIONS: [Operation; 3] = [Operation::Put, Operation::Get, Operation::Delete];
/// One of so many objects is read, and deleted: not enough for a compaction.
const SAMPLE: u64 = 5;
/// Each worker has so many operations, at least.
const LEAST_EACH: u64 = 2;

/// Objects of one length.
#[derive(Clone, Copy)]
pub struct Size {
    pub text: &'static str,
    pub lengths: Lengths,
    puts: u64,
}

impl Size {
    /// So many puts show something.
    pub fn puts(&self, args: &CheetahArgs, workers: usize) -> u64 {
        let share = if workers == 1 { share(args) * ALONE_SHARE } else { share(args) };
        (self.puts / share).max(LEAST_EACH * workers as u64)
    }
}

type Found = BTreeMap<(usize, usize, Operation, Kind), Vec<Measured>>;

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let mut found = Found::new();
    for round in 1..=args.rounds() {
        for (at, size) in SIZES.iter().enumerate() {
            tell!("  round {round}, {}", size.text)?;
            for workers in WORKERS {
                for kind in KINDS {
                    for (operation, measured) in measure(args, ground, size, workers, kind)? {
                        found.entry((at, workers, operation, kind)).or_default().push(measured);
                    }
                }
            }
        }
    }
    Ok(vec![("fig5", report(args, &found)?)])
}

fn measure(
    args: &CheetahArgs,
    ground: &Ground,
    size: &Size,
    workers: usize,
    kind: Kind,
) -> anyhow::Result<Vec<(Operation, Measured)>> {
    ground.with(kind, async |subject| {
        let catalogue = Catalogue::new(args.seed);
        let puts = size.puts(args, workers);
        // The first puts of a store make its log.
        catalogue.run(&subject, &Phase::of(Operation::Put, size.lengths, workers, LEAST_EACH * workers as u64)).await?;
        let mut all = Vec::new();
        for operation in OPERATIONS {
            let count = if operation == Operation::Put { puts } else { puts / SAMPLE };
            let phase = Phase::of(operation, size.lengths, workers, count);
            all.push((operation, catalogue.run(&subject, &phase).await?));
        }
        Ok(all)
    })
}

fn report(args: &CheetahArgs, found: &Found) -> anyhow::Result<Report> {
    let mut summary = Table::new(&[
        "size",
        "workers",
        "operation",
        "store",
        "mean ms",
        "p50",
        "p99",
        "of the volume engine's",
        "device writes each",
    ]);
    let mut data = Table::new(&[
        "round",
        "size",
        "workers",
        "operation",
        "store",
        "count",
        "mean_ms",
        "p50_ms",
        "p99_ms",
        "rate",
        "device_writes_each",
    ]);
    for ((size, workers, operation, kind), rounds) in found {
        let cells = [SIZES[*size].text, &workers.to_string(), operation.name(), kind.name()].map(str::to_owned).to_vec();
        let latency = latency_of(rounds, *operation)?;
        let base = latency_of(&found[&(*size, *workers, *operation, KINDS[0])], *operation)?.mean;
        let writes = mean(&rounds.iter().map(Measured::writes_each).collect::<Vec<f64>>());
        let figures = [latency.mean, latency.p50, latency.p99].map(|ms| format!("{ms:.3}")).to_vec();
        summary.row([cells.clone(), figures, vec![format!("{:.2}", latency.mean / base), format!("{writes:.2}")]].concat());
        for (round, measured) in (1..).zip(rounds) {
            let latency = Latency::of_ns(measured.of(*operation));
            let mut row = [vec![round.to_string()], cells.clone(), vec![measured.count().to_string()]].concat();
            row.extend(
                [latency.mean, latency.p50, latency.p99, measured.rate(), measured.writes_each()]
                    .map(|value| format!("{value:.4}")),
            );
            data.row(row);
        }
    }
    let plots = [("put", Operation::Put), ("get", Operation::Get), ("delete", Operation::Delete)];
    let plots = plots.into_iter().map(|(end, operation)| Ok((end, plot(found, operation)?))).collect::<anyhow::Result<_>>()?;
    let notes = vec![
        format!("{} rounds; the figures of a store are of all its rounds. Each store has an empty device.", args.rounds()),
        "Everything is durable when it is acknowledged. Gets compare the bytes.".to_owned(),
        "Device writes: writes and flushes that the device was asked for, by the number of operations. It does not depend on what else runs.".to_owned(),
        "Objects of 512 KB are longer than one request of the volume engine: it stages them and then writes their record."
            .to_owned(),
    ];
    Ok(Report { title: "Latencies of put, get and delete (figure 5)".to_owned(), notes, summary, data, plots })
}

/// Of all rounds together.
fn latency_of(rounds: &[Measured], operation: Operation) -> anyhow::Result<Latency> {
    let mut all = rounds[0].of(operation).clone();
    for measured in &rounds[1..] {
        all.add(measured.of(operation))?;
    }
    Ok(Latency::of_ns(&all))
}

fn plot(found: &Found, operation: Operation) -> anyhow::Result<Plot> {
    let mut series = Vec::new();
    for kind in KINDS {
        // As in the paper, the longest objects are left out: only their bytes count.
        for (at, size) in SIZES.iter().enumerate().take(2) {
            let mut points = Vec::new();
            for workers in WORKERS {
                let rounds = &found[&(at, workers, operation, kind)];
                points.push((workers as f64, latency_of(rounds, operation)?.mean));
            }
            series.push(Series { name: format!("{}, {}", kind.name(), size.text), points });
        }
    }
    let title = format!("{}: mean latency (figure 5)", operation.name());
    Ok(Plot { title, x_label: "workers".to_owned(), y_label: "milliseconds".to_owned(), series })
}
