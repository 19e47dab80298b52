//! Latencies by the number of nodes, and by the number of copies (paper, figure 15): one client, one request at a time.

use super::chunks::{self, COPIES, NODES, Placing, Stored, content, put_patiently_as};
use super::latency::{FIGURES, PLOT_QUANTILE, figures, histogram, points};
use super::{SmashArgs, Write};
use crate::EnterCluster;
use crate::clock;
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::systems::Lab;
use crate::tell;
use anyhow::{Context, ensure};
use chunkstore::chunk_client::ChunkClient;
use hdrhistogram::Histogram;
use std::sync::Arc;

const BYTES: usize = 4 << 10;
const CHUNKS: u64 = 1000;
const REQUESTS: u64 = 2000;
const QUICK_CHUNKS: u64 = 20;
const QUICK_REQUESTS: u64 = 20;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Get,
    Modify,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Modify => "modify",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Operation,
    nodes: usize,
    copies: u8,
}

/// Gets with 5 to 7 nodes as in the paper; modifications with 1 to 3 copies, where the paper has 2 to 4.
fn cases() -> Vec<Case> {
    let gets = (NODES - 1..=NODES + 1).map(|nodes| Case { operation: Operation::Get, nodes, copies: COPIES });
    let modifications = (1..=COPIES).map(|copies| Case { operation: Operation::Modify, nodes: NODES, copies });
    gets.chain(modifications).collect()
}

impl Case {
    fn name(self) -> String {
        match self.operation {
            Operation::Get => format!("{} nodes", self.nodes),
            Operation::Modify if self.copies == 1 => "1 copy".to_owned(),
            Operation::Modify => format!("{} copies", self.copies),
        }
    }
}

struct Sample {
    case: Case,
    timed: Histogram<u64>,
}

pub fn run(args: &SmashArgs, lab: &Lab, enter: EnterCluster, write: Write<'_>) -> anyhow::Result<()> {
    let mut samples = Vec::new();
    for case in cases() {
        tell!("  {}, {}", case.operation.name(), case.name())?;
        samples.push(sample(args, lab, enter, case).with_context(|| case.name())?);
    }
    write(("scale", report(&samples)))
}

fn sample(args: &SmashArgs, lab: &Lab, enter: EnterCluster, case: Case) -> anyhow::Result<Sample> {
    let (count, requests) = if args.quick { (QUICK_CHUNKS, QUICK_REQUESTS) } else { (CHUNKS, REQUESTS) };
    let system = chunks::start_nodes(lab, "scale", Placing { placer: "least-loaded", shard_chunks: 1 << 20 }, case.nodes)?;
    let timed = chunks::runtime()?.block_on(async {
        let client = chunks::enter(&system, enter).await?;
        let mut chunks = Vec::new();
        for tag in 1..count + 1 {
            chunks.push(Stored { id: put_patiently_as(&client, content(tag, BYTES), case.copies).await?, tag });
        }
        let timed = time(&client, case.operation, chunks, requests, &mut Random::new(args.seed, 0)).await?;
        client.finish().await;
        anyhow::Ok(timed)
    })?;
    Ok(Sample { case, timed })
}

async fn time(
    client: &Arc<ChunkClient>,
    operation: Operation,
    mut chunks: Vec<Stored>,
    requests: u64,
    random: &mut Random,
) -> anyhow::Result<Histogram<u64>> {
    let mut timed = histogram();
    for next in 0..requests {
        let at = random.below(chunks.len() as u64) as usize;
        let Stored { id, tag } = chunks[at];
        let new = content(CHUNKS + 1 + next, BYTES);
        let began = clock::now();
        let found = match operation {
            Operation::Get => Some(client.get(id).await.context("a get")?),
            Operation::Modify => {
                client.modify(id, new).await.context("a modification")?;
                chunks[at].tag = CHUNKS + 1 + next;
                None
            }
        };
        timed.saturating_record((clock::now() - began).as_nanos() as u64);
        ensure!(found.is_none_or(|found| found == content(tag, BYTES)), "chunk {id} has another content");
    }
    for Stored { id, tag } in chunks {
        ensure!(client.get(id).await? == content(tag, BYTES), "chunk {id} has another content in the end");
    }
    Ok(timed)
}

fn report(samples: &[Sample]) -> Report {
    let mut summary = Table::new(&[&["operation", "with"][..], &FIGURES].concat());
    let mut data = Table::new(&["operation", "with", "share", "latency_ms"]);
    for Sample { case, timed } in samples {
        let (operation, with) = (case.operation.name().to_owned(), case.name());
        summary.row([vec![operation.clone(), with.clone()], figures(timed)].concat());
        for (share, ms) in points(timed, 1.0) {
            data.row(vec![operation.clone(), with.clone(), format!("{share:.3}"), format!("{ms:.4}")]);
        }
    }
    let plots = [("nodes", Operation::Get), ("copies", Operation::Modify)];
    let plots = plots.map(|(file, operation)| (file, plot(samples, operation))).into_iter().collect();
    Report { title: "Latencies by nodes and by copies (figure 15)".to_owned(), notes: notes(), summary, data, plots }
}

fn plot(samples: &[Sample], operation: Operation) -> Plot {
    let of_operation = samples.iter().filter(|sample| sample.case.operation == operation);
    let curve = |timed| points(timed, PLOT_QUANTILE).into_iter().map(|(share, ms)| (ms, share * 100.0)).collect();
    Plot {
        title: format!("{} of chunks of 4 KiB", operation.name()),
        x_label: "milliseconds".to_owned(),
        y_label: "share of requests, %".to_owned(),
        series: of_operation.map(|sample| Series { name: sample.case.name(), points: curve(&sample.timed) }).collect(),
    }
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "Nodes as processes, each with a device of its own (files on one disk); one client through the library, outside of the cluster, one request at a \
             time. {CHUNKS} chunks of 4 KiB, {REQUESTS} requests, uniform keys. Gets with {COPIES} copies, modifications with {NODES} nodes. Every answer \
             is compared with what was written, and all chunks in the end."
        ),
        "All nodes and the client share the machine's cores, so more nodes have less of them each; the paper's nodes are machines.".to_owned(),
        "A modification is answered when all copies are durable. A chunk has up to three: the paper's four are not to be had, one copy is shown instead."
            .to_owned(),
    ]
}
