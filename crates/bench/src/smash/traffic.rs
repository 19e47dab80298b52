//! How far flows go (paper, figure 13): objects near the client that reads them, beside objects where a hash puts them.

use super::layout::Layout;
use super::{SmashArgs, Write};
use crate::random::Random;
use crate::report::{Plot, Report, Series, Table};
use crate::tell;
use chunkstore::placement::{Cluster, Crush, Locality, Made, Placer, Request};
use topology::{Branch, Level, PlacementGroups};
use types::NodeId;

/// Shares of Facebook's flows by distance (Roy et al., SIGCOMM 2015, table 3, all clusters): what the paper's generator imitates.
const FLOWS: [f64; 4] = [0.129, 0.575, 0.119, 0.177];
/// What clusters of its five kinds contribute to the traffic (same table): Hadoop, front end, services, cache, databases.
const ROLES: [f64; 5] = [23.7, 21.5, 18.0, 10.2, 5.2];
/// Shares of three datacenters of which one has half of the clients.
const LOPSIDED: [f64; 3] = [0.5, 0.3, 0.2];
const CLASSES: [&str; 4] = ["intra-rack", "intra-cluster", "intra-DC", "inter-DC"];
/// Flows, and so objects, for each node.
const OBJECTS_PER_NODE: u32 = 1000;
const QUICK_OBJECTS_PER_NODE: u32 = 20;
const GROUPS_PER_NODE: u32 = 32;
const COPIES: usize = 3;

/// Where the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All nodes read as much.
    Even,
    /// In each datacenter a cluster of each kind.
    Roles,
    /// Half of the clients in one datacenter.
    Lopsided,
}

impl Demand {
    fn name(self) -> &'static str {
        match self {
            Demand::Even => "even",
            Demand::Roles => "roles",
            Demand::Lopsided => "lopsided",
        }
    }

    /// A client's node.
    fn draw(self, layout: &Layout, random: &mut Random) -> u32 {
        let pods = match self {
            Demand::Roles => pick(&ROLES, random),
            Demand::Even | Demand::Lopsided => random.below(u64::from(layout.pods)) as u32,
        };
        let zone = match self {
            Demand::Lopsided => pick(&LOPSIDED, random),
            Demand::Even | Demand::Roles => random.below(u64::from(layout.zones)) as u32,
        };
        let in_pod = layout.racks * layout.hosts;
        (zone * layout.pods + pods) * in_pod + random.below(u64::from(in_pod)) as u32
    }
}

fn pick(weights: &[f64], random: &mut Random) -> u32 {
    let mut ticket = random.unit() * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        ticket -= weight;
        ticket < 0.0
    });
    found.unwrap_or(weights.len() - 1) as u32
}

/// The paper's three capacities of a node, as multiples of its even share of the objects. The paper writes n_h (1 − α_r) over the sum of some
/// α: its first value, over all but α_r, is taken as the even share.
pub fn capacities() -> [f64; 3] {
    let [rack, cluster, datacenter, beyond] = FLOWS;
    [cluster + datacenter + beyond, cluster + datacenter, cluster].map(|reached| (1.0 - rack) / reached)
}

/// Shares of the flows by class.
type Shares = [f64; CLASSES.len()];

/// How objects are placed and read.
struct Case {
    demand: Demand,
    copies: usize,
    /// Of a node, in its even share; none for CRUSH, which does not look at it.
    capacity: Option<f64>,
    /// Whether the nearest copy is read, or the first.
    nearest: bool,
}

impl Case {
    fn name(&self) -> String {
        let reads = match (self.copies, self.nearest) {
            (1, _) => "",
            (_, true) => ", 3 copies, nearest read",
            (_, false) => ", 3 copies, first read",
        };
        let placer = self.capacity.map_or("CRUSH".to_owned(), |capacity| format!("near, capacity {capacity:.3}"));
        placer + reads
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let capacities = || [None].into_iter().chain(capacities().map(Some));
    for demand in [Demand::Roles, Demand::Even, Demand::Lopsided] {
        cases.extend(capacities().map(|capacity| Case { demand, copies: 1, capacity, nearest: true }));
    }
    cases.push(Case { demand: Demand::Roles, copies: COPIES, capacity: None, nearest: false });
    // At the even share itself the last objects would find room on no three hosts.
    let roomy = capacities().filter(|capacity| capacity.is_none_or(|capacity| capacity > 1.0));
    cases.extend(roomy.map(|capacity| Case { demand: Demand::Roles, copies: COPIES, capacity, nearest: true }));
    cases
}

pub fn run(args: &SmashArgs, write: Write<'_>) -> anyhow::Result<()> {
    let layout = Layout { zones: 3, pods: 5, racks: if args.quick { 4 } else { 16 }, hosts: if args.quick { 10 } else { 30 } };
    let objects = if args.quick { QUICK_OBJECTS_PER_NODE } else { OBJECTS_PER_NODE };
    let columns: Vec<&str> = ["clients", "objects"].into_iter().chain(CLASSES).collect();
    let mut summary = Table::new(&columns);
    let mut data = Table::new(&["clients", "placer", "copies", "read", "capacity", "class", "share"]);
    let percent = |share: &f64| format!("{:.2}%", share * 100.0);
    summary.row(
        ["", "the generator's flows, before anything is placed"]
            .map(str::to_owned)
            .into_iter()
            .chain(FLOWS.iter().map(percent))
            .collect(),
    );
    let mut curves = vec![Vec::new(); CLASSES.len()];
    for case in cases() {
        let shares = simulate(&layout, objects, &case, args.seed)?;
        let clients = case.demand.name();
        summary.row([clients.to_owned(), case.name()].into_iter().chain(shares.iter().map(percent)).collect());
        for (class, share) in CLASSES.iter().zip(shares) {
            let placer = if case.capacity.is_some() { "near" } else { "crush" };
            let read = if case.nearest { "nearest" } else { "first" };
            let capacity = case.capacity.map_or("any".to_owned(), |capacity| format!("{capacity:.3}"));
            let cells = [clients, placer, &case.copies.to_string(), read, &capacity, class, &format!("{share:.5}")];
            data.row(cells.map(str::to_owned).to_vec());
        }
        if let (Demand::Roles, 1, Some(capacity)) = (case.demand, case.copies, case.capacity) {
            curves.iter_mut().zip(shares).for_each(|(curve, share)| curve.push((capacity, share * 100.0)));
        }
        tell!("  {clients}, {}", case.name())?;
    }
    let plot = Plot {
        title: "Flows by distance and capacity of a node, near placement (figure 13)".to_owned(),
        x_label: "capacity of a node, in its even share of the objects".to_owned(),
        y_label: "% of the flows".to_owned(),
        series: CLASSES.iter().zip(curves).map(|(name, points)| Series { name: (*name).to_owned(), points }).collect(),
    };
    let title = "Flows by distance (figure 13)".to_owned();
    write(("traffic", Report { title, notes: notes(&layout, objects), summary, data, plots: vec![("near", plot)] }))
}

fn notes(layout: &Layout, objects: u32) -> Vec<String> {
    vec![
        format!(
            "{} datacenters x clusters x racks x nodes ({} nodes), {objects} objects a node, each read by one client with one flow. \
             Near placement is the chunk store's `Locality`: the narrowest domain around the client that has room, the less loaded of two nodes in it.",
            layout.text(),
            layout.nodes()
        ),
        format!(
            "The paper does not give its sizes, and its three capacities β exceed all objects as they are written; taken in proportion, the first is a \
             node's even share, the others {:.3} and {:.3} of it, with the generator's shares of flows.",
            capacities()[1],
            capacities()[2]
        ),
        "Clients: even; roles (in each datacenter one cluster of each of Facebook's five kinds, by their shares of its traffic: the busiest reads \
         1.51 times the mean, just under the third capacity; these shares were not checked again against their source); lopsided (half of all clients in one datacenter, 0.3 and 0.2 in the others)."
            .to_owned(),
        "CRUSH knows nothing of clients, so its flows follow the sizes: with three datacenters two thirds of them leave theirs. Of three copies it \
         reads the first, as Ceph does, or the nearest."
            .to_owned(),
        "With three copies near placement keeps two in the client's rack and one outside (on different hosts); room is three times as large. Writes, \
         which go to all copies, are not counted."
            .to_owned(),
    ]
}

fn simulate(layout: &Layout, objects: u32, case: &Case, seed: u64) -> anyhow::Result<Shares> {
    let room = case.capacity.unwrap_or(1.0) * f64::from(objects) * case.copies as f64;
    let mut cluster = layout.cluster(room.floor() as u32)?;
    let crush = Crush::new(cluster.nodes(), PlacementGroups::new(0, layout.nodes() * GROUPS_PER_NODE)?)?;
    let near = Locality { beyond: Level::Rack };
    let (placer, apart): (&dyn Placer, Level) =
        if case.capacity.is_some() { (&near, Level::Host) } else { (&crush, Level::Rack) };
    let mut clients = Random::new(seed, 1);
    let mut draws = Random::new(seed, 2);
    let mut counts = [0u64; CLASSES.len()];
    let total = u64::from(layout.nodes()) * u64::from(objects);
    for object in 0..total {
        let client = layout.branch(case.demand.draw(layout, &mut clients));
        let request = Request { copies: case.copies, apart, has: &[], writer: Some(client), chunk: object, made: Made(0) };
        let nodes = placer.place(&cluster, &request, &mut || draws.next_u64())?;
        let read = if case.nearest { nodes.len() } else { 1 };
        let classes = nodes[..read].iter().map(|node| class(&client, &layout.branch(node.0)));
        counts[classes.min().unwrap_or(CLASSES.len() - 1)] += 1;
        if case.capacity.is_some() {
            take(&mut cluster, &nodes);
        }
    }
    Ok(counts.map(|count| count as f64 / total as f64))
}

fn take(cluster: &mut Cluster, nodes: &[NodeId]) {
    nodes.iter().for_each(|node| assert!(cluster.take_block(*node), "placers choose nodes with room"));
}

/// Index in [`CLASSES`].
fn class(client: &Branch, node: &Branch) -> usize {
    match client.parts_at(node) {
        None | Some(Level::Device | Level::Host) => 0,
        Some(Level::Rack) => 1,
        Some(Level::Pod) => 2,
        Some(Level::Zone) => 3,
    }
}
