//! When the faults are over: every node serves all volumes, and all that is in them is read at every node.

use super::super::world::{Running, World};
use super::HALVES;
use super::history::Number;
use super::run::{LOOK, PATIENCE, await_mounted};
use super::tree::{NameCall, NameOutcome};
use super::user::{FileUser, Place, Volume, place_at};
use filesystem::Files;
use types::FileVolumeId;

/// Copies of a volume's contents, and members of its groups.
const COPIES: usize = 3;
/// Bytes of the record that is appended at the end.
const LAST_RECORD: usize = 100;

/// Reads and writes everything at each node.
pub async fn look_at_all(user: &FileUser) -> Result<(), String> {
    for volume in user.volumes.iter() {
        await_mounted(&user.world, &volume.name).await?;
        for number in user.world.present() {
            look_at(user, number, volume)
                .await
                .map_err(|what| format!("{} at node {number}, though nothing is wrong any more: {what}", volume.name))?;
        }
    }
    await_whole(&user.world, &user.volumes).await
}

async fn look_at(user: &FileUser, number: usize, volume: &Volume) -> Result<(), String> {
    let node = user.world.running().into_iter().find(|node| node.number == number).ok_or("the node does not run")?;
    let place = place_at(node, &volume.name).ok_or("it is not mounted")?;
    // The first call waits until it is served again.
    let until = user.world.env.now() + PATIENCE;
    while user.read_blocks(&place, volume, volume.blocks[0], 0..HALVES).await.is_none() {
        if user.world.env.now() > until || user.histories.violation().is_some() {
            return Err("it is not read".to_owned());
        }
        user.world.env.sleep(LOOK).await;
    }
    for file in &volume.blocks {
        let is_read = user.read_blocks(&place, volume, *file, 0..HALVES).await.is_some();
        let is_written = user.write_blocks(&place, volume, *file, 3..6).await;
        check(is_read && is_written, "blocks", (is_read, is_written))?;
    }
    for log in &volume.logs {
        let is_appended = user.append(&place, volume, *log, LAST_RECORD).await;
        let is_read = user.read_log(&place, volume, *log).await.is_some();
        check(is_appended && is_read, "a log", (is_appended, is_read))?;
    }
    for yard in &volume.yards {
        look_at_names(user, &place, volume, *yard).await?;
    }
    Ok(())
}

async fn look_at_names(user: &FileUser, place: &Place, volume: &Volume, yard: Number) -> Result<(), String> {
    let mut directories: Vec<u64> = user.histories.roots(yard);
    while let Some(directory) = directories.pop() {
        let listed = user.call_names(place, volume, yard, NameCall::List { directory }).await;
        let Some(NameOutcome::Listed(listed)) = listed else {
            return check(false, "a directory", &listed);
        };
        for (name, ino, is_directory) in listed {
            let found = user.call_names(place, volume, yard, NameCall::Lookup { at: (directory, name) }).await;
            check(found == Some(NameOutcome::Found(ino, is_directory)), "a name", &found)?;
            directories.extend(is_directory.then_some(ino));
        }
    }
    Ok(())
}

fn check(is_well: bool, what: &str, found: impl std::fmt::Debug) -> Result<(), String> {
    if is_well { Ok(()) } else { Err(format!("{what} is not as it should be: {found:?}")) }
}

/// The number of a volume.
pub fn id_of(world: &World, volume: &Volume) -> Option<FileVolumeId> {
    world.running().iter().find_map(|node| Some(node.node.manager().snapshot().file_volume_named(&volume.name)?.id))
}

/// The numbers of a volume's data partitions.
pub fn partitions_of(world: &World, volume: FileVolumeId) -> Vec<u32> {
    let of = |node: &Running| {
        let state = node.node.manager().snapshot();
        Some(state.file_volume(volume)?.partitions.iter().map(|partition| partition.id.0).collect())
    };
    world.running().iter().find_map(of).unwrap_or_default()
}

/// A node's part of the file volumes.
pub fn files_of(node: &node::Node) -> &Files {
    node.subsystem().expect("nodes of a topology with files run it")
}

/// All volumes have all their copies, in sync, on nodes that are there.
pub async fn await_whole(world: &World, volumes: &[Volume]) -> Result<(), String> {
    let until = world.env.now() + PATIENCE;
    for volume in volumes {
        while let Some(lack) = lack(world, volume).await {
            if world.env.now() > until {
                return Err(format!("{} has not all copies: {lack}", volume.name));
            }
            world.env.sleep(LOOK).await;
        }
    }
    Ok(())
}

/// What a volume lacks.
async fn lack(world: &World, volume: &Volume) -> Option<String> {
    let Some(id) = id_of(world, volume) else { return Some("no node knows it".to_owned()) };
    let Some(node) = world.running().into_iter().next() else { return Some("no node runs".to_owned()) };
    let asked = node.node.clone();
    let standings = world.ask_node(&node, None, async move { files_of(&asked).standings(id).await }).await;
    let standings: Option<Vec<_>> = standings.ok().flatten().and_then(|told| told.into_iter().collect());
    let Some(standings) = standings.filter(|told| !told.is_empty()) else {
        return Some("its contents do not answer".to_owned());
    };
    let devices: Vec<types::DeviceId> =
        world.hosts.lock().iter().filter(|host| !host.is_gone).flat_map(|host| host.ids.clone()).collect();
    let is_whole = standings.iter().all(|standing| {
        let record = &standing.record;
        record.copies.len() == COPIES
            && record.in_sync.len() == COPIES
            && record.copies.values().all(|device| devices.contains(device))
            && standing.is_serving
    });
    (!is_whole).then(|| format!("{standings:?}"))
}
