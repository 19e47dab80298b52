//! The hierarchy of failure domains: zones of pods of racks of hosts of devices.
//!
//! A domain weighs what the devices under it weigh. Devices of weight 0 are not in the tree: a device is drained by taking its weight, and
//! comes back as it was.

use super::straw2::scatter;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use types::DeviceId;

/// What kind of domain, the narrowest first. A leaf is called a device whatever it stands for; a tree whose leaves are whole nodes works
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Device,
    Host,
    Rack,
    Pod,
    Zone,
}

impl Level {
    /// The widest first, as a walk from the root meets them.
    pub const DOWNWARDS: [Level; 5] = [Level::Zone, Level::Pod, Level::Rack, Level::Host, Level::Device];

    /// The word for one of them.
    pub fn name(self) -> &'static str {
        match self {
            Level::Device => "device",
            Level::Host => "host",
            Level::Rack => "rack",
            Level::Pod => "pod",
            Level::Zone => "zone",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a device stands: its zone, pod (racks that share switches), rack and host. The numbers stay theirs and count within what is around
/// them: rack 1 of two pods are two racks. What has no pods calls them all 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Branch {
    pub zone: u32,
    pub pod: u32,
    pub rack: u32,
    pub host: u32,
}

impl Branch {
    fn numbers(&self) -> [u32; 4] {
        [self.zone, self.pod, self.rack, self.host]
    }

    /// The widest level at which the two differ; none if they are on one host.
    pub fn parts_at(&self, other: &Branch) -> Option<Level> {
        let first = self.numbers().into_iter().zip(other.numbers()).position(|(one, other)| one != other)?;
        Some(Level::DOWNWARDS[first])
    }
}

/// A device, its weight (any unit that all share, such as bytes of capacity) and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub device: DeviceId,
    pub weight: u64,
    pub branch: Branch,
}

/// Why there is no such tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("device {0} stands in the tree twice")]
    Twice(DeviceId),
    #[error("the weights of all devices together are above 2^64")]
    TooHeavy,
}

/// A domain, or a device, as its parent sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// What its straws are drawn by.
    pub id: u64,
    pub weight: u64,
    /// Index of the domain below; of a device its number.
    pub to: u32,
}

/// A domain and what is in it.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// Of its items.
    pub level: Level,
    pub items: Vec<Item>,
}

/// The hierarchy.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The root is the first.
    domains: Vec<Domain>,
    /// Ids from the zone to the device.
    paths: BTreeMap<DeviceId, [u64; Level::DOWNWARDS.len()]>,
    weight: u64,
}

impl Tree {
    pub fn new(leaves: &[Leaf]) -> Result<Tree, TreeError> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = leaves.iter().find(|leaf| !seen.insert(leaf.device)) {
            return Err(TreeError::Twice(twice.device));
        }
        let weight = leaves.iter().try_fold(0u64, |sum, leaf| sum.checked_add(leaf.weight)).ok_or(TreeError::TooHeavy)?;
        let mut leaves: Vec<Leaf> = leaves.iter().filter(|leaf| leaf.weight > 0).copied().collect();
        leaves.sort_by_key(|leaf| (leaf.branch, leaf.device));
        let mut tree = Tree { domains: Vec::new(), paths: BTreeMap::new(), weight };
        tree.paths.extend(leaves.iter().map(|leaf| (leaf.device, path(leaf))));
        tree.grow(&leaves, 0);
        Ok(tree)
    }

    /// Adds the domain of these leaves, which are sorted by their branches and share the first `depth` levels; its index.
    fn grow(&mut self, leaves: &[Leaf], depth: usize) -> u32 {
        let own = self.domains.len();
        self.domains.push(Domain { level: Level::DOWNWARDS[depth], items: Vec::new() });
        let id_of = |tree: &Tree, leaf: &Leaf| tree.paths[&leaf.device][depth];
        let mut rest = leaves;
        while let Some(first) = rest.first() {
            let id = id_of(self, first);
            let count = rest.iter().take_while(|leaf| id_of(self, leaf) == id).count();
            let (inside, others) = rest.split_at(count);
            let is_device = Level::DOWNWARDS[depth] == Level::Device;
            let to = if is_device { first.device.0 } else { self.grow(inside, depth + 1) };
            let weight = inside.iter().map(|leaf| leaf.weight).sum();
            self.domains[own].items.push(Item { id, weight, to });
            rest = others;
        }
        own as u32
    }

    /// Of all devices.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Devices that have weight.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.paths.keys().copied()
    }

    /// Domains of a level that hold weight.
    pub fn count(&self, level: Level) -> usize {
        self.items_at(level).count()
    }

    pub(super) fn root(&self) -> &Domain {
        &self.domains[0]
    }

    pub(super) fn domain(&self, index: u32) -> &Domain {
        &self.domains[index as usize]
    }

    pub(super) fn items_at(&self, level: Level) -> impl Iterator<Item = &Item> {
        self.domains.iter().filter(move |domain| domain.level == level).flat_map(|domain| &domain.items)
    }

    /// The id of the domain of a level that a device stands in; none if the tree lacks the device.
    pub(super) fn domain_of(&self, device: DeviceId, level: Level) -> Option<u64> {
        let depth = Level::DOWNWARDS.iter().position(|other| *other == level)?;
        self.paths.get(&device).map(|path| path[depth])
    }
}

/// The ids of a leaf's domains and its own. A device's own comes from its number alone: its straws do not change with its host.
fn path(leaf: &Leaf) -> [u64; Level::DOWNWARDS.len()] {
    let mut ids = [0; Level::DOWNWARDS.len()];
    let mut around = 0;
    for (id, number) in ids.iter_mut().zip(leaf.branch.numbers()) {
        around = scatter(around ^ scatter(u64::from(number)));
        *id = around;
    }
    ids[Level::DOWNWARDS.len() - 1] = scatter(u64::from(leaf.device.0));
    ids
}
