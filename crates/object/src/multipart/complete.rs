//! Joining parts to an object.

use std::sync::Arc;

use engine::{Committed, CompletePart, Condition, EngineError, EngineFuture, ObjectEngine, PartInfo, UploadRef};
use format::attributes::{Attributes, Checksum, ChecksumScheme, ChecksumType, ETag};
use md5::{Digest as _, Md5};
use types::limits::{MAX_OBJECT_BYTES, MAX_PARTS, MIN_PART_BYTES};

use super::part::check_part_number;
use super::{UploadName, checksum};
use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::service::ObjectService;

/// A part as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedPart {
    pub number: u32,
    /// None for a text that is no tag of ours: it is no part's.
    pub etag: Option<ETag>,
    /// Compared, where given.
    pub checksum: Option<Checksum>,
}

/// How to complete an upload.
#[derive(Clone, Debug, Default)]
pub struct CompleteRequest {
    /// In ascending order.
    pub parts: Vec<NamedPart>,
    pub condition: Condition,
    /// What the object must have, where given.
    pub checksum: Option<Checksum>,
    /// How many parts the composite checksum above says that it is made of.
    pub checksum_parts: Option<u16>,
    /// What it must cover, where given: the content, or the parts' checksums.
    pub is_full_object: Option<bool>,
    pub length: Option<u64>,
}

/// An object made by parts, durable and visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    pub etag: ETag,
    pub modified_ms: u64,
    pub checksum: Option<Checksum>,
}

/// The object that the parts make.
struct Joined {
    parts: Vec<CompletePart>,
    etag: ETag,
    checksum: Option<Checksum>,
}

impl ObjectService {
    /// Makes the object from its parts and ends the upload. A retry answers what the first attempt did.
    pub async fn complete_upload(
        &self,
        principal: &Principal,
        name: UploadName<'_>,
        request: CompleteRequest,
    ) -> Result<Completed, ObjectError> {
        let (bucket, upload) = self.upload(principal, Action::PutObject, name)?;
        let engine = self.engine(&bucket)?;
        check_order(&request.parts)?;
        let (attributes, stored) = match stored_parts(engine, &upload).await {
            Err(ObjectError::NoSuchUpload) => return self.first_outcome(&bucket, upload).await,
            outcome => outcome?,
        };
        let joined = match join(&request, &stored, &attributes) {
            // Another attempt has ended it meanwhile, and some of its parts were gone when they were looked up.
            Err(ObjectError::InvalidPart { .. }) if has_ended(engine, &upload).await => {
                return self.first_outcome(&bucket, upload).await;
            }
            joined => joined?,
        };
        let attributes = Attributes {
            etag: joined.etag,
            modified_ms: self.now_ms(),
            checksum: joined.checksum,
            upload_checksum: None,
            part_count: Some(joined.parts.len() as u16),
            ..attributes
        };
        let (parts, condition) = (joined.parts, request.condition);
        let committed = self
            .inside(&bucket, |engine| Box::pin(async move { engine.complete(&upload, parts, attributes, condition).await }))
            .await?;
        Ok(Completed { etag: committed.etag, modified_ms: committed.modified_ms, checksum: joined.checksum })
    }

    /// An upload that has ended answers what it answered first, whatever the retry says (zstore.md, decision 15). The end may still have to be written.
    async fn first_outcome(&self, bucket: &Bucket, upload: UploadRef) -> Result<Completed, ObjectError> {
        let key = upload.key.clone();
        let outcome = |engine: Arc<dyn ObjectEngine>| -> EngineFuture<'static, Option<Committed>> {
            Box::pin(async move {
                match engine.complete(&upload, Vec::new(), Attributes::default(), Condition::None).await {
                    Err(EngineError::Invalid { .. }) => Ok(None),
                    outcome => outcome.map(Some),
                }
            })
        };
        let committed = self.inside(bucket, outcome).await?.ok_or(ObjectError::NoSuchUpload)?;
        // The object may be another by now; only if it is still this one is its checksum known.
        let info = self.engine(bucket)?.info(&key).await.ok().filter(|info| info.order == committed.order);
        let checksum = info.and_then(|info| info.attributes.checksum);
        Ok(Completed { etag: committed.etag, modified_ms: committed.modified_ms, checksum })
    }
}

async fn has_ended(engine: &dyn ObjectEngine, upload: &UploadRef) -> bool {
    matches!(engine.upload(upload).await.map_err(ObjectError::from), Err(ObjectError::NoSuchUpload))
}

async fn stored_parts(engine: &dyn ObjectEngine, upload: &UploadRef) -> Result<(Attributes, Vec<PartInfo>), ObjectError> {
    let attributes = engine.upload(upload).await?;
    let parts = engine.parts(upload, 0, usize::from(MAX_PARTS)).await?;
    Ok((attributes, parts))
}

/// What can be judged without looking at the upload.
fn check_order(parts: &[NamedPart]) -> Result<(), ObjectError> {
    if parts.is_empty() || parts.len() > usize::from(MAX_PARTS) {
        let reason = format!("an upload is completed with 1 to {MAX_PARTS} parts, not {}", parts.len());
        return Err(ObjectError::InvalidRequest { reason });
    }
    for part in parts {
        check_part_number(part.number)?;
    }
    if !parts.is_sorted_by(|left, right| left.number < right.number) {
        return Err(ObjectError::InvalidPartOrder);
    }
    Ok(())
}

fn join(request: &CompleteRequest, stored: &[PartInfo], attributes: &Attributes) -> Result<Joined, ObjectError> {
    let mut parts: Vec<PartInfo> = Vec::with_capacity(request.parts.len());
    for named in &request.parts {
        parts.push(find_part(named, stored)?.clone());
    }
    check_lengths(&parts, request.length)?;
    let checksum = joined_checksum(request, attributes.upload_checksum, &parts)?;
    Ok(Joined {
        etag: multipart_tag(&parts),
        checksum,
        parts: parts.iter().map(|part| CompletePart { number: part.number, order: part.order }).collect(),
    })
}

fn find_part<'a>(named: &NamedPart, stored: &'a [PartInfo]) -> Result<&'a PartInfo, ObjectError> {
    let number = check_part_number(named.number)?;
    let found = stored.binary_search_by_key(&number, |part| part.number).ok().map(|index| &stored[index]);
    let found = found.filter(|part| named.etag == Some(part.attributes.etag)).ok_or(ObjectError::InvalidPart { number })?;
    match (named.checksum, &found.attributes.checksum) {
        (Some(given), Some(has)) if given.algorithm() == has.algorithm() => {
            if given.value() == has.value() {
                Ok(found)
            } else {
                Err(ObjectError::InvalidPart { number })
            }
        }
        (Some(given), _) => Err(ObjectError::BadPartDigest { number, what: given.algorithm().name() }),
        (None, _) => Ok(found),
    }
}

fn check_lengths(parts: &[PartInfo], expected: Option<u64>) -> Result<(), ObjectError> {
    let (_, all_but_last) = parts.split_last().expect("an upload is completed with one part at least");
    if let Some(short) = all_but_last.iter().find(|part| part.length < MIN_PART_BYTES) {
        return Err(ObjectError::EntityTooSmall { number: short.number, bytes: short.length });
    }
    let length: u64 = parts.iter().map(|part| part.length).sum();
    if length > MAX_OBJECT_BYTES {
        return Err(ObjectError::EntityTooLarge { limit: MAX_OBJECT_BYTES });
    }
    match expected {
        Some(expected) if expected != length => {
            let reason = format!("the parts have {length} bytes, the request says {expected}");
            Err(ObjectError::InvalidRequest { reason })
        }
        _ => Ok(()),
    }
}

/// The object's checksum, if the request agrees with it.
fn joined_checksum(
    request: &CompleteRequest,
    opened_for: Option<ChecksumScheme>,
    parts: &[PartInfo],
) -> Result<Option<Checksum>, ObjectError> {
    let scheme = opened_for.or_else(|| checksum::scheme_of(parts));
    let refuse = |reason| Err(ObjectError::InvalidRequest { reason });
    if let (Some(is_full_object), Some(scheme)) = (request.is_full_object, scheme)
        && is_full_object != scheme.full_object
    {
        let mode = if scheme.full_object { "FULL_OBJECT" } else { "COMPOSITE" };
        return refuse(format!(
            "the upload was created using the {mode} checksum mode; the complete request must use the same"
        ));
    }
    if let Some(composite) = opened_for.filter(|scheme| !scheme.full_object)
        && let Some(bare) = request.parts.iter().find(|part| part.checksum.is_none())
    {
        let name = composite.algorithm.name().to_ascii_lowercase();
        return refuse(format!(
            "the upload was created using a {name} checksum. The complete request must include the checksum for each part. It was missing for part {} in the request",
            bare.number
        ));
    }
    let found = scheme.and_then(|scheme| checksum::of_object(scheme, parts));
    if let Some(given) = &request.checksum {
        check_checksum(given, request.checksum_parts, found.as_ref())?;
    }
    Ok(found)
}

fn check_checksum(given: &Checksum, given_parts: Option<u16>, found: Option<&Checksum>) -> Result<(), ObjectError> {
    let wrong = || Err(ObjectError::BadDigest { what: given.algorithm().name() });
    match found {
        None => {
            let reason = format!("the parts do not all have a {}", given.algorithm().name());
            Err(ObjectError::InvalidRequest { reason })
        }
        Some(found) if found.algorithm() != given.algorithm() => {
            Err(ObjectError::InvalidRequest { reason: checksum::mismatch(Some(given.algorithm()), found.algorithm()) })
        }
        Some(found) if found.value() != given.value() => wrong(),
        Some(found) => match (given_parts, found.kind()) {
            (None, _) => Ok(()),
            (Some(given), ChecksumType::Composite { parts }) if given == parts => Ok(()),
            (Some(_), _) => wrong(),
        },
    }
}

/// S3's tag of an object made by parts: the MD5 of the parts' binary tags, with their number.
fn multipart_tag(parts: &[PartInfo]) -> ETag {
    let mut digest = Md5::new();
    for part in parts {
        digest.update(part.attributes.etag.digest());
    }
    ETag::Multipart { digest: digest.finalize().into(), parts: parts.len() as u16 }
}
