//! Which placer a unit's leader uses: a setting, so that placers can be compared in running clusters.

use super::{Cluster, Crush, LeastLoaded, Made, MapX, Node, PlaceError, Placer, Random, Request};
use manager::modules::chunks::limits::FIRST_SHARD;
use std::fmt;
use std::str::FromStr;
use topology::{Level, PlacementGroups};
use types::NodeId;

/// Groups of the placers that hash: what the paper's testbed of six nodes has (section 5.1).
pub const GROUPS: u32 = 128;
/// Nodes of a layer of MapX, which has to hold all copies of a chunk by itself.
pub const LAYER_NODES: usize = 3;

/// A placer by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacerChoice {
    /// The chunk store's.
    #[default]
    LeastLoaded,
    /// A baseline: the nodes follow from the chunk's nonce.
    Crush,
    /// A baseline: the same among the nodes of a layer. Nodes form layers of [`LAYER_NODES`] by their numbers: the first shard's chunks go to
    /// the first one, the next shard's to the next, until there is no other layer.
    MapX,
}

/// A name that no placer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlacer(pub String);

impl fmt::Display for UnknownPlacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a placer is `least-loaded`, `crush` or `mapx`, not `{}`", self.0)
    }
}

impl std::error::Error for UnknownPlacer {}

impl FromStr for PlacerChoice {
    type Err = UnknownPlacer;

    fn from_str(name: &str) -> Result<PlacerChoice, UnknownPlacer> {
        match name {
            "least-loaded" => Ok(PlacerChoice::LeastLoaded),
            "crush" => Ok(PlacerChoice::Crush),
            "mapx" => Ok(PlacerChoice::MapX),
            other => Err(UnknownPlacer(other.to_owned())),
        }
    }
}

impl PlacerChoice {
    /// The placer over these nodes; none if they are too few for it.
    pub fn over(self, cluster: &Cluster) -> Option<Box<dyn Placer + Send + Sync>> {
        let nodes = cluster.nodes();
        let crush = || Crush::new(nodes, PlacementGroups::new(0, GROUPS).ok()?).ok();
        match self {
            PlacerChoice::LeastLoaded => Some(Box::new(LeastLoaded)),
            PlacerChoice::Crush => Some(Box::new(crush()?)),
            PlacerChoice::MapX => Some(Box::new(Layered { layers: layers(nodes)?, all: crush()? })),
        }
    }
}

/// MapX, and CRUSH over all nodes for copies that are made again: a layer of three has no fourth node for them.
struct Layered {
    layers: MapX,
    all: Crush,
}

impl Placer for Layered {
    fn place(&self, cluster: &Cluster, request: &Request<'_>, random: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        match self.layers.place(cluster, request, random) {
            Err(_) if !request.has.is_empty() => self.all.place(cluster, request, random),
            placed => placed,
        }
    }
}

fn layers(nodes: &[Node]) -> Option<MapX> {
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| node.id);
    let count = nodes.len() / LAYER_NODES;
    // Those that are too few for a layer belong to the last one.
    let end = |layer: usize| if layer + 1 == count { nodes.len() } else { (layer + 1) * LAYER_NODES };
    let of = |layer: usize| &nodes[layer * LAYER_NODES..end(layer)];
    if count == 0 {
        return None;
    }
    let mut mapx = MapX::new(of(0), GROUPS, LAYER_NODES, Level::Host).ok()?;
    for layer in 1..count {
        mapx.expand(Made(u64::from(FIRST_SHARD) + layer as u64), of(layer), GROUPS).ok()?;
    }
    Some(mapx)
}
