//! Copying objects within the store.

use bytes::Bytes;
use engine::{Condition, Found, ObjectInfo};
use format::attributes::{Attributes, ChecksumAlgorithm, ChecksumType, ETag, StorageClass};
use futures_util::StreamExt;
use manager::EtagMode;
use types::limits::MAX_PUT_BYTES;

use crate::body::{Body, ChecksumWish, Upload};
use crate::conditions::ReadConditions;
use crate::digest::TagSource;
use crate::error::ObjectError;
use crate::intake::{Intake, Received};
use crate::principal::{Action, Principal};
use crate::put::Written;
use crate::read::{ReadBody, body_of};
use crate::read_ahead::ReadAhead;
use crate::service::{ObjectService, check_attributes, object_key};

/// Where a copy's bytes come from, and when they may be taken.
#[derive(Clone, Debug, Default)]
pub struct CopySource {
    pub bucket: String,
    pub key: String,
    pub conditions: ReadConditions,
}

/// An object to make from another.
pub struct CopyRequest {
    pub source: CopySource,
    pub metadata: MetadataDirective,
    /// Of the object that is written.
    pub condition: Condition,
    /// Another checksum than the source's.
    pub checksum: Option<ChecksumAlgorithm>,
    pub own: OwnAttributes,
}

/// What a copy never takes from its source (S3): the request says it, whatever the directive, or the copy has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAttributes {
    pub storage_class: Option<StorageClass>,
    pub website_redirect: Option<Bytes>,
}

/// Where a copy's attributes come from.
#[derive(Clone, Debug)]
pub enum MetadataDirective {
    /// From the source.
    Copy,
    /// From the request.
    Replace(Box<Attributes>),
    /// From the request, but the tags from the source.
    KeepTags(Box<Attributes>),
    /// From the source, but the tags from the request.
    ReplaceTags(Vec<(Bytes, Bytes)>),
}

impl ObjectService {
    /// Copies an object. The principal must be allowed to read the source.
    pub async fn copy(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: CopyRequest,
    ) -> Result<Written, ObjectError> {
        let CopyRequest { source, metadata, condition, checksum, own } = request;
        let target = self.bucket(principal, Action::PutObject, bucket)?;
        let target_key = object_key(&target, key)?;
        let is_itself = source.bucket == bucket && source.key == key;
        let is_unchanged = matches!(metadata, MetadataDirective::Copy) && checksum.is_none() && own == OwnAttributes::default();
        if is_itself && is_unchanged {
            let reason = "copying an object onto itself without changing its metadata changes nothing";
            return Err(ObjectError::InvalidRequest { reason: reason.to_owned() });
        }
        let found = self.open_source(principal, &source).await?;
        check_copied_length(found.info.length)?;
        let wanted = checksum.or_else(|| found.info.attributes.checksum.map(|checksum| checksum.algorithm()));
        // Of what was opened, whose bytes are copied: the source may be another version before and after.
        let of_source = copied_attributes(&found.info.attributes);
        let attributes = match metadata {
            MetadataDirective::Copy => of_source,
            MetadataDirective::Replace(attributes) => *attributes,
            MetadataDirective::KeepTags(attributes) => Attributes { tags: of_source.tags, ..*attributes },
            MetadataDirective::ReplaceTags(tags) => Attributes { tags, ..of_source },
        };
        let attributes = Attributes {
            storage_class: own.storage_class.unwrap_or(attributes.storage_class),
            website_redirect: own.website_redirect.or(attributes.website_redirect),
            ..attributes
        };
        check_attributes(&attributes)?;
        let intake = Intake {
            engine: self.engine(&target)?,
            key: &target_key,
            part: None,
            tag: copied_tag(target.etag_mode(), &found.info),
            memory: &self.upload_memory,
        };
        let received = receive_copy(intake, found, wanted, &self.read_ahead).await?;
        self.store(&target, &target_key, received, attributes, condition).await
    }

    /// Opens the source of a copy, if the principal may read it and its conditions hold.
    pub(crate) async fn open_source(&self, principal: &Principal, source: &CopySource) -> Result<Found, ObjectError> {
        let bucket = self.bucket(principal, Action::GetObject, &source.bucket)?;
        let found = self.open(&bucket, principal, &source.key).await?;
        source.conditions.check_source(&found.info)?;
        Ok(found)
    }
}

pub(crate) fn check_copied_length(length: u64) -> Result<(), ObjectError> {
    if length > MAX_PUT_BYTES {
        let reason = format!("the source has {length} bytes; a copy takes at most {MAX_PUT_BYTES}, larger ones go by parts");
        return Err(ObjectError::InvalidRequest { reason });
    }
    Ok(())
}

/// Moves all bytes of what was found into the target's engine. Digests that the source carries are not computed again.
async fn receive_copy(
    intake: Intake<'_>,
    found: Found,
    wanted: Option<ChecksumAlgorithm>,
    ahead: &ReadAhead,
) -> Result<Received, ObjectError> {
    let Found { info, content } = found;
    let carried = info
        .attributes
        .checksum
        .filter(|checksum| checksum.kind() == ChecksumType::FullObject && wanted == Some(checksum.algorithm()));
    let wish = match (carried, wanted) {
        (Some(carried), _) => ChecksumWish::Known(carried),
        (None, Some(algorithm)) => ChecksumWish::Compute(algorithm),
        (None, None) => ChecksumWish::None,
    };
    let body = stored_body(body_of(content, 0..info.length, ahead));
    let upload = Upload { body, length: Some(info.length), md5: None, checksum: wish };
    intake.receive(upload).await
}

/// Stored bytes as a body that is written again.
pub(crate) fn stored_body(body: ReadBody) -> Body {
    match body {
        ReadBody::Whole(bytes) => Body::Whole(bytes),
        ReadBody::Stream(stream) => Body::Stream(Box::pin(stream.map(|piece| piece.map_err(crate::body::BodyError::new)))),
    }
}

/// A copy's tag is the MD5 of its content, as if it had been written by one PUT.
fn copied_tag(mode: EtagMode, info: &ObjectInfo) -> TagSource {
    match (mode, info.attributes.etag) {
        (EtagMode::Md5, ETag::Md5(_)) | (EtagMode::Fast, ETag::Fast(_)) => TagSource::Known(info.attributes.etag),
        (mode, _) => mode.into(),
    }
}

/// What a copy takes over: what clients set of the content, not what engines note.
fn copied_attributes(source: &Attributes) -> Attributes {
    Attributes {
        content_type: source.content_type.clone(),
        content_encoding: source.content_encoding.clone(),
        content_disposition: source.content_disposition.clone(),
        content_language: source.content_language.clone(),
        cache_control: source.cache_control.clone(),
        expires: source.expires.clone(),
        metadata: source.metadata.clone(),
        tags: source.tags.clone(),
        ..Attributes::default()
    }
}
