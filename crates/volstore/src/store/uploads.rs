//! Uploads in parts.

use std::sync::Arc;

use ::engine::{Committed, CompletePart, EngineError, PartInfo, Payload};
use device::Finishing;
use format::attributes::Attributes;
use smallvec::SmallVec;
use types::UploadId;
use types::limits::MAX_PARTS;

use super::committing::{Prepared, Write};
use super::held::{Held, StagedContent};
use super::mutations::{Rule, check_small, committed, encode};
use super::{Inner, Store};
use crate::content::{Content, Piece};
use crate::name::Opseq;
use crate::pg::{Upload, UploadName, attributes_of};
use crate::record::Mutation;

type Asked<T> = Finishing<Result<T, EngineError>>;

/// A part's bytes.
pub enum PartBytes {
    Whole(Payload),
    Staged(StagedContent),
}

impl Store {
    pub fn create_upload(&self, name: crate::name::Name, attributes: Attributes) -> Asked<UploadId> {
        self.on_its_own(self.inner.clone().create_upload(name, attributes))
    }

    pub fn put_part(&self, upload: UploadName, number: u16, attributes: Attributes, bytes: PartBytes) -> Asked<PartInfo> {
        self.on_its_own(self.inner.clone().put_part(upload, number, attributes, bytes))
    }

    pub fn complete(
        &self,
        upload: UploadName,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        rule: Rule,
    ) -> Asked<Committed> {
        self.on_its_own(self.inner.clone().complete(upload, parts, attributes, rule))
    }

    pub fn abort(&self, upload: UploadName) -> Asked<()> {
        self.on_its_own(self.inner.clone().abort(upload))
    }

    /// The attributes that an upload was opened with.
    pub fn upload(&self, upload: &UploadName) -> Result<Attributes, EngineError> {
        self.inner.with_upload(upload, |open| attributes_of(&open.attributes))
    }

    /// Parts with numbers above `after`.
    pub fn parts(&self, upload: &UploadName, after: u16, most: usize) -> Result<Vec<PartInfo>, EngineError> {
        self.inner.with_upload(upload, |open| {
            let above = open.parts.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
            let info = |(number, part): (&u16, &crate::pg::Part)| PartInfo {
                number: *number,
                length: part.content.length(),
                attributes: attributes_of(&part.attributes),
                order: part.opseq.order(),
            };
            above.take(most).map(info).collect()
        })
    }
}

impl Inner {
    fn with_upload<T>(&self, upload: &UploadName, look: impl FnOnce(&Upload) -> T) -> Result<T, EngineError> {
        self.look(|state| state.pg.upload(upload).map(look))?.ok_or(EngineError::NoSuchUpload)
    }

    /// Ids of one key ascend with the time at which their uploads were opened.
    fn new_upload_id(&self, attributes: &Attributes) -> UploadId {
        let mut id = [0; 16];
        self.env.fill_random(&mut id[8..]);
        id[..8].copy_from_slice(&attributes.modified_ms.to_be_bytes());
        UploadId(id)
    }

    async fn create_upload(self: Arc<Self>, name: crate::name::Name, attributes: Attributes) -> Result<UploadId, EngineError> {
        let encoded = encode(&attributes)?;
        let upload = self.new_upload_id(&attributes);
        let _latch = self.latches.shared(&name).await;
        self.found().await?;
        self.log_turn().await?;
        let held = Some(self.allocate(0).await?);
        let mutation = Mutation::CreateUpload { name, upload, attributes: encoded };
        self.commit(mutation, Default::default(), held).await?;
        Ok(upload)
    }

    async fn put_part(
        self: Arc<Self>,
        upload: UploadName,
        number: u16,
        attributes: Attributes,
        bytes: PartBytes,
    ) -> Result<PartInfo, EngineError> {
        if number == 0 || number > MAX_PARTS {
            return Err(EngineError::Invalid { reason: format!("part number {number} is not within 1 to {MAX_PARTS}") });
        }
        let encoded = encode(&attributes)?;
        // Neither a completion nor an abort comes between the look and the end.
        let _latch = self.latches.shared(&upload.0).await;
        self.with_upload(&upload, |_| ())?;
        self.log_turn().await?;
        let (pieces, writes, held) = self.pieces_of(bytes).await?;
        let content = Arc::new(Content { pieces: pieces.into(), parts: None });
        let length = content.length();
        let (name, upload) = upload;
        let mutation = Mutation::PutPart { name, upload, number, attributes: encoded, content };
        let opseq = self.commit(mutation, writes, held).await?;
        Ok(PartInfo { number, length, attributes, order: opseq.order() })
    }

    async fn pieces_of(
        self: &Arc<Self>,
        bytes: PartBytes,
    ) -> Result<(Vec<Piece>, SmallVec<[Write; 1]>, Option<Held>), EngineError> {
        match bytes {
            PartBytes::Staged(StagedContent { pieces, held, .. }) => Ok((pieces, Default::default(), held)),
            PartBytes::Whole(payload) if check_small(&payload)? == 0 => {
                Ok((Vec::new(), Default::default(), Some(self.allocate(0).await?)))
            }
            PartBytes::Whole(payload) => {
                let Prepared { piece, writes, held } = self.prepare(&payload).await?;
                Ok((vec![piece], writes, Some(held)))
            }
        }
    }

    async fn complete(
        self: Arc<Self>,
        upload: UploadName,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        rule: Rule,
    ) -> Result<Committed, EngineError> {
        let encoded = encode(&attributes)?;
        let _latch = self.latches.alone(&upload.0).await;
        if let Some(outcome) = self.look(|state| state.pg.outcome(&upload).cloned())? {
            return Ok(committed(&attributes_of(&outcome.attributes), outcome.opseq));
        }
        self.with_upload(&upload, |open| check_parts(open, &parts))??;
        self.check_rule(&upload.0, &rule)?;
        self.log_turn().await?;
        let parts = parts.into_iter().map(|part| (part.number, Opseq::of_order(part.order))).collect();
        let (name, upload) = upload;
        let mutation = Mutation::Complete { name, upload, parts, attributes: encoded };
        let opseq = self.commit(mutation, Default::default(), None).await?;
        Ok(committed(&attributes, opseq))
    }

    /// It does not wait for the log's turn: it gives space back.
    async fn abort(self: Arc<Self>, upload: UploadName) -> Result<(), EngineError> {
        let _latch = self.latches.alone(&upload.0).await;
        self.with_upload(&upload, |_| ())?;
        let (name, upload) = upload;
        self.commit(Mutation::Abort { name, upload }, Default::default(), None).await.map(drop)
    }
}

/// Each part must be the one that the caller looked at, ascending.
fn check_parts(open: &Upload, parts: &[CompletePart]) -> Result<(), EngineError> {
    if parts.is_empty() || !parts.is_sorted_by(|left, right| left.number < right.number) {
        return Err(EngineError::Invalid { reason: "an upload is completed with one or more parts, ascending".to_owned() });
    }
    for named in parts {
        let found = open.parts.get(&named.number).filter(|part| part.opseq.order() == named.order);
        if found.is_none() {
            return Err(EngineError::InvalidPart { number: named.number });
        }
    }
    Ok(())
}
