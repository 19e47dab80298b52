//! Figure 19: puts while Haystack compacts, beside a store that never does.
//!
//! ```text
//!   an empty device ── objects ── puts, timed ── deletes at random, which start the compaction ── puts while it goes on, timed
//! ```

use super::ground::{Ground, Kind};
use super::load::{Catalogue, Lengths, Limit, Measured, Mix, Operation, Phase};
use super::{CheetahArgs, Named, mean, share};
use crate::report::{Plot, Report, Series, Table, median, spread};
use std::time::Duration;

const KINDS: [Kind; 2] = [Kind::Volumes, Kind::Haystack];
const LENGTHS: Lengths = |_| 16 << 10;
const BEFORE: u64 = 40_000;
/// Of them are deleted: well above what a volume may have of garbage.
const DELETED_SHARE: f64 = 0.45;
const WORKERS: usize = 20;
/// Of the deletes, so that most of the compaction is still to come when puts begin.
const DELETERS: usize = 500;
/// The first puts, and those of a store that does not compact.
const TIME: Duration = Duration::from_millis(1500);
/// Parts of the second puts, for the plot.
const SLICE: Duration = Duration::from_millis(100);
const SLICES: usize = 30;

/// Rates in one round.
struct Sample {
    kind: Kind,
    round: u32,
    before: f64,
    during: f64,
    after: f64,
    compacted_seconds: f64,
    moved_bytes: u64,
    slices: Vec<f64>,
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let mut samples = Vec::new();
    for round in 1..=args.rounds() {
        for kind in KINDS {
            samples.push(sample(args, ground, kind, round)?);
        }
    }
    Ok(vec![("fig19", report(&samples))])
}

fn sample(args: &CheetahArgs, ground: &Ground, kind: Kind, round: u32) -> anyhow::Result<Sample> {
    ground.with(kind, async |subject| {
        let catalogue = Catalogue::new(args.seed);
        let count = BEFORE / share(args);
        catalogue.run(&subject, &Phase::of(Operation::Put, LENGTHS, DELETERS, count)).await?;
        let puts = |limit| Phase { workers: WORKERS, mix: Mix::only(Operation::Put), lengths: LENGTHS, limit };
        let before = catalogue.run(&subject, &puts(Limit::time(TIME))).await?.rate();
        let deletes = (catalogue.count() as f64 * DELETED_SHARE) as u64;
        catalogue.run(&subject, &Phase::of(Operation::Delete, LENGTHS, DELETERS, deletes)).await?;
        let (mut during, mut compacted) = (Vec::new(), Vec::<Measured>::new());
        for _ in 0..SLICES {
            let is_compacting = subject.is_compacting();
            let measured = catalogue.run(&subject, &puts(Limit::time(SLICE))).await?;
            during.push(measured.rate());
            if is_compacting && subject.is_compacting() {
                compacted.push(measured);
            }
        }
        let rate = |all: &[Measured]| {
            let count: u64 = all.iter().map(Measured::count).sum();
            count as f64 / all.iter().map(|one| one.took.as_secs_f64()).sum::<f64>()
        };
        let during_rate = if compacted.is_empty() { mean(&during) } else { rate(&compacted) };
        let after = catalogue.run(&subject, &puts(Limit::time(TIME))).await?.rate();
        let compacted_seconds = compacted.iter().map(|one| one.took).sum::<Duration>().as_secs_f64();
        Ok(Sample {
            kind,
            round,
            before,
            during: during_rate,
            after,
            compacted_seconds,
            moved_bytes: subject.moved_bytes(),
            slices: during,
        })
    })
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "store",
        "puts/s before",
        "in compaction",
        "after",
        "in compaction of before",
        "compacted for, s",
        "moved, MB",
    ]);
    let mut data = Table::new(&["round", "store", "before", "during", "after", "compacted_s"]);
    let mut series = Vec::new();
    for kind in KINDS {
        let of = || samples.iter().filter(|sample| sample.kind == kind);
        let all = |pick: fn(&Sample) -> f64| of().map(pick).collect::<Vec<f64>>();
        let (before, during) = (all(|sample| sample.before), all(|sample| sample.during));
        summary.row(vec![
            kind.name().to_owned(),
            spread(&before, 0),
            spread(&during, 0),
            spread(&all(|sample| sample.after), 0),
            format!("{:.0}%", median(&during) / median(&before) * 100.0),
            spread(&all(|sample| sample.compacted_seconds), 1),
            spread(&all(|sample| sample.moved_bytes as f64 / 1e6), 0),
        ]);
        let slice = |at: usize| median(&of().map(|sample| sample.slices[at]).collect::<Vec<f64>>());
        let points = (0..SLICES).map(|at| (at as f64 * SLICE.as_secs_f64(), slice(at))).collect();
        series.push(Series { name: kind.name().to_owned(), points });
    }
    let gap = |pick: fn(&Sample) -> f64| {
        let [engine, haystack] =
            KINDS.map(|kind| median(&samples.iter().filter(|sample| sample.kind == kind).map(pick).collect::<Vec<f64>>()));
        engine / haystack
    };
    for sample in samples {
        let mut row = vec![sample.round.to_string(), sample.kind.name().to_owned()];
        row.extend([sample.before, sample.during, sample.after, sample.compacted_seconds].map(|value| format!("{value:.2}")));
        data.row(row);
    }
    let plot = Plot {
        title: "Puts of 16 KB after deletes at random (figure 19)".to_owned(),
        x_label: "seconds after the deletes".to_owned(),
        y_label: "puts per second".to_owned(),
        series,
    };
    let notes = vec![
        format!("{WORKERS} workers put objects of 16 KB: before, and right after {:.0}% of {BEFORE} and more objects were deleted.", DELETED_SHARE * 100.0),
        "Nothing bounds the rate of the compaction, as in the paper. It counts where it went on at both ends of a slice; the engine has nothing to compact.".to_owned(),
        format!(
            "The volume engine's rate is {:.2} times Haystack's before, and {:.2} times in compaction.",
            gap(|sample| sample.before),
            gap(|sample| sample.during)
        ),
    ];
    Report { title: "Puts in compaction (figure 19)".to_owned(), notes, summary, data, plots: vec![("puts", plot)] }
}
