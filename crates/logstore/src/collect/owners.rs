//! The places that records name: what makes a chunk live, and what a damaged zone may hold.

use super::Victim;
use crate::index::Located;
use crate::large::read_tree;
use crate::store::Inner;
use engine::EngineError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{KeyHash, Place};

/// The chunks and nodes that records name, as far as this look has asked.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<KeyHash, BTreeSet<Place>>);

impl Owners {
    pub async fn places(&mut self, inner: &Arc<Inner>, owner: &KeyHash) -> Result<&BTreeSet<Place>, EngineError> {
        if !self.0.contains_key(owner) {
            let places = self.read(inner, owner).await?;
            self.0.insert(*owner, places);
        }
        Ok(&self.0[owner])
    }

    async fn read(&self, inner: &Arc<Inner>, owner: &KeyHash) -> Result<BTreeSet<Place>, EngineError> {
        let Some(known) = inner.live_large(owner) else { return Ok(BTreeSet::new()) };
        let Some(frame) = inner.read_copies(&known).await? else { return Ok(BTreeSet::new()) };
        let tree = read_tree(inner, &frame.payload, frame.record.tree_height).await?;
        Ok(tree.all().flat_map(|chunk| chunk.places.as_slice().to_vec()).collect())
    }
}

impl Inner {
    /// The places in a zone that live records have or name, by record. Reads every large object's list: for damaged zones only.
    pub(super) async fn named_in(self: &Arc<Self>, victim: &Victim) -> Result<BTreeMap<KeyHash, BTreeSet<Place>>, EngineError> {
        let mut named: BTreeMap<KeyHash, BTreeSet<Place>> = BTreeMap::new();
        let mut large = Vec::new();
        for shard in &self.shards {
            for (hash, located) in shard.lock().index().iter().filter(|(_, located)| located.is_live()) {
                if let Some(place) = located.places.as_slice().iter().find(|place| victim.holds(place)) {
                    named.entry(hash).or_default().insert(*place);
                } else if located.large {
                    large.push(hash);
                }
            }
        }
        let mut owners = Owners::default();
        for hash in large {
            let places = owners.places(self, &hash).await?;
            let within: BTreeSet<Place> = places.iter().filter(|place| victim.holds(place)).copied().collect();
            if !within.is_empty() {
                named.insert(hash, within);
            }
        }
        Ok(named)
    }

    pub(crate) fn live_large(&self, hash: &KeyHash) -> Option<Located> {
        self.shard(hash).lock().index().newest(hash).filter(|known| known.is_live() && known.large)
    }
}
