//! This node's part in one data partition: a member of the group, copies on its devices, and the primary while it leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::{Group, GroupStatus};
use env::Env;
use groups::{Kind, Member, Placed};
use manager::{DeviceState, FilePartition, FilePartitionId, GroupKind, Snapshot};
use parking_lot::Mutex;
use subsystem::Surroundings;
use types::{DeviceId, FileVolumeId, NodeId};

use super::door::GroupDoor;
use super::reigning::reign_when_leading;
use super::stores::Stores;
use crate::data::copies::keeper::Keeper;
use crate::data::copies::record::Record;
use crate::data::copies::reign::{RecordDoor, Reign};
use crate::data::{DataRoom, PartitionRoom, low_bytes};
use crate::part::leader::silent_members;

/// Records of data partitions.
pub struct ContentKind {
    pub around: Surroundings,
    pub stores: Arc<Stores>,
}

/// Where the manager's record of a data partition stands.
#[derive(Clone, Copy, Debug)]
pub struct PartitionAt {
    /// None: the volume was forgotten.
    volume: Option<FileVolumeId>,
    pub partition: FilePartitionId,
}

impl PartitionAt {
    pub fn find(self, state: &Snapshot) -> Option<&FilePartition> {
        state.file_volume(self.volume?)?.partition(self.partition)
    }
}

/// This node's part in one data partition.
pub struct ContentMember {
    placed: Arc<Placed<Record>>,
    at: PartitionAt,
    around: Surroundings,
    stores: Arc<Stores>,
    /// Copies here that a primary has asked something of.
    keepers: Mutex<BTreeMap<DeviceId, Arc<Keeper>>>,
    /// While this node is the primary, or about to be.
    reign: Mutex<Option<Arc<Reign>>>,
}

impl Kind for ContentKind {
    type Member = ContentMember;

    const KIND: GroupKind = GroupKind::FILE_CONTENTS;

    fn machine(&self, number: u32, state: &Snapshot) -> Option<Record> {
        state.file_partition(FilePartitionId(number)).map(|_| Record::default())
    }

    fn begin(&self, placed: Arc<Placed<Record>>) -> Arc<ContentMember> {
        let (around, stores) = (self.around.clone(), self.stores.clone());
        let (keepers, reign) = (Mutex::default(), Mutex::default());
        let partition = FilePartitionId(placed.key().number);
        let volume = around.manager.snapshot().file_partition(partition).map(|(volume, _)| volume.id);
        let at = PartitionAt { volume, partition };
        let member = Arc::new(ContentMember { placed, at, around, stores, keepers, reign });
        self.around.env.spawn(reign_when_leading(self.around.env.clone(), Arc::downgrade(&member)));
        member
    }
}

impl Member for ContentMember {
    type Machine = Record;

    fn placed(&self) -> &Arc<Placed<Record>> {
        &self.placed
    }

    fn silent(&self) -> BTreeSet<consensus::NodeId> {
        silent_members(&self.around)
    }
}

impl Drop for ContentMember {
    fn drop(&mut self) {
        self.set_reign(None);
    }
}

impl ContentMember {
    pub fn around(&self) -> &Surroundings {
        &self.around
    }

    pub fn at(&self) -> PartitionAt {
        self.at
    }

    pub fn partition(&self) -> FilePartitionId {
        self.at.partition
    }

    /// What the partition has and has room for, where this node is its primary.
    pub fn room(&self, reign: &Reign) -> PartitionRoom {
        let (state, mut room) = (self.around.manager.snapshot(), reign.room());
        let takes_new = |(device, room): &(DeviceId, DataRoom)| {
            let active = state.device(*device).filter(|record| record.state == DeviceState::Active);
            active.is_some_and(|record| room.free_bytes >= low_bytes(record.capacity_bytes))
        };
        room.is_open &= room.devices.iter().all(takes_new);
        room
    }

    pub fn group(&self) -> &Group<Record> {
        self.placed.group()
    }

    pub fn door(&self) -> GroupDoor {
        GroupDoor(self.group().clone())
    }

    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// This node's copy on one of its devices.
    pub fn keeper(&self, device: DeviceId) -> Option<Arc<Keeper>> {
        let store = self.stores.get(device)?;
        let mut keepers = self.keepers.lock();
        let begin = || {
            let group = self.group().clone();
            Arc::new(Keeper::new(&self.around.env, store.clone(), Arc::new(move || group.status().term.0)))
        };
        Some(keepers.entry(device).or_insert_with(begin).clone())
    }

    /// The primary on this node.
    pub fn reign(&self) -> Option<Arc<Reign>> {
        self.reign.lock().clone().filter(|reign| !reign.is_over())
    }

    /// Ends the one before.
    pub fn set_reign(&self, reign: Option<Arc<Reign>>) {
        let before = std::mem::replace(&mut *self.reign.lock(), reign);
        if let Some(before) = before {
            before.end();
        }
    }

    /// Where this node leads: a node whose copy is in sync is asked to take over, if one is there; whether it was.
    pub async fn hand_over(&self) -> bool {
        let status = self.group().status();
        let Some((next, member)) = self.successor(&status).filter(|_| status.is_leader) else { return false };
        tracing::info!(partition = self.partition().0, %next, "another node is to serve a data partition");
        let asked = self.group().transfer_leader(member).await;
        asked.inspect_err(|error| tracing::info!(partition = self.partition().0, %error, "it was not asked")).is_ok()
    }

    /// A voter whose copy is in sync, and its name in consensus.
    fn successor(&self, status: &GroupStatus) -> Option<(NodeId, consensus::NodeId)> {
        let (state, silent) = (self.around.manager.snapshot(), (self.around.silent)());
        let in_sync = self.door().record().in_sync;
        let others = in_sync.into_iter().filter(|node| *node != self.around.me && !silent.contains(node));
        let members = others.filter_map(|node| Some((node, consensus::NodeId::of_identity(&state.node(node)?.identity.0))));
        let voters = members.filter(|(_, member)| status.voters.iter().all(|set| set.contains(member)));
        one_of(&self.around.env, voters.collect())
    }
}

/// One by chance: two nodes that can't serve would pass a volume to each other for ever, if each took the first of the others.
fn one_of<T>(env: &Env, mut all: Vec<T>) -> Option<T> {
    let at = env.random_below(all.len().max(1) as u64) as usize;
    (!all.is_empty()).then(|| all.swap_remove(at))
}

#[cfg(test)]
mod tests;
