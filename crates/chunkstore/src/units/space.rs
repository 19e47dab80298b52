//! The space that a unit has: the manager's grants are told to it, and more is asked for in time; a full shard is closed, and gives back what
//! it does not need any more.
//!
//! ```text
//!   open:    few empty blocks ─► manager grants a bulk ─► Grant ─► the unit has it
//!   closed:  a bulk is empty ─► Release ─► the unit has it no more ─► manager takes it back ─► Released ─► nobody remembers
//!            a relocation finds no room ─► as an open one
//!            a device is lost ─► Release of what nothing is in ─► Released
//! ```
//!
//! A bulk that was released is not told again until the manager has it. Should it come to be granted to two shards all the same, by a copy of the
//! manager's state from before, nothing is lost: where contents stand in a block its node decides, by its header.

use std::sync::Arc;

use format::chunk_command::ChunkCommand;
use format::chunk_place::BlockPlace;
use manager::modules::chunks::limits::BULK_BLOCKS;
use manager::{Bulk, DeviceState, ManagerError, Snapshot, VolumeRecord};
use types::DeviceId;

use super::member::UnitMember;
use crate::limits::{MAX_GRANT_BLOCKS, STOCK_BLOCKS};
use crate::maintenance::MaintenanceUnit;

/// What the manager grants at a time, the unit takes at a time.
const _: () = assert!(BULK_BLOCKS <= MAX_GRANT_BLOCKS);

/// What is to be done about a unit's space.
#[derive(Debug, Default)]
struct Todo {
    /// Grants of which the unit is to be told, and releases of what it does not need.
    commands: Vec<ChunkCommand>,
    /// Devices on which it wants another bulk.
    short: Vec<DeviceId>,
    /// Bulks that the manager is to take back.
    released: Vec<(DeviceId, u32)>,
}

impl UnitMember {
    /// What the manager granted, the unit is told; devices with little room get another bulk; empty ones of a closed shard go back.
    pub(super) fn keep_space(self: &Arc<Self>, state: &Snapshot) {
        let Some(record) = state.shard(self.shard.0) else { return };
        let now = self.env.now();
        let looked = self.group.look(|machine| {
            let unit = machine.unit();
            let mut leading = self.leading.lock();
            let leading = leading.as_mut()?;
            let is_growing = leading.takes_lack(now) || record.is_open;
            let mut todo = Todo::default();
            for volume in state.volumes() {
                let takes_copies = is_active(state, volume) && !leading.is_stuck(state, volume.device);
                todo.look_at(unit, volume, is_growing && takes_copies);
            }
            if !record.is_open && leading.looks_for_idle(now) {
                let idle = state.volumes().flat_map(|volume| idle_bulks(unit, volume));
                todo.commands.extend(idle);
                let lost = leading.leader.lost().devices();
                todo.commands
                    .extend(unit.devices().filter(|device| lost.contains(device)).flat_map(|device| lost_blocks(unit, device)));
            }
            todo.released.extend(unit.released());
            Some(todo)
        });
        let Some(Todo { commands, short, released }) = looked else { return };
        commands.into_iter().for_each(|command| self.propose_beside(command));
        self.settle_bulks(short, released);
    }

    /// Closes a shard that is full, or takes nothing: the next one can be opened.
    pub(super) fn close_shard(self: &Arc<Self>, reason: &'static str) {
        self.in_turn(&self.settling, async move |member| match member.manager.seal_shard(member.shard.0).await {
            Ok(_) => tracing::info!(shard = member.shard.0, reason, "the shard is closed: registrations go to the next one"),
            Err(error) => tracing::debug!(shard = member.shard.0, %error, "sealing a shard"),
        });
    }

    /// Has the manager take bulks back, and grant others.
    pub(super) fn settle_bulks(self: &Arc<Self>, short: Vec<DeviceId>, released: Vec<(DeviceId, u32)>) {
        // Devices are looked at again with every grant: who is asked for already must not be asked for twice.
        if short.is_empty() && released.is_empty() {
            return;
        }
        self.in_turn(&self.settling, async move |member| {
            let shard = member.shard.0;
            // First, since registrations wait for these.
            for device in short {
                if let Err(error) = member.manager.grant_bulk(shard, device).await {
                    tracing::debug!(shard, device = device.0, %error, "asking for a bulk");
                }
            }
            let mut taken_back = Vec::new();
            for (device, first_block) in released {
                // Of a device that is gone there is nothing to take back. Where the manager's state here is old, the bulk is granted, and released, once more.
                if member.manager.snapshot().volume(device).is_none() {
                    taken_back.push((device, first_block));
                    continue;
                }
                if !member.has_released(device, first_block) {
                    continue;
                }
                match member.manager.release_bulk(shard, device, first_block).await {
                    Ok(()) | Err(ManagerError::Refused(_)) => taken_back.push((device, first_block)),
                    Err(error) => tracing::debug!(shard, device = device.0, %error, "giving a bulk back"),
                }
            }
            // Until it is known here what was granted, and that what was given back is not the shard's any more.
            if let Err(error) = member.manager.fresh().await {
                return tracing::debug!(shard, %error, "hearing of bulks");
            }
            let released = taken_back.into_iter().map(|(device, first_block)| ChunkCommand::Released { device, first_block });
            released.for_each(|command| member.propose_beside(command));
        });
    }

    /// Whether a bulk is still to be given back, as far as this leader knows: another one may have done so while this one waited for its turn, and the shard have got the bulk again.
    fn has_released(&self, device: DeviceId, first_block: u32) -> bool {
        self.group.status().is_leader && self.group.look(|machine| machine.unit().released().contains(&(device, first_block)))
    }
}

impl Todo {
    fn look_at(&mut self, unit: &MaintenanceUnit, volume: &VolumeRecord, is_growing: bool) {
        let device = volume.device;
        let before = self.commands.len();
        let grant = |Bulk { first_block, blocks, .. }| ChunkCommand::Grant { device, first_block, blocks };
        self.commands.extend(untold_bulks(unit, volume).map(grant));
        // What is granted and untold will do for now.
        let is_short = self.commands.len() == before && unit.free_blocks(device).empty < STOCK_BLOCKS;
        if is_growing && is_short && volume.free_blocks() > 0 {
            self.short.push(device);
        }
    }
}

pub(super) fn is_active(state: &Snapshot, volume: &VolumeRecord) -> bool {
    state.device(volume.device).is_some_and(|device| device.state == DeviceState::Active)
}

/// What the manager has granted to the unit's shard on a volume, and the unit does not know yet.
pub fn untold_bulks<'a>(unit: &'a MaintenanceUnit, volume: &'a VolumeRecord) -> impl Iterator<Item = Bulk> + 'a {
    let device = volume.device;
    let is_untold = move |bulk: &Bulk| {
        let is_known = |place: BlockPlace| unit.held_bytes(place).is_some();
        !BlockPlace::new(device, bulk.first_block).is_some_and(is_known)
            && !unit.released().contains(&(device, bulk.first_block))
    };
    volume.bulks_of(unit.shard().0).filter(is_untold)
}

/// Releases of the unit's bulks on a volume in which nothing is.
fn idle_bulks<'a>(unit: &'a MaintenanceUnit, volume: &'a VolumeRecord) -> impl Iterator<Item = ChunkCommand> + 'a {
    let device = volume.device;
    let empty = unit.free_blocks(device).empty;
    let bulks = volume.bulks_of(unit.shard().0).filter(move |bulk| {
        // There are many blocks, and mostly something is in them.
        bulk.blocks <= empty && unit.is_unused(device, bulk.first_block, bulk.blocks)
    });
    bulks.map(move |Bulk { first_block, blocks, .. }| ChunkCommand::Release { device, first_block, blocks })
}

/// Releases of what is not needed on a device that is lost: the manager has no bulks of it any more.
fn lost_blocks(unit: &MaintenanceUnit, device: DeviceId) -> impl Iterator<Item = ChunkCommand> + '_ {
    unit.unused_blocks(device).map(move |(first_block, blocks)| ChunkCommand::Release { device, first_block, blocks })
}
