//! People: they have images served at one node or another, take snapshots, roll back, clone, resize.
//!
//! A request goes to any node, which sends it on to the holder, or to the image itself, as a client beside the holder would send it. A request to
//! a node goes on when its asker is gone. So one that was not answered has its effect at any later time or never.

use super::super::host::{CLUSTER, address};
use super::super::world::{Running, World};
use super::client::ImageUser;
use super::door::place_of;
use super::history::{CallOf, Ended, ImageHistories, Known, KnownSnapshot, What, watched};
use super::pattern::{self, BLOCK_BYTES, Sectors};
use super::{BLOCKS, SIZES, WINDOWS};
use crate::draw::Draw;
use block::protocol::{Ask, Asked, IMAGES, Told};
use manager::ImageRecord;
use net::{Caller, Identity, RemoteCaller, ServiceTag};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::NodeIdentity;

/// Longest pause between two requests.
const THINK: Duration = Duration::from_millis(500);
/// How long a person waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most images of a run, and most snapshots of an image.
const MAX_IMAGES: usize = 4;
const MAX_SNAPSHOTS: usize = 3;

pub struct Person {
    pub user: ImageUser,
    pub draw: Draw,
}

/// The newest record of an image that a node knows.
pub fn record_of(world: &World, name: &str) -> Option<Arc<ImageRecord>> {
    let running = world.running();
    let newest = running.iter().map(|running| running.node.manager().snapshot()).max_by_key(|state| state.applied())?;
    newest.image_named(name).cloned()
}

/// A service of a node, asked from outside the cluster.
pub fn caller(world: &World, number: usize, service: ServiceTag) -> Box<dyn Caller> {
    let identity = Identity { cluster: CLUSTER, node: NodeIdentity([u8::MAX; 16]) };
    let caller = RemoteCaller::new(&world.env, Arc::new(world.network.at("a person")), &address(number), identity);
    Box::new(Arc::new(caller).service(service))
}

/// What a node answers; an error for a refusal, or no answer.
pub async fn ask(world: &World, number: usize, ask: Ask) -> Result<Told, String> {
    let asked = postcard::to_stdvec(&Asked { ask, is_forwarded: false }).map_err(|error| error.to_string())?;
    let answer = caller(world, number, IMAGES).call(asked.into(), world.env.now() + PATIENCE).await;
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    match postcard::from_bytes(&answer).map_err(|error| error.to_string())? {
        Told::Refused(reason) => Err(reason),
        told => Ok(told),
    }
}

/// Has an image served at a node.
pub async fn serve(world: &World, number: usize, image: &str) -> Result<(), String> {
    ask(world, number, Ask::Serve { images: vec![image.to_owned()], at: place_of(image) }).await.map(drop)
}

/// Reads what a snapshot holds where clients write.
pub async fn read_snapshot(
    world: &World,
    histories: &ImageHistories,
    number: usize,
    snapshot: &KnownSnapshot,
) -> Result<(), String> {
    let image = histories.image(snapshot.image).name;
    let id = record_of(world, &image).ok_or("no node knows the image")?.id.0;
    let end = (snapshot.size_bytes / BLOCK_BYTES as u64) as u32;
    for window in WINDOWS {
        let blocks = window.start..window.end.min(end).max(window.start);
        let (offset, length) = (u64::from(blocks.start) * BLOCK_BYTES as u64, (blocks.end - blocks.start) * BLOCK_BYTES as u32);
        let mut bytes = vec![0; length as usize];
        if length > 0 {
            let name = Some(snapshot.name.clone());
            let read = Ask::Read { image: image.clone(), id, snapshot: name, offset, length };
            let Told::Content(parts) = ask(world, number, read).await? else { return Err("no content".to_owned()) };
            for (at, part) in parts {
                bytes[at as usize..at as usize + part.len()].copy_from_slice(&part);
            }
        }
        for block in window.clone() {
            let at = (block - window.start) as usize * BLOCK_BYTES;
            let found = match bytes.get(at..at + BLOCK_BYTES) {
                Some(bytes) => pattern::read(bytes, block),
                None => Ok(Sectors::default()),
            };
            match found {
                Ok(found) => histories.snapshot_says(snapshot.number, block, found),
                Err(what) => histories.violate(format!("{}@{}: {what}", image, snapshot.name)),
            }
        }
    }
    Ok(())
}

impl Person {
    pub async fn run(mut self) {
        while !self.user.is_over.load(Ordering::Relaxed) {
            self.step().await;
            let think = self.draw.duration(THINK);
            self.user.world.env.sleep(think).await;
        }
    }

    async fn step(&mut self) {
        let running = self.user.world.running();
        let images = self.user.histories.images();
        if running.is_empty() || images.is_empty() {
            return;
        }
        let node = running[self.draw.below(running.len() as u64) as usize].number;
        let image = images[self.draw.below(images.len() as u64) as usize].clone();
        let snapshot = self.any_snapshot(&image);
        match (self.draw.below(100), snapshot) {
            (0..=35, _) => self.told("person: an image served", serve(&self.user.world, node, &image.name).await),
            (36..=43, _) => {
                let end = Ask::EndServing { at: place_of(&image.name) };
                self.told("person: serving ended", ask(&self.user.world, node, end).await.map(drop));
            }
            (44..=55, _) => self.snapshot(node, &image).await,
            (56..=65, _) => self.resize(node, &image).await,
            (66..=69, _) if image.is_clone => self.flatten(node, &image).await,
            (70..=71, _) => {
                let unlocked = ask(&self.user.world, node, Ask::Unlock { image: image.name.clone() }).await;
                self.told("person: an image unlocked", unlocked.map(drop));
            }
            (72..=83, Some(snapshot)) => {
                let read = read_snapshot(&self.user.world, &self.user.histories, node, &snapshot).await;
                self.told("person: a snapshot read", read);
            }
            (84..=88, Some(snapshot)) => self.remove_snapshot(node, &image, &snapshot).await,
            (89..=94, Some(snapshot)) => self.roll_back(node, &image, &snapshot).await,
            (95..=99, Some(snapshot)) if images.len() < MAX_IMAGES => self.clone_of(node, &image, &snapshot).await,
            _ => {}
        }
    }

    fn told<T>(&self, what: &'static str, outcome: Result<T, String>) {
        match outcome {
            Ok(_) => self.user.histories.count(what),
            Err(reason) => self.user.histories.note(format_args!("not {what}: {reason}")),
        }
    }

    fn any_snapshot(&mut self, image: &Known) -> Option<KnownSnapshot> {
        let all = self.user.histories.snapshots();
        let of_image: Vec<&KnownSnapshot> = all.iter().filter(|snapshot| snapshot.image == image.number).collect();
        match of_image.is_empty() {
            true => None,
            false => Some(of_image[self.draw.below(of_image.len() as u64) as usize].clone()),
        }
    }

    /// By a node, or beside a holder: whether it is known to be done.
    async fn carry_out(
        &mut self,
        (node, image): (usize, &Known),
        (what, call): (&'static str, Option<&CallOf>),
        request: Ask,
    ) -> bool {
        if self.draw.percent(50) {
            let done = ask(&self.user.world, node, request).await;
            let is_done = done.is_ok();
            if let Some(call) = call.filter(|_| is_done) {
                self.user.histories.end(call, Ended::Done);
            }
            self.told(what, done);
            return is_done;
        }
        let Some((node, open)) = self.user.open_anywhere(image).await else {
            call.into_iter().for_each(|call| self.user.histories.end(call, Ended::Withdrawn));
            return false;
        };
        let done = self.user.administer(&node, &open, request).await;
        let is_done = matches!(done, Some(Ok(())));
        if let Some(call) = call {
            self.user.histories.end(call, if is_done { Ended::Done } else { Ended::Lost });
        }
        let outcome = done.unwrap_or_else(|| Err("the node ended".to_owned()));
        self.told(what, outcome);
        is_done
    }

    async fn snapshot(&mut self, node: usize, image: &Known) {
        let histories = self.user.histories.clone();
        let count = histories.snapshots().iter().filter(|snapshot| snapshot.image == image.number).count();
        if count >= MAX_SNAPSHOTS {
            return;
        }
        let snapshot = histories.add_snapshot(image.number);
        let call = histories.call(image.number, 0..BLOCKS, What::ReadOf(snapshot.number));
        let request = Ask::Snapshot { image: image.name.clone(), name: snapshot.name.clone() };
        if self.carry_out((node, image), ("person: a snapshot taken", None), request).await {
            self.snapshot_taken(&snapshot, &call).await;
        }
    }

    /// Its size is known where the record is.
    async fn snapshot_taken(&self, snapshot: &KnownSnapshot, call: &CallOf) {
        self.user.histories.end(call, Ended::Done);
        let name = self.user.histories.image(snapshot.image).name;
        let record = record_of(&self.user.world, &name);
        let Some(size_bytes) = record.and_then(|record| Some(record.snapshot(&snapshot.name)?.size_bytes)) else { return };
        self.user.histories.snapshot_is_there(snapshot.number, true, size_bytes);
    }

    async fn remove_snapshot(&mut self, node: usize, image: &Known, snapshot: &KnownSnapshot) {
        // What it held is known, for those that were made from it.
        let missing = watched(0..BLOCKS).any(|block| !snapshot.values.contains_key(&block));
        if missing && read_snapshot(&self.user.world, &self.user.histories, node, snapshot).await.is_err() {
            return;
        }
        self.user.histories.snapshot_is_there(snapshot.number, false, snapshot.size_bytes);
        let request = Ask::RemoveSnapshot { image: image.name.clone(), name: snapshot.name.clone() };
        self.carry_out((node, image), ("person: a snapshot removed", None), request).await;
    }

    async fn roll_back(&mut self, node: usize, image: &Known, snapshot: &KnownSnapshot) {
        let missing = watched(0..BLOCKS).any(|block| !snapshot.values.contains_key(&block));
        if missing && read_snapshot(&self.user.world, &self.user.histories, node, snapshot).await.is_err() {
            return;
        }
        let call = self.user.histories.call(image.number, 0..BLOCKS, What::WriteOf(snapshot.number));
        let request = Ask::Rollback { image: image.name.clone(), snapshot: snapshot.name.clone() };
        self.carry_out((node, image), ("person: a rollback", Some(&call)), request).await;
    }

    async fn resize(&mut self, node: usize, image: &Known) {
        let blocks = SIZES[self.draw.below(SIZES.len() as u64) as usize];
        // It grows, or what lies beyond is gone.
        let call = self.user.histories.call(image.number, blocks..BLOCKS, What::Write(0));
        let is_growth = record_of(&self.user.world, &image.name)
            .is_some_and(|record| record.size_bytes <= u64::from(blocks) * BLOCK_BYTES as u64);
        let size_bytes = u64::from(blocks) * BLOCK_BYTES as u64;
        let request = Ask::Resize { image: image.name.clone(), size_bytes, may_shrink: true };
        let what = if is_growth { "person: an image grown" } else { "person: an image shrunk" };
        self.carry_out((node, image), (what, Some(&call)), request).await;
    }

    async fn flatten(&mut self, node: usize, image: &Known) {
        let request = Ask::Flatten { image: image.name.clone() };
        self.carry_out((node, image), ("person: a clone flattened", None), request).await;
    }

    async fn clone_of(&mut self, node: usize, image: &Known, snapshot: &KnownSnapshot) {
        let missing = watched(0..BLOCKS).any(|block| !snapshot.values.contains_key(&block));
        if missing && read_snapshot(&self.user.world, &self.user.histories, node, snapshot).await.is_err() {
            return;
        }
        let known = self.user.histories.add_image(image.copies, Some(snapshot.number));
        let request = Ask::Clone { image: image.name.clone(), snapshot: snapshot.name.clone(), name: known.name.clone() };
        let made = ask(&self.user.world, node, request).await;
        if made.is_ok() {
            self.user.histories.image_is_there(known.number);
        }
        self.told("person: a clone made", made);
    }
}

impl ImageUser {
    /// What a holder is asked directly.
    async fn administer(&self, node: &Running, open: &Arc<block::OpenImage>, request: Ask) -> Option<Result<(), String>> {
        let image = open.image();
        let done = async {
            match request {
                Ask::Snapshot { name, .. } => image.snapshot(&name).await,
                Ask::RemoveSnapshot { name, .. } => image.remove_snapshot(&name).await,
                Ask::Rollback { snapshot, .. } => image.rollback(&snapshot).await,
                Ask::Resize { size_bytes, may_shrink, .. } => image.resize(size_bytes, may_shrink).await,
                Ask::Flatten { .. } => image.flatten().await,
                other => panic!("a holder is not asked {other:?}"),
            }
        };
        let done = self.ask(node, None, done).await?;
        Some(done.map_err(|error| error.to_string()))
    }
}
