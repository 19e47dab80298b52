//! When the faults are over: every image is served at another node, read as a whole, and its copies are compared.

use super::super::host::address;
use super::super::world::{Running, World};
use super::client::ImageUser;
use super::door::place_of;
use super::history::{ImageHistories, Known};
use super::pattern::BLOCK_BYTES;
use super::person::{ask, caller, read_snapshot, record_of, serve};
use super::{BLOCKS, WINDOWS};
use block::OpenImage;
use block::protocol::Ask;
use block::stores::{BlobAt, BlobRow};
use block::wire::{self, Request, ToDevice, Wire};
use bytes::Bytes;
use format::blob_header::BlobState;
use manager::ImageRecord;
use net::ServiceTag;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{BlobId, DeviceId};

/// How long an image may take to be served, read and whole once nothing is wrong any more.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(500);
/// Blocks that are read at once.
const READ_BLOCKS: u32 = 256;
/// How long one question about blobs may take.
const QUESTION_PATIENCE: Duration = Duration::from_secs(10);

/// Serves and reads every image at one node, the next time at another, and compares its copies.
pub async fn look_at_all(user: &mut ImageUser, round: usize) -> Result<(), String> {
    let (world, histories) = (user.world.clone(), user.histories.clone());
    for image in histories.images() {
        let present = world.present();
        let number = present[(image.number.0 + round) % present.len()];
        let (node, open) = open_at(&world, &image, number).await.map_err(|what| format!("{}: {what}", image.name))?;
        read_all(user, &node, &image, &open).await?;
        for window in WINDOWS.iter().filter(|window| u64::from(window.end) * BLOCK_BYTES as u64 <= open.image().size()) {
            if !user.write(&node, &image, &open, window.start..window.start + 2, None).await {
                return Err(format!("{} is not written at node {number}, though nothing is wrong any more", image.name));
            }
        }
        await_whole(&world, &image).await?;
        let name = format!("end-{round}");
        let taken = user.ask(&node, None, open.image().snapshot(&name)).await;
        if !matches!(taken, Some(Ok(()))) {
            return Err(format!("{} takes no snapshot at node {number}: {taken:?}", image.name));
        }
        let copied = await_equal(&world, &image).await.map_err(|what| format!("{}: {what}", image.name))?;
        histories.note(format_args!("{}: {copied} copies compared", image.name));
    }
    for snapshot in histories.snapshots() {
        let present = world.present();
        let number = present[(snapshot.number.0 + round) % present.len()];
        read_snapshot(&world, &histories, number, &snapshot).await.map_err(|what| {
            format!("{} is not read at node {number}, though nothing is wrong any more: {what}", snapshot.name)
        })?;
    }
    Ok(())
}

/// The image, served at this node alone.
async fn open_at(world: &Arc<World>, image: &Known, number: usize) -> Result<(Running, Arc<OpenImage>), String> {
    let until = world.env.now() + PATIENCE;
    let mut reason = String::new();
    while world.env.now() < until {
        for other in world.present().into_iter().filter(|other| *other != number) {
            // It need not be served there.
            drop(ask(world, other, Ask::EndServing { at: place_of(&image.name) }).await);
        }
        if let Err(refusal) = serve(world, number, &image.name).await {
            reason = refusal;
        }
        let node = world.running().into_iter().find(|running| running.number == number);
        if let Some(node) = node
            && let Some(offered) = node.door.as_ref().and_then(|door| door.offered(&image.name))
        {
            let name = image.name.clone();
            match node.env.within(async move { offered.open(&name).await }).await {
                Ok(open) => return Ok((node, open)),
                Err(refusal) => reason = refusal,
            }
        }
        world.env.sleep(LOOK).await;
    }
    Err(format!("node {number} does not serve it, though nothing is wrong any more: {reason}"))
}

async fn read_all(user: &ImageUser, node: &Running, image: &Known, open: &Arc<OpenImage>) -> Result<(), String> {
    let end = ((open.image().size() / BLOCK_BYTES as u64) as u32).min(BLOCKS);
    let mut at = 0;
    while at < end {
        let blocks = at..end.min(at + READ_BLOCKS);
        if !user.read(node, image, open, blocks.clone()).await && user.histories.violation().is_none() {
            return Err(format!("{}: {blocks:?} are not read, though nothing is wrong any more", image.name));
        }
        at = blocks.end;
    }
    Ok(())
}

/// What an image lacks, as its record says.
pub fn lack(world: &World, image: &Known) -> Option<String> {
    let Some(record) = record_of(world, &image.name) else { return Some("no node knows it".to_owned()) };
    let hosts = world.present().len().min(usize::from(image.copies));
    let is_whole = record.devices.iter().all(|used| used.out_since.is_none())
        && usize::from(record.redundancy.hosts) >= hosts
        && record.redundancy.devices == image.copies;
    (!is_whole || record.has_losses).then(|| format!("{record:?}"))
}

pub async fn await_whole(world: &World, image: &Known) -> Result<(), String> {
    let until = world.env.now() + PATIENCE;
    while let Some(lack) = lack(world, image) {
        if world.env.now() > until {
            return Err(format!("{} is not whole again: {lack}", image.name));
        }
        world.env.sleep(LOOK).await;
    }
    Ok(())
}

/// Asks the node of a device about its blobs.
async fn ask_device<T: Wire>(world: &World, device: DeviceId, asked: ToDevice) -> Result<T, String> {
    let host = world.hosts.lock().iter().find(|host| host.ids.contains(&device)).map(|host| host.number);
    let host = host.ok_or_else(|| format!("device {device} is on no host"))?;
    let request = wire::encode_request(&Request::Device(device, asked));
    let until = world.env.now() + QUESTION_PATIENCE;
    let answer = caller(world, host, ServiceTag::BLOBS).call(request, until).await;
    let answer = answer.map_err(|error| format!("{} does not answer: {error}", address(host)))?;
    let answer = wire::decode_answer(&answer).map_err(|error| error.to_string())?;
    answer.map_err(|error| format!("device {device}: {error}"))
}

/// Every node knows the record: blobs of ended layers are told to others by nodes that know that these have ended.
async fn await_known(world: &World, record: &ImageRecord) -> Result<(), String> {
    let until = world.env.now() + QUESTION_PATIENCE;
    let knows =
        |node: &Running| node.node.manager().snapshot().image(record.id).is_some_and(|known| known.layer >= record.layer);
    while let Some(node) = world.running().iter().find(|node| !knows(node)) {
        if world.env.now() > until {
            return Err(format!("node {} does not hear of layer {}", node.number, record.layer));
        }
        world.env.sleep(LOOK).await;
    }
    Ok(())
}

/// As [`compare_copies`], when what is under way has ended: a holder that has just opened the image frees blobs that no snapshot needs.
async fn await_equal(world: &World, image: &Known) -> Result<usize, String> {
    let until = world.env.now() + QUESTION_PATIENCE;
    loop {
        match compare_copies(world, image).await {
            Err(_) if world.env.now() < until => world.env.sleep(LOOK).await,
            outcome => return outcome,
        }
    }
}

/// All layers that have ended: each blob has its copies, and they are equal. Returns how many copies there are.
async fn compare_copies(world: &World, image: &Known) -> Result<usize, String> {
    let record = record_of(world, &image.name).ok_or("no node knows it")?;
    await_known(world, &record).await?;
    let mut copies: BTreeMap<BlobId, Vec<(DeviceId, BlobRow)>> = BTreeMap::new();
    for used in record.devices.iter().filter(|used| used.out_since.is_none()) {
        let asked = ToDevice::Rows { image: record.id, after: None };
        let rows: Vec<BlobRow> = ask_device(world, used.device, asked).await?;
        for row in rows.into_iter().filter(|row| row.at.id.layer < record.layer) {
            copies.entry(row.at.id).or_default().push((used.device, row));
        }
    }
    for (id, copies) in &copies {
        check_count(world, &record, *id, copies)?;
        let first = &copies[0].1;
        if let Some((device, row)) = copies.iter().find(|(_, row)| (row.owned, row.data) != (first.owned, first.data)) {
            return Err(format!("device {device} has {row:?}, device {} has {first:?}", copies[0].0));
        }
        for run in first.data.runs() {
            let mut contents: BTreeSet<Bytes> = BTreeSet::new();
            for (device, row) in copies {
                let at = BlobAt { block: row.at.block, id: *id };
                let asked = ToDevice::Read { admission: None, at, offset: run.start, length: run.end - run.start };
                contents.insert(ask_device(world, *device, asked).await?);
            }
            if contents.len() > 1 {
                return Err(format!("copies of blob {id} differ within {run:?}: {copies:?}"));
            }
        }
    }
    Ok(copies.values().map(Vec::len).sum())
}

fn check_count(world: &World, record: &ImageRecord, id: BlobId, copies: &[(DeviceId, BlobRow)]) -> Result<(), String> {
    let hosts = world.hosts.lock();
    let host_of = |device: &DeviceId| hosts.iter().find(|host| host.ids.contains(device)).map(|host| host.number);
    let on: BTreeSet<Option<usize>> = copies.iter().map(|(device, _)| host_of(device)).collect();
    let is_enough = on.len() >= usize::from(record.redundancy.hosts)
        && copies.len() >= usize::from(record.redundancy.devices)
        && copies.iter().all(|(_, row)| row.state == BlobState::Whole);
    match is_enough {
        true => Ok(()),
        false => Err(format!("blob {id} has the copies {copies:?}, the record says {:?}", record.redundancy)),
    }
}

/// All images have the copies that they shall have: devices may be lost.
pub async fn await_all_whole(world: &World, histories: &ImageHistories) -> Result<(), String> {
    for image in histories.images() {
        await_whole(world, &image).await?;
    }
    Ok(())
}
