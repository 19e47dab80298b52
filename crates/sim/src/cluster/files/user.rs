//! Programs at all nodes that use mounted volumes.

use super::super::world::{Running, World};
use super::door::Mount;
use super::history::{FileHistories, Number};
use crate::draw::Draw;
use filesystem::client::{CallId, ClientError, in_call};
use filesystem::meta::MetaError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a program rests after a call that failed, or where nothing is mounted.
const AFTER_FAILURE: Duration = Duration::from_millis(300);
/// How long a call waits for the process that goes on with its mount.
const TAKE_OVER_PATIENCE: Duration = Duration::from_secs(200);
const LOOK: Duration = Duration::from_millis(50);

/// A volume of a run, with what is in it.
#[derive(Clone, Debug)]
pub struct Volume {
    pub name: String,
    /// Sets of directories that programs share.
    pub yards: Vec<Number>,
    /// Files of blocks and logs, with their inodes.
    pub blocks: Vec<(Number, u64)>,
    pub logs: Vec<(Number, u64)>,
}

/// A mount at a node that runs.
#[derive(Clone)]
pub struct Place {
    pub node: Running,
    pub mount: Arc<Mount>,
}

pub struct FileUser {
    pub world: Arc<World>,
    pub histories: Arc<FileHistories>,
    pub volumes: Arc<Vec<Volume>>,
    pub draw: Draw,
    pub is_over: Arc<AtomicBool>,
}

impl FileUser {
    pub async fn run(mut self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let volumes = self.volumes.clone();
            let volume = &volumes[self.draw.below(volumes.len() as u64) as usize];
            let rest = match self.mount_anywhere(volume) {
                Some(place) => !self.step(&place, volume).await,
                None => true,
            };
            let think = self.draw.duration(self.world.scenario.workload.think);
            if rest || self.draw.percent(60) {
                self.world.env.sleep(if rest { AFTER_FAILURE } else { think }).await;
            }
        }
    }

    /// Whether the call was answered.
    async fn step(&mut self, place: &Place, volume: &Volume) -> bool {
        match self.draw.below(100) {
            0..=49 => self.step_names(place, volume).await,
            50..=79 => self.step_blocks(place, volume).await,
            _ => self.step_log(place, volume).await,
        }
    }

    /// The mount of a volume at one of the nodes that have it.
    fn mount_anywhere(&mut self, volume: &Volume) -> Option<Place> {
        let places: Vec<Place> = self.world.running().into_iter().filter_map(|node| place_at(node, &volume.name)).collect();
        match places.is_empty() {
            true => None,
            false => Some(places[self.draw.below(places.len() as u64) as usize].clone()),
        }
    }

    /// The outcome of a call at a mount; none if its mount ends first. A process that goes on with the mount carries it out again.
    pub async fn ask<T, F>(&self, place: &Place, volume: &Volume, call: impl Fn(Arc<Mount>) -> F) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let id = CallId(self.histories.next_value());
        let (number, mut place) = (place.node.number, place.clone());
        loop {
            let work = in_call(id, call(place.mount.clone()));
            match self.world.ask_node(&place.node, None, work).await {
                Ok(Some(outcome)) => {
                    place.mount.client.answered(id);
                    return Some(outcome);
                }
                Ok(None) => {}
                Err(what) => {
                    self.histories.violate(what);
                    return None;
                }
            }
            place = self.next_place(number, &volume.name, place.mount.lineage).await?;
            self.histories.count("program: a call made again in another process");
        }
    }

    /// The mount in the process that goes on with it; none if none does.
    async fn next_place(&self, number: usize, volume: &str, lineage: u64) -> Option<Place> {
        let until = self.world.env.now() + TAKE_OVER_PATIENCE;
        while self.world.env.now() < until && self.world.present().contains(&number) {
            // A process takes over before it is seen to run.
            if let Some(node) = self.world.running().into_iter().find(|node| node.number == number) {
                return place_at(node, volume).filter(|place| place.mount.lineage == lineage);
            }
            self.world.env.sleep(LOOK).await;
        }
        None
    }

    /// What a failed call says; none: whether it has happened is not known.
    pub fn refusal(&self, error: &ClientError) -> Option<MetaError> {
        use MetaError::{Changed, LocksLost, NoSession, TooManyCommands};
        self.histories.note(format_args!("failed: {error}"));
        let (what, refusal) = match error {
            ClientError::Meta(Changed | TooManyCommands) => ("program: overtaken", None),
            ClientError::Meta(LocksLost | NoSession) => ("program: without its session or locks", None),
            ClientError::Meta(error) => ("program: refused", Some(*error)),
            ClientError::MetaCall(_) => ("program: no answer of a tree", None),
            ClientError::Data(filesystem::data::DataError::Full) => ("program: no space", None),
            ClientError::Data(error @ filesystem::data::DataError::Damaged { .. }) => {
                self.histories.violate(format!("content is damaged, though nothing has rotted: {error}"));
                ("program: damaged", None)
            }
            ClientError::Data(_) => ("program: no answer of contents", None),
            ClientError::LeaseOver => ("program: a lease is over", None),
            other => {
                self.histories.violate(format!("a call fails with {other:?}"));
                ("program: failed", None)
            }
        };
        self.histories.count(what);
        refusal
    }
}

/// A node's mount of a volume.
pub fn place_at(node: Running, volume: &str) -> Option<Place> {
    let mount = node.mounts.as_ref()?.mount_of(volume)?;
    Some(Place { node, mount })
}
