//! The space that a unit has: the manager's grants are told to it, and more is asked for in time; a full shard is closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::chunk_command::ChunkCommand;
use format::chunk_place::BlockPlace;
use manager::limits::BULK_BLOCKS;
use manager::{Bulk, DeviceState, Snapshot};
use types::DeviceId;

use super::member::UnitMember;
use super::placing::blocks_with_room;
use crate::limits::{MAX_GRANT_BLOCKS, STOCK_BLOCKS};

/// What the manager grants at a time, the unit takes at a time.
const _: () = assert!(BULK_BLOCKS <= MAX_GRANT_BLOCKS);

impl UnitMember {
    /// What the manager granted, the unit is told; devices with little room get another bulk.
    pub(super) fn keep_space(self: &Arc<Self>, state: &Snapshot) {
        let shard = self.shard.0;
        let (untold, is_sealed, short) = self.group.look(|machine| {
            let unit = machine.unit();
            let is_untold = |device: DeviceId, first: u32| {
                BlockPlace::new(device, first).is_some_and(|place| unit.held_bytes(place).is_none())
            };
            let mut untold = Vec::new();
            let mut short = Vec::new();
            for volume in state.volumes() {
                let device = volume.device;
                let bulks = volume.bulks_of(shard).filter(|bulk| is_untold(device, bulk.first_block));
                let grants = bulks.map(|Bulk { first_block, blocks, .. }| ChunkCommand::Grant { device, first_block, blocks });
                let before = untold.len();
                untold.extend(grants);
                let is_active = state.device(device).is_some_and(|device| device.state == DeviceState::Active);
                // What is granted and untold will do for now.
                let has_more = volume.granted_blocks() < volume.blocks;
                if is_active && has_more && untold.len() == before && blocks_with_room(unit, device) < STOCK_BLOCKS {
                    short.push(device);
                }
            }
            (untold, unit.is_sealed(), short)
        });
        untold.into_iter().for_each(|grant| self.propose_beside(grant));
        let Some(record) = state.shard(shard) else { return };
        if is_sealed && record.is_open {
            self.close_shard();
        } else if record.is_open {
            self.ask_for_bulks(short);
        }
    }

    /// The next one can be opened.
    fn close_shard(self: &Arc<Self>) {
        let member = self.clone();
        self.env.spawn(async move {
            match member.manager.seal_shard(member.shard.0).await {
                Ok(_) => tracing::info!(shard = member.shard.0, "the shard is full: registrations go to the next one"),
                Err(error) => tracing::debug!(shard = member.shard.0, %error, "sealing a shard"),
            }
        });
    }

    fn ask_for_bulks(self: &Arc<Self>, devices: Vec<DeviceId>) {
        // Devices are looked at again with every grant: who is asked for already must not be asked for twice.
        if devices.is_empty() || self.is_asking_for_bulks.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = self.clone();
        self.env.spawn(async move {
            for device in devices {
                if let Err(error) = member.manager.grant_bulk(member.shard.0, device).await {
                    tracing::debug!(shard = member.shard.0, device = device.0, %error, "asking for a bulk");
                }
            }
            // Until what was granted is known here.
            if let Err(error) = member.manager.fresh().await {
                tracing::debug!(shard = member.shard.0, %error, "hearing of bulks");
            }
            member.is_asking_for_bulks.store(false, Ordering::Release);
        });
    }
}
