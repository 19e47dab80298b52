//! The baseline: CRUSH over the nodes.

use super::{Cluster, Node, PlaceError, Placer, Random, Request};
use topology::{Leaf, PlacementGroups, Rule, Tree, TreeError};
use types::{DeviceId, NodeId};

/// A chunk's hash gives its group, the group its nodes. Load does not matter and nodes that are away are chosen as if they were there: a
/// system that computes locations has no choice.
#[derive(Clone, Debug)]
pub struct Crush {
    tree: Tree,
    groups: PlacementGroups,
}

impl Crush {
    /// Nodes weigh what their disks hold.
    pub fn new(nodes: &[Node], groups: PlacementGroups) -> Result<Crush, TreeError> {
        Ok(Crush { tree: tree_of(nodes)?, groups })
    }
}

/// The leaves of the tree are whole nodes.
pub(super) fn tree_of(nodes: &[Node]) -> Result<Tree, TreeError> {
    let leaf = |node: &Node| Leaf { device: DeviceId(node.id.0), weight: u64::from(node.load.blocks), branch: node.branch };
    let leaves: Vec<Leaf> = nodes.iter().map(leaf).collect();
    Tree::new(&leaves)
}

/// The nodes of a request's group in a tree.
pub(super) fn nodes_in(tree: &Tree, groups: &PlacementGroups, request: &Request<'_>) -> Result<Vec<NodeId>, PlaceError> {
    request.check()?;
    let rule = Rule { copies: request.copies, apart: request.apart };
    let has: Vec<DeviceId> = request.has.iter().map(|node| DeviceId(node.0)).collect();
    let devices = groups.devices(groups.group_of(request.chunk), tree, rule, &has).map_err(PlaceError::Map)?;
    Ok(devices.into_iter().map(|device| NodeId(device.0)).collect())
}

impl Placer for Crush {
    fn place(&self, _: &Cluster, request: &Request<'_>, _: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        nodes_in(&self.tree, &self.groups, request)
    }
}
