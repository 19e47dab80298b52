//! Other tags for an object as it is: its newest record is written again over the same content, and everything else stays.
//!
//! The record is read first, with its chunks pinned. The write goes ahead only if that record is still the newest when the key's turn comes;
//! otherwise it is read again. So tags never bring back content that was replaced meanwhile.
//!
//! ```text
//!   read and pin ──▶ turn ── still the newest ──▶ append
//!        ▲             └─ another one ─┐
//!        └─────────────────────────────┘
//! ```

use crate::append::Unnamed;
use crate::large::{LogStaged, Tree, read_tree};
use crate::read::info_of;
use crate::room::Patience;
use crate::store::{Inner, LogStore, nobody_waits};
use crate::targets::LiveCount;
use crate::write::{Draft, TurnGuard, WriteOp};
use bytes::Bytes;
use engine::{Committed, EngineError, ObjectKey, Waiter};
use format::attributes::Attributes;
use format::chunk_ref::ChunkRef;
use format::record::{EntryName, RecordKind};
use smallvec::smallvec;
use std::sync::Arc;
use types::Order;

/// How often the object may be another one each time that the turn comes.
const MAX_OVERTAKEN: usize = 16;

/// Names and values.
type Tags = Vec<(Bytes, Bytes)>;

/// An object's record with other tags, still to be written.
struct Rewrite {
    draft: Draft,
    /// The record that it replaces.
    replaces: Order,
    /// Chunks that both records name until the older one is released.
    shared: Vec<ChunkRef>,
}

impl Inner {
    /// Replaces an object's tags. Its content, tag and time stay. Errors as of a write; `NotFound` if there is no object.
    pub(crate) async fn set_tags(self: &Arc<Self>, key: &ObjectKey, tags: Tags) -> Result<Committed, EngineError> {
        self.check_serves()?;
        let (waiter, mut patience, mut overtaken) = (Waiter::present(), Patience::default(), 0);
        while overtaken < MAX_OVERTAKEN {
            if waiter.has_left() {
                return Err(nobody_waits());
            }
            match self.try_tags(key, &tags, &waiter).await {
                Ok(Some(committed)) => return Ok(committed),
                Ok(None) => overtaken += 1,
                // With its pin gone: collection waits for pins.
                Err(EngineError::Full) if patience.wait(self).await => {}
                Err(EngineError::Unavailable { .. }) if patience.wait_for_view(self).await => {}
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Busy { reason: "the object is written all the time".to_owned() })
    }

    /// One try; `None` if the object was another one when the turn came.
    async fn try_tags(
        self: &Arc<Self>,
        key: &ObjectKey,
        tags: &Tags,
        waiter: &Waiter,
    ) -> Result<Option<Committed>, EngineError> {
        let Rewrite { draft, replaces, shared } = self.with_tags(key, tags, waiter).await?;
        let op = WriteOp::new(self, draft, true);
        self.start(&op)?;
        let guard = TurnGuard::new(op.clone());
        let newest = op.turn().await?;
        if newest.is_none_or(|newest| !newest.is_live() || newest.order != replaces) {
            guard.withdraw(EngineError::PreconditionFailed);
            return Ok(None);
        }
        guard.disarm();
        op.append();
        let committed = op.finished().await?;
        shared.iter().for_each(|chunk| self.targets.add_live_ref(chunk));
        Ok(Some(committed))
    }

    async fn with_tags(self: &Arc<Self>, key: &ObjectKey, tags: &Tags, waiter: &Waiter) -> Result<Rewrite, EngineError> {
        let name = EntryName::object(key.bucket(), key.key().clone());
        let (located, frame, pin) = self.read_pinned(&name, &name.hash()).await?;
        let known = info_of(&frame.record, located.order)?.attributes;
        // What an engine notes of a write is of that write alone.
        let attributes = Attributes { tags: tags.clone(), expected: None, piggyback: None, overlapped: Vec::new(), ..known };
        let draft = Draft { length: frame.record.length, waiter: waiter.clone(), ..LogStore::object_draft(key, &attributes) };
        let Some(pin) = pin else {
            let draft = Draft { payload: smallvec![frame.payload], ..draft };
            return Ok(Rewrite { draft, replaces: located.order, shared: Vec::new() });
        };
        let Tree { chunks: shared, parts, .. } = read_tree(self, &frame.payload, frame.record.tree_height).await?;
        let unnamed = Unnamed::new(self, LiveCount::Chunks);
        let staged = LogStaged::from_refs(self, name.hash(), shared.clone(), unnamed, pin).with_parts(parts);
        let content = staged.into_content().await?;
        let draft = Draft {
            kind: RecordKind::Descriptor,
            tree_height: content.tree_height,
            payload: content.payload,
            kept: Some(content.kept),
            ..draft
        };
        Ok(Rewrite { draft, replaces: located.order, shared })
    }
}
