//! What garbage collection does to the foreground (paper, figure 9): zones of which half is live, emptied one in 2, 5 or 10 seconds, or as
//! fast as it goes. The foreground makes no garbage, so that collection finds no emptier zones.

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

const ZONE_BYTES: u64 = 32 << 20;
const CAPACITY_BYTES: u64 = 16 << 30;
/// Objects that fill zones: every second one is replaced, so that half of what stands in those zones is live.
const OBJECTS: u64 = 160_000;
const QUICK_OBJECTS: u64 = 16_000;
/// Objects that the foreground replaces or reads.
const KEYS: u64 = 16_000;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(7);
const QUICK_MEASURED: Duration = Duration::from_secs(2);
/// Rate of collection that nothing reaches.
const UNPACED: u64 = 1 << 50;

/// How collection is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// None takes place.
    Off,
    /// So many seconds for a zone.
    Seconds(u64),
    Unpaced,
}

impl Pace {
    fn name(self) -> String {
        match self {
            Pace::Off => "off".to_owned(),
            Pace::Seconds(seconds) => format!("a zone in {seconds} s"),
            Pace::Unpaced => "not paced".to_owned(),
        }
    }

    fn config(self) -> LogStoreConfig {
        let (percent, rate) = match self {
            Pace::Off => (0, UNPACED),
            Pace::Seconds(seconds) => (100, ZONE_BYTES / seconds),
            Pace::Unpaced => (100, UNPACED),
        };
        LogStoreConfig { collect_below_free_percent: percent, collect_bytes_per_second: rate, ..LogStoreConfig::default() }
    }
}

struct Sample {
    work: Work,
    pace: Pace,
    rate: f64,
    zones: u64,
    relocated_bytes: u64,
    timeline: Arc<Timeline>,
}

pub fn run(lab: &Lab, scale: &Scale) -> anyhow::Result<Report> {
    let objects = if scale.quick { QUICK_OBJECTS } else { OBJECTS };
    let mut ground = engine::run(async || {
        let ground = Ground::new(&lab.folder("collection"), CAPACITY_BYTES, Some(ZONE_BYTES)).await?;
        age(&ground, objects).await?;
        Ok(ground)
    })?;
    // The slow ones first: each finds zones that the ones before have left. Each in a runtime of its own, which cuts off a collection that
    // would take minutes to come to its end.
    let paces = [Pace::Off, Pace::Seconds(10), Pace::Seconds(5), Pace::Seconds(2), Pace::Unpaced];
    let mut samples = Vec::new();
    for pace in paces {
        for work in [Work::New, Work::Get] {
            tell!("  {} beside collection: {}", work.name(), pace.name())?;
            let measured = if scale.quick { QUICK_MEASURED } else { MEASURED };
            let sample = engine::run(async || {
                ground.reopen().await?;
                one(&ground, work, pace, measured).await
            });
            samples.push(sample?);
        }
    }
    Ok(report(&samples))
}

/// Fills zones and makes half of what stands in them garbage. Two checkpoints make them collectable.
async fn age(ground: &Ground, objects: u64) -> anyhow::Result<()> {
    let store = ground.open(Pace::Off.config()).await?;
    engine::fill(ground, &store, 0..objects).await?;
    engine::fill(ground, &store, (0..objects).filter(|number| number % 2 == 1)).await?;
    for _ in 0..2 {
        store.checkpoint().await.context("a checkpoint")?;
        engine::fill(ground, &store, 0..1).await?;
    }
    store.close().await;
    Ok(())
}

async fn one(ground: &Ground, work: Work, pace: Pace, measured: Duration) -> anyhow::Result<Sample> {
    let store = ground.open(pace.config()).await?;
    let timeline = Arc::new(Timeline::begin(SLICE));
    let load = ground.load(&store, work, KEYS, &timeline);
    tokio::time::sleep(WARM_UP).await;
    let before = store.stats().relocated_bytes.get();
    let zones = store.stats().collected_zones.get();
    tokio::time::sleep(measured).await;
    let rate = timeline.mean(WARM_UP, timeline.elapsed());
    let relocated_bytes = store.stats().relocated_bytes.get() - before;
    let zones = store.stats().collected_zones.get() - zones;
    engine::end(load, &timeline)?;
    Ok(Sample { work, pace, rate, zones, relocated_bytes, timeline })
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&["foreground", "collection", "operations/s", "change", "copied, MB/s", "zones reset"]);
    let mut data = Table::new(&["foreground", "collection", "second", "operations_per_s"]);
    for sample in samples {
        let without = samples.iter().find(|other| other.work == sample.work && other.pace == Pace::Off);
        let change = without.map_or(0.0, |without| sample.rate / without.rate - 1.0);
        let seconds = (sample.timeline.rates().len() as f64 * SLICE.as_secs_f64() - WARM_UP.as_secs_f64()).max(1.0);
        summary.row(vec![
            sample.work.name().to_owned(),
            sample.pace.name(),
            format!("{:.0}", sample.rate),
            format!("{:+.0}%", change * 100.0),
            format!("{:.1}", sample.relocated_bytes as f64 / 1e6 / seconds),
            sample.zones.to_string(),
        ]);
        for (second, rate) in sample.timeline.points() {
            data.row(vec![sample.work.name().to_owned(), sample.pace.name(), format!("{second:.3}"), format!("{rate:.0}")]);
        }
    }
    let plot = |work: Work| {
        let of = samples.iter().filter(|sample| sample.work == work);
        Plot {
            title: format!("{}s beside collection of zones of which half is live", work.name()),
            x_label: "seconds".to_owned(),
            y_label: "operations per second".to_owned(),
            series: of.map(|sample| Series { name: sample.pace.name(), points: sample.timeline.points() }).collect(),
        }
    };
    let notes = vec![
        "The log engine of one process with three devices (files), as for figure 7.".to_owned(),
        format!(
            "{OBJECTS} objects of 4 KiB, every second one replaced: half of each of the first zones is live. Zones have {} MiB (the paper's some \
             1 GiB): a zone in 2 s is {} MiB/s here and 512 MB/s there.",
            ZONE_BYTES >> 20,
            (ZONE_BYTES >> 20) / 2
        ),
        "The pace is `background_rate`, the bytes of zones that are walked and copied in a second. Collection starts with the engine, \
         as the share of free zones that it wants is set to all; a zone counts as reset after the checkpoint behind it, four at a time on \
         each device."
            .to_owned(),
        "Changes are against the same foreground without collection.".to_owned(),
    ];
    let plots = vec![("put", plot(Work::New)), ("get", plot(Work::Get))];
    Report { title: "What garbage collection does to the foreground (figure 9)".to_owned(), notes, summary, data, plots }
}
