//! Multipart uploads (RFD 2, decision 15).
//!
//! An open upload is an entry that names the object to come and its attributes; each part is an entry of its own. Completing
//! appends one descriptor over the parts' chunks: that append is the commit, and the descriptor names the upload, so that a
//! retry finds the first outcome and recovery finishes what a crash left.
//!
//! Complete and Abort take the upload's turn first and the object's turn second, always in this order. Parts do not take the
//! upload's turn: one that lands while its upload ends is cleaned up by whoever finds it.

mod ending;
mod open;

use crate::append::Unnamed;
use crate::index::Located;
use crate::large::{LogStaged, read_tree};
use crate::list::{Scope, Step};
use crate::names::Merged;
use crate::read::info_of;
use crate::room::Patience;
use crate::store::{Inner, LogStore, draft, nobody_waits, own_staged};
use crate::targets::LiveCount;
use crate::write::{Draft, TurnGuard, WriteOp};
use engine::{Committed, CompletePart, Condition, EngineError, ObjectKey, PartContent, PartInfo, UploadRef, Waiter};
use format::attributes::{Attributes, Checksum};
use format::chunk_ref::ChunkRef;
use format::part_table::PartTable;
use format::record::{EntryName, Record, RecordKind, Space, split_compound};
use futures_util::future::ready;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use smallvec::smallvec;
use std::sync::Arc;
use types::UploadId;
use types::limits::MAX_PARTS;

/// Bytes of an upload's id that hold the time of its creation in milliseconds: enough for 8,900 years.
const TIME_BYTES: usize = 6;

/// Parts of an upload that are looked up side by side: in a cell each may take a call to another node.
const PARTS_AT_A_TIME: usize = 32;

fn upload_name(upload: &UploadRef) -> EntryName {
    EntryName::upload(upload.key.bucket(), upload.key.key(), upload.upload)
}

fn part_name(upload: &UploadRef, number: u16) -> EntryName {
    EntryName::part(upload.key.bucket(), upload.key.key(), upload.upload, number)
}

impl Inner {
    pub(crate) async fn create_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        attributes: Attributes,
    ) -> Result<UploadId, EngineError> {
        let mut id = [0u8; 16];
        self.env.fill_random(&mut id);
        // Lists go by the id, and shall show a key's uploads in the order of their creation (S3). Those of one millisecond come in any order.
        id[..TIME_BYTES].copy_from_slice(&attributes.modified_ms.to_be_bytes()[8 - TIME_BYTES..]);
        let upload = UploadRef { key: key.clone(), upload: UploadId(id) };
        self.write(draft(RecordKind::Upload, upload_name(&upload), &attributes), Condition::None).await?;
        Ok(upload.upload)
    }

    /// Whether an upload takes parts: one whose object is complete has ended, whether or not its tombstone has found room.
    async fn check_open(self: &Arc<Self>, name: &EntryName) -> Result<(), EngineError> {
        match self.background.ending(name) {
            Some(_) => Err(EngineError::NoSuchUpload),
            None => {
                let known = self.locate(&name.hash()).await.map_err(no_such_upload)?;
                let is_own = self.is_own(name, &name.hash(), &known).await?;
                is_own.then_some(()).ok_or(EngineError::NoSuchUpload)
            }
        }
    }

    pub(crate) async fn upload_attributes(self: &Arc<Self>, upload: &UploadRef) -> Result<Attributes, EngineError> {
        let name = upload_name(upload);
        self.check_open(&name).await?;
        let (located, frame) = self.read_newest(&name, &name.hash()).await.map_err(no_such_upload)?;
        Ok(info_of(&frame.record, located.order)?.attributes)
    }

    pub(crate) async fn put_part(
        self: &Arc<Self>,
        upload: &UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> Result<PartInfo, EngineError> {
        if !(1..=MAX_PARTS).contains(&number) {
            return Err(EngineError::Invalid { reason: format!("part number {number} is not between 1 and {MAX_PARTS}") });
        }
        self.check_open(&upload_name(upload)).await?;
        let mut part = draft(RecordKind::Part, part_name(upload, number), &attributes);
        match content {
            PartContent::Whole(payload) => {
                part.length = payload.iter().map(|piece| piece.len() as u64).sum();
                part.payload = payload;
            }
            PartContent::Staged(staged) => {
                let content = own_staged(staged, self)?.into_content().await?;
                part.length = content.length;
                part.tree_height = content.tree_height;
                part.payload = content.payload;
                part.kept = Some(content.kept);
            }
        }
        let length = part.length;
        let committed = self.write(part, Condition::None).await?;
        let is_open = self.check_open(&upload_name(upload)).await;
        if matches!(is_open, Err(EngineError::NoSuchUpload)) {
            // The upload ended while the part was on its way: it would be an orphan.
            self.drop_entry(part_name(upload, number)).await?;
        }
        is_open?;
        Ok(PartInfo { number, length, attributes, order: committed.order })
    }

    pub(crate) async fn parts(
        self: &Arc<Self>,
        upload: &UploadRef,
        after: u16,
        max_parts: usize,
    ) -> Result<Vec<PartInfo>, EngineError> {
        self.check_open(&upload_name(upload)).await?;
        let numbers = self.part_numbers(upload, after, max_parts).await?;
        let look_up = |number: u16| {
            let (inner, name) = (self.clone(), part_name(upload, number));
            async move {
                match inner.read_newest(&name, &name.hash()).await {
                    Ok((located, frame)) => {
                        let info = info_of(&frame.record, located.order)?;
                        Ok(Some(PartInfo { number, length: info.length, attributes: info.attributes, order: info.order }))
                    }
                    Err(EngineError::NotFound) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let looked_up = stream::iter(numbers.into_iter().map(look_up)).buffered(PARTS_AT_A_TIME);
        looked_up.try_filter_map(|part| ready(Ok(part))).try_collect().await
    }

    /// Numbers of the live parts above `after`.
    async fn part_numbers(&self, upload: &UploadRef, after: u16, max_parts: usize) -> Result<Vec<u16>, EngineError> {
        let mut numbers = Vec::new();
        let first = part_name(upload, after.saturating_add(1)).name;
        let (prefix, _) = first.split_at(first.len() - 2);
        let scope = Scope { bucket: upload.key.bucket(), space: Space::Part, prefix: prefix.to_vec() };
        let mut visit = |name: &[u8], _: &Merged| {
            if numbers.len() == max_parts {
                return Step::Stop;
            }
            let number = name[prefix.len()..].try_into().expect("a part's name ends with its number");
            numbers.push(u16::from_be_bytes(number));
            Step::Next
        };
        self.scan(&scope, first.to_vec(), &mut visit).await?;
        Ok(numbers)
    }

    /// Completes an upload. The work is the engine's own: a client that goes away between the object's record and the end of
    /// its upload must not leave the upload open.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        upload: &UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> Result<Committed, EngineError> {
        let (inner, upload, waiter) = (self.clone(), upload.clone(), Waiter::present());
        let completing = async move { inner.complete_here(&upload, parts, attributes, condition, waiter).await };
        let completing = self.env.spawn(completing);
        completing.await.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() }))
    }

    async fn complete_here(
        self: &Arc<Self>,
        upload: &UploadRef,
        parts: Vec<CompletePart>,
        mut attributes: Attributes,
        condition: Condition,
        waiter: Waiter,
    ) -> Result<Committed, EngineError> {
        let turn = match self.take_upload(upload).await {
            Ok(turn) => turn,
            Err(EngineError::NoSuchUpload) => return self.first_outcome(upload).await,
            Err(error) => return Err(error),
        };
        // An earlier Complete may have made the object and failed to end the upload; the object may even be overwritten since.
        if let Some(committed) = self.background.ending(&upload_name(upload)).as_ref().and_then(committed_of) {
            return self.end_completed(upload, turn, committed).await;
        }
        match self.outcome_of_object(upload).await {
            Ok(committed) => return self.end_completed(upload, turn, committed).await,
            Err(EngineError::NoSuchUpload | EngineError::Corrupt { .. }) => {}
            // It may be this upload's: made again, it would be refused by its own condition, or for want of its parts.
            Err(error) => return Err(error),
        }
        if parts.is_empty() || !parts.is_sorted_by(|one, next| one.number < next.number) {
            return Err(EngineError::Invalid { reason: "parts are listed in ascending order, at least one".to_owned() });
        }
        attributes.upload = Some(upload.upload);
        attributes.part_count = Some(parts.len() as u16);
        let mut patience = Patience::default();
        let committed = loop {
            let joined = self.join_parts(upload, &parts, &attributes, condition.clone(), waiter.clone()).await;
            match joined {
                // With its pin gone, and all that it had looked up: collection waits for pins.
                Err(EngineError::Full) if !waiter.has_left() && patience.wait(self).await => {}
                joined => break joined?,
            }
        };
        self.end_completed(upload, turn, committed).await
    }

    /// Makes the object of these parts. Does not wait for room, for it has a pin.
    async fn join_parts(
        self: &Arc<Self>,
        upload: &UploadRef,
        parts: &[CompletePart],
        attributes: &Attributes,
        condition: Condition,
        waiter: Waiter,
    ) -> Result<Committed, EngineError> {
        let pin = self.pins.pin();
        let (mut refs, mut shared, mut unnamed) = (Vec::new(), Vec::new(), Unnamed::new(self, LiveCount::Chunks));
        let mut table = Vec::with_capacity(parts.len());
        let look_up = |part: CompletePart| {
            let (inner, upload, waiter) = (self.clone(), upload.clone(), waiter.clone());
            async move {
                match waiter.has_left() {
                    true => Err(nobody_waits()),
                    false => inner.part_refs(&upload, &part).await,
                }
            }
        };
        let mut looked_up = stream::iter(parts.iter().cloned().map(look_up)).buffered(PARTS_AT_A_TIME);
        while let Some(of_part) = looked_up.try_next().await? {
            unnamed.absorb(of_part.made);
            table.push((of_part.length, of_part.checksum));
            refs.extend_from_slice(&of_part.refs);
            if of_part.are_shared {
                shared.extend(of_part.refs);
            }
        }
        let staged = LogStaged::from_refs(self, LogStore::object_hash(&upload.key), refs, unnamed, pin);
        let staged = staged.with_parts(Some(PartTable::of(&table)));
        let content = staged.into_content().await?;
        let draft = Draft {
            kind: RecordKind::Descriptor,
            length: content.length,
            tree_height: content.tree_height,
            payload: content.payload,
            kept: Some(content.kept),
            waiter: waiter.clone(),
            ..LogStore::object_draft(&upload.key, attributes)
        };
        let committed = self.write_unless_full(draft, condition).await?;
        // Two trees name them until the parts are dropped.
        shared.iter().for_each(|chunk| self.targets.add_live_ref(chunk));
        Ok(committed)
    }

    /// The object exists: the rest is tidying, which recovery also does.
    async fn end_completed(
        self: &Arc<Self>,
        upload: &UploadRef,
        turn: UploadTurn,
        committed: Committed,
    ) -> Result<Committed, EngineError> {
        // Before the turn ends, so that the next Complete in the queue knows of it, and the next one elsewhere.
        self.upload_is_ending(upload_name(upload), outcome_of(&committed));
        match turn.finish(Some(&committed)).await {
            Ok(()) => self.background.upload_ended(&upload_name(upload)),
            Err(error) => tracing::warn!(%error, "an upload whose object is complete is ended later"),
        }
        self.background.drop_parts(upload.clone());
        Ok(committed)
    }

    pub(crate) async fn abort(self: &Arc<Self>, upload: &UploadRef) -> Result<(), EngineError> {
        let (inner, upload) = (self.clone(), upload.clone());
        let aborting = self.env.spawn(async move {
            let turn = inner.take_upload(&upload).await?;
            inner.check_open(&upload_name(&upload)).await?;
            turn.finish(None).await?;
            inner.background.drop_parts(upload);
            Ok(())
        });
        aborting.await.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() }))
    }

    /// A merge meets a live part: if its upload has ended, the part was left over by a full device and a crash, and nothing else
    /// leads to it any more.
    pub(crate) fn note_part(&self, name: &EntryName) {
        let Ok((key, suffix)) = split_compound(Space::Part, &name.name) else { return };
        let upload = UploadId(suffix[..size_of::<UploadId>()].try_into().expect("split_compound checked the length"));
        let Ok(key) = ObjectKey::new(name.bucket, bytes::Bytes::copy_from_slice(&key)) else { return };
        let upload = UploadRef { key, upload };
        if !self.open_uploads.lock().contains_key(&upload.upload) && self.check_decidable(&upload_name(&upload).hash()).is_ok()
        {
            self.background.drop_parts(upload);
        }
    }

    /// Ends all parts of an upload that has ended.
    pub(crate) async fn drop_parts_of(self: &Arc<Self>, upload: &UploadRef) -> Result<(), EngineError> {
        for number in self.part_numbers(upload, 0, MAX_PARTS as usize).await? {
            self.drop_entry(part_name(upload, number)).await?;
        }
        Ok(())
    }

    /// Appends a tombstone for a name, if something stands there.
    pub(crate) async fn drop_entry(self: &Arc<Self>, name: EntryName) -> Result<(), EngineError> {
        let attributes = Attributes { modified_ms: self.env.wall_clock_ms(), ..Attributes::default() };
        self.drop_entry_as(name, attributes).await
    }

    /// [`Inner::drop_entry`] with a tombstone that says more.
    pub(crate) async fn drop_entry_as(self: &Arc<Self>, name: EntryName, attributes: Attributes) -> Result<(), EngineError> {
        self.write_now(draft(RecordKind::Tombstone, name, &attributes)).await?;
        Ok(())
    }

    /// Takes the upload's turn, for a tombstone that is not appended yet.
    async fn take_upload(self: &Arc<Self>, upload: &UploadRef) -> Result<UploadTurn, EngineError> {
        let attributes = Attributes { modified_ms: self.env.wall_clock_ms(), ..Attributes::default() };
        let tombstone = draft(RecordKind::Tombstone, upload_name(upload), &attributes);
        let op = WriteOp::new(self, tombstone, true);
        self.start(&op)?;
        let guard = TurnGuard::new(op.clone());
        match op.turn().await? {
            Some(newest) if newest.is_live() && self.is_own(op.name(), &op.name().hash(), &newest).await? => {
                Ok(UploadTurn { op, guard })
            }
            _ => Err(EngineError::NoSuchUpload),
        }
    }

    /// A retried Complete answers what the first one did (decision 15): the upload's tombstone says it for as long as it is kept,
    /// and the object itself for as long as it is the newest.
    async fn first_outcome(self: &Arc<Self>, upload: &UploadRef) -> Result<Committed, EngineError> {
        let name = upload_name(upload);
        if let Some(tombstone) = self.newest(&name.hash()).await?
            && let Some(frame) = self.read_copies(&tombstone).await?
            && frame.record.name == name
        {
            let attributes = info_of(&frame.record, tombstone.order)?.attributes;
            return committed_of(&attributes).ok_or(EngineError::NoSuchUpload);
        }
        self.outcome_of_object(upload).await
    }

    /// Ends open uploads whose objects are complete: their Completes found no room for the tombstone, and the checkpoint that came
    /// after them hides their descriptors from recovery's walk.
    pub(crate) async fn end_complete_uploads(self: &Arc<Self>) -> Result<(), EngineError> {
        let open: Vec<EntryName> = self.open_uploads.lock().values().cloned().collect();
        for name in open {
            let (key, suffix) = split_compound(Space::Upload, &name.name).map_err(|error| corrupt(&error))?;
            let id = UploadId(suffix.try_into().expect("split_compound checked the length"));
            let key = ObjectKey::new(name.bucket, bytes::Bytes::copy_from_slice(&key)).map_err(|error| corrupt(&error))?;
            let object = LogStore::object_hash(&key);
            // Only a descriptor can name an upload; most open uploads have no object yet. What a missing device makes undecidable
            // waits for that device.
            let Some(known) = self.live_large(&object).filter(|_| self.check_decidable(&name.hash()).is_ok()) else { continue };
            let upload = UploadRef { key, upload: id };
            // Who founds a cell has no lease yet, and is not to wait for one: nobody else writes.
            let outcome = match self.member {
                None => self.outcome_of_object(&upload).await.ok(),
                Some(_) => {
                    self.read_copies(&known).await.ok().flatten().and_then(|frame| outcome_in(&frame.record, &known, &upload))
                }
            };
            if let Some(committed) = outcome {
                self.upload_is_ending(name, outcome_of(&committed));
                self.background.drop_parts(upload);
            }
        }
        match self.tidy_uploads().await {
            Ok(()) | Err(EngineError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The outcome of a Complete whose object is still the newest.
    async fn outcome_of_object(self: &Arc<Self>, upload: &UploadRef) -> Result<Committed, EngineError> {
        let name = EntryName::object(upload.key.bucket(), upload.key.key().clone());
        let (located, frame) = self.read_newest(&name, &name.hash()).await.map_err(no_such_upload)?;
        outcome_in(&frame.record, &located, upload).ok_or(EngineError::NoSuchUpload)
    }

    /// The chunks of a part, if it is still the one that the caller looked at. A part that can't be looked up or read at the moment
    /// is not judged: "invalid" tells a client that it is lost.
    async fn part_refs(self: &Arc<Self>, upload: &UploadRef, part: &CompletePart) -> Result<PartRefs, EngineError> {
        let name = part_name(upload, part.number);
        let missing = |error| match error {
            EngineError::NotFound => EngineError::InvalidPart { number: part.number },
            other => other,
        };
        let (located, frame): (Located, _) = self.read_newest(&name, &name.hash()).await.map_err(missing)?;
        if located.order != part.order {
            return Err(EngineError::InvalidPart { number: part.number });
        }
        let are_shared = frame.record.tree_height > 0;
        let none_made = || Unnamed::new(self, LiveCount::Chunks);
        let (length, checksum) = (frame.record.length, info_of(&frame.record, located.order)?.attributes.checksum);
        let (refs, made) = if are_shared {
            (read_tree(self, &frame.payload, frame.record.tree_height).await?.chunks, none_made())
        } else if frame.payload.is_empty() {
            (Vec::new(), none_made())
        } else {
            // A small part's bytes stand in its own record, which ends with the upload: they get a chunk of their own.
            let owner = LogStore::object_hash(&upload.key);
            let mut staged = LogStaged::beside_pin(self, owner, Some((upload.upload, part.number)));
            staged.push(smallvec![frame.payload.clone()]).await?;
            staged.into_refs().await?
        };
        Ok(PartRefs { refs, length, checksum, are_shared, made })
    }
}

/// The chunks of a part.
struct PartRefs {
    refs: Vec<ChunkRef>,
    length: u64,
    checksum: Option<Checksum>,
    /// The part's own tree names them too.
    are_shared: bool,
    /// Those that no tree names yet.
    made: Unnamed,
}

/// The right to end an upload.
struct UploadTurn {
    op: Arc<WriteOp>,
    guard: TurnGuard,
}

impl UploadTurn {
    /// Appends the tombstone; that of a completed upload remembers the outcome.
    async fn finish(self, outcome: Option<&Committed>) -> Result<(), EngineError> {
        if let Some(committed) = outcome {
            self.op.amend(outcome_of(committed).to_bytes());
        }
        self.guard.disarm();
        self.op.append();
        self.op.finished().await?;
        Ok(())
    }
}

fn corrupt(error: &impl std::fmt::Display) -> EngineError {
    EngineError::Corrupt { detail: error.to_string() }
}

/// The outcome of an upload's Complete, if this record is the object that it made.
fn outcome_in(record: &Record, located: &Located, upload: &UploadRef) -> Option<Committed> {
    let name = EntryName::object(upload.key.bucket(), upload.key.key().clone());
    let attributes = info_of(record, located.order).ok().filter(|_| record.name == name)?.attributes;
    let committed = || Committed { etag: attributes.etag, order: located.order, modified_ms: attributes.modified_ms };
    (attributes.upload == Some(upload.upload)).then(committed)
}

/// What the tombstone of a completed upload remembers.
fn outcome_of(committed: &Committed) -> Attributes {
    let Committed { etag, order, modified_ms } = *committed;
    Attributes { etag, modified_ms, expected: Some(order), ..Attributes::default() }
}

/// The inverse of [`outcome_of`]; none if the upload was aborted.
fn committed_of(tombstone: &Attributes) -> Option<Committed> {
    tombstone.expected.map(|order| Committed { etag: tombstone.etag, order, modified_ms: tombstone.modified_ms })
}

fn no_such_upload(error: EngineError) -> EngineError {
    match error {
        EngineError::NotFound => EngineError::NoSuchUpload,
        other => other,
    }
}
