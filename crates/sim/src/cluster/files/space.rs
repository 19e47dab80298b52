//! Space: extents go with the files that had them, and with their volumes.
//!
//! What a client appended and never named in a file, before it died or was overtaken, stays until the volume goes (docs/progress.md): no file has it.

use super::super::world::Running;
use super::door::{Mount, point_of};
use super::end::{files_of, id_of, partitions_of};
use super::run::{LOOK, PATIENCE, ask};
use super::user::{FileUser, Volume, place_at};
use filesystem::ids::{ExtentId, Ino};
use filesystem::meta::{Command, Envelope, Found, MetaPartition, Query, Time};
use filesystem::protocol::{Ask, UnmountHow};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::FileVolumeId;

/// Longer than trees wait for sessions that say nothing: a process may have died while it mounted.
const SESSIONS_END: Duration = Duration::from_secs(480);
/// Most entries of the root.
const LISTED: usize = 100;

/// Removes the files of contents, then the volumes.
pub async fn check_space(user: &FileUser) -> Result<(), String> {
    for volume in user.volumes.iter() {
        check_files_go(user, volume).await.map_err(|what| format!("{}: {what}", volume.name))?;
        check_volume_goes(user, volume).await.map_err(|what| format!("{}: {what}", volume.name))?;
    }
    Ok(())
}

/// The extents of a volume's data partitions on all devices.
fn extents_of(user: &FileUser, partitions: &[u32]) -> BTreeSet<ExtentId> {
    let running = user.world.running();
    let all = running.iter().flat_map(|node| files_of(&node.node).extents());
    all.map(|(_, extent)| extent.extent).filter(|extent| partitions.contains(&extent.partition)).collect()
}

/// All extents go that files have had.
async fn check_files_go(user: &FileUser, volume: &Volume) -> Result<(), String> {
    let id = id_of(&user.world, volume).ok_or("no node knows it")?;
    let partitions = partitions_of(&user.world, id);
    let all = extents_of(user, &partitions);
    let unnamed = unnamed(user, id, all.iter().copied().collect()).await?;
    let named: BTreeSet<ExtentId> = all.difference(&unnamed).copied().collect();
    user.histories.note(format_args!("{}: {} extents, {} without a file", volume.name, all.len(), unnamed.len()));
    user.histories.count_many("space: extents that no file has", unnamed.len());
    user.histories.count_many("space: extents that went with their files", named.len());
    remove_files(user, volume).await?;
    for number in user.world.present() {
        let point = point_of(&volume.name);
        ask(&user.world, number, &Ask::Unmount { point, how: UnmountHow::Force }).await?;
    }
    close_sessions(user, volume, id).await?;
    await_gone(user, &partitions, SESSIONS_END, |extent| named.contains(extent)).await
}

/// Trees as the first node reaches them.
fn trees_of(user: &FileUser, volume: FileVolumeId) -> Result<(Running, Vec<Arc<dyn MetaPartition>>), String> {
    let node = user.world.running().into_iter().next().ok_or("no node runs")?;
    let trees = files_of(&node.node).trees(volume);
    Ok((node, trees))
}

/// Which of these extents no file has.
async fn unnamed(user: &FileUser, volume: FileVolumeId, mut extents: Vec<ExtentId>) -> Result<BTreeSet<ExtentId>, String> {
    let (node, trees) = trees_of(user, volume)?;
    for tree in trees {
        let asked = async move { tree.query(Query::Unreferenced { extents }).await };
        extents = match user.world.ask_node(&node, None, asked).await? {
            Some(Ok(Ok(Found::Extents(extents)))) => extents,
            other => return Err(format!("its tree does not say which extents have files: {other:?}")),
        };
    }
    Ok(extents.into_iter().collect())
}

/// Sessions of machines that lost their power would end by their silence.
async fn close_sessions(user: &FileUser, volume: &Volume, id: FileVolumeId) -> Result<(), String> {
    let mounts: Vec<_> = user.world.hosts.lock().iter().filter_map(|host| host.mounts.clone()).collect();
    let (node, trees) = trees_of(user, id)?;
    let sessions: Vec<_> = mounts.iter().flat_map(|mounts| mounts.sessions_of(&volume.name)).collect();
    for (session, tree) in sessions.iter().flat_map(|session| trees.iter().map(move |tree| (*session, tree))) {
        let (now, command) = (Time::default(), Command::CloseSession);
        let envelope = Envelope { session, sequence: u64::MAX, answered_below: 0, now, locks_lost: 0, command };
        let tree = tree.clone();
        match user.world.ask_node(&node, None, async move { tree.command(envelope).await }).await? {
            Some(Ok(_)) => {}
            other => return Err(format!("a session is not ended: {other:?}")),
        }
    }
    Ok(())
}

async fn remove_files(user: &FileUser, volume: &Volume) -> Result<(), String> {
    let node = user.world.running().into_iter().next().ok_or("no node runs")?;
    let place = place_at(node, &volume.name).ok_or("it is not mounted")?;
    let listed = user.ask(&place, volume, |mount| async move { mount.client.readdir(Ino::ROOT, 0, LISTED).await }).await;
    let is_content = |ino: Ino| volume.blocks.iter().chain(&volume.logs).any(|(_, other)| ino.0 == *other);
    let listed = listed.ok_or("the node ended")?.map_err(|error| error.to_string())?;
    for entry in listed.iter().filter(|entry| is_content(entry.ino)) {
        let unlink = |mount: Arc<Mount>| {
            let name = entry.name.clone();
            async move { mount.client.unlink(Ino::ROOT, &name).await }
        };
        let unlinked = user.ask(&place, volume, unlink).await;
        unlinked.ok_or("the node ended")?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Nothing is left of a volume that was removed.
async fn check_volume_goes(user: &FileUser, volume: &Volume) -> Result<(), String> {
    let id = id_of(&user.world, volume).ok_or("no node knows it")?;
    let partitions = partitions_of(&user.world, id);
    ask(&user.world, user.world.present()[0], &Ask::Remove { name: volume.name.clone() }).await?;
    await_gone(user, &partitions, PATIENCE, |_| true).await
}

/// Until these extents of a volume are gone.
async fn await_gone(
    user: &FileUser,
    partitions: &[u32],
    patience: Duration,
    which: impl Fn(&ExtentId) -> bool,
) -> Result<(), String> {
    let until = user.world.env.now() + patience;
    loop {
        let left: Vec<ExtentId> = extents_of(user, partitions).into_iter().filter(|extent| which(extent)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if user.world.env.now() > until {
            return Err(format!("{} extents are still there: {left:?}", left.len()));
        }
        user.world.env.sleep(LOOK).await;
    }
}
