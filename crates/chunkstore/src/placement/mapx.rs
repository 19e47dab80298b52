//! The other baseline: MapX (Wang et al., FAST 2020), CRUSH with time as one more dimension.
//!
//! ```text
//!   made ──► layer (an expansion of the cluster)     layer 0: from 0     nodes of the first day
//!   chunk ─► group of that layer                     layer 1: from 40    nodes that came then
//!            └─ moved to a later layer?              …
//!   group, layer ──► CRUSH among the layer's nodes
//! ```
//!
//! An expansion moves nothing: what is there stays in the layer of its time. New chunks go to the newest layer alone, and old layers
//! empty or stay hot as their chunks do. Load is brought over by moving whole groups to a later layer, as many as one wants to pay for.
//! A layer must be able to meet the rule by itself, so that single nodes can't be added: they wait until there are enough of them.

use super::crush::{nodes_in, tree_of};
use super::{Cluster, Made, Node, PlaceError, Placer, Random, Request};
use std::collections::BTreeMap;
use std::fmt;
use topology::{Group, GroupCountError, Level, PlacementGroups, Tree, TreeError};
use types::NodeId;

/// Most expansions of a cluster.
pub const MAX_LAYERS: usize = 4096;

/// Why a cluster can't be expanded by some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpandError {
    /// A layer begins after the one before it.
    NotLater {
        last: Made,
    },
    /// The nodes can't hold the copies of a chunk by themselves.
    TooFewDomains {
        level: Level,
        wanted: usize,
        found: usize,
    },
    /// There are [`MAX_LAYERS`].
    TooManyLayers,
    Groups(GroupCountError),
    Tree(TreeError),
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpandError::NotLater { last } => write!(f, "a layer has to begin after the last one, which began at {}", last.0),
            ExpandError::TooFewDomains { level, wanted, found } => {
                write!(f, "a layer has to hold {wanted} copies on different {level}s by itself, and has {found}")
            }
            ExpandError::TooManyLayers => write!(f, "there are {MAX_LAYERS} layers"),
            ExpandError::Groups(cause) => cause.fmt(f),
            ExpandError::Tree(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for ExpandError {}

/// A group that can't be moved there: no such layer, or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapError {
    pub from: usize,
    pub to: usize,
    pub layers: usize,
}

impl fmt::Display for RemapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, layers } = self;
        write!(f, "groups of layer {from} can't move to layer {to}: only to later ones of {layers}")
    }
}

impl std::error::Error for RemapError {}

#[derive(Clone, Debug)]
struct Layer {
    from: Made,
    tree: Tree,
    groups: PlacementGroups,
}

/// CRUSH by layers.
#[derive(Clone, Debug)]
pub struct MapX {
    copies: usize,
    apart: Level,
    layers: Vec<Layer>,
    /// Groups that moved to a later layer, by the layer they are of.
    moved: BTreeMap<(usize, Group), usize>,
}

impl MapX {
    /// A cluster's first nodes, which also hold whatever is older. Layers have to hold `copies` apart.
    pub fn new(nodes: &[Node], groups: u32, copies: usize, apart: Level) -> Result<MapX, ExpandError> {
        let mut mapx = MapX { copies, apart, layers: Vec::new(), moved: BTreeMap::new() };
        mapx.expand(Made(0), nodes, groups)?;
        Ok(mapx)
    }

    /// Adds a layer for what is made from now on; its number.
    pub fn expand(&mut self, from: Made, nodes: &[Node], groups: u32) -> Result<usize, ExpandError> {
        let number = self.layers.len();
        if number >= MAX_LAYERS {
            return Err(ExpandError::TooManyLayers);
        }
        if let Some(last) = self.layers.last().map(|layer| layer.from).filter(|last| *last >= from) {
            return Err(ExpandError::NotLater { last });
        }
        let tree = tree_of(nodes).map_err(ExpandError::Tree)?;
        let (wanted, found) = (self.copies, tree.count(self.apart));
        if found < wanted {
            return Err(ExpandError::TooFewDomains { level: self.apart, wanted, found });
        }
        let groups = PlacementGroups::new(number as u32, groups).map_err(ExpandError::Groups)?;
        self.layers.push(Layer { from, tree, groups });
        Ok(number)
    }

    /// Moves a group with all that is in it to the nodes of a later layer.
    pub fn remap(&mut self, layer: usize, group: Group, to: usize) -> Result<(), RemapError> {
        let layers = self.layers.len();
        if to < layer || to >= layers {
            return Err(RemapError { from: layer, to, layers });
        }
        self.moved.insert((layer, group), to);
        Ok(())
    }

    fn layer_of(&self, made: Made) -> usize {
        self.layers.partition_point(|layer| layer.from <= made).max(1) - 1
    }
}

impl Placer for MapX {
    fn place(&self, _: &Cluster, request: &Request<'_>, _: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        let own = self.layer_of(request.made);
        let groups = &self.layers[own].groups;
        let layer = self.moved.get(&(own, groups.group_of(request.chunk))).copied().unwrap_or(own);
        nodes_in(&self.layers[layer].tree, groups, request)
    }
}
