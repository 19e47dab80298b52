//! Work that the leader of a tree does: gives back what was freed, keeps the quota as the manager says, and removes volumes.
//!
//! A range is given back, then confirmed. What was given back and not confirmed is given back again by the next leader, which has no effect.

mod tried;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use manager::FileVolumeRecord;
use subsystem::Surroundings;
use tried::Tried;
use types::FileVolumeId;

use super::contents::Contents;
use super::trees::{TreeMember, Trees};
use crate::asking::content::ContentPartition;
use crate::data::DataPartition;
use crate::meta::{Command, Found, MetaSession, Query};

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
        let mut tried: BTreeMap<FileVolumeId, Tried> = BTreeMap::new();
        let this = &self;
        loop {
            let state = self.around.manager.snapshot();
            let state = &state;
            let mut sweeps = Vec::new();
            for member in self.trees.all() {
                let Some(volume) = state.file_volume(member.volume()).filter(|_| member.leads()) else { continue };
                let mut own = tried.remove(&volume.id).unwrap_or_default();
                sweeps.push(async move {
                    let worked = this.sweep(&member, volume, &mut own).await;
                    let worked = worked.unwrap_or_else(|reason| {
                        tracing::debug!(volume = volume.name, reason, "the tree of a volume is not swept now");
                        false
                    });
                    (volume.id, own, worked)
                });
            }
            // Those that this node does not lead any more are forgotten: another leader goes on with them.
            tried.clear();
            let mut has_worked = false;
            for (volume, own, worked) in join_all(sweeps).await {
                has_worked |= worked;
                tried.insert(volume, own);
            }
            if !has_worked {
                self.around.env.sleep(REST).await;
            }
        }
    }

    /// Whether there was something to give back.
    async fn sweep(&self, member: &TreeMember, volume: &FileVolumeRecord, tried: &mut Tried) -> Result<bool, String> {
        let usage = member.look(|machine| machine.usage());
        if (usage.quota_bytes, usage.quota_inodes) != (volume.quota.bytes, volume.quota.inodes) {
            let command = Command::SetQuota { bytes: volume.quota.bytes, inodes: volume.quota.inodes };
            member.order(MetaSession::LEADER, command).await?;
        }
        if volume.is_removing {
            return self.remove(member, volume).await.map(|()| true);
        }
        self.give_back(member, &ContentPartition::new(self.contents.way(volume.id)), tried).await
    }

    async fn give_back(&self, member: &TreeMember, partition: &dyn DataPartition, tried: &mut Tried) -> Result<bool, String> {
        let found = member.look(|machine| machine.query(&Query::Freed { after: tried.up_to(), most: BATCH }));
        let Ok(Found::Freed(freed)) = found else { return Ok(false) };
        if freed.is_empty() && tried.is_done() {
            return Ok(false);
        }
        // Only what the leader is sure of: a member that was overtaken may have freed what the others have not.
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        let has_worked = tried.give_back(&self.around.env, partition, freed).await;
        if let Some(up_to) = tried.to_confirm() {
            member.order(MetaSession::LEADER, Command::ConfirmFreed { up_to }).await?;
            tried.confirmed(up_to);
        }
        Ok(has_worked)
    }

    /// The record of the volume goes, and with that its groups. Each node frees what it has of a volume that is no more.
    async fn remove(&self, member: &TreeMember, volume: &FileVolumeRecord) -> Result<(), String> {
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        self.around.manager.forget_file_volume(volume.id).await.map_err(|error| error.to_string())?;
        tracing::info!(volume = volume.name, "a volume is removed");
        Ok(())
    }
}
