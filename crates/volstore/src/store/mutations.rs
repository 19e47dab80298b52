//! Puts, deletes and tags.

use std::sync::Arc;

use ::engine::{Committed, Condition, EngineError, Payload, Unmet};
use bytes::Bytes;
use device::Finishing;
use format::attributes::Attributes;
use types::limits::MAX_SMALL_BYTES;

use super::committing::Prepared;
use super::held::{Held, StagedContent};
use super::latches::Latch;
use super::{Inner, State, Store, unavailable};
use crate::content::{Content, Piece};
use crate::limits::PIECE_BYTES;
use crate::name::{Name, Opseq};
use crate::pg::attributes_of;
use crate::record::Mutation;

/// An answer that comes also where its caller waits for it no more.
type Asked<T> = Finishing<Result<T, EngineError>>;

const UNDECIDED: &str =
    "a write of this name has failed: whether it counts is decided at the next start, or by the next primary";

/// When a name may be written.
#[derive(Clone, Debug)]
pub struct Rule {
    pub condition: Condition,
    /// A name that is there is a conflict.
    pub is_strict: bool,
}

impl Rule {
    /// Whether it asks for what is there: the name is held alone then.
    fn is_blind(&self) -> bool {
        self.condition.is_blind() && !self.is_strict
    }
}

impl Store {
    /// Writes an object of one piece.
    pub fn put(&self, name: Name, attributes: Attributes, payload: Payload, rule: Rule) -> Asked<Committed> {
        self.on_its_own(self.inner.clone().put(name, attributes, payload, rule))
    }

    /// Writes a piece of an object that has no name yet.
    pub fn stage(&self, payload: Payload) -> Asked<(Piece, Held)> {
        self.on_its_own(self.inner.clone().stage(payload))
    }

    /// Makes pieces the object.
    pub fn commit(&self, name: Name, attributes: Attributes, staged: StagedContent, rule: Rule) -> Asked<Committed> {
        self.on_its_own(self.inner.clone().commit_staged(name, attributes, staged, rule))
    }

    /// Replaces the tags of the visible version.
    pub fn set_tags(&self, name: Name, tags: Vec<(Bytes, Bytes)>) -> Asked<Committed> {
        self.on_its_own(self.inner.clone().set_tags(name, tags))
    }

    /// Deletes an object.
    pub fn delete(&self, name: Name, condition: Condition) -> Asked<()> {
        self.on_its_own(self.inner.clone().delete(name, condition))
    }
}

impl Inner {
    async fn put(
        self: Arc<Self>,
        name: Name,
        attributes: Attributes,
        payload: Payload,
        rule: Rule,
    ) -> Result<Committed, EngineError> {
        let length = check_small(&payload)?;
        let encoded = encode(&attributes)?;
        let _latch = self.admit(&name, &rule).await?;
        if length == 0 {
            let held = Some(self.allocate(0).await?);
            let content = Arc::new(Content::default());
            let opseq = self.commit(Mutation::Put { name, attributes: encoded, content }, Default::default(), held).await?;
            return Ok(committed(&attributes, opseq));
        }
        let Prepared { piece, writes, held } = self.prepare(&payload).await?;
        drop(payload);
        let content = Arc::new(Content { pieces: [piece].into(), parts: None });
        let opseq = self.commit(Mutation::Put { name, attributes: encoded, content }, writes, Some(held)).await?;
        Ok(committed(&attributes, opseq))
    }

    async fn stage(self: Arc<Self>, payload: Payload) -> Result<(Piece, Held), EngineError> {
        let length: usize = payload.iter().map(Bytes::len).sum();
        if length == 0 || length > PIECE_BYTES {
            return Err(EngineError::Invalid { reason: format!("a piece has 1 to {PIECE_BYTES} bytes, not {length}") });
        }
        self.found().await?;
        self.log_turn().await?;
        let Prepared { piece, writes, held } = self.prepare(&payload).await?;
        drop(payload);
        self.write(writes).await?;
        Ok((piece, held))
    }

    async fn commit_staged(
        self: Arc<Self>,
        name: Name,
        attributes: Attributes,
        staged: StagedContent,
        rule: Rule,
    ) -> Result<Committed, EngineError> {
        let encoded = encode(&attributes)?;
        let _latch = self.admit(&name, &rule).await?;
        let StagedContent { pieces, held, .. } = staged;
        let content = Arc::new(Content { pieces: pieces.into(), parts: None });
        let mutation = Mutation::Put { name, attributes: encoded, content };
        let opseq = self.commit(mutation, Default::default(), held).await?;
        Ok(committed(&attributes, opseq))
    }

    async fn set_tags(self: Arc<Self>, name: Name, tags: Vec<(Bytes, Bytes)>) -> Result<Committed, EngineError> {
        let _latch = self.latches.alone(&name).await;
        let head = self.look(|state| state.pg.object(&name))?.ok_or(EngineError::NotFound)?;
        self.log_turn().await?;
        let held = Some(self.allocate(0).await?);
        let attributes = Attributes { tags, ..attributes_of(&head.attributes) };
        let mutation = Mutation::SetAttributes { name, base: head.opseq, attributes: encode(&attributes)? };
        let opseq = self.commit(mutation, Default::default(), held).await?;
        Ok(committed(&attributes, opseq))
    }

    /// It does not wait for the log's turn: it gives space back.
    async fn delete(self: Arc<Self>, name: Name, condition: Condition) -> Result<(), EngineError> {
        let _latch = match condition.is_blind() {
            true => self.latches.shared(&name).await,
            false => self.latches.alone(&name).await,
        };
        let is_there = self.look(|state| {
            if !condition.is_blind() {
                check_decided(state, &name)?;
            }
            state.pg.check_condition(&name, &condition).map_err(unmet)?;
            Ok::<bool, EngineError>(state.pg.has_object(&name))
        });
        if !is_there?? {
            // What is pending on the name, if anything is, comes after this.
            return Ok(());
        }
        self.commit(Mutation::Delete { name }, Default::default(), None).await.map(drop)
    }

    /// Waits until a name may be written, and the log has room. The latch is held until the write has taken effect.
    pub(super) async fn admit(self: &Arc<Self>, name: &Name, rule: &Rule) -> Result<Latch, EngineError> {
        let latch = match rule.is_blind() {
            true => self.latches.shared(name).await,
            false => self.latches.alone(name).await,
        };
        self.check_rule(name, rule)?;
        self.found().await?;
        self.log_turn().await?;
        Ok(latch)
    }

    /// The caller holds the name alone, unless the rule lets everything in.
    pub(super) fn check_rule(&self, name: &Name, rule: &Rule) -> Result<(), EngineError> {
        self.look(|state| {
            if !rule.is_blind() {
                check_decided(state, name)?;
            }
            state.pg.check_condition(name, &rule.condition).map_err(unmet)?;
            if rule.is_strict && state.pg.has_object(name) {
                let reason = "the bucket is strict: an object that is there is not overwritten; delete it first".to_owned();
                return Err(EngineError::Conflict { reason });
            }
            Ok(())
        })?
    }
}

/// A mutation that failed leaves its latch, and is pending for as long as this store is open.
fn check_decided(state: &State, name: &Name) -> Result<(), EngineError> {
    match state.pg.is_pending(name) {
        true => Err(unavailable(UNDECIDED.to_owned())),
        false => Ok(()),
    }
}

fn unmet(unmet: Unmet) -> EngineError {
    match unmet {
        Unmet::Absent => EngineError::NotFound,
        Unmet::Differs => EngineError::PreconditionFailed,
    }
}

/// Bytes of a payload that one piece can have.
pub(super) fn check_small(payload: &[Bytes]) -> Result<usize, EngineError> {
    let length = payload.iter().map(Bytes::len).sum();
    if length > MAX_SMALL_BYTES {
        let reason = format!("{length} bytes are more than the {MAX_SMALL_BYTES} of a small object");
        return Err(EngineError::Invalid { reason });
    }
    Ok(length)
}

/// Attributes as records have them.
pub(super) fn encode(attributes: &Attributes) -> Result<Box<[u8]>, EngineError> {
    attributes.check_length().map_err(|error| EngineError::Invalid { reason: error.to_string() })?;
    Ok(attributes.to_bytes().to_vec().into())
}

pub(super) fn committed(attributes: &Attributes, opseq: Opseq) -> Committed {
    Committed { etag: attributes.etag, order: opseq.order(), modified_ms: attributes.modified_ms }
}
