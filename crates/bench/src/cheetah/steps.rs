//! Figure 6: what a put waits for. Each write of a put is found among the writes of its device, by the name or the bytes that it carries.
//!
//! ```text
//!   called ── sent ═══════ durable ── ... ── answered          for each write of the put: when it was sent, and when it was durable
//! ```

use super::baseline::needle_starts;
use super::ground::{Ground, Kind, LAYOUT};
use super::load::content;
use super::subject::{NAME_DIGITS, NAME_PREFIX, Subject};
use super::tap::Noted;
use super::{CheetahArgs, Named, share};
use crate::clock;
use crate::report::{Plot, Report, Series, Table, median};
use anyhow::{Context, ensure};
use hashbrown::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

const KINDS: [Kind; 3] = [Kind::Volumes, Kind::VolumesOrdered, Kind::Haystack];
const BYTES: usize = 8 << 10;
const WORKERS: [usize; 2] = [1, 20];
/// Puts of each worker, and those before that are not counted.
const PUTS_EACH: u64 = 400;
const WARM_UP: u64 = 40;
/// Bytes by which an object is known: of so many no two are the same here.
const HEAD_BYTES: usize = 8;

/// A write that a put needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    ProxyLog,
    Record,
    Bytes,
}

impl Step {
    const ALL: [Step; 3] = [Step::ProxyLog, Step::Record, Step::Bytes];

    fn name(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Step::ProxyLog, _) => "the proxy's log",
            (Step::Record, Kind::Haystack) => "directory",
            (Step::Record, _) => "METAX",
            (Step::Bytes, Kind::Haystack) => "needle",
            (Step::Bytes, _) => "bytes",
        }
    }
}

/// A put, in milliseconds from its call on.
#[derive(Default)]
struct Put {
    /// When its writes were sent, and were durable.
    steps: HashMap<usize, (f64, f64)>,
    answered: f64,
}

/// When a put was called and answered.
type Called = HashMap<u64, (Instant, Instant)>;

struct Cell {
    workers: usize,
    kind: Kind,
    puts: Vec<Put>,
    /// Whose writes were not all found.
    incomplete: usize,
}

impl Cell {
    /// Medians of when a step's writes are sent and durable; none if this store has no such step.
    fn of(&self, step: Step) -> Option<(f64, f64)> {
        let all: Vec<(f64, f64)> = self.puts.iter().filter_map(|put| put.steps.get(&(step as usize)).copied()).collect();
        let of = |pick: fn(&(f64, f64)) -> f64| median(&all.iter().map(pick).collect::<Vec<f64>>());
        (!all.is_empty()).then(|| (of(|step| step.0), of(|step| step.1)))
    }

    fn answered(&self) -> f64 {
        median(&self.puts.iter().map(|put| put.answered).collect::<Vec<f64>>())
    }

    /// From when all is durable until the answer.
    fn commit(&self) -> f64 {
        let last = |put: &Put| put.steps.values().map(|step| step.1).fold(0.0, f64::max);
        median(&self.puts.iter().map(|put| put.answered - last(put)).collect::<Vec<f64>>())
    }
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let mut cells = Vec::new();
    for workers in WORKERS {
        for kind in KINDS {
            cells.push(measure(args, ground, kind, workers)?);
        }
    }
    Ok(vec![("fig6", report(&cells))])
}

fn measure(args: &CheetahArgs, ground: &Ground, kind: Kind, workers: usize) -> anyhow::Result<Cell> {
    ground.with_tap(kind, async |subject, tap| {
        let next = Arc::new(AtomicU64::new(1));
        puts(&subject, workers, WARM_UP, &next).await?;
        tap.begin_notes();
        let each = PUTS_EACH / share(args);
        let called = puts(&subject, workers, each, &next).await?;
        let found = attribute(kind, &called, &tap.take_notes());
        let needed = if kind == Kind::Haystack { 3 } else { 2 };
        let (puts, incomplete): (Vec<Put>, Vec<Put>) = found.into_iter().partition(|put| put.steps.len() == needed);
        ensure!(!puts.is_empty(), "no put's writes were found on the device");
        Ok(Cell { workers, kind, puts, incomplete: incomplete.len() })
    })
}

/// Has each worker put so many objects.
async fn puts(subject: &Arc<dyn Subject>, workers: usize, each: u64, next: &Arc<AtomicU64>) -> anyhow::Result<Called> {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (subject, next) = (subject.clone(), next.clone());
        tasks.spawn(async move {
            let mut called = Vec::new();
            for _ in 0..each {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let bytes = content(number, BYTES);
                let began = clock::now();
                subject.put(number, bytes).await?;
                called.push((number, (began, clock::now())));
            }
            anyhow::Ok(called)
        });
    }
    let mut all = Called::new();
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended.context("a worker")??);
    }
    Ok(all)
}

/// Finds the writes of each put.
fn attribute(kind: Kind, called: &Called, writes: &[Noted]) -> Vec<Put> {
    let head = |bytes: &[u8]| bytes.first_chunk::<HEAD_BYTES>().copied().unwrap_or_default();
    let heads: HashMap<[u8; HEAD_BYTES], u64> = called.keys().map(|number| (head(&content(*number, BYTES)), *number)).collect();
    let mut puts: HashMap<u64, Put> = HashMap::new();
    for write in writes {
        let step = match write.is_frame {
            true if kind == Kind::Haystack && write.offset >= LAYOUT.log(1).start => Step::ProxyLog,
            true => Step::Record,
            false => Step::Bytes,
        };
        let numbers: Vec<u64> = match write.is_frame {
            true => names_in(&write.bytes),
            false if kind == Kind::Haystack => {
                needle_starts(&write.bytes).filter_map(|at| heads.get(&head(&write.bytes[at..])).copied()).collect()
            }
            false => heads.get(&head(&write.bytes)).copied().into_iter().collect(),
        };
        for number in numbers {
            let Some((began, ended)) = called.get(&number) else { continue };
            if write.sent < *began || write.durable > *ended {
                continue;
            }
            let put = puts.entry(number).or_default();
            put.answered = ms(*began, *ended);
            put.steps.insert(step as usize, (ms(*began, write.sent), ms(*began, write.durable)));
        }
    }
    puts.into_values().collect()
}

fn ms(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}

/// The numbers of the objects that a frame names.
fn names_in(frame: &[u8]) -> Vec<u64> {
    let digits = |at: usize| frame.get(at + NAME_PREFIX.len()..at + NAME_PREFIX.len() + NAME_DIGITS);
    let number = |at| std::str::from_utf8(digits(at)?).ok()?.parse().ok();
    memchr::memmem::find_iter(frame, NAME_PREFIX).filter_map(number).collect()
}

fn report(cells: &[Cell]) -> Report {
    let mut summary =
        Table::new(&["workers", "store", "step", "sent after, ms", "durable after, ms", "took, ms", "of the put"]);
    let mut data = Table::new(&["workers", "store", "step", "sent_ms", "durable_ms", "answered_ms", "puts", "incomplete"]);
    let mut plots = Vec::new();
    for (workers, end) in WORKERS.into_iter().zip(["one", "twenty"]) {
        let mut series = Vec::new();
        for cell in cells.iter().filter(|cell| cell.workers == workers) {
            let answered = cell.answered();
            let store = cell.kind.name().to_owned();
            for step in Step::ALL {
                let Some((sent, durable)) = cell.of(step) else { continue };
                let took = durable - sent;
                let name = step.name(cell.kind).to_owned();
                let figures = [sent, durable, took].map(|ms| format!("{ms:.3}")).to_vec();
                let share = format!("{:.0}%", took / answered * 100.0);
                summary.row([vec![workers.to_string(), store.clone(), name.clone()], figures, vec![share]].concat());
                let figures = [sent, durable, answered].map(|ms| format!("{ms:.4}")).to_vec();
                let counts = [cell.puts.len(), cell.incomplete].map(|count| count.to_string()).to_vec();
                data.row([vec![workers.to_string(), store.clone(), name.clone()], figures, counts].concat());
                let height = (series.len() + 1) as f64;
                series.push(Series { name: format!("{store}: {name}"), points: vec![(sent, height), (durable, height)] });
            }
            let commit = cell.commit();
            let figures = [answered - commit, answered, commit].map(|ms| format!("{ms:.3}")).to_vec();
            let share = format!("{:.0}%", commit / answered * 100.0);
            summary.row([vec![workers.to_string(), store, "commit and answer".to_owned()], figures, vec![share]].concat());
        }
        let plot = Plot {
            title: format!("Writes of a put of 8 KB, {workers} at a time (figure 6)"),
            x_label: "milliseconds after the call, medians".to_owned(),
            y_label: "one line for each write".to_owned(),
            series,
        };
        plots.push((end, plot));
    }
    let incomplete: usize = cells.iter().map(|cell| cell.incomplete).sum();
    let notes = vec![
        "Medians over all puts of 8 KB: when each write of a put went to the device, and when it was durable. A frame of a log carries records of several \
         puts, and is a write of each of them."
            .to_owned(),
        "Source: the device under each store notes its writes with their bytes. A put's record is found by its name, its bytes by themselves. The copies \
         that this takes are in the times."
            .to_owned(),
        "The paper's names: Pre-MDS is 0, as the proxy is the primary. MDS-1 is \"sent after\" of the bytes: blocks are chosen, and the write is queued. \
         MDS-2 is \"durable after\" of METAX, DS what the bytes took. \"Commit and answer\" is in none of the paper's."
            .to_owned(),
        "In the engine neither write waits for the other: with one worker both are sent before either is durable. With more, a record waits for the frame \
         before it. In OW and in Haystack each write is sent after the one before it is durable."
            .to_owned(),
        format!("{incomplete} puts are left out: not all of their writes were found."),
    ];
    Report { title: "What a put waits for (figure 6)".to_owned(), notes, summary, data, plots }
}
