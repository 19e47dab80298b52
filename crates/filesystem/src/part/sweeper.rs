//! Work that the leader of a tree does: gives back what was freed, keeps the quota as the manager says, and removes volumes.
//!
//! A range is given back, then confirmed. What was given back and not confirmed is given back again, which has no effect.

use std::sync::Arc;
use std::time::Duration;

use manager::FileVolumeRecord;
use subsystem::Surroundings;

use super::contents::Contents;
use super::trees::{TreeMember, Trees};
use crate::asking::content::ContentPartition;
use crate::data::DataPartition;
use crate::meta::{Command, Found, Freed, FreedPiece, MetaSession, Query};

/// Between two rounds where there was nothing to do.
const REST: Duration = Duration::from_millis(200);
/// Ranges that are given back before they are confirmed together.
const BATCH: u32 = 256;

/// The work, on one node.
pub struct Sweeper {
    pub around: Surroundings,
    pub trees: Arc<Trees>,
    pub contents: Arc<Contents>,
}

impl Sweeper {
    /// For as long as the node lives.
    pub async fn run(self) {
        loop {
            let state = self.around.manager.snapshot();
            let mut has_worked = false;
            for member in self.trees.all() {
                let Some(volume) = state.file_volume(member.volume()).filter(|_| member.leads()) else { continue };
                match self.sweep(&member, volume).await {
                    Ok(worked) => has_worked |= worked,
                    Err(reason) => tracing::debug!(volume = volume.name, reason, "the tree of a volume is not swept now"),
                }
            }
            if !has_worked {
                self.around.env.sleep(REST).await;
            }
        }
    }

    /// Whether there was something to give back.
    async fn sweep(&self, member: &TreeMember, volume: &FileVolumeRecord) -> Result<bool, String> {
        let usage = member.look(|machine| machine.usage());
        if (usage.quota_bytes, usage.quota_inodes) != (volume.quota.bytes, volume.quota.inodes) {
            let command = Command::SetQuota { bytes: volume.quota.bytes, inodes: volume.quota.inodes };
            member.order(MetaSession::LEADER, command).await?;
        }
        if volume.is_removing {
            return self.remove(member, volume).await.map(|()| true);
        }
        self.give_back(member, &ContentPartition::new(self.contents.way(volume.id))).await
    }

    async fn give_back(&self, member: &TreeMember, partition: &dyn DataPartition) -> Result<bool, String> {
        let found = member.look(|machine| machine.query(&Query::Freed { most: BATCH }));
        let Ok(Found::Freed(freed)) = found else { return Ok(false) };
        let Some(last) = freed.last().map(|freed| freed.number) else { return Ok(false) };
        // Only what the leader is sure of: a member that was overtaken may have freed what the others have not.
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        for Freed { what, .. } in freed {
            let given_back = match what {
                FreedPiece::Extent(extent) => partition.remove(extent).await,
                FreedPiece::Range { extent, offset, len } => partition.punch(extent, offset, len).await,
            };
            given_back.or_else(gone).map_err(|error| error.to_string())?;
        }
        member.order(MetaSession::LEADER, Command::ConfirmFreed { up_to: last }).await?;
        Ok(true)
    }

    /// The record of the volume goes, and with that its groups. Each node frees what it has of a volume that is no more.
    async fn remove(&self, member: &TreeMember, volume: &FileVolumeRecord) -> Result<(), String> {
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        self.around.manager.forget_file_volume(volume.id).await.map_err(|error| error.to_string())?;
        tracing::info!(volume = volume.name, "a volume is removed");
        Ok(())
    }
}

/// What is not there needs not be given back.
fn gone(error: crate::data::DataError) -> Result<(), crate::data::DataError> {
    match error {
        crate::data::DataError::NoExtent(_) | crate::data::DataError::Beyond { .. } => Ok(()),
        error => Err(error),
    }
}
