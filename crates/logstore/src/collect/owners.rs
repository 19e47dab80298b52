//! The places that records name: what makes a chunk live, and what a damaged zone may hold.

use crate::index::Located;
use crate::large::read_tree;
use crate::store::{Inner, SHARDS};
use engine::EngineError;
use format::record::{ChunkOwner, EntryName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, KeyHash, Place, ZoneIndex};

/// The chunks and nodes that records name, as far as this look has asked.
#[derive(Default)]
pub(crate) struct Owners(BTreeMap<KeyHash, BTreeSet<Place>>);

impl Owners {
    pub async fn places(&mut self, inner: &Arc<Inner>, owner: &KeyHash) -> Result<&BTreeSet<Place>, EngineError> {
        if !self.0.contains_key(owner) {
            let places = named_by(inner, owner).await?;
            self.0.insert(*owner, places);
        }
        Ok(&self.0[owner])
    }
}

/// The chunks and nodes that one record names.
async fn named_by(inner: &Arc<Inner>, owner: &KeyHash) -> Result<BTreeSet<Place>, EngineError> {
    let Some(known) = inner.live_large(owner) else { return Ok(BTreeSet::new()) };
    let frame = inner.read_copies(&known).await?;
    // Of an owner that is gone the index may have told another record.
    if frame.as_ref().is_some_and(|frame| frame.record.hash != *owner) && inner.is_sealed_as(owner, &known) {
        return Ok(BTreeSet::new());
    }
    let Some(frame) = frame.filter(|frame| frame.record.hash == *owner) else {
        // Replaced meanwhile: what names the same chunks now holds a pin. Or lost where it should stand, and then nobody knows what it names.
        return match inner.live_large(owner) == Some(known) {
            true => {
                Err(EngineError::Unavailable { reason: format!("no copy of the record of {owner:?} stands where it should") })
            }
            false => Ok(BTreeSet::new()),
        };
    };
    let tree = read_tree(inner, &frame.payload, frame.record.tree_height).await?;
    Ok(tree.all().flat_map(|chunk| chunk.places.as_slice().to_vec()).collect())
}

/// What live records have or name in a zone.
#[derive(Default)]
pub(crate) struct Named {
    pub by_owner: BTreeMap<KeyHash, BTreeSet<Place>>,
    /// Why some large object's list could not be read: it may name more.
    pub unread: Option<EngineError>,
}

impl Named {
    /// All of it, or why not all is known.
    pub fn whole(self) -> Result<BTreeMap<KeyHash, BTreeSet<Place>>, EngineError> {
        self.unread.map_or(Ok(self.by_owner), Err)
    }
}

impl Inner {
    /// The places in a zone that live records have or name, by record. Reads every large object's list: for damaged zones only.
    pub(crate) async fn named_in(self: &Arc<Self>, zone: (DeviceId, ZoneIndex)) -> Named {
        self.named_where(|place| (place.device, place.zone) == zone, Duration::ZERO).await
    }

    /// Of each device one place at most that is wanted, and all below large objects; with a pause between two lists that are read.
    pub(crate) async fn named_where(self: &Arc<Self>, is_wanted: impl Fn(&Place) -> bool + Sync, pause: Duration) -> Named {
        let is_within = |place: &&Place| is_wanted(place);
        let (mut named, mut large) = (Named::default(), Vec::new());
        let visited = self
            .visit_records(0..SHARDS, &mut |hash, located| {
                if !located.is_live() {
                    return;
                }
                if let Some(place) = located.places.as_slice().iter().find(is_within) {
                    named.by_owner.entry(hash).or_default().insert(*place);
                }
                if located.large {
                    large.push(hash);
                }
            })
            .await;
        named.unread = visited.err();
        for hash in large {
            if let Err(error) = self.check_deposed() {
                named.unread = Some(error);
                break;
            }
            if !pause.is_zero() {
                self.env.sleep(pause).await;
            }
            match named_by(self, &hash).await {
                Ok(places) => {
                    let within: BTreeSet<Place> = places.iter().filter(is_within).copied().collect();
                    if !within.is_empty() {
                        named.by_owner.entry(hash).or_default().extend(within);
                    }
                }
                Err(error) => named.unread = Some(error),
            }
        }
        named
    }

    /// The records that may name a chunk: the object, or the open part, that it was written for.
    pub(crate) fn owners_of(&self, chunk: &ChunkOwner) -> impl Iterator<Item = KeyHash> + use<> {
        let part = chunk.upload.and_then(|upload| {
            let open = self.open_uploads.lock();
            let name = open.get(&upload)?;
            let key = name.key().ok()?.into_owned();
            Some(EntryName::part(name.bucket, &key, upload, chunk.part).hash())
        });
        [Some(chunk.owner), part].into_iter().flatten()
    }

    pub(crate) fn live_large(&self, hash: &KeyHash) -> Option<Located> {
        self.shard(hash).lock().index().newest(hash).filter(|known| known.is_live() && known.large)
    }
}
