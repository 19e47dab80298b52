//! The chunk store's shards, and which of them owns which blocks of which device (docs/rfd/0012).

use serde::{Deserialize, Serialize};
use types::{DeviceId, NodeId};

use crate::export::IMPORT_SKIPPED_BLOCKS;
use crate::limits::{BULK_BLOCKS, MAX_SHARD_CHUNKS, MAX_SHARD_HOSTS, MAX_SHARD_MEMBERS, MAX_VOLUME_BLOCKS};

/// A shard: who keeps its unit, and who answers for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// The number that its chunks' ids begin with. Never given to another shard.
    pub id: u32,
    /// Registrations that its unit takes.
    pub capacity: u64,
    /// Members that the unit's group begins with, whoever of them begins it: two that began with different ones would be two groups.
    pub founders: Vec<NodeId>,
    /// Members of the unit's group. Nodes among them may be gone, until somebody replaces them.
    pub members: Vec<NodeId>,
    /// Of its lookup units. As with the members.
    pub hosts: Vec<NodeId>,
    /// Takes registrations. Of all shards the newest, or none.
    pub is_open: bool,
}

impl ShardRecord {
    /// For a record that was read: what contradicts itself in it.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let checks = [
            ((1..=MAX_SHARD_CHUNKS).contains(&self.capacity), "a capacity that no unit has"),
            (is_node_list(&self.founders, MAX_SHARD_MEMBERS), "founders that no unit has"),
            (is_node_list(&self.members, MAX_SHARD_MEMBERS), "members that no unit has"),
            (is_node_list(&self.hosts, MAX_SHARD_HOSTS), "hosts that no shard has"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

/// Whether a shard may have these members or hosts: at least one, at most `most`, none twice.
pub(crate) fn is_node_list(nodes: &[NodeId], most: usize) -> bool {
    let is_first = |(at, node): (usize, &NodeId)| !nodes[..at].contains(node);
    (1..=most).contains(&nodes.len()) && nodes.iter().enumerate().all(is_first)
}

/// The blocks of a device for chunks.
///
/// ```text
///  block 0                                          granted                blocks
///   ├─ shard 1 ──────┼─ shard 2 ────────┼─ shard 1 ──┼──────── free ─────────┤
///    256 │ 256 │ 256   256 │ 256 │ 256   256
/// ```
///
/// Bulks are granted in the order of their blocks, and none is given back, so what is granted has no gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    pub device: DeviceId,
    pub blocks: u32,
    /// From block 0 on: neighbouring bulks of one owner together, since devices have many thousands. Cut every [`BULK_BLOCKS`] blocks they
    /// are the bulks that were granted.
    pub granted: Vec<GrantedRun>,
}

/// Neighbouring bulks of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedRun {
    /// None: an import skipped them, since they may have been granted after the copy. No shard is granted them.
    pub shard: Option<u32>,
    pub blocks: u32,
}

/// Blocks that were granted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub shard: Option<u32>,
    pub first_block: u32,
    pub blocks: u32,
}

impl VolumeRecord {
    pub(crate) fn new(device: DeviceId, blocks: u32) -> VolumeRecord {
        VolumeRecord { device, blocks, granted: Vec::new() }
    }

    /// Blocks that were granted: those from here on are free.
    pub fn granted_blocks(&self) -> u32 {
        self.granted.iter().map(|run| run.blocks).sum()
    }

    /// All that was granted, as it was granted, in the order of the blocks.
    pub fn bulks(&self) -> impl Iterator<Item = Bulk> {
        let mut next = 0;
        self.granted.iter().flat_map(move |run| {
            let (first, end) = (next, next + run.blocks);
            next = end;
            (first..end).step_by(BULK_BLOCKS as usize).map(move |first_block| {
                let blocks = BULK_BLOCKS.min(end - first_block);
                Bulk { shard: run.shard, first_block, blocks }
            })
        })
    }

    /// What a shard was granted.
    pub fn bulks_of(&self, shard: u32) -> impl Iterator<Item = Bulk> {
        self.bulks().filter(move |bulk| bulk.shard == Some(shard))
    }

    /// Grants the lowest free bulk; none if no block is free. The last one may be short; if the volume grows after that, another bulk
    /// begins behind it.
    pub(crate) fn grant(&mut self, shard: u32) -> Option<Bulk> {
        let first_block = self.granted_blocks();
        let blocks = BULK_BLOCKS.min(self.blocks - first_block);
        if blocks == 0 {
            return None;
        }
        self.append(Some(shard), blocks);
        Some(Bulk { shard: Some(shard), first_block, blocks })
    }

    /// Sets aside what may have been granted after a copy was made.
    pub(crate) fn skip_lost(&mut self) {
        let blocks = IMPORT_SKIPPED_BLOCKS.min(self.blocks - self.granted_blocks());
        if blocks > 0 {
            self.append(None, blocks);
        }
    }

    fn append(&mut self, shard: Option<u32>, blocks: u32) {
        match self.granted.last_mut() {
            // Behind a short bulk a run of its own, or it could not be cut into what was granted.
            Some(last) if last.shard == shard && last.blocks % BULK_BLOCKS == 0 => last.blocks += blocks,
            _ => self.granted.push(GrantedRun { shard, blocks }),
        }
    }

    /// For a record that was read: what contradicts itself in it.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let granted: u64 = self.granted.iter().map(|run| u64::from(run.blocks)).sum();
        let checks = [
            ((1..=MAX_VOLUME_BLOCKS).contains(&self.blocks), "blocks that no volume has"),
            (granted <= u64::from(self.blocks), "granted blocks that it does not have"),
            (self.granted.iter().all(|run| run.blocks > 0), "a grant of nothing"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}
