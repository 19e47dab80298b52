//! The log engine of one gateway: what its parts share, and how a write of a client runs.

mod service;
mod size;

pub(crate) use service::own_staged;
pub use size::LogStoreSize;

use crate::config::LogStoreConfig;
use crate::epochs::Epochs;
use crate::gateway::{Keys, Member};
use crate::index::Located;
use crate::machine::SequenceSource;
use crate::names::Names;
use crate::pins::{Pin, Pins};
use crate::read::info_of;
use crate::recovery::undecidable::{Undecidable, until};
use crate::remembered::Remembered;
use crate::room::Patience;
use crate::stats::LogStoreStats;
use crate::targets::Targets;
use crate::write::{Draft, TurnGuard, WriteOp};
use bytes::Bytes;
use engine::{Committed, Condition, EngineError, ObjectKey, Payload, Unmet, Waiter};
use env::Env;
use format::attributes::{Attributes, ETag};
use format::entry::Entry;
use format::record::{EntryName, RecordKind, WriteId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use types::{Epoch, GatewayId, Generation, KeyHash, Order, Sequence, UploadId};

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
    /// Pins beside records of these objects of which it is not known whether they stand, with their last epoch.
    pub unknown_pins: Mutex<BTreeMap<KeyHash, (Epoch, Pin)>>,
    pub stats: LogStoreStats,
    /// What missing devices make undecidable (RFD 2, decision 21); empty in normal life.
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
    /// Zones that are emptied and still read.
    pub unreleased: crate::collect::Unreleased,
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

    /// Whether no other gateway writes while this one lives.
    pub fn is_alone(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.is_sole)
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
    pub(crate) fn check_serves(&self) -> Result<(), EngineError> {
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
        let draft = Draft { waiter: Waiter::present(), ..draft };
        self.in_touch(self.write_patiently(draft, condition, true)).await
    }

    /// The same without waiting for collection, for who has a pin, as a step of a call that is [`Inner::in_touch`] as a whole.
    pub async fn write_unless_full(self: &Arc<Self>, draft: Draft, condition: Condition) -> Result<Committed, EngineError> {
        self.write_patiently(draft, condition, false).await
    }

    /// No try begins when nobody waits for it any more: it would stand above what was acknowledged since.
    async fn write_patiently(
        self: &Arc<Self>,
        draft: Draft,
        condition: Condition,
        waits_for_room: bool,
    ) -> Result<Committed, EngineError> {
        self.check_serves()?;
        let mut op = WriteOp::new(self, draft, !condition.is_blind());
        let mut patience = Patience::default();
        loop {
            if op.waiter().has_left() {
                env::mark("gateway: a write that nobody waits for is not tried again");
                return Err(nobody_waits());
            }
            match self.attempt(&op, &condition).await {
                Err(EngineError::Full) if waits_for_room && patience.wait(self).await => op = op.anew(),
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

    /// Carries out one try. If nobody waits for it any more before its turn has come, it ends there.
    async fn attempt(self: &Arc<Self>, op: &Arc<WriteOp>, condition: &Condition) -> Result<Committed, EngineError> {
        self.start(op)?;
        let carried_out = self.carry_out(op, condition);
        tokio::pin!(carried_out);
        tokio::select! {
            biased;
            outcome = &mut carried_out => return outcome,
            () = op.waiter().left() => op.withdraw(nobody_waits()),
        }
        carried_out.await
    }

    /// Evaluates the condition when the write's turn has come.
    async fn carry_out(self: &Arc<Self>, op: &Arc<WriteOp>, condition: &Condition) -> Result<Committed, EngineError> {
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

pub(crate) fn nobody_waits() -> EngineError {
    EngineError::Unavailable { reason: "nobody waits for this write any more".to_owned() }
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
        checksum: attributes.checksum_scheme(),
        length: 0,
        tree_height: 0,
        payload: Payload::new(),
        kept: None,
        waiter: Waiter::default(),
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
