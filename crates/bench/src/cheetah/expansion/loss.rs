//! A node is lost with its device: when its groups are served again, when all copies are whole again, and how many nodes take part.

use crate::cheetah::cluster::{Carried, Cluster, ClusterStore};
use crate::cheetah::load::content;
use crate::cheetah::subject::Subject;
use crate::clock;
use crate::report::{Plot, Report, Series, Table};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use types::NodeId;

/// The node that is lost: the first.
const VICTIM: usize = 0;
const PATIENCE: Duration = Duration::from_secs(120);
/// Of the plot, and how often is looked.
const SLICE: Duration = Duration::from_millis(100);
/// Numbers of objects that are put meanwhile.
const FIRST_PROBE: u64 = 1 << 40;
const PROBE_BYTES: usize = 4096;
const RETRY: Duration = Duration::from_millis(20);

/// What was seen.
pub struct Lost {
    nodes: usize,
    groups: usize,
    led: usize,
    /// When the last group took a put again: of those that it led, and of all others.
    led_served: Duration,
    others_served: Duration,
    first_byte: Duration,
    last_byte: Duration,
    whole: Duration,
    bytes: u64,
    from: usize,
    to: usize,
    pairs: usize,
    rates: Vec<(f64, f64)>,
}

pub async fn lose(cluster: &mut Cluster) -> anyhow::Result<Lost> {
    let nodes = cluster.nodes().len();
    let victim_id = cluster.nodes()[VICTIM].id;
    let (groups, led) = cluster.part_of(victim_id);
    let store = cluster.store();
    let probes: Vec<u64> = ClusterStore::one_of_each_group(FIRST_PROBE);
    let of_victim: Vec<bool> = probes.iter().map(|number| store.primary_of(*number) == Some(victim_id)).collect();
    let before = cluster.carried();
    cluster.lose(VICTIM);
    let began = clock::now();
    let mut probing = JoinSet::new();
    for (number, is_led) in probes.into_iter().zip(of_victim) {
        let store = store.clone();
        probing.spawn(async move { anyhow::Ok((is_led, served_after(&store, number, began).await?)) });
    }
    let (mut samples, mut last) = (Vec::new(), before.clone());
    while !cluster.is_whole() {
        ensure!(clock::now() - began < PATIENCE, "not all copies are there after {PATIENCE:?}");
        tokio::time::sleep(SLICE).await;
        let now = cluster.carried();
        samples.push((clock::now() - began, sum(&now) - sum(&last)));
        last = now;
    }
    let whole = clock::now() - began;
    let (mut led_served, mut others_served) = (Duration::ZERO, Duration::ZERO);
    while let Some(ended) = probing.join_next().await {
        let (is_led, after) = ended.context("a probe")??;
        let latest = if is_led { &mut led_served } else { &mut others_served };
        *latest = after.max(*latest);
    }
    let moved: Vec<((NodeId, NodeId), u64)> = last
        .iter()
        .map(|(pair, bytes)| (*pair, bytes - before.get(pair).copied().unwrap_or_default()))
        .filter(|(_, bytes)| *bytes > LEAST_BYTES)
        .collect();
    let distinct =
        |pick: fn(&(NodeId, NodeId)) -> NodeId| moved.iter().map(|(pair, _)| pick(pair)).collect::<BTreeSet<_>>().len();
    // A copy of a probe is no repair.
    let busy = || samples.iter().filter(|(_, bytes)| *bytes > LEAST_BYTES).map(|(at, _)| *at);
    Ok(Lost {
        nodes,
        groups,
        led,
        led_served,
        others_served,
        first_byte: busy().next().unwrap_or_default().saturating_sub(SLICE),
        last_byte: busy().next_back().unwrap_or_default(),
        whole,
        bytes: sum(&last) - sum(&before),
        from: distinct(|pair| pair.0),
        to: distinct(|pair| pair.1),
        pairs: moved.len(),
        rates: samples.iter().map(|(at, bytes)| (at.as_secs_f64(), *bytes as f64 / 1e6 / SLICE.as_secs_f64())).collect(),
    })
}

/// More than the probes of a moment have.
const LEAST_BYTES: u64 = 256 << 10;

fn sum(carried: &Carried) -> u64 {
    carried.values().sum()
}

/// How long it took until a put into a group was answered.
async fn served_after(store: &Arc<ClusterStore>, number: u64, began: Instant) -> anyhow::Result<Duration> {
    loop {
        match store.put(number, content(number, PROBE_BYTES)).await {
            Ok(()) => return Ok(clock::now() - began),
            Err(error) => ensure!(clock::now() - began < PATIENCE, "a group is not served again: {error:#}"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

pub fn report(lost: &Lost) -> Report {
    let mut summary = Table::new(&["what", "result"]);
    let mut data = Table::new(&["second", "mb_per_s"]);
    let copied = lost.last_byte.saturating_sub(lost.first_byte).as_secs_f64();
    let mut row = |what: &str, text: String| summary.row(vec![what.to_owned(), text]);
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    row("nodes, one device each; one is lost", lost.nodes.to_string());
    row("groups with a copy there; led there", format!("{}; {}", lost.groups, lost.led));
    row("groups that it led take puts again after", seconds(lost.led_served));
    row("all other groups after", seconds(lost.others_served));
    row("first and last bytes of new copies after", format!("{}, {}", seconds(lost.first_byte), seconds(lost.last_byte)));
    row("all copies whole again after", seconds(lost.whole));
    row("bytes copied", format!("{:.1} MB", lost.bytes as f64 / 1e6));
    row("bytes copied in a second, from the first to the last", format!("{:.0} MB/s", lost.bytes as f64 / 1e6 / copied));
    row("nodes that send, nodes that get, pairs", format!("{}, {}, {}", lost.from, lost.to, lost.pairs));
    for (second, rate) in &lost.rates {
        data.row(vec![format!("{second:.2}"), format!("{rate:.1}")]);
    }
    let plot = Plot {
        title: "Bytes of blocks between nodes after one is lost".to_owned(),
        x_label: "seconds after the loss".to_owned(),
        y_label: "MB/s".to_owned(),
        series: vec![Series { name: "copied".to_owned(), points: lost.rates.clone() }],
    };
    let notes = vec![
        "The cluster of figure 14, with its new node. The first node's thread ends, its device is not used again, and all other nodes know it at once: figure 15 has how long that takes.".to_owned(),
        "Groups rest for four seconds before they name a node for a new copy. Until then nothing is copied: a node that comes back soon costs no copies. A new member that lacks more than four units of space gets it under one view and is filled under the next: four seconds more.".to_owned(),
        "Each group's primary sends the new copy: nodes that send are primaries, nodes that get are those with the new copies. One group has one sender and one receiver; groups go on beside each other.".to_owned(),
        "All devices are files on one file system, so the rate is that of one disk and of two cores, not of as many disks. The paper copies 407 GB from 36 disks at 24.9 GB/s.".to_owned(),
    ];
    Report { title: "A disk is lost".to_owned(), notes, summary, data, plots: vec![("copied", plot)] }
}
