//! Figure 14, and the loss of a disk: what moves when a node comes, and when one has gone. Bytes are counted between nodes of one process.
//!
//! ```text
//!   cluster ── objects ── mix, timed ── a node comes ── rest ── mix, timed ── mix beside the moves that NoVG would make
//!                                                         └── bytes of blocks that were carried meanwhile
//!           └─ a node is lost ── its groups are served again ── all copies are made          (loss)
//! ```

mod computed;
mod loss;
mod migration;

use super::cluster::Cluster;
use super::ground::Ground;
use super::load::{Catalogue, Lengths, Limit, Mix, Operation, Phase};
use super::subject::Subject;
use super::{CheetahArgs, Named, share};
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::runtime::on_core;
use crate::tell;
use computed::Move;
use std::sync::Arc;
use std::time::Duration;

/// The paper has eight data machines, and a ninth comes.
const NODES: usize = 8;
const QUICK_NODES: usize = 4;
const OBJECTS: u64 = 3_000;
const DEVICE_BYTES: u64 = 2 << 30;
/// From 4 to 128 KB, uniform: what one request takes.
const LENGTHS: Lengths = |random: &mut Random| (4 << 10) + random.below((124 << 10) + 1) as usize;
const WORKERS: usize = 20;
const FILLERS: usize = 32;
const MIX: Mix = Mix { put: 0.5, delete: 0.0, replace: 0.0 };
/// How long a mix is measured.
const TIME: Duration = Duration::from_secs(2);
const QUICK_TIME: Duration = Duration::from_millis(500);
/// After the load, until what is lazy has ended; and when a node has come: groups that lack members name some after four seconds.
const SETTLE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(6);

/// Rates of a mix, puts and gets a second.
#[derive(Clone, Copy)]
struct Rates {
    puts: f64,
    gets: f64,
    mean_put_ms: f64,
}

/// What was seen when a node came.
struct Came {
    nodes: usize,
    objects: u64,
    bytes: u64,
    /// Of blocks, while nothing was asked of the cluster.
    carried_at_rest: u64,
    /// Of blocks, to the new node, until the end.
    carried_to_it: u64,
    groups_on_it: usize,
    moves: [Move; 2],
    before: Rates,
    after: Rates,
    beside_moves: Rates,
    moves_seconds: f64,
}

pub fn run(args: &CheetahArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    on_core(0, async || {
        let nodes = if args.quick { QUICK_NODES } else { NODES };
        let mut cluster = Cluster::begin(ground, nodes, DEVICE_BYTES).await?;
        tell!("  a node comes")?;
        let came = expand(args, ground, &mut cluster).await?;
        tell!("  a node is lost")?;
        let lost = loss::lose(&mut cluster).await?;
        Ok(vec![("fig14", report(&came)), ("disk-loss", loss::report(&lost))])
    })
}

async fn expand(args: &CheetahArgs, ground: &Ground, cluster: &mut Cluster) -> anyhow::Result<Came> {
    let nodes = cluster.nodes().len();
    let catalogue = Catalogue::new(args.seed);
    let subject = cluster.store() as Arc<dyn Subject>;
    catalogue.run(&subject, &Phase::of(Operation::Put, LENGTHS, FILLERS, OBJECTS / share(args))).await?;
    let time = || Limit::time(if args.quick { QUICK_TIME } else { TIME });
    let before = mixed(&catalogue, &subject, time()).await?;
    let (objects, bytes, all) = (catalogue.count(), catalogue.live_bytes(), catalogue.objects());
    tokio::time::sleep(SETTLE).await;
    let carried_before = total(cluster);
    let comer = cluster.join(ground).await?;
    tokio::time::sleep(REST).await;
    let carried_at_rest = total(cluster) - carried_before;
    let subject = cluster.store() as Arc<dyn Subject>;
    let after = mixed(&catalogue, &subject, time()).await?;
    let moves = computed::moves(&all, nodes)?;
    let migration = migration::Migration::begin(ground, cluster, nodes, moves[0].bytes).await?;
    let beside_moves = mixed(&catalogue, &subject, migration.limit()).await?;
    let moves_seconds = migration.end().await?.as_secs_f64();
    let carried_to_it = cluster.carried().iter().filter(|((_, to), _)| *to == comer).map(|(_, bytes)| bytes).sum();
    let groups_on_it = cluster.part_of(comer).0;
    Ok(Came {
        nodes,
        objects,
        bytes,
        carried_at_rest,
        carried_to_it,
        groups_on_it,
        moves,
        before,
        after,
        beside_moves,
        moves_seconds,
    })
}

fn total(cluster: &Cluster) -> u64 {
    cluster.carried().values().sum()
}

async fn mixed(catalogue: &Arc<Catalogue>, subject: &Arc<dyn Subject>, limit: Limit) -> anyhow::Result<Rates> {
    let measured = catalogue.run(subject, &Phase { workers: WORKERS, mix: MIX, lengths: LENGTHS, limit }).await?;
    let rate = |operation| measured.of(operation).len() as f64 / measured.took.as_secs_f64();
    let (puts, gets) = (rate(Operation::Put), rate(Operation::Get));
    Ok(Rates { puts, gets, mean_put_ms: measured.mean_ms(Operation::Put) })
}

fn report(came: &Came) -> Report {
    let mut summary = Table::new(&["what", "result"]);
    let mut data = Table::new(&["what", "value"]);
    let mut row = |what: &str, text: String, value: f64| {
        summary.row(vec![what.to_owned(), text]);
        data.row(vec![what.replace(',', ""), format!("{value:.3}")]);
    };
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    row("objects, three copies each", format!("{}, {}", came.objects, mb(came.bytes)), came.objects as f64);
    row("nodes before", came.nodes.to_string(), came.nodes as f64);
    row("engine: bytes of blocks moved in six seconds of rest", came.carried_at_rest.to_string(), came.carried_at_rest as f64);
    row("engine: bytes of blocks on the new node at the end", came.carried_to_it.to_string(), came.carried_to_it as f64);
    row("engine: groups with a copy on the new node", came.groups_on_it.to_string(), came.groups_on_it as f64);
    for Move { name, bytes, copies, all_copies } in &came.moves {
        let share = *copies as f64 / *all_copies as f64 * 100.0;
        row(
            &format!("computed, {name}"),
            format!("{}: {copies} copies of {all_copies}, {share:.0}%", mb(*bytes)),
            *bytes as f64,
        );
    }
    let mut rates = |what: &str, rates: Rates| {
        let Rates { puts, gets, mean_put_ms } = rates;
        row(what, format!("{puts:.0} puts/s, {gets:.0} gets/s, a put {mean_put_ms:.2} ms"), puts + gets);
    };
    rates("puts and gets before", came.before);
    rates("puts and gets with the new node", came.after);
    rates("beside the bytes that NoVG would move", came.beside_moves);
    row("those were moved in", format!("{:.1} s", came.moves_seconds), came.moves_seconds);
    let of = |rates: Rates| rates.puts + rates.gets;
    let points = [came.before, came.after, came.beside_moves].into_iter().zip([0.0, 1.0, 2.0]);
    let series = vec![Series { name: "puts and gets".to_owned(), points: points.map(|(rates, x)| (x, of(rates))).collect() }];
    let plot = Plot {
        title: "Before (0), with a new node (1), beside NoVG's moves (2) (figure 14)".to_owned(),
        x_label: "phase".to_owned(),
        y_label: "puts and gets per second".to_owned(),
        series,
    };
    Report { title: "A node comes (figure 14)".to_owned(), notes: notes(), summary, data, plots: vec![("rates", plot)] }
}

fn notes() -> Vec<String> {
    vec![
        "A cluster in this process: threads, files on one file system, calls in place of a network. Bytes are those of requests that write blocks on another node.".to_owned(),
        "The engine: a group keeps its members while all are there, so a new node gets no copies, and leads nothing, until one is lacking. The paper moves METAX of a quarter of the groups to it, and no data. \
         Here METAX and data of a group are on the same nodes: moving a group would move its data, and the engine has no such move."
            .to_owned(),
        "Computed (NoVG): the engine has no variant without volume groups. The same objects are placed on nodes by CRUSH (straw2, crate `topology`), before and after; copies that are elsewhere then are counted. \
         By object each object is placed by itself; by group 16 groups are placed."
            .to_owned(),
        "Beside the moves: as many bytes as the first computed row says are read from the old nodes' devices and written durably to a file, four at a time, while clients go on. That stands in for NoVG's migration; \
         it has no messages, no names and no second copy of the load."
            .to_owned(),
        "Clients: 20 workers, half of the operations are puts of 4 to 128 KB, half are gets.".to_owned(),
    ]
}
