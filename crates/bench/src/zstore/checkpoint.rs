//! What a checkpoint does to the foreground (paper, figure 7): entries that nobody wrote, through the real checkpoint.

use super::SLICE;
use super::args::Scale;
use super::engine::{self, Ground, Work};
use crate::report::{Plot, Report, Series, Table};
use crate::systems::Lab;
use crate::tell;
use crate::timeline::Timeline;
use anyhow::Context;
use logstore::LogStoreConfig;
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: [u64; 2] = [1_000_000, 10_000_000];
const QUICK_ENTRIES: [u64; 1] = [100_000];
/// Objects that the foreground replaces or reads.
const KEYS: u64 = 20_000;
const CAPACITY_BYTES: u64 = 24 << 30;
/// Load before the checkpoint: warming up, then what it is compared with.
const WARM_UP: Duration = Duration::from_secs(1);
const BEFORE: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_secs(2);

/// One checkpoint.
struct Sample {
    work: Work,
    entries: u64,
    began: Duration,
    ended: Duration,
    run_bytes: u64,
    timeline: Arc<Timeline>,
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let sizes = if scale.quick { &QUICK_ENTRIES[..] } else { &ENTRIES[..] };
    let mut samples = Vec::new();
    for entries in sizes {
        for work in [Work::Put, Work::Get] {
            tell!("  {} beside a checkpoint of {entries} entries", work.name())?;
            samples.push(engine::run(async || one(lab, work, *entries).await)?);
        }
    }
    Ok(report(&samples))
}

async fn one(lab: &Lab, work: Work, entries: u64) -> anyhow::Result<Sample> {
    let ground = Ground::new(&lab.folder("checkpoint"), CAPACITY_BYTES, None).await?;
    let store = ground.open(LogStoreConfig { collect_below_free_percent: 0, ..LogStoreConfig::default() }).await?;
    engine::fill(&ground, &store, 0..KEYS).await?;
    store.checkpoint().await.context("a first checkpoint")?;
    store.add_synthetic_entries(&engine::key(0), entries).await?;
    let timeline = Arc::new(Timeline::begin(SLICE));
    let load = ground.load(&store, work, KEYS, &timeline);
    tokio::time::sleep(WARM_UP + BEFORE).await;
    let (began, bytes_before) = (timeline.elapsed(), store.stats().run_bytes.get());
    store.checkpoint().await.context("the checkpoint")?;
    let ended = timeline.elapsed();
    let run_bytes = store.stats().run_bytes.get() - bytes_before;
    tokio::time::sleep(AFTER).await;
    engine::end(load, &timeline)?;
    store.close().await;
    Ok(Sample { work, entries, began, ended, run_bytes, timeline })
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[
        "foreground",
        "entries",
        "checkpoint, s",
        "run, MB",
        "before, /s",
        "during, /s",
        "change",
        "worst slice, /s",
    ]);
    let mut data = Table::new(&["foreground", "entries", "second", "operations_per_s", "in_checkpoint"]);
    let mut plots = Vec::new();
    for sample in samples {
        let Sample { work, entries, began, ended, run_bytes, timeline } = sample;
        let before = timeline.mean(WARM_UP, *began);
        // A checkpoint shorter than a slice: the one that it lies in.
        let during = timeline.mean(began.saturating_sub(SLICE), *ended + SLICE);
        let points = timeline.points();
        let is_during = |second: f64| {
            second >= began.as_secs_f64() - SLICE.as_secs_f64() && second <= ended.as_secs_f64() + SLICE.as_secs_f64()
        };
        let worst = points.iter().filter(|(second, _)| is_during(*second)).map(|(_, rate)| *rate).fold(f64::MAX, f64::min);
        summary.row(vec![
            work.name().to_owned(),
            entries.to_string(),
            format!("{:.1}", (*ended - *began).as_secs_f64()),
            format!("{:.0}", *run_bytes as f64 / 1e6),
            format!("{before:.0}"),
            format!("{during:.0}"),
            format!("{:+.0}%", (during / before - 1.0) * 100.0),
            format!("{worst:.0}"),
        ]);
        for (second, rate) in &points {
            let inside = u8::from(is_during(*second));
            data.row(vec![
                work.name().to_owned(),
                entries.to_string(),
                format!("{second:.3}"),
                format!("{rate:.0}"),
                inside.to_string(),
            ]);
        }
    }
    for work in [Work::Put, Work::Get] {
        let of = samples.iter().filter(|sample| sample.work == work);
        let series = of.map(|sample| Series { name: format!("{} entries", sample.entries), points: sample.timeline.points() });
        let plot = Plot {
            title: format!("{}s beside a checkpoint, which begins at second 5", work.name()),
            x_label: "seconds".to_owned(),
            y_label: "operations per second".to_owned(),
            series: series.collect(),
        };
        plots.push((if work == Work::Put { "put" } else { "get" }, plot));
    }
    let notes = vec![
        "The log engine of one process with three devices (files), without S3 before it: a thread with 16 operations of 4 KiB at a time, and \
         one with the background work, as a server has them."
            .to_owned(),
        format!("Entries with names of 26 bytes that nobody wrote, then one checkpoint by the engine's own code: the run is written to all three \
         devices, and the entries move to the full map. The foreground works on {KEYS} other objects."),
        "Before: 4 s after a second of warming up. During: from the checkpoint's begin to its end, in slices of 0.25 s.".to_owned(),
        "The paper's gateway has many cores and measures over HTTP; here the checkpoint takes one of two cores, and nothing but the engine \
         stands before the disks."
            .to_owned(),
    ];
    Report { title: "What a checkpoint does to the foreground (figure 7)".to_owned(), notes, summary, data, plots }
}
