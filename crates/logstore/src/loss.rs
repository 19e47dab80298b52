//! What would be lost with devices: asked before a person declares them gone for good.

use crate::index::Located;
use crate::large::read_tree;
use crate::store::{Inner, LogStore};
use engine::EngineError;
use format::replicas::Places;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::DeviceId;

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
    /// What would be lost if these devices were, besides those that are gone already. Looks through the whole index, and reads the list of
    /// chunks of every large object. Fails if this gateway does not know everything that was acknowledged.
    pub async fn would_lose(&self, devices: &BTreeSet<DeviceId>) -> Result<Loss, EngineError> {
        let inner = &self.inner;
        inner.check_knows_all()?;
        let is_lost = |places: &Places| {
            let is_away = |device: DeviceId| devices.contains(&device) || inner.targets.is_gone(device);
            places.as_slice().iter().all(|place| is_away(place.device))
        };
        let mut loss = Loss::default();
        for shard in 0..inner.shards.len() {
            let (lost, large) = inner.lost_of(shard, is_lost);
            loss.records += lost;
            for known in large {
                loss.records += u64::from(inner.is_tree_lost(&known, is_lost).await?);
            }
            tokio::task::yield_now().await;
        }
        for run in inner.names.layers().runs {
            loss.blocks += run.frames().filter(|(places, _)| is_lost(places)).count() as u64;
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

    /// How many records of a shard are lost, and those of large objects that are not.
    fn lost_of(&self, shard: usize, is_lost: impl Fn(&Places) -> bool) -> (u64, Vec<Located>) {
        let keys = self.shards[shard].lock();
        let (mut lost, mut large) = (0, Vec::new());
        for (_, known) in keys.index().iter().filter(|(_, known)| known.is_live()) {
            match (is_lost(&known.places), known.large) {
                (true, _) => lost += 1,
                (false, true) => large.push(known),
                (false, false) => {}
            }
        }
        (lost, large)
    }

    /// Whether something below a large object's record is lost.
    async fn is_tree_lost(self: &Arc<Self>, known: &Located, is_lost: impl Fn(&Places) -> bool) -> Result<bool, EngineError> {
        // Replaced meanwhile: what replaced it has copies on the devices of now.
        let Some(frame) = self.read_copies(known).await? else { return Ok(false) };
        let tree = read_tree(self, &frame.payload, frame.record.tree_height).await?;
        Ok(tree.all().any(|chunk| is_lost(&chunk.places)))
    }
}
