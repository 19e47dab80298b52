//! The log engine of one gateway, as the object service sees it.

use crate::config::LogStoreConfig;
use crate::epochs::Epochs;
use crate::gateway::{Keys, Member};
use crate::index::{IndexLen, Located};
use crate::large::LogStaged;
use crate::machine::SequenceSource;
use crate::names::Names;
use crate::pins::Pins;
use crate::read::info_of;
use crate::recovery::undecidable::{Undecidable, until};
use crate::remembered::Remembered;
use crate::room::Patience;
use crate::stats::LogStoreStats;
use crate::targets::Targets;
use crate::write::{Draft, TurnGuard, WriteOp};
use bytes::Bytes;
use engine::{
    Committed, CompletePart, Condition, EngineError, EngineFuture, Found, ListPage, ListQuery, ObjectEngine, ObjectInfo,
    ObjectKey, PartContent, PartInfo, Payload, StagedChunks, Unmet, UploadPage, UploadQuery, UploadRef,
};
use env::Env;
use format::attributes::{Attributes, ETag};
use format::entry::Entry;
use format::record::{EntryName, RecordKind, WriteId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use types::limits::MAX_SMALL_BYTES;
use types::{BucketId, Epoch, GatewayId, Generation, KeyHash, Order, Sequence, UploadId};

/// Shards of the index. Locks are held for well under a microsecond, so this many keep dozens of cores apart.
pub(crate) const SHARDS: usize = 256;

/// The shard of a key.
pub(crate) fn shard_of(hash: &KeyHash) -> usize {
    hash.shard_bits() as usize % SHARDS
}

/// The log engine.
#[derive(Clone)]
pub struct LogStore {
    pub(crate) inner: Arc<Inner>,
}

/// What all parts of the engine share.
pub(crate) struct Inner {
    pub config: LogStoreConfig,
    pub env: Env,
    pub remembered: Remembered,
    pub targets: Targets,
    /// This gateway, of all incarnations.
    pub me: GatewayId,
    /// Its part in a cell; none if it is alone for good.
    pub member: Option<Member>,
    pub sequences: Arc<SequenceSource>,
    pub shards: Box<[Mutex<Keys>]>,
    pub epochs: Epochs,
    pub names: Names,
    pub pins: Pins,
    pub stats: LogStoreStats,
    /// What missing devices make undecidable (zstore.md, decision 21); empty in normal life.
    pub undecidable: Undecidable,
    /// The epoch that this start began with: a checkpoint that has it has what the start decided.
    pub first_epoch: Epoch,
    /// The generation that this start began with; no earlier start wrote under it.
    pub first_generation: Generation,
    /// A write ended with an unknown outcome: copies of it may stand, and a start may roll it forward.
    pub some_write_failed: AtomicBool,
    pub background: crate::background::Background,
    pub checkpoints: tokio::sync::Mutex<crate::checkpoint::CheckpointState>,
    /// Copies that were found damaged.
    pub suspects: crate::heal::Suspects,
    /// Zones whose damage a scrub has looked up.
    pub explained: crate::heal::scrub::Explained,
    /// Scrubs that were asked for.
    pub ordered: crate::heal::ordered::Ordered,
    /// Zones with damage in which something staged may stand.
    pub doubts: crate::collect::Doubts,
    pub sealing: crate::sealing::Sealing,
    /// Writes whose chunks no record names yet.
    pub staging: Mutex<BTreeSet<WriteId>>,
    /// Names of open uploads: collection finds the owners of their chunks by them.
    pub open_uploads: Mutex<BTreeMap<UploadId, EntryName>>,
}

impl Inner {
    pub fn shard(&self, hash: &KeyHash) -> &Mutex<Keys> {
        &self.shards[shard_of(hash)]
    }

    /// Whether this gateway is no member of a cell: nobody else ever writes.
    pub fn is_alone(&self) -> bool {
        self.member.is_none()
    }

    /// A write id for records that no turn precedes: chunks.
    pub fn next_write_id(&self) -> WriteId {
        WriteId { gateway: self.me, sequence: Sequence(self.sequences.draw()) }
    }

    /// Refuses a key of which nobody can say which record is the newest.
    pub fn check_decidable(&self, hash: &KeyHash) -> Result<(), EngineError> {
        if self.is_decidable(hash) {
            return Ok(());
        }
        env::mark("gateway: an undecidable key refused");
        self.undecidable.check_readable()?;
        let reason = until(&self.undecidable.waits_for(hash));
        Err(EngineError::DeviceMissing { reason: format!("{reason}: it may hold this object's newest version") })
    }

    /// Whether the newest record of a key is known: nothing is missing that may hold a newer one, or this start has written it.
    pub fn is_decidable(&self, hash: &KeyHash) -> bool {
        if self.undecidable.is_empty() || self.undecidable.waits_for(hash).is_empty() {
            return true;
        }
        // What was rolled forward without a known order has exactly this one.
        let before_all = Order { generation: self.first_generation, ..Order::default() };
        self.shard(hash).lock().index().newest(hash).is_some_and(|newest| newest.order > before_all)
    }

    /// Refuses what needs all names of a bucket or an upload while some may be on missing devices only.
    pub fn check_complete(&self) -> Result<(), EngineError> {
        if self.undecidable.is_empty() {
            return Ok(());
        }
        self.undecidable.check_readable()?;
        let reason = until(&self.undecidable.lists_wait_for());
        Err(EngineError::DeviceMissing { reason: format!("{reason}: it may hold objects that a list would lack") })
    }

    /// Before anything that needs all names: none is missing, and those that other gateways acknowledged are here.
    async fn settle_names(self: &Arc<Self>) -> Result<(), EngineError> {
        self.check_complete()?;
        self.hear_all_names().await
    }

    /// Refuses writes of a gateway that can't write anything.
    fn check_serves(&self) -> Result<(), EngineError> {
        self.check_deposed()?;
        self.undecidable.check_readable()
    }

    /// Notes what an acknowledged write stored and what it made garbage.
    pub fn account(&self, entry: &Entry, replaced: Option<&Located>) {
        self.stats.writes.add(1);
        self.stats.content_bytes.add(entry.length);
        self.targets.add_live_entry(&Located::from(entry));
        if let Some(replaced) = replaced {
            self.targets.remove_live_entry(replaced);
            if replaced.large {
                self.background.release_chunks(entry.hash, *replaced);
            }
        }
        self.background.note_write(entry.frame_bytes as u64);
    }

    /// Runs one write of a client to its end. Where a device is full it waits for collection.
    pub async fn write(self: &Arc<Self>, draft: Draft, condition: Condition) -> Result<Committed, EngineError> {
        self.check_serves()?;
        let mut op = WriteOp::new(self, draft, !condition.is_blind());
        let mut patience = Patience::default();
        loop {
            match self.attempt(&op, &condition).await {
                Err(EngineError::Full) if patience.wait(self).await => op = op.anew(),
                Err(EngineError::Unavailable { .. }) if patience.wait_for_view(self).await => op = op.anew(),
                outcome => return outcome,
            }
        }
    }

    /// Runs one write of the engine's own to its end. It does not wait for room: collection may be waiting for it.
    pub async fn write_now(self: &Arc<Self>, draft: Draft) -> Result<Committed, EngineError> {
        self.check_serves()?;
        self.attempt(&WriteOp::new(self, draft, false), &Condition::None).await
    }

    /// Evaluates the condition when the write's turn has come.
    async fn attempt(self: &Arc<Self>, op: &Arc<WriteOp>, condition: &Condition) -> Result<Committed, EngineError> {
        self.start(op)?;
        if !condition.is_blind() {
            let guard = TurnGuard::new(op.clone());
            let newest = op.turn().await?;
            if let Err(error) = self.evaluate(op.name(), newest, condition).await {
                guard.withdraw(error.clone());
                return Err(error);
            }
            guard.disarm();
            op.append();
        }
        op.finished().await
    }

    async fn evaluate(
        self: &Arc<Self>,
        name: &EntryName,
        newest: Option<Located>,
        condition: &Condition,
    ) -> Result<(), EngineError> {
        let etag = match newest.filter(Located::is_live) {
            Some(located) => self.etag_of(name, &located).await?,
            None => None,
        };
        condition.check(etag.as_ref()).map_err(|unmet| match unmet {
            Unmet::Absent => EngineError::NotFound,
            Unmet::Differs => EngineError::PreconditionFailed,
        })
    }

    /// The tag of a record whose key is frozen, so that it stays the newest; it may still be relocated meanwhile. None if it is another
    /// key's, and there is no object.
    async fn etag_of(self: &Arc<Self>, name: &EntryName, located: &Located) -> Result<Option<ETag>, EngineError> {
        if let Some(known) = self.names.unsaved_etag(name, located.order) {
            return Ok(Some(known));
        }
        // Where the freeze says that it stands: another gateway may have told of it before this one's index has it.
        let read = self.read_copies(located).await;
        if let Ok(Some(frame)) = &read
            && frame.record.name == *name
        {
            return Ok(Some(info_of(&frame.record, located.order)?.attributes.etag));
        }
        if self.disprove(name, &name.hash(), located).await? {
            return Ok(None);
        }
        read?;
        match self.read_newest(name, &name.hash()).await {
            Ok((found, frame)) if found.order == located.order => {
                Ok(Some(info_of(&frame.record, found.order)?.attributes.etag))
            }
            // Nobody else writes: what was said was disproved meanwhile.
            Err(EngineError::NotFound) if self.is_alone() => Ok(None),
            Err(error @ EngineError::Unavailable { .. }) => Err(error),
            _ => Err(EngineError::Unavailable { reason: "the object moved while its condition was evaluated".to_owned() }),
        }
    }
}

/// The name of an object's current version. The key's bytes are copied, because the request's buffer is larger and shall not
/// live as long as the name.
fn name_of(key: &ObjectKey) -> EntryName {
    EntryName::object(key.bucket(), Bytes::copy_from_slice(key.key()))
}

pub(crate) fn draft(kind: RecordKind, name: EntryName, attributes: &Attributes) -> Draft {
    Draft {
        kind,
        hash: name.hash(),
        name,
        attributes: attributes.to_bytes(),
        etag: attributes.etag,
        modified_ms: attributes.modified_ms,
        storage_class: attributes.storage_class,
        length: 0,
        tree_height: 0,
        payload: Payload::new(),
        kept: None,
    }
}

impl LogStore {
    /// Counters.
    pub fn stats(&self) -> &LogStoreStats {
        &self.inner.stats
    }

    /// The hash of a key's current version.
    pub(crate) fn object_hash(key: &ObjectKey) -> KeyHash {
        EntryName::object(key.bucket(), key.key().clone()).hash()
    }

    pub(crate) fn object_draft(key: &ObjectKey, attributes: &Attributes) -> Draft {
        draft(RecordKind::Object, name_of(key), attributes)
    }
}

impl ObjectEngine for LogStore {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        let name = EntryName::object(key.bucket(), key.key().clone());
        let hash = name.hash();
        let (located, frame) = match self.inner.read_cached(&name, &hash)? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let pin = match self.inner.pin_content(&hash, &located, &frame)? {
            Ok(pin) => pin,
            Err(error) => return Some(Err(error)),
        };
        self.inner.stats.cached_reads.add(1);
        Some(self.inner.found(key, located.order, frame, pin))
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            let name = EntryName::object(key.bucket(), key.key().clone());
            let (located, frame, pin) = self.inner.read_pinned(&name, &name.hash()).await?;
            self.inner.stats.device_reads.add(1);
            self.inner.found(key, located.order, frame, pin)
        })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move {
            let name = EntryName::object(key.bucket(), key.key().clone());
            let (located, frame) = self.inner.read_newest(&name, &name.hash()).await?;
            info_of(&frame.record, located.order)
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let length = payload.iter().map(Bytes::len).sum::<usize>();
            if length > MAX_SMALL_BYTES {
                return Err(EngineError::Invalid {
                    reason: format!("{length} bytes in one record, at most {MAX_SMALL_BYTES}"),
                });
            }
            let draft = Draft { length: length as u64, payload, ..LogStore::object_draft(key, &attributes) };
            self.inner.write(draft, condition).await
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        let owner = LogStore::object_hash(key);
        StagedChunks { length: 0, inner: Box::new(LogStaged::new(&self.inner, owner, part)) }
    }

    fn stage_chunk<'a>(&'a self, staged: &'a mut StagedChunks, bytes: Bytes) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let length = bytes.len() as u64;
            let own = staged.inner.as_any_mut().downcast_mut::<LogStaged>().ok_or_else(foreign)?;
            own.push(bytes).await?;
            staged.length += length;
            Ok(())
        })
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let content = own_staged(staged)?.into_content().await?;
            let draft = Draft {
                kind: RecordKind::Descriptor,
                length: content.length,
                tree_height: content.tree_height,
                payload: content.payload,
                kept: Some(content.kept),
                ..LogStore::object_draft(key, &attributes)
            };
            self.inner.write(draft, condition).await
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let attributes = Attributes { modified_ms: self.inner.env.wall_clock_ms(), ..Attributes::default() };
            let tombstone = draft(RecordKind::Tombstone, name_of(key), &attributes);
            self.inner.write(tombstone, condition).await.map(|_| ())
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.list(query).await
        })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.is_bucket_empty(bucket).await
        })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(self.inner.create_upload(key, attributes))
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(self.inner.upload_attributes(upload))
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(self.inner.put_part(upload, number, attributes, content))
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.parts(upload, after, max_parts).await
        })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.complete(upload, parts, attributes, condition).await
        })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(self.inner.abort(upload))
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.uploads(query).await
        })
    }
}

/// The engine's own record of staged chunks.
pub(crate) fn own_staged(staged: StagedChunks) -> Result<LogStaged, EngineError> {
    let any: Box<dyn std::any::Any> = staged.inner;
    any.downcast::<LogStaged>().map(|own| *own).map_err(|_| foreign())
}

fn foreign() -> EngineError {
    EngineError::Internal { detail: "chunks staged by another engine".to_owned() }
}

/// How large the engine's maps are at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStoreSize {
    /// Keys of all maps; one overwritten since the last checkpoint, or the last sealing, counts twice.
    pub keys: usize,
    /// Of those, the ones that no checkpoint covers.
    pub unsaved_keys: usize,
    /// Of those, the ones that are kept without their hashes.
    pub sealed_keys: usize,
    /// Memory of what is saved.
    pub full_map_bytes: usize,
    /// Names that no checkpoint covers.
    pub unsaved_names: usize,
    pub epoch: Epoch,
    /// Keys of which a record was found that a missing device makes undecidable.
    pub undecidable_keys: usize,
    /// The share of all keys, existing or not, that missing devices make undecidable: 0 to 1.
    pub undecidable_share: f64,
    /// Parts of the index, and the runs as one, that this gateway, as leader, is still to look through for what lacks copies.
    pub repair_left: usize,
    /// Copies that were found damaged and wait to be made again.
    pub suspect_copies: usize,
}

impl LogStore {
    /// The missing devices without which something can't be answered; empty in normal life.
    pub fn waits_for(&self) -> Vec<types::DeviceId> {
        self.inner.undecidable.lists_wait_for()
    }

    /// Whether a checkpoint has what this start decided, and what it found. Until then a gateway that has not its maps could not take over from
    /// it: that one would decide by what stands on the devices behind the last checkpoint, which others than this gateway may have written.
    pub fn has_settled(&self) -> bool {
        self.inner.remembered.epoch() >= self.inner.first_epoch
    }

    /// The size of the maps. Takes each shard's lock for a moment.
    pub fn size(&self) -> LogStoreSize {
        let inner = &self.inner;
        let mut size = LogStoreSize {
            unsaved_names: inner.names.unsaved(),
            epoch: inner.epochs.present(),
            undecidable_keys: inner.undecidable.keys(),
            undecidable_share: inner.undecidable.share(),
            repair_left: inner.repair_left(),
            suspect_copies: inner.suspects.len(),
            ..LogStoreSize::default()
        };
        for shard in &inner.shards {
            let shard = shard.lock();
            let IndexLen { unsaved, exact, sealed } = shard.index().len();
            size.keys += unsaved + exact + sealed;
            size.unsaved_keys += unsaved;
            size.sealed_keys += sealed;
            size.full_map_bytes += shard.index().saved_bytes();
        }
        size.full_map_bytes += inner.sealing.memory_bytes();
        size
    }
}
