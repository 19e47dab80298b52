//! Records of shards and volumes.

use serde::{Deserialize, Serialize};
use types::{DeviceId, NodeId};

use super::limits::{
    BULK_BLOCKS, FIRST_SHARD, MAX_SHARD_CHUNKS, MAX_SHARD_HOSTS, MAX_SHARDS, MAX_VOLUME_BLOCKS, SHARD_NUMBER_LIMIT,
};
use crate::kind::{Numbers, Record};
use crate::modules::device::DeviceRecord;
use crate::modules::groups::{GroupKey, GroupKind, is_node_list};
use crate::snapshot::{Edit, ImpossibleState, Snapshot, check_number};

/// Numbers of shards that an import skips.
pub const IMPORT_SKIPPED_SHARDS: u32 = 1 << 10;

/// Free blocks of each volume that an import skips: eight bulks.
pub const IMPORT_SKIPPED_BLOCKS: u32 = 8 * BULK_BLOCKS;

/// A shard. Its maintenance unit is a placed group ([`super::unit_key`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// The number that its chunks' ids begin with. Never given to another shard.
    pub id: u32,
    /// Registrations that its unit takes.
    pub capacity: u64,
    /// Of its lookup units. Nodes among them may be gone, until they are replaced.
    pub hosts: Vec<NodeId>,
    /// Takes registrations. Of all shards the newest, or none.
    pub is_open: bool,
}

impl ShardRecord {
    /// For a record that was read: what contradicts itself in it, or the other shards.
    fn contradiction(&self, state: &Snapshot) -> Option<&'static str> {
        let newest = state.shards.keys().next_back();
        let checks = [
            (!self.is_open || newest == Some(&self.id), "registrations beside a newer one"),
            ((1..=MAX_SHARD_CHUNKS).contains(&self.capacity), "a capacity that no unit has"),
            (state.unit(self.id).is_some(), "no unit"),
            (is_node_list(&self.hosts, MAX_SHARD_HOSTS), "hosts that no shard has"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

impl Record for ShardRecord {
    type Key = u32;

    const TAG: u8 = 13;
    const NAME: &'static str = "shard";
    const NUMBERS: Option<Numbers> =
        Some(Numbers { first: FIRST_SHARD as u64, limit: SHARD_NUMBER_LIMIT as u64, skipped: IMPORT_SKIPPED_SHARDS as u64 });

    fn is_at(&self, key: &u32) -> bool {
        self.id == *key
    }

    fn check(&self, key: &u32, state: &Snapshot) -> Result<(), ImpossibleState> {
        check_number("shards", state.shards.len() as u64, MAX_SHARDS as u64 + 1)?;
        check_number(Self::NAME, u64::from(*key), state.shards.next)?;
        self.contradiction(state).map_or(Ok(()), |what| Err(Self::refuse(key, what)))
    }

    fn needs_group(state: &Snapshot, key: GroupKey) -> bool {
        key.kind == GroupKind::CHUNK_UNITS && state.shards.contains_key(&key.number)
    }
}

/// The blocks of a device for chunks.
///
/// ```text
///  block 0                                            cut                  blocks
///   ├─ shard 1 ──────┼─ free ───┼─ shard 2 ─┼─ shard 1 ──┼──── never granted ────┤
///    256 │ 256 │ 256   256 │ 256   256        256
/// ```
///
/// Bulks are cut in the order of their blocks. One that its shard has given back is granted again before another is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    pub device: DeviceId,
    pub blocks: u32,
    /// From block 0 on: neighbouring bulks of one owner together, since devices have many thousands. Cut every [`BULK_BLOCKS`] blocks they
    /// are the bulks that were granted.
    pub granted: Vec<GrantedRun>,
}

/// Whose a bulk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkOwner {
    /// An import skipped it, since it may have been granted after the copy. No shard is granted it.
    Skipped,
    Shard(u32),
    /// Its shard has given it back.
    Free,
}

/// Neighbouring bulks of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedRun {
    pub owner: BulkOwner,
    pub blocks: u32,
}

/// Blocks that were granted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    pub owner: BulkOwner,
    pub first_block: u32,
    pub blocks: u32,
}

impl VolumeRecord {
    pub(crate) fn new(device: DeviceId, blocks: u32) -> VolumeRecord {
        VolumeRecord { device, blocks, granted: Vec::new() }
    }

    /// Blocks that a shard can be granted.
    pub fn free_blocks(&self) -> u32 {
        let given_back = self.granted.iter().filter(|run| run.owner == BulkOwner::Free).map(|run| run.blocks).sum::<u32>();
        self.blocks - self.cut_blocks() + given_back
    }

    /// Blocks that were granted at some time: nobody ever had those from here on.
    pub(crate) fn cut_blocks(&self) -> u32 {
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
                Bulk { owner: run.owner, first_block, blocks }
            })
        })
    }

    /// What a shard was granted.
    pub fn bulks_of(&self, shard: u32) -> impl Iterator<Item = Bulk> {
        self.bulks().filter(move |bulk| bulk.owner == BulkOwner::Shard(shard))
    }

    /// Grants the lowest free bulk; none if no block is free. The last one may be short; if the volume grows after that, another bulk
    /// begins behind it.
    pub(crate) fn grant(&mut self, shard: u32) -> Option<Bulk> {
        let owner = BulkOwner::Shard(shard);
        let given_back = self.bulks().find(|bulk| bulk.owner == BulkOwner::Free);
        if let Some(bulk) = given_back {
            self.change_owners(|other| if other.first_block == bulk.first_block { owner } else { other.owner });
            return Some(Bulk { owner, ..bulk });
        }
        let first_block = self.cut_blocks();
        let blocks = BULK_BLOCKS.min(self.blocks - first_block);
        if blocks == 0 {
            return None;
        }
        self.append(owner, blocks);
        Some(Bulk { owner, first_block, blocks })
    }

    /// Takes back the bulk that begins here, if it is the shard's.
    pub(crate) fn release(&mut self, shard: u32, first_block: u32) {
        let is_it = |bulk: &Bulk| bulk.first_block == first_block && bulk.owner == BulkOwner::Shard(shard);
        self.change_owners(|bulk| if is_it(bulk) { BulkOwner::Free } else { bulk.owner });
    }

    fn change_owners(&mut self, owner: impl Fn(&Bulk) -> BulkOwner) {
        let bulks: Vec<Bulk> = self.bulks().collect();
        self.granted.clear();
        bulks.iter().for_each(|bulk| self.append(owner(bulk), bulk.blocks));
    }

    fn append(&mut self, owner: BulkOwner, blocks: u32) {
        match self.granted.last_mut() {
            // Behind a short bulk a run of its own, or it could not be cut into what was granted.
            Some(last) if last.owner == owner && last.blocks % BULK_BLOCKS == 0 => last.blocks += blocks,
            _ => self.granted.push(GrantedRun { owner, blocks }),
        }
    }

    /// For a record that was read: what contradicts itself in it, or refers to what is not there.
    fn contradiction(&self, state: &Snapshot) -> Option<&'static str> {
        let exists = |run: &GrantedRun| match run.owner {
            BulkOwner::Shard(shard) => state.shards.contains_key(&shard),
            BulkOwner::Skipped | BulkOwner::Free => true,
        };
        let granted: u64 = self.granted.iter().map(|run| u64::from(run.blocks)).sum();
        let checks = [
            ((1..=MAX_VOLUME_BLOCKS).contains(&self.blocks), "blocks that no volume has"),
            (granted <= u64::from(self.blocks), "granted blocks that it does not have"),
            (self.granted.iter().all(|run| run.blocks > 0), "a grant of nothing"),
            (state.devices.contains_key(&self.device), "no device"),
            (self.granted.iter().all(exists), "blocks of a shard that there is not"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

impl Record for VolumeRecord {
    type Key = DeviceId;

    const TAG: u8 = 14;
    const NAME: &'static str = "volume";

    fn is_at(&self, key: &DeviceId) -> bool {
        self.device == *key
    }

    fn check(&self, key: &DeviceId, state: &Snapshot) -> Result<(), ImpossibleState> {
        self.contradiction(state).map_or(Ok(()), |what| Err(Self::refuse(key, what)))
    }

    /// Sets aside what may have been granted after a copy was made.
    fn skip_lost(&mut self) {
        self.change_owners(|bulk| if bulk.owner == BulkOwner::Free { BulkOwner::Skipped } else { bulk.owner });
        let blocks = IMPORT_SKIPPED_BLOCKS.min(self.blocks - self.cut_blocks());
        if blocks > 0 {
            self.append(BulkOwner::Skipped, blocks);
        }
    }

    fn forget_device(edit: &mut Edit<'_>, device: &DeviceRecord) {
        edit.remove::<VolumeRecord>(&device.id);
    }
}
