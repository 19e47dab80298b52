//! Where a leader puts copies: a placer chooses nodes, and on each the device with most room, and there a block that is being filled.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{DeviceState, NodeRecord, Snapshot};
use topology::{Branch, Level};
use types::{DeviceId, NodeId};

use super::filling::Filling;
use crate::maintenance::MaintenanceUnit;
use crate::placement::{Cluster, Load, Made, Node, Placer, PlacerChoice, Random, Request};

/// Nodes and devices that chunks can go to, and what is handed out.
#[derive(Default)]
pub struct Placing {
    choice: PlacerChoice,
    /// Of the choice, over the cluster; none while that is too small for it.
    placer: Option<Box<dyn Placer + Send + Sync>>,
    cluster: Cluster,
    /// With the blocks that are free there; the largest number first.
    devices: BTreeMap<NodeId, Vec<(u32, DeviceId)>>,
    filling: Filling,
    /// Nodes that had no block for so many bytes when somebody looked last: nobody looks through their blocks again for as much.
    too_full: BTreeMap<NodeId, u32>,
}

/// Which places can be taken, if not all.
type IsOpen<'a> = Option<&'a dyn Fn(BlockPlace) -> bool>;

/// What a place is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub bytes: u32,
    /// A hash of the chunk's id, for placers that know nothing else.
    pub chunk: u64,
}

impl Placing {
    pub fn new(choice: PlacerChoice) -> Placing {
        Placing { choice, ..Placing::default() }
    }

    /// Looks at the cluster anew. What is handed out stays so.
    pub fn take_stock(&mut self, state: &Snapshot, unit: &MaintenanceUnit, is_up: impl Fn(NodeId) -> bool) {
        let mut devices: BTreeMap<NodeId, Vec<(u32, DeviceId)>> = BTreeMap::new();
        let mut loads: BTreeMap<NodeId, Load> = BTreeMap::new();
        for volume in state.volumes() {
            let record = state.device(volume.device).filter(|device| device.state == DeviceState::Active);
            let Some(node) = record.and_then(|device| device.node) else { continue };
            let free = volume.blocks - volume.granted_blocks() + blocks_with_room(unit, volume.device);
            let load = loads.entry(node).or_default();
            load.blocks += volume.blocks;
            load.free_blocks += free;
            devices.entry(node).or_default().push((free, volume.device));
        }
        devices.values_mut().for_each(|of_node| of_node.sort_unstable_by(|one, other| other.cmp(one)));
        let branches = Branches::of(state);
        let node = |id: &NodeId, load: &Load| {
            Some(Node { id: *id, branch: branches.branch(state.node(*id)?), load: *load, is_up: is_up(*id) })
        };
        let nodes = loads.iter().filter_map(|(id, load)| node(id, load)).collect();
        self.cluster = Cluster::new(nodes).expect("a node stands in a map once");
        self.placer = self.choice.over(&self.cluster);
        self.devices = devices;
        self.too_full.clear();
    }

    /// Places for a chunk's copies, on different hosts; none if there are not enough with room. They are handed out until [`Placing::settle`].
    pub fn choose(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        copies: usize,
        random: &mut Random<'_>,
    ) -> Option<ChunkPlaces> {
        let places = self.choose_beside(unit, wanted, copies, (&[], None), random)?;
        ChunkPlaces::new(&places)
    }

    /// Blocks that get nothing: their nodes refuse.
    pub fn avoid(&mut self, blocks: BTreeSet<BlockPlace>) {
        self.filling.avoid(blocks);
    }

    /// A place for a copy that is moved, on another host than those that stay and on another device than it was; or in another block of that one.
    pub fn choose_target(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        stays: &[NodeId],
        from: BlockPlace,
        may_stay: bool,
        random: &mut Random<'_>,
    ) -> Option<BlockPlace> {
        let is_open = |place: BlockPlace| place != from && (may_stay || place.device() != from.device());
        self.choose_beside(unit, wanted, 1, (stays, Some(&is_open)), random)?.pop()
    }

    /// A place on one device, for whoever wants that and no other.
    pub fn choose_on(&mut self, unit: &MaintenanceUnit, bytes: u32, device: DeviceId) -> Option<BlockPlace> {
        self.filling.take(unit, device, bytes, &|_| true)
    }

    pub fn settle(&mut self, places: impl IntoIterator<Item = BlockPlace>, bytes: u32) {
        places.into_iter().for_each(|place| self.filling.settle(place, bytes));
    }

    fn choose_beside(
        &mut self,
        unit: &MaintenanceUnit,
        Wanted { bytes, chunk }: Wanted,
        copies: usize,
        (has, is_open): (&[NodeId], IsOpen<'_>),
        random: &mut Random<'_>,
    ) -> Option<Vec<BlockPlace>> {
        // A node may be open, and have no block for so much, or none that can be taken: it is left out then, this time.
        let mut left_out: Vec<Node> = Vec::new();
        let mut found = None;
        for _ in 0..=self.devices.len() {
            let request =
                Request { copies, apart: Level::Host, has, writer: None, chunk, made: Made(u64::from(unit.shard().0)) };
            let placed = self.placer.as_ref().and_then(|placer| placer.place(&self.cluster, &request, random).ok());
            let Some(nodes) = placed else { break };
            let mut places = Vec::with_capacity(copies);
            for node in nodes {
                match self.take_block(unit, node, is_open, bytes) {
                    Some(place) => places.push(place),
                    None => {
                        left_out.extend(self.cluster.node(node).copied());
                        self.cluster.report(node, Load::default(), false);
                    }
                }
            }
            if places.len() == copies {
                found = Some(places);
                break;
            }
            self.settle(places, bytes);
        }
        left_out.into_iter().rev().for_each(|node| _ = self.cluster.report(node.id, node.load, node.is_up));
        found
    }

    fn take_block(&mut self, unit: &MaintenanceUnit, node: NodeId, is_open: IsOpen<'_>, bytes: u32) -> Option<BlockPlace> {
        if self.too_full.get(&node).is_some_and(|least| bytes >= *least) {
            return None;
        }
        let filling = &mut self.filling;
        let mut devices = self.devices.get(&node)?.iter().map(|(_, device)| *device);
        let place = devices.find_map(|device| filling.take(unit, device, bytes, is_open.unwrap_or(&|_| true)));
        if place.is_none() && is_open.is_none() {
            self.too_full.insert(node, bytes);
        }
        if bytes > BLOCK_DATA_BYTES / 2 {
            self.cluster.take_block(node);
        }
        place
    }
}

/// Blocks of a device in which the unit can put something more.
pub fn blocks_with_room(unit: &MaintenanceUnit, device: DeviceId) -> u32 {
    let with_room = unit.blocks_from(device, 0).filter(|place| unit.room(*place).is_some_and(|room| room > 0));
    u32::try_from(with_room.count()).expect("a device's blocks have numbers of 26 bits")
}

/// Numbers for what people call hosts, racks and zones.
struct Branches {
    names: BTreeSet<String>,
}

impl Branches {
    fn of(state: &Snapshot) -> Branches {
        let names = |node: &NodeRecord| [node.zone.clone(), node.rack.clone(), node.host.clone()];
        Branches { names: state.nodes().flat_map(|node| names(node)).collect() }
    }

    fn branch(&self, node: &NodeRecord) -> Branch {
        let number = |name: &str| self.names.iter().position(|known| known == name).map_or(0, |at| at as u32);
        Branch { zone: number(&node.zone), pod: 0, rack: number(&node.rack), host: number(&node.host) }
    }
}
