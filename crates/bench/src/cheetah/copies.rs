//! One, two and three copies of a placement group: what replication costs a put.

use super::cluster::{Cluster, ClusterStore};
use super::ground::Ground;
use super::load::{Catalogue, Measured, Operation, Phase};
use super::subject::Subject;
use super::{CheetahArgs, Named, share};
use crate::latency::Latency;
use crate::report::{Plot, Report, Series, Table};
use crate::runtime::on_core;
use crate::tell;
use bytes::Bytes;
use std::sync::Arc;

const COPIES: [usize; 3] = [1, 2, 3];
const QUICK_COPIES: [usize; 2] = [1, 3];
const WORKERS: [usize; 3] = [1, 20, 100];
const BYTES: usize = 8 << 10;
/// Puts of one worker, and of several.
const PUTS_ALONE: u64 = 1_000;
const PUTS: u64 = 8_000;
const DEVICE_BYTES: u64 = 1 << 30;

struct Cell {
    copies: usize,
    workers: usize,
    measured: Measured,
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let counts: &[usize] = if args.quick { &QUICK_COPIES } else { &COPIES };
    let mut cells = Vec::new();
    for copies in counts {
        tell!("  {copies} copies")?;
        cells.extend(on_core(0, async || measure(args, ground, *copies).await)?);
    }
    Ok(vec![("copies", report(&cells))])
}

async fn measure(args: &CheetahArgs, ground: &Ground, copies: usize) -> anyhow::Result<Vec<Cell>> {
    let cluster = Cluster::begin(ground, copies, DEVICE_BYTES).await?;
    let store = cluster.store();
    for number in ClusterStore::one_of_each_group(1 << 32) {
        store.put(number, Bytes::from_static(b"first")).await?;
    }
    let (catalogue, subject) = (Catalogue::new(args.seed), store as Arc<dyn Subject>);
    let mut cells = Vec::new();
    for workers in WORKERS {
        let puts = if workers == 1 { PUTS_ALONE } else { PUTS } / share(args);
        let measured = catalogue.run(&subject, &Phase::of(Operation::Put, |_| BYTES, workers, puts)).await?;
        cells.push(Cell { copies, workers, measured });
    }
    Ok(cells)
}

fn report(cells: &[Cell]) -> Report {
    let mut summary = Table::new(&[
        "workers",
        "copies",
        "puts/s",
        "mean ms",
        "p99",
        "latency of one copy's",
        "device writes each, all nodes",
    ]);
    let mut data = Table::new(&["workers", "copies", "puts", "rate", "mean_ms", "p99_ms", "device_writes_each"]);
    let latency = |cell: &Cell| Latency::of_ns(cell.measured.of(Operation::Put));
    for workers in WORKERS {
        let all = || cells.iter().filter(|cell| cell.workers == workers);
        let base = all().next().map_or(0.0, |cell| latency(cell).mean);
        for cell in all() {
            let (found, measured) = (latency(cell), &cell.measured);
            let first = [workers.to_string(), cell.copies.to_string()];
            let figures = [format!("{:.0}", measured.rate()), format!("{:.3}", found.mean), format!("{:.3}", found.p99)];
            let ratios = [format!("{:.2}", found.mean / base), format!("{:.2}", measured.writes_each())];
            summary.row([&first[..], &figures, &ratios].concat());
            let mut row = [&first[..], &[measured.count().to_string()]].concat();
            row.extend([measured.rate(), found.mean, found.p99, measured.writes_each()].map(|value| format!("{value:.4}")));
            data.row(row);
        }
    }
    let curve = |workers: usize| Series {
        name: format!("{workers} workers"),
        points: cells
            .iter()
            .filter(|cell| cell.workers == workers)
            .map(|cell| (cell.copies as f64, latency(cell).mean))
            .collect(),
    };
    let plot = Plot {
        title: "Puts of 8 KB by copies".to_owned(),
        x_label: "copies".to_owned(),
        y_label: "mean latency, ms".to_owned(),
        series: WORKERS.map(curve).into(),
    };
    let notes = vec![
        "A cluster in this process with as many nodes as copies: a thread and a file for each, calls in place of a network. All files are on one file system, so more copies share one disk.".to_owned(),
        "The client asks the primary of an object's group, on that node's thread. Even with one copy a put crosses threads, so the figures are not those of the other pages.".to_owned(),
        "Device writes are counted on all nodes together. The files are not written before, as those of the other pages are.".to_owned(),
    ];
    Report { title: "One, two and three copies".to_owned(), notes, summary, data, plots: vec![("latency", plot)] }
}
