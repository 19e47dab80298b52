//! Latencies of put, get, modify and delete (paper, figures 7, 8, 9 and 11): one client, one request at a time, three copies, six nodes as processes.
//!
//! ```text
//!   half of the chunks, 16 at a time ── the other half, timed: put ── get ── get by the map ── modify ── delete
//! ```

use super::by_map::ByMap;
use super::chunks::{self, COPIES, NODES, Placing, Stored, content, prepare};
use super::{SmashArgs, Write};
use crate::clock;
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::s3::zipf::Zipf;
use crate::systems::Lab;
use crate::tell;
use crate::{EnterCluster, latency::Latency};
use anyhow::{Context, ensure};
use chunkstore::chunk_client::ChunkClient;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The exponent of unequal keys.
const THETA: f64 = 0.99;
/// A plot ends here: what is slower would press the rest together.
pub const PLOT_QUANTILE: f64 = 0.99;
/// Before anything is timed.
const SETTLING: Duration = Duration::from_secs(2);
/// Chunks that a shard takes more than are wanted: those that were tried, and the one that showed that the cluster takes some.
const SPARE_CHUNKS: u64 = 16;
/// Steps of a distribution in the data, in thousandths.
const STEPS: usize = 200;

/// What is stored, and how often each operation is timed.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Of the report's files.
    file: &'static str,
    text: &'static str,
    bytes: usize,
    chunks: u64,
    operations: u64,
}

const SIZES: [Size; 3] = [
    Size { file: "latency-4k", text: "4 KiB", bytes: 4 << 10, chunks: 2000, operations: 1000 },
    Size { file: "latency-64k", text: "64 KiB", bytes: 64 << 10, chunks: 2000, operations: 1000 },
    Size { file: "latency-1m", text: "1 MiB", bytes: 1 << 20, chunks: 400, operations: 200 },
];
const QUICK_SIZES: [Size; 1] = [Size { file: "latency-4k", text: "4 KiB", bytes: 4 << 10, chunks: 40, operations: 20 }];

/// A way to place and find chunks.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    placer: &'static str,
    /// Shards that the chunks are in, each with its lookup units.
    units: u64,
    /// Places can be computed, so that gets need no lookup.
    is_computed: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "one lookup unit", placer: "least-loaded", units: 1, is_computed: false },
    Way { name: "two lookup units", placer: "least-loaded", units: 2, is_computed: false },
    Way { name: "CRUSH", placer: "crush", units: 1, is_computed: true },
    Way { name: "MapX", placer: "mapx", units: 2, is_computed: true },
];

/// What was timed: operation and keys.
type Timed = (&'static str, &'static str);

/// One way's latencies, and for how many chunks the map was right.
struct Sample {
    way: &'static str,
    timed: BTreeMap<Timed, Histogram<u64>>,
    shards: usize,
    agree: Option<(u64, u64)>,
}

pub fn run(args: &SmashArgs, lab: &Lab, enter: EnterCluster, write: Write<'_>) -> anyhow::Result<()> {
    let sizes: &[Size] = if args.quick { &QUICK_SIZES } else { &SIZES };
    for size in sizes {
        let mut samples = Vec::new();
        for way in WAYS {
            tell!("  {}, {}", size.text, way.name)?;
            samples.push(sample(args, lab, enter, size, &way).with_context(|| format!("{}, {}", size.text, way.name))?);
        }
        write((size.file, report(size, &samples)))?;
    }
    Ok(())
}

fn sample(args: &SmashArgs, lab: &Lab, enter: EnterCluster, size: &Size, way: &Way) -> anyhow::Result<Sample> {
    // With two shards the first one is full when half of the chunks are there, and the second one is never full.
    let shard_chunks = if way.units == 1 { 1 << 20 } else { size.chunks / way.units + SPARE_CHUNKS };
    let system = chunks::start(lab, "latency", Placing { placer: way.placer, shard_chunks })?;
    chunks::runtime()?.block_on(async {
        let client = chunks::enter(&system, enter).await?;
        let mut run =
            Run { client, size: *size, random: Random::new(args.seed, 0), timed: BTreeMap::new(), chunks: Vec::new() };
        run.put(way).await?;
        let agree = run.read(way).await?;
        run.change().await?;
        let shards = run.client.look_around().await.shards.len();
        run.client.finish().await;
        Ok(Sample { way: way.name, timed: run.timed, shards, agree })
    })
}

/// One client's work.
struct Run {
    client: Arc<ChunkClient>,
    size: Size,
    random: Random,
    timed: BTreeMap<Timed, Histogram<u64>>,
    chunks: Vec<Stored>,
}

impl Run {
    fn note(&mut self, timed: Timed, took: Duration) {
        let histogram = self.timed.entry(timed).or_insert_with(histogram);
        histogram.saturating_record(took.as_nanos() as u64);
    }

    async fn put(&mut self, way: &Way) -> anyhow::Result<()> {
        let Size { bytes, chunks, .. } = self.size;
        let half = chunks / 2;
        self.chunks = prepare(&self.client, 1..half + 1, bytes).await?;
        // The next shard is open when it has taken a chunk.
        let shard = |chunk: Option<&Stored>| chunk.map(|chunk| chunk.id.shard);
        while way.units > 1 && shard(self.chunks.first()) == shard(self.chunks.last()) {
            self.chunks.extend(prepare(&self.client, half..half + 1, bytes).await?);
        }
        // A shard that has just begun gets its space device by device.
        tokio::time::sleep(SETTLING).await;
        for tag in half + 1..chunks + 1 {
            let content = content(tag, bytes);
            let began = clock::now();
            let id = self.client.put(content, COPIES).await.context("a put")?;
            self.note(("put", "new"), clock::now() - began);
            self.chunks.push(Stored { id, tag });
        }
        Ok(())
    }

    /// Which chunks to use, in which order.
    fn choices(&mut self, keys: &str) -> Vec<usize> {
        let (count, random) = (self.chunks.len() as u64, &mut self.random);
        let zipf = Zipf::new(count, THETA);
        // The popular ones are anywhere: not the oldest, which one shard has.
        let scattered = |rank: u64| (crate::random::mix64(rank) % count) as usize;
        (0..self.size.operations)
            .map(|_| if keys == "Zipf" { scattered(zipf.draw(random)) } else { random.below(count) as usize })
            .collect()
    }

    /// How many chunks are where the map says, and how many are not, where there is one.
    async fn read(&mut self, way: &Way) -> anyhow::Result<Option<(u64, u64)>> {
        let bytes = self.size.bytes;
        for keys in ["uniform", "Zipf"] {
            for at in self.choices(keys) {
                let Stored { id, tag } = self.chunks[at];
                let began = clock::now();
                let found = self.client.get(id).await.context("a get")?;
                self.note(("get", keys), clock::now() - began);
                ensure!(found == content(tag, bytes), "chunk {id} has another content");
            }
        }
        if !way.is_computed {
            return Ok(None);
        }
        let mut map = ByMap::new(way.placer, self.client.look_around().await)?;
        for at in 0..self.chunks.len() {
            map.learn(&self.client, self.chunks[at].id).await?;
        }
        for keys in ["uniform", "Zipf"] {
            for at in self.choices(keys) {
                let Stored { id, tag } = self.chunks[at];
                let turn = self.random.below(u64::from(COPIES)) as usize;
                let began = clock::now();
                let found = map.get(&self.client, id, turn).await?;
                self.note(("get by the map", keys), clock::now() - began);
                ensure!(found == content(tag, bytes), "chunk {id} has another content by the map");
            }
        }
        Ok(Some((map.agree, map.differ)))
    }

    async fn change(&mut self) -> anyhow::Result<()> {
        let mut next = self.size.chunks + 1;
        for keys in ["uniform", "Zipf"] {
            for at in self.choices(keys) {
                let content = content(next, self.size.bytes);
                let began = clock::now();
                self.client.modify(self.chunks[at].id, content).await.context("a modification")?;
                self.note(("modify", keys), clock::now() - began);
                self.chunks[at].tag = next;
                next += 1;
            }
        }
        for _ in 0..self.size.operations.min(self.chunks.len() as u64) {
            let at = self.random.below(self.chunks.len() as u64) as usize;
            let chunk = self.chunks.swap_remove(at);
            let began = clock::now();
            self.client.delete(chunk.id).await.context("a removal")?;
            self.note(("delete", "uniform"), clock::now() - began);
        }
        Ok(())
    }
}

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("bounds that a histogram can have")
}

fn report(size: &Size, samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[&["operation", "keys", "way"][..], &FIGURES].concat());
    let mut data = Table::new(&["operation", "keys", "way", "share", "latency_ms"]);
    let mut all: Vec<Timed> = samples.iter().flat_map(|sample| sample.timed.keys().copied()).collect();
    all.sort_by_key(|timed| (place_of(timed), timed.1));
    all.dedup();
    for timed in &all {
        for (sample, histogram) in samples.iter().filter_map(|sample| Some((sample, sample.timed.get(timed)?))) {
            let [operation, keys, way] = [timed.0, timed.1, sample.way].map(str::to_owned);
            summary.row([vec![operation.clone(), keys.clone(), way.clone()], figures(histogram)].concat());
            for (share, ms) in points(histogram, 1.0) {
                data.row(vec![operation.clone(), keys.clone(), way.clone(), format!("{share:.3}"), format!("{ms:.4}")]);
            }
        }
    }
    let plots = PLOTS.iter().map(|(file, timed)| (*file, plot(size, samples, timed))).collect();
    let title = format!("Latencies of chunks of {} (figures 7, 8, 9 and 11)", size.text);
    Report { title, notes: notes(size, samples), summary, data, plots }
}

/// Columns of [`figures`].
pub const FIGURES: [&str; 6] = ["p50, ms", "mean, ms", "p95, ms", "p99, ms", "slowest, ms", "timed"];

/// A distribution in a table's row.
pub fn figures(histogram: &Histogram<u64>) -> Vec<String> {
    let (latency, p95) = (Latency::of_ns(histogram), histogram.value_at_quantile(0.95) as f64 / 1e6);
    let times = [latency.p50, latency.mean, p95, latency.p99, latency.max].map(|ms| format!("{ms:.2}"));
    times.into_iter().chain([histogram.len().to_string()]).collect()
}

/// In the paper's order.
fn place_of(timed: &Timed) -> usize {
    ["put", "get", "get by the map", "modify", "delete"].iter().position(|operation| *operation == timed.0).unwrap_or_default()
}

/// The plots, and what each shows.
const PLOTS: [(&str, &[Timed]); 6] = [
    ("put", &[("put", "new")]),
    ("get-uniform", &[("get", "uniform"), ("get by the map", "uniform")]),
    ("get-zipf", &[("get", "Zipf"), ("get by the map", "Zipf")]),
    ("modify-uniform", &[("modify", "uniform")]),
    ("modify-zipf", &[("modify", "Zipf")]),
    ("delete", &[("delete", "uniform")]),
];

fn plot(size: &Size, samples: &[Sample], all: &[Timed]) -> Plot {
    let mut series = Vec::new();
    for timed in all {
        for (sample, histogram) in samples.iter().filter_map(|sample| Some((sample, sample.timed.get(timed)?))) {
            let by = if timed.0 == "get by the map" { ", by the map" } else { "" };
            let curve = points(histogram, PLOT_QUANTILE).into_iter().map(|(share, ms)| (ms, share * 100.0)).collect();
            series.push(Series { name: format!("{}{by}", sample.way), points: curve });
        }
    }
    let (operation, keys) = all[0];
    Plot {
        title: format!("{operation}, {} ({keys} keys), three copies on six nodes", size.text),
        x_label: "milliseconds".to_owned(),
        y_label: "share of requests, %".to_owned(),
        series,
    }
}

/// The distribution up to a share: share and milliseconds.
pub fn points(histogram: &Histogram<u64>, end: f64) -> Vec<(f64, f64)> {
    let shares = (0..=STEPS).map(|step| step as f64 / STEPS as f64).filter(|share| *share <= end);
    shares.map(|share| (share, histogram.value_at_quantile(share) as f64 / 1e6)).collect()
}

fn notes(size: &Size, samples: &[Sample]) -> Vec<String> {
    let agree: Vec<String> = samples
        .iter()
        .filter_map(|sample| Some((sample.way, sample.agree?)))
        .map(|(way, (agree, differ))| format!("{way} {agree} of {}", agree + differ))
        .collect();
    let shards: Vec<String> = samples.iter().map(|sample| format!("{} {}", sample.way, sample.shards)).collect();
    vec![
        format!(
            "{NODES} nodes, each a process with a device of its own (files on one disk), {COPIES} copies; one client through the library, outside of the \
             cluster, one request at a time. {} chunks, {} requests of each kind (puts: half of the chunks). Every answer is compared with \
             what was written.",
            size.chunks, size.operations
        ),
        "Everything is durable when it is acknowledged: a put when all copies, the unit's log and one lookup host have it.".to_owned(),
        "Ids are given by the system, so puts have no distribution of keys; each chunk is removed once, so removals are uniform. Zipf: exponent 0.99."
            .to_owned(),
        format!("Shards: {}. Each has a unit on three nodes and lookup units on three nodes. Puts go to the newest shard only.", shards.join(", ")),
        "CRUSH and MapX: the same processes and the same client; the unit's leader places each chunk by the hash in its id (128 groups; MapX: two \
         layers of three nodes, a shard each). `get` finds the chunk by a lookup unit as always. `get by the map`: the client computes the nodes \
         from the id and asks one of them itself, without a lookup; it remembers the blocks, in the stead of an index that such a node would have, \
         so this is the least that such a get can take."
            .to_owned(),
        format!("Chunks whose copies are where the client's map says: {}.", agree.join(", ")),
    ]
}
