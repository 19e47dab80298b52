//! Where a volume gets its next data partition: a function of the manager's state and of what nodes say of their devices. No I/O.
//!
//! A volume has a partition more as long as a device with room has no copy of one that takes new extents. So its partitions use all devices, and what fills up is followed by what has room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use groups::choice::{Founders, Heard, founders};
use groups::limits::MEMBERS;
use manager::{AddFilePartition, FilePartition, FilePartitionId, FileVolumeRecord, MAX_FILE_PARTITIONS, Snapshot};
use types::{DeviceId, NodeId};

use super::copies::{Takers, copies_on, takers};
use crate::data::{DataRoom, PartitionRoom, low_bytes};

/// Partitions of a volume that take new extents: with so many, new devices get none before one fills up.
pub const MAX_OPEN: usize = 8;
/// A new partition is put on devices that have so many times what is low free: it is not to be beyond its thresholds soon.
const ROOMY: u64 = 2;

/// What nodes have said.
#[derive(Debug, Default)]
pub struct Said {
    /// Devices that take writes.
    pub rooms: BTreeMap<DeviceId, DataRoom>,
    /// Partitions that have a primary.
    pub partitions: BTreeMap<FilePartitionId, (BTreeMap<NodeId, DeviceId>, PartitionRoom)>,
}

/// What the choice is made of.
pub struct Scene<'a> {
    state: &'a Snapshot,
    said: &'a Said,
    heard: &'a Heard,
    takers: Takers,
    /// How many copies of all volumes each device has.
    copies: BTreeMap<DeviceId, usize>,
}

/// How much is on a device: the least is taken.
type Load = (usize, usize, Reverse<u64>);

impl<'a> Scene<'a> {
    pub fn new(state: &'a Snapshot, said: &'a Said, heard: &'a Heard) -> Scene<'a> {
        let mut scene = Scene { state, said, heard, takers: takers(state), copies: BTreeMap::new() };
        for partition in state.file_volumes().flat_map(|volume| &volume.partitions) {
            for device in scene.devices_of(partition) {
                *scene.copies.entry(device).or_default() += 1;
            }
        }
        scene
    }

    /// Where the copies of a partition are, or are to be.
    fn devices_of(&self, partition: &FilePartition) -> BTreeSet<DeviceId> {
        let none = BTreeMap::new();
        let present = self.said.partitions.get(&partition.id).map_or(&none, |(copies, _)| copies);
        let members = self.state.group(partition.id.group()).map(|group| &group.members[..]).unwrap_or_default();
        let to_be = copies_on(members, &self.takers, partition.id, &partition.devices, present);
        present.values().copied().chain(to_be.into_values()).collect()
    }

    /// Whether it takes new extents. One that says nothing may do so when it is back.
    fn is_open(&self, partition: &FilePartition) -> bool {
        self.said.partitions.get(&partition.id).is_none_or(|(_, room)| room.is_open)
    }

    fn is_roomy(&self, device: DeviceId) -> bool {
        let known = self.state.device(device).zip(self.said.rooms.get(&device));
        known.is_some_and(|(record, room)| room.free_bytes >= ROOMY * low_bytes(record.capacity_bytes))
    }

    /// How many members a partition of this cluster has.
    fn wanted_members(&self) -> usize {
        if self.takers.len() < MEMBERS { 1 } else { MEMBERS }
    }

    /// The partition that a volume is to get now.
    pub fn next(&self, volume: &FileVolumeRecord) -> Option<AddFilePartition> {
        let place = if volume.partitions.is_empty() { self.first_place() } else { self.further_place(volume) };
        let (members, devices) = place?;
        let expected = volume.partitions.len() as u32;
        Some(AddFilePartition { id: volume.id, expected, members, devices })
    }

    /// A volume has one partition whatever room there is.
    fn first_place(&self) -> Option<(Vec<NodeId>, Vec<DeviceId>)> {
        let best = self.best(&BTreeMap::new(), |_| true);
        // Nodes that have said nothing come last: most are there, or the group waits for them.
        let silent = self.takers.keys().filter(|node| best.iter().all(|(known, _)| known != *node));
        let able: Vec<NodeId> = best.iter().map(|(node, _)| *node).chain(silent.copied()).collect();
        let Founders { members, .. } = founders(&able, self.heard, self.state)?;
        Some(self.on(members, &best))
    }

    fn further_place(&self, volume: &FileVolumeRecord) -> Option<(Vec<NodeId>, Vec<DeviceId>)> {
        let wanted = self.wanted_members();
        let are_grown = volume.partitions.iter().all(|partition| {
            // Of one node, in a cluster that has got more: its copies come first.
            self.state.group(partition.id.group()).is_some_and(|group| group.members.len() >= wanted)
        });
        let open: Vec<&FilePartition> = volume.partitions.iter().filter(|partition| self.is_open(partition)).collect();
        if !are_grown || open.len() >= MAX_OPEN || volume.partitions.len() >= MAX_FILE_PARTITIONS {
            return None;
        }
        let mut own: BTreeMap<DeviceId, usize> = BTreeMap::new();
        for device in open.iter().flat_map(|partition| self.devices_of(partition)) {
            *own.entry(device).or_default() += 1;
        }
        let best = self.best(&own, |device| self.is_roomy(device));
        if best.first().is_none_or(|(_, device)| own.contains_key(device)) {
            return None;
        }
        let able: Vec<NodeId> = best.iter().map(|(node, _)| *node).collect();
        let Founders { members, are_few_there } = founders(&able, self.heard, self.state)?;
        (members.len() == wanted && !are_few_there).then(|| self.on(members, &best))
    }

    /// The least loaded device of each node that has one for it, nodes with the least loaded ones first. `own`: how many copies of the volume devices have.
    fn best(&self, own: &BTreeMap<DeviceId, usize>, is_able: impl Fn(DeviceId) -> bool) -> Vec<(NodeId, DeviceId)> {
        let load = |device: &DeviceId| -> Option<Load> {
            let room = self.said.rooms.get(device).filter(|_| is_able(*device))?;
            let count = |of: &BTreeMap<DeviceId, usize>| of.get(device).copied().unwrap_or_default();
            Some((count(own), count(&self.copies), Reverse(room.free_bytes)))
        };
        let of_node = |(node, devices): (&NodeId, &Vec<DeviceId>)| {
            let loads = devices.iter().filter_map(|device| Some((load(device)?, *device)));
            loads.min().map(|(load, device)| (load, *node, device))
        };
        let mut best: Vec<(Load, NodeId, DeviceId)> = self.takers.iter().filter_map(of_node).collect();
        best.sort_unstable();
        best.into_iter().map(|(_, node, device)| (node, device)).collect()
    }

    fn on(&self, members: Vec<NodeId>, best: &[(NodeId, DeviceId)]) -> (Vec<NodeId>, Vec<DeviceId>) {
        let device = |member: &NodeId| best.iter().find(|(node, _)| node == member).map(|(_, device)| *device);
        let devices = members.iter().filter_map(device).collect();
        (members, devices)
    }
}

#[cfg(test)]
mod tests;
