//! What moves when one node is added (paper, table 2 and section 5.4).

use super::layout::Layout;
use super::{SmashArgs, Write};
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use chunkstore::placement::{Cluster, LeastLoaded, Load, Made, MapX, Node, Placer, Request};
use topology::{Branch, Group, Leaf, Level, PlacementGroups, Rule, Tree, moved_copies};
use types::{DeviceId, NodeId};

const COPIES: usize = 3;
/// Ceph's usual number.
const GROUP_COPIES_PER_NODE: u32 = 100;
/// Clusters to which a node is added, each time another one.
const ROUNDS: u32 = 20;
const QUICK_ROUNDS: u32 = 3;
/// The paper's.
const OBJECTS_PER_NODE: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];
const PAPER_TERABYTES: [f64; 4] = [9.9, 19.7, 39.5, 78.9];
/// One block.
const OBJECT_BYTES: f64 = (4u64 << 20) as f64;
/// Blocks of a simulated node for the chunk store's part, and how full the old ones are.
const BLOCKS: u32 = 1000;
const USED: u32 = 500;
/// Chunks that MapX places before and after.
const CHUNKS: u64 = 10_000;

/// A cluster, and what no two copies share.
struct Setting {
    name: &'static str,
    layout: Layout,
    apart: Level,
}

fn settings(quick: bool) -> Vec<Setting> {
    let layout = |zones, pods, racks, hosts| Layout { zones, pods, racks, hosts };
    let mut settings = vec![
        Setting { name: "one rack", layout: layout(1, 1, 1, 20), apart: Level::Host },
        Setting { name: "racks", layout: layout(1, 1, 10, 10), apart: Level::Rack },
    ];
    if !quick {
        settings.push(Setting { name: "pods", layout: layout(1, 5, 10, 20), apart: Level::Rack });
        settings.push(Setting { name: "zones", layout: layout(3, 5, 8, 10), apart: Level::Rack });
    }
    settings
}

/// What a node more moves, as shares of all copies.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub share: f64,
    pub least: f64,
}

pub fn run(args: &SmashArgs, write: Write<'_>) -> anyhow::Result<()> {
    let rounds = if args.quick { QUICK_ROUNDS } else { ROUNDS };
    let columns = ["cluster", "nodes", "placer", "copies that move", "of the least", "1M", "2M", "4M", "8M"];
    let mut summary = Table::new(&columns);
    let mut data = Table::new(&["cluster", "nodes", "placer", "objects_per_node", "moved_share", "least_share", "moved_tb"]);
    let mut series = Vec::new();
    for setting in settings(args.quick) {
        let moved = crush(&setting.layout, setting.apart, rounds, args.seed)?;
        let traffic = |share: f64| OBJECTS_PER_NODE.map(|objects| terabytes(share, setting.layout.nodes(), objects));
        let layered = mapx(&setting.layout, setting.apart)?;
        // A location in a lookup unit stays until somebody changes it.
        let shares = [
            ("CRUSH", moved.share),
            ("least possible", moved.least),
            ("MapX, 3 nodes as a layer", layered),
            ("chunk store", 0.0),
        ];
        for (placer, share) in shares {
            let bytes = traffic(share);
            let name = [setting.name.to_owned(), setting.layout.nodes().to_string(), placer.to_owned()];
            let mut row = name.to_vec();
            row.extend([format!("{:.3}%", share * 100.0), format!("{:.2}", share / moved.least)]);
            row.extend(bytes.map(|bytes| format!("{bytes:.1} TB")));
            summary.row(row);
            for (objects, bytes) in OBJECTS_PER_NODE.iter().zip(bytes) {
                let mut row = name.to_vec();
                row.extend([objects.to_string(), format!("{share:.6}"), format!("{:.6}", moved.least), format!("{bytes:.3}")]);
                data.row(row);
            }
        }
        series.push(line(&format!("CRUSH, {}", setting.name), traffic(moved.share)));
    }
    let mut row: Vec<String> = ["paper", "not given", "CRUSH", "", ""].map(str::to_owned).to_vec();
    row.extend(PAPER_TERABYTES.map(|bytes| format!("{bytes} TB")));
    summary.row(row);
    series.push(line("CRUSH, paper", PAPER_TERABYTES));
    series.push(line("chunk store", [0.0; 4]));
    let plot = Plot {
        title: "Migration when a node is added (table 2)".to_owned(),
        x_label: "objects per node, millions".to_owned(),
        y_label: "terabytes".to_owned(),
        series,
    };
    let title = "What moves when a node is added (table 2)".to_owned();
    let notes = notes(args, rounds)?;
    write(("migration", Report { title, notes, summary, data, plots: vec![("traffic", plot)] }))
}

fn line(name: &str, terabytes: [f64; 4]) -> Series {
    let points = OBJECTS_PER_NODE.iter().zip(terabytes).map(|(objects, bytes)| (*objects as f64 / 1e6, bytes)).collect();
    Series { name: name.to_owned(), points }
}

/// Of a share of all copies, of which each node has as many as it has objects.
fn terabytes(share: f64, nodes: u32, objects_per_node: u64) -> f64 {
    share * f64::from(nodes) * objects_per_node as f64 * OBJECT_BYTES / 1e12
}

fn notes(args: &SmashArgs, rounds: u32) -> anyhow::Result<Vec<String>> {
    let refusal = single_node_layer()?;
    let (first, until) = filling(args.seed)?;
    Ok(vec![
        format!(
            "CRUSH: {COPIES} copies, {GROUP_COPIES_PER_NODE} copies of groups on each node, all nodes of one weight; a host with one node is \
             added to a random rack, {rounds} times. A copy has moved if its new node had none of its group."
        ),
        "The least is what a balanced cluster can't avoid: the new node's share of all copies. CRUSH moves that once for each level of the \
         hierarchy whose weights change: racks, pods and zones take from their siblings before the host takes from its own."
            .to_owned(),
        "Objects are one block of 4 MiB; objects per node are copies on a node. The paper gives neither its cluster nor its object size; with \
         4 MiB its 9.9 TB are 2.4 times the least."
            .to_owned(),
        format!(
            "MapX moves nothing of what was made before a layer, but takes single nodes only when enough have come to hold all copies of a \
             chunk: \"{refusal}\"."
        ),
        format!(
            "The chunk store moves nothing, by construction: locations are looked up, and a new node changes none. A new node among ten that \
             are half full gets {:.0}% of the first puts \
             and is as full as the others after {until} puts, {:.0} times the difference at first: of two random nodes it wins at most \
             twice its even share.",
            first * 100.0,
            f64::from(until) / f64::from(USED)
        ),
    ])
}

/// Adds a node in a random rack, again and again.
pub fn crush(layout: &Layout, apart: Level, rounds: u32, seed: u64) -> anyhow::Result<Moved> {
    let leaves: Vec<Leaf> = (0..layout.nodes()).map(|number| leaf(number, layout.branch(number))).collect();
    let mut random = Random::new(seed, u64::from(layout.nodes()));
    let groups = (layout.nodes() * GROUP_COPIES_PER_NODE) / COPIES as u32;
    let (mut moves, mut copies) = (0, 0);
    for round in 0..rounds {
        let groups = PlacementGroups::new(round, groups)?;
        let beside = layout.branch(random.below(u64::from(layout.nodes())) as u32);
        let added = leaf(layout.nodes(), Branch { host: layout.hosts, ..beside });
        let (before, after) = (Tree::new(&leaves)?, Tree::new(&[leaves.as_slice(), &[added]].concat())?);
        let rule = Rule { copies: COPIES, apart };
        for group in groups.all() {
            let devices = |group: Group, tree: &Tree| groups.devices(group, tree, rule, &[]);
            moves += moved_copies(&devices(group, &before)?, &devices(group, &after)?);
            copies += COPIES;
        }
    }
    Ok(Moved { share: moves as f64 / copies as f64, least: 1.0 / f64::from(layout.nodes() + 1) })
}

fn leaf(number: u32, branch: Branch) -> Leaf {
    Leaf { device: DeviceId(number), weight: 1, branch }
}

/// The share of copies that a layer of three nodes moves in MapX, each in a rack of its own.
fn mapx(layout: &Layout, apart: Level) -> anyhow::Result<f64> {
    let cluster = layout.cluster(BLOCKS)?;
    let groups = (layout.nodes() * GROUP_COPIES_PER_NODE) / COPIES as u32;
    let mut mapx = MapX::new(cluster.nodes(), groups, COPIES, apart)?;
    let place = |mapx: &MapX, chunk| {
        let request = Request { copies: COPIES, apart, has: &[], writer: None, chunk, made: Made(0) };
        mapx.place(&cluster, &request, &mut || 0)
    };
    let before = (0..CHUNKS).map(|chunk| place(&mapx, chunk)).collect::<Result<Vec<_>, _>>()?;
    let added = |at: u32| Node {
        branch: Branch { rack: layout.racks + at, ..Branch::default() },
        ..layout.node(layout.nodes() + at, BLOCKS)
    };
    mapx.expand(Made(1), &(0..COPIES as u32).map(added).collect::<Vec<_>>(), groups)?;
    let mut moves = 0;
    for (chunk, before) in (0..).zip(&before) {
        moves += place(&mapx, chunk)?.iter().filter(|node| !before.contains(node)).count();
    }
    Ok(moves as f64 / (before.len() * COPIES) as f64)
}

/// What MapX says to one node alone.
fn single_node_layer() -> anyhow::Result<String> {
    let layout = Layout { zones: 1, pods: 1, racks: 10, hosts: 10 };
    let cluster = layout.cluster(BLOCKS)?;
    let mut mapx = MapX::new(cluster.nodes(), 128, COPIES, Level::Rack)?;
    let added = layout.node(layout.nodes(), BLOCKS);
    match mapx.expand(Made(1), &[added], 128) {
        Ok(_) => anyhow::bail!("a layer of one node was taken"),
        Err(error) => Ok(error.to_string()),
    }
}

/// The share of puts that a new node gets at first, and how many puts it takes until it is as full as the others.
pub fn filling(seed: u64) -> anyhow::Result<(f64, u32)> {
    let used = Load { free_blocks: BLOCKS - USED, ..Load::empty(BLOCKS) };
    let layout = Layout { zones: 1, pods: 1, racks: 1, hosts: 10 };
    let nodes: Vec<Node> = (0..layout.nodes()).map(|number| Node { load: used, ..layout.node(number, BLOCKS) }).collect();
    let new = NodeId(layout.nodes());
    let mut cluster = Cluster::new(nodes)?.with(Node { id: new, ..layout.node(layout.nodes(), BLOCKS) })?;
    let mut random = Random::new(seed, 1);
    let mut random = move || random.next_u64();
    let request = Request { copies: 1, apart: Level::Host, has: &[], writer: None, chunk: 0, made: Made(0) };
    let (mut puts, mut to_new) = (0u32, 0u32);
    let mut first = 0.0;
    while is_emptier(&cluster, new) {
        let chosen = LeastLoaded.place(&cluster, &request, &mut random)?;
        chosen.iter().for_each(|node| assert!(cluster.take_block(*node), "placers choose nodes with room"));
        puts += 1;
        to_new += u32::from(chosen.contains(&new));
        if puts == USED {
            first = f64::from(to_new) / f64::from(puts);
        }
    }
    Ok((first, puts))
}

/// Whether a node has more free blocks than the others have in the mean.
fn is_emptier(cluster: &Cluster, id: NodeId) -> bool {
    let free = |node: &Node| u64::from(node.load.free_blocks);
    let own = cluster.node(id).map_or(0, free);
    let sum: u64 = cluster.nodes().iter().map(free).sum();
    own * cluster.nodes().len() as u64 > sum
}
