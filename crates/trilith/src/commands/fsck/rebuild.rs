//! Making the consensus log of a lone server anew of the copies that the devices hold.
//!
//! The newest copy counts. It is not older than the last checkpoint, because a checkpoint is copied before anything relies on it; what
//! was written after it is found in the logs, by the same walk as after a crash.

use super::images;
use super::kept::Kept;
use super::look::{Looked, manager_copy};
use crate::place::{CONSENSUS_FOLDER, Place};
use anyhow::{Context, bail};
use bench::tell;
use env::Env;
use manager::{DeviceState, Snapshot};
use std::fs;
use std::path::Path;
use types::DeviceId;

/// Makes the consensus log, which must not exist, and `cluster.toml` if that is lost, too.
pub async fn run(env: &Env, data: &Path, place: Option<Place>, disks: &[Looked], without: &[u32]) -> anyhow::Result<Place> {
    let folder = data.join(CONSENSUS_FOLDER);
    if folder.exists() {
        bail!(
            "{0} is there, and a copy may be older than it is. Only if it can't be used: move it away (mv {0} {0}.broken) and try again",
            folder.display()
        );
    }
    let (mut state, from) = newest_copy(env, disks).await?;
    check_presence(&state, disks, without)?;
    let mut place = match place {
        Some(place) => place,
        None => lost_place(env, &state)?,
    };
    let cluster = cluster_of(&state)?;
    if place.cluster != cluster {
        bail!(
            "cluster.toml is of cluster {}, and the devices are of cluster {cluster}. Move cluster.toml away: it is made anew, too",
            place.cluster
        );
    }
    tell!("rebuilding {} from the copy of state {} on device {from}", folder.display(), state.applied().0)?;
    images::recover(env, &mut state, disks).await?;
    // Under another name until it is whole.
    let unfinished = folder.with_extension("rebuilding");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)
            .with_context(|| format!("removing what is left of an earlier rebuilding in {}", unfinished.display()))?;
    }
    let kept = Kept::import(env, &unfinished, &place, &state.export()).await?;
    for id in without {
        kept.manager.set_device_state(DeviceId(*id), DeviceState::Failed).await?;
        kept.manager.remove_device(DeviceId(*id)).await?;
    }
    kept.close().await;
    fs::rename(&unfinished, &folder).with_context(|| format!("renaming {} to {}", unfinished.display(), folder.display()))?;
    fs::File::open(data)?.sync_all()?;
    place.note_member(data)?;
    Ok(place)
}

/// The place of a server whose `cluster.toml` is lost: the same node, under new keys, which no other process had.
fn lost_place(env: &Env, state: &Snapshot) -> anyhow::Result<Place> {
    let nodes: Vec<_> = state.nodes().collect();
    let [node] = nodes[..] else {
        bail!("the devices are those of a cluster of {} nodes: bring back the `cluster.toml` of this one", nodes.len());
    };
    let (cluster, identity) = (cluster_of(state)?, node.identity.to_string());
    Ok(Place { cluster, identity, name: node.name.clone(), host: node.host.clone(), ..Place::lone(env) })
}

fn cluster_of(state: &Snapshot) -> anyhow::Result<String> {
    Ok(state.cluster().context("the copy is of a server that has not started once")?.id.to_string())
}

async fn newest_copy(env: &Env, disks: &[Looked]) -> anyhow::Result<(Snapshot, DeviceId)> {
    let mut newest: Option<(Snapshot, DeviceId)> = None;
    for disk in disks {
        let device = disk.device(env).await?;
        match manager_copy(&device).await {
            Ok(Some(state)) => {
                if newest.as_ref().is_none_or(|(known, _)| known.applied() < state.applied()) {
                    newest = Some((state, device.id()));
                }
            }
            Ok(None) => tell!("device {} holds no copy of the manager's state", device.id())?,
            Err(error) => tell!("device {}: {error:#}", device.id())?,
        }
    }
    newest.context("no device holds a copy of the manager's state that can be used")
}

/// A device that is not here may hold a newer copy, and newer versions that nothing here knows of.
fn check_presence(state: &Snapshot, disks: &[Looked], without: &[u32]) -> anyhow::Result<()> {
    for id in without {
        if state.device(DeviceId(*id)).is_none() {
            bail!("--without {id}: the cluster has no device {id}");
        }
    }
    for record in state.devices() {
        let is_here = disks.iter().any(|disk| disk.superblock.device_uuid == record.uuid);
        let is_given_up = without.contains(&record.id.0);
        if is_here && is_given_up {
            bail!("--without {0}: device {0} is here", record.id);
        }
        if !is_here && !is_given_up {
            bail!(
                "device {0} ({1}) is not among the disks, and may hold a newer copy: name it with --devices. If it is gone for good: \
                 --without {0}; what it alone held is lost then",
                record.id,
                record.path
            );
        }
    }
    Ok(())
}
