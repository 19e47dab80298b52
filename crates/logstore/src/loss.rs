//! What would be lost with devices: asked before a person declares them gone for good.

use crate::large::read_tree;
use crate::store::{Inner, LogStore, SHARDS};
use engine::EngineError;
use format::replicas::Places;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, KeyHash};

/// How long it is waited for a checkpoint that has the places by which nothing would be lost. Longer than leaders let pass between two of them.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(90);
/// How often it is looked whether there is one.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(100);

/// What has copies on certain devices alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Objects, and parts of uploads.
    pub records: u64,
    /// Blocks of the checkpoint.
    pub blocks: u64,
}

impl Loss {
    pub fn is_nothing(&self) -> bool {
        *self == Loss::default()
    }
}

impl LogStore {
    /// What of these devices would be lost with them, and with those that are away: only what is written to at present is sure to be there. What is
    /// lost already, or away with other devices alone, does not count. Looks through the whole index, and reads the list of chunks of every large
    /// object. Nothing is lost only if that is so by a checkpoint: one is made, or waited for. Fails if this gateway does not know everything that
    /// was acknowledged.
    pub async fn would_lose(&self, devices: &BTreeSet<DeviceId>) -> Result<Loss, EngineError> {
        let inner = &self.inner;
        inner.check_knows_all()?;
        let table = inner.targets.table().clone();
        let is_there = |device: DeviceId| table.devices().contains(&device);
        let is_away = |places: &Places| !places.as_slice().iter().any(|place| is_there(place.device));
        let is_lost = |places: &Places| {
            let is_of_these = |device: DeviceId| devices.contains(&device);
            let mut holders = places.as_slice().iter().map(|place| place.device);
            holders.clone().any(is_of_these) && holders.all(|device| is_of_these(device) || !is_there(device))
        };
        let mut loss = Loss::default();
        let mut large = Vec::new();
        inner
            .visit_records(0..SHARDS, &mut |hash, known| match (is_lost(&known.places), known.large) {
                _ if !known.is_live() || inner.targets.are_gone(&known.places) => {}
                (true, _) => loss.records += 1,
                // What it names can't be looked at.
                (false, true) if is_away(&known.places) => loss.records += 1,
                (false, true) => large.push(hash),
                (false, false) => {}
            })
            .await?;
        for hash in large {
            loss.records += u64::from(inner.is_tree_lost(&hash, is_lost).await?);
        }
        for run in inner.names.layers().runs {
            loss.blocks += run.frames().filter(|(places, _)| is_lost(places)).count() as u64;
        }
        if loss.is_nothing() {
            inner.moves_written_down().await?;
        }
        Ok(loss)
    }
}

impl Inner {
    fn check_knows_all(&self) -> Result<(), EngineError> {
        let awaited = self.undecidable.lists_wait_for();
        let is_deciding = self.member.as_ref().is_some_and(|member| {
            let heard = member.heard.lock();
            heard.joining || !heard.undecided.is_empty()
        });
        if awaited.is_empty() && !is_deciding && !self.is_deposed() {
            return Ok(());
        }
        let reason = "not everything that was written is known here: something is being recovered, or devices are waited for";
        Err(EngineError::Unavailable { reason: reason.to_owned() })
    }

    /// Returns when a checkpoint has all places that records have got until now. If the power of all nodes goes before, a start takes those of the last one,
    /// and copies that were made since stand in vain. The leader makes one, others wait for it.
    async fn moves_written_down(self: &Arc<Self>) -> Result<(), EngineError> {
        let (moved_in, until) = (self.remembered.moved_in(), self.env.now() + CHECKPOINT_PATIENCE);
        while self.remembered.epoch() < moved_in {
            if self.leads() {
                return self.write_moves_down().await;
            }
            if self.env.now() >= until {
                let reason = "copies that were made a moment ago stand in no checkpoint yet: ask again in a minute";
                return Err(EngineError::Unavailable { reason: reason.to_owned() });
            }
            self.env.sleep(CHECKPOINT_LOOK).await;
        }
        Ok(())
    }

    /// Whether something below the record of a large object, or part, is lost.
    async fn is_tree_lost(self: &Arc<Self>, owner: &KeyHash, is_lost: impl Fn(&Places) -> bool) -> Result<bool, EngineError> {
        while let Some(known) = self.live_large(owner) {
            if let Some(frame) = self.read_copies(&known).await? {
                let tree = read_tree(self, &frame.payload, frame.record.tree_height).await?;
                return Ok(tree.all().any(|chunk| is_lost(&chunk.places)));
            }
            // Moved or replaced meanwhile, and its chunks are where they were; or it does not stand where it should, and nobody knows what it names.
            if self.live_large(owner) == Some(known) {
                let reason = format!("no copy of the record of {owner:?} stands where it should");
                return Err(EngineError::Unavailable { reason });
            }
        }
        Ok(false)
    }
}
