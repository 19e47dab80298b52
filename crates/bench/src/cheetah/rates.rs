//! Experiments that compare rates: figures 7, 8, 9, 10, 13 and 20, and METAX in memory.
//!
//! ```text
//!   round ── cell ── store ── an empty device ── objects put before ── the timed phase
//! ```

use super::ground::{Ground, Kind};
use super::latency::SIZES;
use super::load::{Catalogue, Lengths, Limit, Measured, Mix, Operation, Phase};
use super::{CheetahArgs, Experiment, Named, share};
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table, median, spread};
use crate::tell;

/// What is compared, and where.
struct Plan {
    file: &'static str,
    title: &'static str,
    /// The first is what the others are compared with.
    kinds: &'static [Kind],
    cells: Vec<Cell>,
    x_label: &'static str,
    notes: &'static [&'static str],
}

/// One load.
struct Cell {
    /// Of which plot it is, and where there.
    plot: &'static str,
    x: f64,
    text: String,
    /// Objects that are there before.
    before: u64,
    phase: Phase,
}

pub fn run(experiment: Experiment, args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let plan = plan(experiment, args);
    let mut found: Vec<(usize, Kind, Vec<Measured>)> = Vec::new();
    for (at, cell) in plan.cells.iter().enumerate() {
        tell!("  {}", cell.text)?;
        found.extend(plan.kinds.iter().map(|kind| (at, *kind, Vec::new())));
        for _ in 0..args.rounds() {
            for (_, kind, rounds) in found.iter_mut().filter(|(of, ..)| *of == at) {
                rounds.push(measure(args, ground, cell, *kind)?);
            }
        }
    }
    Ok(vec![(plan.file, report(args, &plan, &found))])
}

fn measure(args: &CheetahArgs, ground: &Ground, cell: &Cell, kind: Kind) -> anyhow::Result<Measured> {
    ground.with(kind, async |subject| {
        let catalogue = Catalogue::new(args.seed);
        let before = Phase::of(Operation::Put, cell.phase.lengths, FILLERS, cell.before);
        catalogue.run(&subject, &before).await?;
        // The first puts of a store make its log.
        let first = Phase::of(Operation::Put, cell.phase.lengths, cell.phase.workers, WARM_UP);
        catalogue.run(&subject, &first).await?;
        catalogue.run(&subject, &cell.phase).await
    })
}

/// Puts that are not timed, right before.
const WARM_UP: u64 = 50;
/// Workers that put what is there before.
const FILLERS: usize = 64;
/// Concurrency of the experiments without load, and with some.
const FEW: usize = 20;
const MANY: usize = 100;
/// The paper's figure 7.
const SCALE: [usize; 6] = [20, 100, 200, 400, 700, 1000];
/// Of the paper's figure 20: the share of puts. A tenth are deletes.
const PUT_SHARES: [f64; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
const DELETE_SHARE: f64 = 0.1;
/// Operations of a cell of figure 20, and objects before.
const MIX_OPERATIONS: u64 = 2_000;
const MIX_BEFORE: u64 = 2_000;
/// Records of a cell of figure 13.
const RECORDS: u64 = 30_000;
/// Objects that are read, deleted and put again: each one once, about.
const REPLACE_SHARE: u64 = 4;

const PUT_KINDS: &[Kind] = &[Kind::Volumes, Kind::Haystack];

fn puts(args: &CheetahArgs, plot: &'static str, size: usize, workers: usize) -> Cell {
    let size = SIZES[size];
    let phase = Phase::of(Operation::Put, size.lengths, workers, size.puts(args, workers));
    Cell { plot, x: workers as f64, text: format!("{}, {workers} workers", size.text), before: 0, phase }
}

/// Puts of two sizes by three loads.
fn six_puts(args: &CheetahArgs) -> Vec<Cell> {
    let cells = [("8k", 0), ("64k", 1)].into_iter();
    cells.flat_map(|(plot, size)| [1, FEW, MANY].map(|workers| puts(args, plot, size, workers))).collect()
}

fn plan(experiment: Experiment, args: &CheetahArgs) -> Plan {
    let workers = "workers";
    match experiment {
        Experiment::Ordered => Plan {
            file: "fig9",
            title: "Puts with ordered writes (figure 9)",
            kinds: &[Kind::Volumes, Kind::VolumesOrdered],
            cells: six_puts(args),
            x_label: workers,
            notes: &["OW: the record is written when the bytes are durable. Nothing else differs."],
        },
        Experiment::Filesystem => Plan {
            file: "fig10",
            title: "The device through the page cache of a file system (figure 10)",
            kinds: &[Kind::Volumes, Kind::VolumesBuffered],
            cells: six_puts(args),
            x_label: workers,
            notes: &[
                "Both devices are files. The engine's own is opened with O_DIRECT; FS goes through the page cache, and is as durable.",
            ],
        },
        Experiment::Throughput => Plan {
            file: "fig7",
            title: "Puts by concurrency (figure 7)",
            kinds: PUT_KINDS,
            cells: [("8k", 0), ("64k", 1), ("512k", 2)]
                .into_iter()
                .flat_map(|(plot, size)| SCALE.map(|workers| puts(args, plot, size, workers)))
                .collect(),
            x_label: workers,
            notes: &[],
        },
        Experiment::Replace => Plan {
            file: "fig8",
            title: "Read, delete and put again (figure 8)",
            kinds: PUT_KINDS,
            cells: six_puts(args).into_iter().map(replaced).collect(),
            x_label: workers,
            notes: &["One operation is a get, a delete and a put of one object."],
        },
        Experiment::Directory => Plan {
            file: "fig13",
            title: "Records of the engine beside a thin directory (figure 13)",
            kinds: &[Kind::Volumes, Kind::Directory],
            cells: [FEW, MANY, 500].map(|workers| records(args, workers)).into(),
            x_label: workers,
            notes: &[
                "The engine puts objects without bytes: a record, and no data. The directory maps a name to a volume in a table of the baselines: \
                 the same log, and an ordered store behind it.",
            ],
        },
        Experiment::Memory => Plan {
            file: "memory",
            title: "METAX in memory",
            kinds: &[Kind::Volumes, Kind::VolumesMemory],
            cells: [1, FEW].map(|workers| puts(args, "8k", 0, workers)).into(),
            x_label: workers,
            notes: &[
                "The engine beside itself with a RAM disk for its log: a frame of the log is copied to memory and acknowledged at once. The bytes of objects go to the device as ever. \
                 With more workers they would take the way of the journal of small writes, whose frames look like those of the log.",
            ],
        },
        _ => Plan {
            file: "fig20",
            title: "Mixes of puts, gets and deletes (figure 20)",
            kinds: &[Kind::Volumes, Kind::Haystack, Kind::Tectonic],
            cells: PUT_SHARES.map(|put| mix(args, put)).into(),
            x_label: "share of puts, %",
            notes: &[
                "20 workers; a tenth of the operations are deletes, the rest gets of any object. Lengths are uniform from 4 to 512 KB.",
            ],
        },
    }
}

fn replaced(cell: Cell) -> Cell {
    let Limit::Count(puts) = cell.phase.limit else { unreachable!("puts are counted") };
    let phase = Phase::of(Operation::Replace, cell.phase.lengths, cell.phase.workers, puts / REPLACE_SHARE);
    Cell { before: puts, phase, ..cell }
}

fn records(args: &CheetahArgs, workers: usize) -> Cell {
    let phase = Phase::of(Operation::Put, |_| 0, workers, RECORDS / share(args));
    Cell { plot: "records", x: workers as f64, text: format!("{workers} workers"), before: 0, phase }
}

fn mix(args: &CheetahArgs, put: f64) -> Cell {
    let lengths: Lengths = |random: &mut Random| (4 << 10) + random.below((508 << 10) + 1) as usize;
    let mix = Mix { put, delete: DELETE_SHARE, replace: 0.0 };
    let phase = Phase { workers: FEW, mix, lengths, limit: Limit::Count(MIX_OPERATIONS / share(args)) };
    let text = format!("{:.0}% puts", put * 100.0);
    Cell { plot: "mixes", x: put * 100.0, text, before: MIX_BEFORE / share(args), phase }
}

fn report(args: &CheetahArgs, plan: &Plan, found: &[(usize, Kind, Vec<Measured>)]) -> Report {
    let mut summary = Table::new(&["load", "store", "operations/s", "of the first", "device writes each"]);
    let mut data = Table::new(&["round", "load", "store", "operations", "seconds", "rate", "mean_ms"]);
    let rates = |rounds: &[Measured]| rounds.iter().map(Measured::rate).collect::<Vec<f64>>();
    let of = |at: usize, kind: Kind| {
        let rounds = found.iter().find(|(of, is, _)| (*of, *is) == (at, kind)).map(|(.., rounds)| rates(rounds));
        rounds.expect("all stores were measured")
    };
    for (at, kind, rounds) in found {
        let text = plan.cells[*at].text.replace(',', "");
        let base = median(&of(*at, plan.kinds[0]));
        let writes = median(&rounds.iter().map(Measured::writes_each).collect::<Vec<f64>>());
        let rates = rates(rounds);
        let share = format!("{:.0}%", median(&rates) / base * 100.0);
        summary.row(vec![text.clone(), kind.name().to_owned(), spread(&rates, 0), share, format!("{writes:.2}")]);
        for (round, measured) in (1..).zip(rounds) {
            let seconds = measured.took.as_secs_f64();
            let total_ms: f64 = measured.latency.iter().map(|latency| latency.mean() * latency.len() as f64 / 1e6).sum();
            let mut row = vec![round.to_string(), text.clone(), kind.name().to_owned(), measured.count().to_string()];
            row.extend([seconds, measured.rate(), total_ms / measured.count() as f64].map(|value| format!("{value:.4}")));
            data.row(row);
        }
    }
    let mut plots: Vec<(&'static str, Plot)> = Vec::new();
    for cell in &plan.cells {
        if plots.iter().any(|(end, _)| *end == cell.plot) {
            continue;
        }
        let cells = || plan.cells.iter().enumerate().filter(|(_, other)| other.plot == cell.plot);
        let curve = |kind: Kind| Series {
            name: kind.name().to_owned(),
            points: cells().map(|(at, cell)| (cell.x, median(&of(at, kind)))).collect(),
        };
        let series = plan.kinds.iter().map(|kind| curve(*kind)).collect();
        let title = format!("{} [{}]", plan.title, cell.plot);
        plots.push((
            cell.plot,
            Plot { title, x_label: plan.x_label.to_owned(), y_label: "operations per second".to_owned(), series },
        ));
    }
    let shape = format!("{} rounds, the stores in turn: medians and extremes. Each store has an empty device.", args.rounds());
    let notes = std::iter::once(shape).chain(plan.notes.iter().map(|note| (*note).to_owned())).collect();
    Report { title: plan.title.to_owned(), notes, summary, data, plots }
}
