//! Figure 12: meta servers with targets that do nothing. What each server's thread costs for a put is counted; two cores can't show its rate.

use super::cluster::{Cluster, ClusterStore};
use super::ground::Ground;
use super::load::{Catalogue, Operation, Phase};
use super::subject::Subject;
use super::tap::{Frames, LeaveOut};
use super::{CheetahArgs, Named, share};
use crate::report::{Plot, Report, Series, Table};
use crate::runtime::on_core;
use crate::tell;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;

/// The paper's, and those of a short run.
const SERVERS: [usize; 4] = [3, 6, 9, 12];
const QUICK_SERVERS: [usize; 1] = [3];
const PUTS: u64 = 20_000;
const WARM_UP: u64 = 500;
const BYTES: usize = 8 << 10;
const WORKERS: usize = 100;
const DEVICE_BYTES: u64 = 1 << 30;

/// What one server did, for each put of the cluster.
struct Server {
    id: NodeId,
    groups_led: usize,
    cpu_us: f64,
    records: f64,
}

struct Sample {
    servers: Vec<Server>,
    rate: f64,
}

impl Sample {
    /// The server that ends first if each has a core of its own.
    fn busiest(&self) -> f64 {
        self.servers.iter().map(|server| server.cpu_us).fold(0.0, f64::max)
    }

    fn total(&self) -> f64 {
        self.servers.iter().map(|server| server.cpu_us).sum()
    }

    /// Puts a second if each server had a core, and nothing else were in the way.
    fn implied(&self) -> f64 {
        1e6 / self.busiest()
    }
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let counts: &[usize] = if args.quick { &QUICK_SERVERS } else { &SERVERS };
    let (mut samples, mut missing) = (Vec::new(), Vec::new());
    for count in counts {
        tell!("  {count} servers")?;
        match on_core(0, async || measure(args, ground, *count).await) {
            Ok(sample) => samples.push(sample),
            // So many threads may be too much for a busy machine. What was counted before is told.
            Err(error) if !samples.is_empty() => missing.push(format!("{count} servers were not counted: {error:#}.")),
            Err(error) => return Err(error),
        }
    }
    Ok(vec![("fig12", report(&samples, missing))])
}

async fn measure(args: &CheetahArgs, ground: &Ground, count: usize) -> anyhow::Result<Sample> {
    let cluster = Cluster::begin(ground, count, DEVICE_BYTES).await?;
    let store = cluster.store();
    // The first put of a group makes its space, which is on the device.
    for number in ClusterStore::one_of_each_group(1 << 32) {
        store.put(number, Bytes::from_static(b"first")).await?;
    }
    cluster.nodes().iter().for_each(|node| node.tap.leave_out(LeaveOut::Everything));
    let (catalogue, subject) = (Catalogue::new(args.seed), store as Arc<dyn Subject>);
    let puts = |count| Phase::of(Operation::Put, |_| BYTES, WORKERS, count);
    catalogue.run(&subject, &puts(WARM_UP)).await?;
    let before = spent(&cluster).await?;
    let measured = catalogue.run(&subject, &puts(PUTS / share(args))).await?;
    let after = spent(&cluster).await?;
    let put = measured.count() as f64;
    let server = |(node, (before, after)): (&super::cluster::Node, (&Spent, &Spent))| Server {
        id: node.id,
        groups_led: cluster.part_of(node.id).1,
        cpu_us: (after.0 - before.0).as_secs_f64() * 1e6 / put,
        records: (after.1.records - before.1.records) as f64 / put,
    };
    let servers = cluster.nodes().iter().zip(before.iter().zip(&after)).map(server).collect();
    Ok(Sample { servers, rate: measured.rate() })
}

/// Processor time and records of a node so far.
type Spent = (Duration, Frames);

async fn spent(cluster: &Cluster) -> anyhow::Result<Vec<Spent>> {
    let mut all = Vec::new();
    for node in cluster.nodes() {
        all.push((node.cpu().await?, node.tap.frames()));
    }
    Ok(all)
}

fn report(samples: &[Sample], missing: Vec<String>) -> Report {
    let mut summary = Table::new(&[
        "servers",
        "processor time of a put on all, µs",
        "on the busiest, µs",
        "groups that it leads",
        "records in a put, all servers",
        "puts/s that this would be",
        "of three servers",
        "linear",
        "puts/s on this machine",
    ]);
    let mut data = Table::new(&["servers", "server", "groups_led", "cpu_us_each_put", "records_each_put"]);
    let first = &samples[0];
    for sample in samples {
        let count = sample.servers.len();
        let busiest = sample
            .servers
            .iter()
            .max_by(|one, other| one.cpu_us.total_cmp(&other.cpu_us))
            .map_or(0, |server| server.groups_led);
        summary.row(vec![
            count.to_string(),
            format!("{:.1}", sample.total()),
            format!("{:.1}", sample.busiest()),
            busiest.to_string(),
            format!("{:.2}", sample.servers.iter().map(|server| server.records).sum::<f64>()),
            format!("{:.0}", sample.implied()),
            format!("{:.2}", sample.implied() / first.implied()),
            format!("{:.2}", count as f64 / first.servers.len() as f64),
            format!("{:.0}", sample.rate),
        ]);
        for server in &sample.servers {
            let figures = [server.cpu_us, server.records].map(|value| format!("{value:.3}"));
            data.row(
                [vec![count.to_string(), server.id.to_string(), server.groups_led.to_string()], figures.to_vec()].concat(),
            );
        }
    }
    let curve = |name: &str, of: &dyn Fn(&Sample) -> f64| Series {
        name: name.to_owned(),
        points: samples.iter().map(|sample| (sample.servers.len() as f64, of(sample))).collect(),
    };
    let each = first.implied() / first.servers.len() as f64;
    let plot = Plot {
        title: "Puts that meta servers with a core each could take, counted (figure 12)".to_owned(),
        x_label: "meta servers".to_owned(),
        y_label: "puts per second".to_owned(),
        series: vec![
            curve("counted", &Sample::implied),
            curve("if all groups were even", &|sample| 1e6 * sample.servers.len() as f64 / sample.total()),
            curve("linear", &|sample| each * sample.servers.len() as f64),
        ],
    };
    let mut notes = vec![
        format!("Counted, not measured by the clock: {WORKERS} workers put 8 KB; all servers share this machine's cores. A server is a thread with its part of the placement groups, three copies of each."),
        "Targets do nothing, and METAX is on RAM disks: the device acknowledges all writes at once. The paper's figure has METAX on SSDs, and RAM disks as its upper bound.".to_owned(),
        "Processor time is that of the servers' threads, from the scheduler. It has what a server does as a primary and as a backup, and its idle ticks; not the client's. Calls between servers are wake-ups of threads, without a network.".to_owned(),
        "Puts/s that this would be: a second by the processor time of the busiest server for each put of the cluster. It bounds the rate where each server has a core; networks and memory may bound it before.".to_owned(),
        "There are 16 placement groups. The busiest of 3, 6, 9 and 12 servers leads 6, 3, 2 and 2 of them: what it does as a primary does not fall from 9 to 12 servers, what it does as a backup does. The paper has 200.".to_owned(),
    ];
    notes.extend(missing);
    Report {
        title: "Meta servers with targets that do nothing (figure 12)".to_owned(),
        notes,
        summary,
        data,
        plots: vec![("puts", plot)],
    }
}
