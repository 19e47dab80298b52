//! Figures 16 to 18: a trace of three weeks with many deletes. The paper's trace is not public; this one has its shape: more puts than gets, most objects short-lived,
//! and deletes in batches now and then.
//!
//! ```text
//!   day ── 24 hours, each so many operations ── a night: what goes on in the background gets its time ── efficiency of space
//! ```

use super::ground::{Ground, Kind, LAYOUT};
use super::load::{Catalogue, Limit, Measured, Mix, Operation, Phase};
use super::{CheetahArgs, Named, mean, share};
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use std::sync::Arc;
use std::time::Duration;

const KINDS: [Kind; 2] = [Kind::Volumes, Kind::Haystack];
const DAYS: u32 = 21;
const HOURS: u32 = 24;
const WORKERS: usize = 20;
/// Operations of an hour, and objects before the first.
const HOUR_OPERATIONS: u64 = 120;
const BEFORE: u64 = 8_000;
/// Share of puts.
const PUTS: f64 = 0.45;
/// Every so many days a share of all objects is deleted at once, in the middle of the day.
const BATCH_DAYS: u32 = 5;
const BATCHES: [Batch; 2] = [Batch { share: 0.1, text: "10%" }, Batch { share: 0.3, text: "30%" }];
/// Longer than what the engine waits before it gives space back.
const NIGHT: Duration = Duration::from_millis(1200);

/// Deletes in a batch, at random.
#[derive(Clone, Copy)]
struct Batch {
    share: f64,
    text: &'static str,
}

impl Batch {
    /// Until the next batch as many are put more than deleted as the batch takes: the number of objects stays about the same.
    fn mix(self) -> Mix {
        let operations = f64::from(BATCH_DAYS * HOURS) * HOUR_OPERATIONS as f64;
        Mix { put: PUTS, delete: PUTS - self.share * BEFORE as f64 / operations, replace: 0.0 }
    }
}

/// Three kinds of objects: most are small, most bytes are in the long ones.
fn length(random: &mut Random) -> usize {
    let (least, most) = match random.below(100) {
        0..60 => (4 << 10, 64 << 10),
        60..92 => (64 << 10, 256 << 10),
        _ => (256 << 10, 1 << 20),
    };
    least + random.below((most - least) as u64) as usize
}

/// What a store did.
struct Replayed {
    kind: Kind,
    batch: Batch,
    measured: Measured,
    /// Of each hour.
    efficiency: Vec<f64>,
    /// After each night.
    rested: Vec<f64>,
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let all = BATCHES.into_iter().flat_map(|batch| KINDS.map(|kind| (batch, kind)));
    let replayed = all.map(|(batch, kind)| replay(args, ground, batch, kind)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(vec![("fig16-18", report(&replayed))])
}

fn replay(args: &CheetahArgs, ground: &Ground, batch: Batch, kind: Kind) -> anyhow::Result<Replayed> {
    ground.with(kind, async |subject| {
        let catalogue = Catalogue::new(args.seed);
        let phase = |mix, count| Phase { workers: WORKERS, mix, lengths: length, limit: Limit::Count(count) };
        let efficiency = |catalogue: &Arc<Catalogue>| catalogue.live_bytes() as f64 / subject.occupied_bytes() as f64;
        catalogue.run(&subject, &phase(Mix::only(Operation::Put), BEFORE / share(args))).await?;
        let mut replayed: Option<Measured> = None;
        let (mut hours, mut rested) = (Vec::new(), Vec::new());
        for day in 1..=DAYS {
            for hour in 0..HOURS {
                let measured = catalogue.run(&subject, &phase(batch.mix(), HOUR_OPERATIONS / share(args))).await?;
                match &mut replayed {
                    Some(all) => all.add(&measured)?,
                    None => replayed = Some(measured),
                }
                if day % BATCH_DAYS == 0 && hour == HOURS / 2 {
                    let count = (catalogue.count() as f64 * batch.share) as u64;
                    let deleted = catalogue.run(&subject, &phase(Mix::only(Operation::Delete), count)).await?;
                    replayed.as_mut().expect("an hour was measured").add(&deleted)?;
                }
                hours.push(efficiency(&catalogue));
            }
            tokio::time::sleep(NIGHT).await;
            rested.push(efficiency(&catalogue));
        }
        let measured = replayed.expect("an hour was measured");
        Ok(Replayed { kind, batch, measured, efficiency: hours, rested })
    })
}

fn report(replayed: &[Replayed]) -> Report {
    let mut summary = Table::new(&["batches", "store", "figure", "value"]);
    let mut data =
        Table::new(&["batches", "store", "day", "efficiency_most", "efficiency_least", "efficiency_after_the_night"]);
    let mut series = Vec::new();
    for Replayed { kind, batch, measured, efficiency, rested } in replayed {
        let mut row =
            |figure: String, value: String| summary.row(vec![batch.text.to_owned(), kind.name().to_owned(), figure, value]);
        row("operations/s".to_owned(), format!("{:.0}", measured.rate()));
        for operation in [Operation::Put, Operation::Get, Operation::Delete] {
            let (count, mean) = (measured.of(operation).len(), measured.mean_ms(operation));
            row(format!("{}: mean ms", operation.name()), format!("{mean:.3} ({count} operations)"));
        }
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let least = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
        let daily: Vec<f64> = days(efficiency).zip(rested).map(|(hours, rested)| hours.0.max(*rested)).collect();
        row(
            "efficiency, best of each day: mean, lowest".to_owned(),
            format!("{}, {}", percent(mean(&daily)), percent(least(&daily))),
        );
        row(
            "efficiency, all hours: mean, lowest".to_owned(),
            format!("{}, {}", percent(mean(efficiency)), percent(least(efficiency))),
        );
        for (day, ((most, least), rested)) in (1..).zip(days(efficiency).zip(rested)) {
            let shares = [most, least, *rested].map(|share| format!("{share:.4}"));
            data.row([vec![batch.text.to_owned(), kind.name().to_owned(), day.to_string()], shares.to_vec()].concat());
        }
        let points = (1..).zip(&daily).map(|(day, share)| (f64::from(day), share * 100.0)).collect();
        series.push(Series { name: format!("{}, {}", kind.name(), batch.text), points });
    }
    let plot = Plot {
        title: "Best efficiency of space of each day (figure 18)".to_owned(),
        x_label: "day".to_owned(),
        y_label: "bytes of objects of those occupied, %".to_owned(),
        series,
    };
    let notes = vec![
        format!(
            "{DAYS} days of {HOURS} hours of {HOUR_OPERATIONS} operations on {BEFORE} objects: {:.0}% puts, {:.0}% or {:.0}% deletes, the rest gets. Every \
             {BATCH_DAYS} days 10% or 30% of all objects, at random, are deleted at once; what is put more than deleted until then makes up for them. 60% of the \
             objects have 4 to 64 KB, 32% 64 to 256 KB, 8% 256 KB to 1 MB.",
            PUTS * 100.0,
            BATCHES[0].mix().delete * 100.0,
            BATCHES[1].mix().delete * 100.0,
        ),
        "The trace is made from the seed: the paper's is not public. All stores have the same operations.".to_owned(),
        format!(
            "Occupied: of the volume engine all units that are lent to it, its log, its dumps and free blocks in them included; of Haystack its volume files, \
             compacted above {:.0}% of garbage.",
            LAYOUT.garbage_share * 100.0
        ),
        format!(
            "A day ends with a night of {} ms, in which the engine gives empty units back and Haystack compacts.",
            NIGHT.as_millis()
        ),
    ];
    Report {
        title: "A trace with many deletes (figures 16 to 18)".to_owned(),
        notes,
        summary,
        data,
        plots: vec![("efficiency", plot)],
    }
}

/// Most and least of each day.
fn days(hours: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let bounds =
        |day: &[f64]| day.iter().fold((f64::MIN, f64::MAX), |(most, least), share| (most.max(*share), least.min(*share)));
    hours.chunks(HOURS as usize).map(bounds)
}
