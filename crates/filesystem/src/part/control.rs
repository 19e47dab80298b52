//! Answers what people ask of file volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join;
use manager::{FileClass, FileQuota, FileVolumeRecord, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use subsystem::Surroundings;
use types::{DeviceId, NodeId};

use super::mounts::Mounts;
use super::volumes::{PartitionStanding, TreeStandings, Volumes, total};
use crate::asking::content::Standing;
use crate::asking::tree::TreeStanding;
use crate::data::PartitionRoom;
use crate::protocol::{
    Ask, CopyInfo, CopyState, PartitionHas, PartitionInfo, PartitionState, Told, TreeInfo, TreeState, VolumeInfo, VolumeUsage,
};

/// The service.
#[derive(Clone)]
pub struct Control {
    pub around: Surroundings,
    pub volumes: Arc<Volumes>,
    pub mounts: Arc<Mounts>,
}

impl Service for Control {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let ask: Ask = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            // On its own: it goes on if the asker is gone.
            let control = self.clone();
            let carried_out = self.around.env.spawn(async move { control.carry_out(ask).await.unwrap_or_else(Told::Refused) });
            let told = carried_out.await.map_err(Refusal::new)?;
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

impl Control {
    async fn carry_out(&self, ask: Ask) -> Result<Told, String> {
        match ask {
            Ask::Create { name, quota, trees, class } => self.create(&name, quota, trees, class).await?,
            Ask::List => {
                self.around.manager.fresh().await.map_err(text)?;
                let state = self.around.manager.snapshot();
                let mut volumes = Vec::new();
                for volume in state.file_volumes() {
                    volumes.push(self.info(&state, volume).await);
                }
                volumes.sort_by(|one, other| one.name.cmp(&other.name));
                return Ok(Told::Volumes(volumes));
            }
            Ask::Info { name } => {
                let record = self.volumes.find(&name).await?;
                let state = self.around.manager.snapshot();
                return Ok(Told::Volumes(vec![self.info(&state, &record).await]));
            }
            Ask::Resize { name, quota } => {
                let record = self.volumes.find(&name).await?;
                self.around.manager.resize_file_volume(record.id, quota).await.map_err(text)?;
                self.volumes.wait_for_trees(record.id, quota).await?;
            }
            Ask::Remove { name } => self.remove(&name).await?,
            Ask::Mount { name, point, options } => self.mounts.mount(&name, point, options).await?,
            Ask::Unmount { point, how } => self.mounts.unmount(&point, how).await?,
            Ask::Mounts => return Ok(Told::Mounts(self.mounts.list().await)),
        }
        Ok(Told::Done)
    }

    async fn create(&self, name: &str, quota: FileQuota, trees: u32, class: FileClass) -> Result<(), String> {
        let nodes: BTreeSet<NodeId> = self.around.manager.snapshot().devices().filter_map(|device| device.node).collect();
        if class == FileClass::Ordered && nodes.len() > 1 {
            return Err(format!(
                "class ordered is for a server of its own, and {} nodes of this cluster have devices, so that each tree has several copies: take class synchronous",
                nodes.len()
            ));
        }
        let made = self.around.manager.create_file_volume(name, quota, trees, class).await.map_err(text)?;
        self.volumes.wait_until_usable(made.id, quota).await
    }

    async fn info(&self, state: &Snapshot, volume: &Arc<FileVolumeRecord>) -> VolumeInfo {
        let (standings, of_trees) = match volume.is_removing {
            true => (Vec::new(), Vec::new()),
            false => join(self.volumes.standings(volume.id), self.volumes.tree_standings(volume.id)).await,
        };
        let usage = total(&of_trees).map(|usage| VolumeUsage { bytes: usage.bytes, inodes: usage.inodes });
        VolumeInfo {
            id: volume.id.0,
            name: volume.name.clone(),
            created_ms: volume.created_ms,
            quota: volume.quota,
            partitions: standings.iter().map(|standing| partition(state, standing)).collect(),
            is_removing: volume.is_removing,
            usage,
            trees: trees(state, &of_trees),
            class: volume.class,
        }
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        let record = self.volumes.find(name).await?;
        if let Some(point) = self.mounts.points_of(record.id).await.first() {
            return Err(format!("{name} is mounted on {}: end that with `trilith umount` first", point.display()));
        }
        self.around.manager.remove_file_volume(record.id).await.map_err(text)?;
        Ok(())
    }
}

fn trees(state: &Snapshot, standings: &TreeStandings) -> Vec<TreeInfo> {
    let leader = |node| state.node(node).map(|node| node.name.clone());
    let state_of =
        |told: &TreeStanding| TreeState { leader: leader(told.leader), inodes: told.usage.inodes, is_ordered: told.is_ordered };
    standings.iter().map(|(id, told)| TreeInfo { id: id.0, state: told.as_ref().map(state_of) }).collect()
}

fn partition(state: &Snapshot, (id, told): &PartitionStanding) -> PartitionInfo {
    let state_of = |(standing, room): &(Standing, PartitionRoom)| PartitionState {
        copies: copies(state, standing),
        has: standing.primary.map(|_| PartitionHas {
            bytes: room.used.bytes,
            extents: room.used.extents,
            is_open: room.is_open,
        }),
    };
    PartitionInfo { id: id.0, state: told.as_ref().map(state_of) }
}

/// Where the copies are, as a person is told.
fn copies(state: &Snapshot, Standing { record, primary, is_serving }: &Standing) -> Vec<CopyInfo> {
    let of = |(node, device): (&NodeId, &DeviceId)| CopyInfo {
        node: state.node(*node).map(|node| node.name.clone()),
        device: device.0,
        state: match (record.in_sync.contains(node), *primary == Some(*node), is_serving) {
            (false, _, _) => CopyState::Out,
            (true, true, true) => CopyState::Primary,
            (true, true, false) => CopyState::TakesOver,
            (true, false, _) => CopyState::InSync,
        },
    };
    record.copies.iter().map(of).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
