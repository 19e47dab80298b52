//! Where a leader puts copies: a placer chooses nodes, and on each the device with most room, and there a block that is being filled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use env::MachineUse;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_place::{BlockPlace, ChunkPlaces, MAX_CHUNK_COPIES};
use manager::{DeviceRecord, DeviceState, Snapshot};
use topology::Level;
use types::{DeviceId, NodeId};

use super::filling::Filling;
use super::space::untold_bulks;
use crate::branches::Branches;
use crate::limits::MIN_COPIES;
use crate::maintenance::MaintenanceUnit;
use crate::placement::{Cluster, Load, Made, Node, Placer, PlacerChoice, Random, Request};

/// Nodes and devices that chunks can go to, and what is handed out.
#[derive(Default)]
pub struct Placing {
    choice: PlacerChoice,
    /// Of the choice, over the cluster; none while that is too small for it.
    placer: Option<Box<dyn Placer + Send + Sync>>,
    cluster: Cluster,
    /// Nodes on which a device has space that no shard has, or that was granted to this one and that its unit does not know yet.
    growing: BTreeSet<NodeId>,
    /// Somebody found no place there yet.
    is_lacking: bool,
    /// With the blocks that are free there; the largest number first.
    devices: BTreeMap<NodeId, Vec<(u32, DeviceId)>>,
    /// Devices that take no writes: they get nothing. A node that has no others counts as away.
    stuck: BTreeSet<DeviceId>,
    /// Devices without space for further blocks: what they get goes to blocks that hold something.
    full: BTreeSet<DeviceId>,
    /// Hosts of all devices, also of those that get nothing; and those on which a node is up that is not full.
    hosts: BTreeMap<DeviceId, u32>,
    open_hosts: BTreeSet<u32>,
    filling: Filling,
    /// Nodes that had no block for so many bytes when somebody looked last: nobody looks through their blocks again for as much.
    too_full: BTreeMap<NodeId, u32>,
}

/// What a node has said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// Whether it did lately.
    pub is_up: bool,
    pub machine: MachineUse,
}

/// Why there are no places for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlaces {
    /// There are hosts enough that have room, or get it in a moment.
    Yet,
    AtAll,
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
    pub fn take_stock(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        (stuck, rooms): (BTreeSet<DeviceId>, BTreeMap<DeviceId, u32>),
        heard: impl Fn(NodeId) -> Heard,
    ) {
        let mut devices: BTreeMap<NodeId, Vec<(u32, DeviceId)>> = BTreeMap::new();
        let mut loads: BTreeMap<NodeId, Load> = BTreeMap::new();
        let mut full = BTreeSet::new();
        self.growing.clear();
        for volume in state.volumes() {
            let takes_copies = |device: &&Arc<DeviceRecord>| device.state == DeviceState::Active && !stuck.contains(&device.id);
            let record = state.device(volume.device).filter(takes_copies);
            let Some(node) = record.and_then(|device| device.node) else { continue };
            let room = rooms.get(&volume.device).copied().unwrap_or(u32::MAX);
            let own = unit.free_blocks(volume.device);
            // Blocks that nothing is in take space of the device, which others may have by now.
            let empty = volume.free_blocks().saturating_add(own.empty).min(room);
            let free = empty + (own.with_room - own.empty);
            if room == 0 {
                full.insert(volume.device);
            }
            if room > 0 && (volume.free_blocks() > 0 || untold_bulks(unit, volume).next().is_some()) {
                self.growing.insert(node);
            }
            let load = loads.entry(node).or_default();
            load.blocks += volume.blocks;
            load.free_blocks += free;
            devices.entry(node).or_default().push((free, volume.device));
        }
        devices.values_mut().for_each(|of_node| of_node.sort_unstable_by(|one, other| other.cmp(one)));
        let branches = Branches::of(state);
        let node = |id: &NodeId, load: &Load| {
            let Heard { is_up, machine } = heard(*id);
            Some(Node { id: *id, branch: branches.branch(state.node(*id)?), load: load.on(machine), is_up })
        };
        let nodes: Vec<Node> = loads.iter().filter_map(|(id, load)| node(id, load)).collect();
        let is_open = |node: &&Node| node.is_up && !node.load.is_full();
        self.open_hosts = nodes.iter().filter(is_open).map(|node| node.branch.host).collect();
        let host = |device: &DeviceRecord| Some((device.id, branches.branch(state.node(device.node?)?).host));
        self.hosts = state.devices().filter_map(|device| host(device)).collect();
        self.cluster = Cluster::new(nodes).expect("a node stands in a map once");
        self.placer = self.choice.over(&self.cluster);
        (self.devices, self.stuck, self.full) = (devices, stuck, full);
        self.too_full.clear();
    }

    /// Places for a chunk's copies, on different hosts, and not on nodes to avoid where others will do. They are handed out until [`Placing::settle`].
    pub fn choose(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        copies: usize,
        avoid: &[NodeId],
        random: &mut Random<'_>,
    ) -> Result<ChunkPlaces, NoPlaces> {
        if copies > MAX_CHUNK_COPIES {
            return Err(NoPlaces::AtAll);
        }
        let avoided: Vec<Node> = avoid.iter().filter_map(|node| self.leave_out(*node)).collect();
        let mut places = self.choose_beside(unit, wanted, copies, (&[], None), random);
        let is_any_avoided = !avoided.is_empty();
        self.take_in(avoided);
        if places.is_err() && is_any_avoided {
            places = self.choose_beside(unit, wanted, copies, (&[], None), random);
        }
        ChunkPlaces::new(&places?).ok_or(NoPlaces::AtAll)
    }

    /// The same; or places for fewer copies, on the hosts that are there, if these are too few. Not where they are enough and full: what is put then would
    /// stay so.
    pub fn choose_all_or_fewer(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        copies: usize,
        avoid: &[NodeId],
        random: &mut Random<'_>,
    ) -> Result<ChunkPlaces, NoPlaces> {
        let all = self.choose(unit, wanted, copies, avoid, random);
        let there = self.hosts_up();
        if all.is_ok() || there >= copies || there < self.fewest_copies() || copies > MAX_CHUNK_COPIES {
            return all;
        }
        self.choose(unit, wanted, there, avoid, random)
    }

    /// Fewest copies of a new chunk: two, or one where the cluster has one host.
    fn fewest_copies(&self) -> usize {
        let registered: BTreeSet<u32> = self.hosts.values().copied().collect();
        registered.len().min(MIN_COPIES)
    }

    /// Hosts with a node that is up and has space, whether that is full or not.
    pub fn hosts_up(&self) -> usize {
        let up = self.cluster.nodes().iter().filter(|node| node.is_up);
        up.map(|node| node.branch.host).collect::<BTreeSet<u32>>().len()
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.cluster.node(node).is_some_and(|node| node.is_up)
    }

    /// Hosts that have room, and are there.
    pub fn open_hosts(&self) -> &BTreeSet<u32> {
        &self.open_hosts
    }

    /// Whether a host that has room has none of these copies.
    pub fn can_grow(&self, places: &ChunkPlaces) -> bool {
        let has_copy = |host: &u32| places.iter().any(|place| self.hosts.get(&place.device()) == Some(host));
        self.open_hosts.iter().any(|host| !has_copy(host))
    }

    /// Whether a device is on the host of one of these.
    pub fn is_beside(&self, device: DeviceId, mut places: impl Iterator<Item = BlockPlace>) -> bool {
        let host = self.hosts.get(&device);
        host.is_some() && places.any(|place| self.hosts.get(&place.device()) == host)
    }

    /// From now on nothing is placed on the node, until it is taken in again as it was.
    fn leave_out(&mut self, node: NodeId) -> Option<Node> {
        let former = self.cluster.node(node).copied()?;
        self.cluster.report(node, Load::default(), false);
        Some(former)
    }

    /// What was left out last comes first.
    fn take_in(&mut self, left_out: Vec<Node>) {
        left_out.into_iter().rev().for_each(|node| _ = self.cluster.report(node.id, node.load, node.is_up));
    }

    /// Whether somebody found no place since this was asked last, though there is space to be had.
    pub fn takes_lack(&mut self) -> bool {
        std::mem::take(&mut self.is_lacking)
    }

    /// Blocks that get nothing: their nodes refuse.
    pub fn avoid(&mut self, blocks: BTreeSet<BlockPlace>) {
        self.filling.avoid(blocks);
    }

    /// Blocks that get something only where no others have room.
    pub fn spare(&mut self, blocks: BTreeSet<BlockPlace>) {
        self.filling.spare(blocks);
    }

    /// Blocks of a device that are being filled.
    pub fn open_blocks(&self, device: DeviceId) -> &[u32] {
        self.filling.open_blocks(device)
    }

    /// Whether a copy can go to this block, to which it is promised then.
    pub fn promise(&mut self, unit: &MaintenanceUnit, place: BlockPlace, bytes: u32) -> bool {
        !self.stuck.contains(&place.device()) && self.filling.promise(unit, place, bytes)
    }

    /// The node of this block had no room for a copy.
    pub fn note_refused(&mut self, place: BlockPlace) {
        self.filling.refuse(place);
    }

    pub fn forget_refused(&mut self) {
        self.filling.forget_refused();
    }

    /// A place for a copy that is moved, on another host than those that stay and on another device than it was; or in another block of that one. Or for one
    /// that is added, and was nowhere.
    pub fn choose_target(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        stays: &[NodeId],
        from: Option<BlockPlace>,
        may_stay: bool,
        random: &mut Random<'_>,
    ) -> Option<BlockPlace> {
        let is_other = |place: BlockPlace, from: BlockPlace| place != from && (may_stay || place.device() != from.device());
        let is_open = |place: BlockPlace| from.is_none_or(|from| is_other(place, from));
        let is_open: IsOpen<'_> = if from.is_some() { Some(&is_open) } else { None };
        self.choose_beside(unit, wanted, 1, (stays, is_open), random).ok()?.pop()
    }

    /// A place on one device, for whoever wants that and no other.
    pub fn choose_on(&mut self, unit: &MaintenanceUnit, bytes: u32, device: DeviceId) -> Option<BlockPlace> {
        if self.stuck.contains(&device) {
            return None;
        }
        let full = &self.full;
        self.filling.take(unit, device, bytes, &|place| has_space(unit, full, place))
    }

    /// A place on each of these nodes, for a copy each; none if one of them is away or has no room, or two are of one host.
    pub fn choose_at(&mut self, unit: &MaintenanceUnit, bytes: u32, nodes: &[NodeId]) -> Option<ChunkPlaces> {
        let mut places = Vec::with_capacity(nodes.len());
        let mut hosts = BTreeSet::new();
        for node in nodes {
            let is_good = self.cluster.node(*node).is_some_and(|node| node.is_up && hosts.insert(node.branch.host));
            places.extend(is_good.then(|| self.take_block(unit, *node, None, bytes)).flatten());
        }
        let chosen = ChunkPlaces::new(&places).filter(|places| places.as_slice().len() == nodes.len());
        if chosen.is_none() {
            self.settle(places, bytes);
        }
        chosen
    }

    pub fn settle(&mut self, places: impl IntoIterator<Item = BlockPlace>, bytes: u32) {
        places.into_iter().for_each(|place| self.filling.settle(place, bytes));
    }

    fn choose_beside(
        &mut self,
        unit: &MaintenanceUnit,
        wanted: Wanted,
        copies: usize,
        (has, is_open): (&[NodeId], IsOpen<'_>),
        random: &mut Random<'_>,
    ) -> Result<Vec<BlockPlace>, NoPlaces> {
        let found = self.choose_once(unit, wanted, copies, (has, is_open), random);
        let found = match found {
            Err(_) if self.take_busy() => self.choose_once(unit, wanted, copies, (has, is_open), random),
            found => found,
        };
        self.is_lacking |= matches!(found, Err(NoPlaces::Yet));
        found
    }

    /// Nodes that have much to do are taken where others will not do, until the cluster is looked at anew. Whether there were any.
    fn take_busy(&mut self) -> bool {
        let busy = self.cluster.nodes().iter().filter(|node| node.is_up && node.load.is_busy());
        let busy: Vec<Node> = busy.copied().collect();
        busy.iter().for_each(|node| _ = self.cluster.report(node.id, node.load.relieved(), node.is_up));
        !busy.is_empty()
    }

    fn choose_once(
        &mut self,
        unit: &MaintenanceUnit,
        Wanted { bytes, chunk }: Wanted,
        copies: usize,
        (has, is_open): (&[NodeId], IsOpen<'_>),
        random: &mut Random<'_>,
    ) -> Result<Vec<BlockPlace>, NoPlaces> {
        // A node may be open, and have no block for so much, or none that can be taken: it is left out then, this time.
        let mut left_out: Vec<Node> = Vec::new();
        let mut found = Err(NoPlaces::AtAll);
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
                        if self.growing.contains(&node) {
                            found = Err(NoPlaces::Yet);
                        }
                        left_out.extend(self.leave_out(node));
                    }
                }
            }
            if places.len() == copies {
                found = Ok(places);
                break;
            }
            self.settle(places, bytes);
        }
        self.take_in(left_out);
        found
    }

    fn take_block(&mut self, unit: &MaintenanceUnit, node: NodeId, is_open: IsOpen<'_>, bytes: u32) -> Option<BlockPlace> {
        if self.too_full.get(&node).is_some_and(|least| bytes >= *least) {
            return None;
        }
        let (filling, full) = (&mut self.filling, &self.full);
        let is_wanted = |place: BlockPlace| is_open.is_none_or(|is_open| is_open(place)) && has_space(unit, full, place);
        let mut devices = self.devices.get(&node)?.iter().map(|(_, device)| *device);
        let place = devices.find_map(|device| filling.take(unit, device, bytes, &is_wanted));
        if place.is_none() && is_open.is_none() {
            self.too_full.insert(node, bytes);
        }
        if bytes > BLOCK_DATA_BYTES / 2 {
            self.cluster.take_block(node);
        }
        place
    }
}

/// Whether a block has space, or can get it.
fn has_space(unit: &MaintenanceUnit, full: &BTreeSet<DeviceId>, place: BlockPlace) -> bool {
    !full.contains(&place.device()) || unit.held_bytes(place).is_some_and(|bytes| bytes > 0)
}
