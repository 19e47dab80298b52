//! A checkpoint that can't be read at a start: whether a part of it is lost, or can't be read just now.
//!
//! | each copy of a part                                  | what the start does                        |
//! |------------------------------------------------------|--------------------------------------------|
//! | is on a device that is gone for good                 | goes on without the checkpoint             |
//! | is on such a device, or damaged whenever it is read  | the same, after some tries                 |
//! | all else                                             | ends after some tries, and says why        |
//!
//! Without the checkpoint deleted objects of which the logs still have a version are back. So a part is given up only beside a device that a person has
//! given up: where frames are damaged and no device is gone, the manifest may be an older one, whose frames were overwritten since. And what
//! a device does not answer, or does not have, is not damaged.

use super::OpenError;
use crate::names::Run;
use crate::store::Inner;
use format::replicas::Places;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, Place};

/// How often a checkpoint is read that can't be read.
const TRIES: usize = 3;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// How a part is, by its copies.
enum Part {
    Readable,
    /// Not now.
    Unread,
    /// On devices alone that are gone for good.
    Gone,
    /// The same, but for copies that are damaged.
    Damaged,
}

/// The parts that seem lost.
#[derive(Default)]
struct Lost {
    is_gone: bool,
    /// By their first copies.
    damaged: BTreeSet<Place>,
}

impl Inner {
    /// Puts what the runs hold into the full map. An error says whether the checkpoint is lost: by then all devices of the cell are there. Others than
    /// the `known` ones are gone for good.
    pub(super) async fn load_runs_unless_lost(self: &Arc<Self>, known: &BTreeSet<DeviceId>) -> Result<(), OpenError> {
        let mut damaged: Option<BTreeSet<Place>> = None;
        for left in (0..TRIES).rev() {
            let Err(error) = self.load_runs().await else { return Ok(()) };
            let lost = self.lost_parts(known).await;
            let always = damaged.take().map_or_else(|| lost.damaged.clone(), |before| &before & &lost.damaged);
            match (lost.is_gone, left, always.is_empty()) {
                (true, ..) | (false, 0, false) => return Err(OpenError::CheckpointLost(error)),
                (false, 0, true) => return Err(OpenError::Checkpoint(error)),
                _ => {}
            }
            env::mark("start: a checkpoint that can't be read is read again");
            tracing::warn!(%error, left, "the checkpoint can't be read: it is tried again");
            damaged = Some(always);
            self.env.sleep(PAUSE).await;
        }
        unreachable!("the last try returns")
    }

    /// The parts of the checkpoint that seem lost, and don't seem to be there.
    async fn lost_parts(&self, known: &BTreeSet<DeviceId>) -> Lost {
        let runs = self.checkpoints.lock().await.manifest.runs.clone();
        let mut lost = Lost::default();
        for summary in runs {
            for piece in &summary.index {
                self.look_at_part(&piece.places, piece.frame_bytes, known, &mut lost).await;
            }
            // Without its index nothing is known of the others.
            if let Ok(run) = Run::open(self, summary).await {
                for (places, frame_bytes) in run.frames() {
                    self.look_at_part(&places, frame_bytes, known, &mut lost).await;
                }
            }
        }
        lost
    }

    async fn look_at_part(&self, places: &Places, frame_bytes: u32, known: &BTreeSet<DeviceId>, lost: &mut Lost) {
        match self.part_at(places, frame_bytes, known).await {
            Part::Readable | Part::Unread => {}
            Part::Gone => lost.is_gone = true,
            Part::Damaged => drop(lost.damaged.insert(places.primary())),
        }
    }

    async fn part_at(&self, places: &Places, frame_bytes: u32, known: &BTreeSet<DeviceId>) -> Part {
        let (there, gone): (Vec<Place>, Vec<Place>) = places.as_slice().iter().partition(|place| known.contains(&place.device));
        let mut is_damaged = true;
        for place in &there {
            match self.targets.read(place, frame_bytes).await {
                Ok(_) => return Part::Readable,
                Err(failure) => is_damaged &= failure.is_damage(),
            }
        }
        match (there.is_empty(), gone.is_empty()) {
            (true, _) => Part::Gone,
            (false, false) if is_damaged => Part::Damaged,
            _ => Part::Unread,
        }
    }
}
