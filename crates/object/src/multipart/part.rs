//! Writing parts.

use std::sync::Arc;

use engine::{EngineFuture, Found, ObjectEngine, PartInfo, UploadRef};
use format::attributes::{Attributes, Checksum, ChecksumScheme, ETag};
use types::limits::MAX_PARTS;

use super::{UploadName, checksum};
use crate::body::{ChecksumWish, Upload};
use crate::copy::{CopySource, check_copied_length, stored_body};
use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::intake::{Intake, Received};
use crate::principal::{Action, Principal};
use crate::range::ByteRange;
use crate::read::body_of;
use crate::service::ObjectService;

/// A part that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPart {
    pub etag: ETag,
    pub modified_ms: u64,
    pub checksum: Checksum,
    pub length: u64,
}

/// A part to make from an object.
#[derive(Clone, Debug)]
pub struct CopyPartRequest {
    pub source: CopySource,
    /// Bytes of the source; all of it without one.
    pub range: Option<ByteRange>,
}

impl ObjectService {
    /// Writes a part; an earlier one under this number is replaced.
    pub async fn put_part(
        &self,
        principal: &Principal,
        name: UploadName<'_>,
        number: u32,
        mut content: Upload,
    ) -> Result<WrittenPart, ObjectError> {
        let (bucket, upload) = self.upload(principal, Action::PutObject, name)?;
        let number = check_part_number(number)?;
        let wanted = self.engine(&bucket)?.upload(&upload).await?.upload_checksum;
        content.checksum = part_wish(content.checksum, wanted)?;
        let intake = Intake {
            engine: self.engine(&bucket)?,
            key: &upload.key,
            part: Some((upload.upload, number)),
            tag: bucket.etag_mode().into(),
            memory: &self.upload_memory,
        };
        let received = intake.receive(content).await?;
        self.store_part(&bucket, &upload, number, received).await
    }

    /// Makes a part from an object, or from bytes of it. The principal must be allowed to read the source.
    pub async fn copy_part(
        &self,
        principal: &Principal,
        name: UploadName<'_>,
        number: u32,
        request: CopyPartRequest,
    ) -> Result<WrittenPart, ObjectError> {
        let (bucket, upload) = self.upload(principal, Action::PutObject, name)?;
        let number = check_part_number(number)?;
        let wanted = self.engine(&bucket)?.upload(&upload).await?.upload_checksum;
        let Found { info, content } = self.open_source(principal, &request.source).await?;
        let range = match request.range {
            Some(range) => range.resolve_exactly(info.length)?,
            None => 0..info.length,
        };
        let length = range.end - range.start;
        check_copied_length(length)?;
        let content = Upload {
            body: stored_body(body_of(content, range, &self.read_ahead)),
            length: Some(length),
            md5: None,
            checksum: wanted.map_or(ChecksumWish::None, |wanted| ChecksumWish::Compute(wanted.algorithm)),
        };
        let intake = Intake {
            engine: self.engine(&bucket)?,
            key: &upload.key,
            part: Some((upload.upload, number)),
            tag: bucket.etag_mode().into(),
            memory: &self.upload_memory,
        };
        let received = intake.receive(content).await?;
        self.store_part(&bucket, &upload, number, received).await
    }

    async fn store_part(
        &self,
        bucket: &Bucket,
        upload: &UploadRef,
        number: u16,
        received: Received,
    ) -> Result<WrittenPart, ObjectError> {
        let Received { content, length, digested } = received;
        let attributes = Attributes {
            etag: digested.etag,
            modified_ms: self.now_ms(),
            checksum: Some(digested.checksum),
            ..Attributes::default()
        };
        let upload = upload.clone();
        let write = |engine: Arc<dyn ObjectEngine>| -> EngineFuture<'static, PartInfo> {
            Box::pin(async move { engine.put_part(&upload, number, attributes, content).await })
        };
        let PartInfo { attributes, .. } = self.inside(bucket, write).await?;
        Ok(WrittenPart { etag: attributes.etag, modified_ms: attributes.modified_ms, checksum: digested.checksum, length })
    }
}

pub(super) fn check_part_number(number: u32) -> Result<u16, ObjectError> {
    match u16::try_from(number) {
        Ok(number) if (1..=MAX_PARTS).contains(&number) => Ok(number),
        _ => Err(ObjectError::InvalidPartNumber { number }),
    }
}

/// A part has a checksum of its upload's algorithm. Where the object's is made of the parts', their clients must send it (S3); where it is over
/// the content, it is computed for a client that does not.
fn part_wish(given: ChecksumWish, wanted: Option<ChecksumScheme>) -> Result<ChecksumWish, ObjectError> {
    match (given.algorithm(), wanted) {
        (None, Some(wanted)) if wanted.full_object => Ok(ChecksumWish::Compute(wanted.algorithm)),
        (given, Some(wanted)) if given != Some(wanted.algorithm) => {
            Err(ObjectError::InvalidRequest { reason: checksum::mismatch(given, wanted.algorithm) })
        }
        _ => Ok(given),
    }
}
