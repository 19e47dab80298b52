//! Writing objects.

use std::sync::Arc;

use engine::{Committed, Condition, EngineFuture, ObjectEngine, ObjectKey, PartContent, Unmet};
use format::attributes::{Attributes, Checksum, ETag};
use types::limits::MAX_SMALL_BYTES;

use crate::body::Upload;
use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::intake::{Intake, Received};
use crate::principal::{Action, Principal};
use crate::service::{ObjectService, check_attributes, object_key};

/// An object to write.
pub struct PutRequest {
    /// What the client says of it. Tag, time and checksum are the service's to set.
    pub attributes: Attributes,
    pub condition: Condition,
    pub content: Upload,
}

/// A write that is durable and visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub etag: ETag,
    pub modified_ms: u64,
    pub checksum: Checksum,
    pub length: u64,
}

impl ObjectService {
    /// Writes an object. Whatever is wrong with the content, nothing of it becomes visible.
    pub async fn put(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: PutRequest,
    ) -> Result<Written, ObjectError> {
        let bucket = self.bucket(principal, Action::PutObject, bucket)?;
        let key = object_key(&bucket, key)?;
        check_attributes(&request.attributes)?;
        let engine = self.engine(&bucket)?;
        let is_large = request.content.length.is_some_and(|length| length > MAX_SMALL_BYTES as u64);
        if is_large && !request.condition.is_blind() {
            check_beforehand(engine, &key, &request.condition).await?;
        }
        let intake = Intake { engine, key: &key, part: None, tag: bucket.etag_mode().into(), memory: &self.upload_memory };
        let received = intake.receive(request.content).await?;
        self.store(&bucket, &key, received, request.attributes, request.condition).await
    }

    /// Makes received content the object.
    pub(crate) async fn store(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        received: Received,
        attributes: Attributes,
        condition: Condition,
    ) -> Result<Written, ObjectError> {
        let Received { content, length, digested } = received;
        let attributes =
            Attributes { etag: digested.etag, modified_ms: self.now_ms(), checksum: Some(digested.checksum), ..attributes };
        let key = key.clone();
        let write = |engine: Arc<dyn ObjectEngine>| -> EngineFuture<'static, Committed> {
            Box::pin(async move {
                match content {
                    PartContent::Whole(payload) => engine.put(&key, attributes, payload, condition).await,
                    PartContent::Staged(staged) => engine.commit(&key, staged, attributes, condition).await,
                }
            })
        };
        let Committed { etag, modified_ms, .. } = self.inside(bucket, write).await?;
        Ok(Written { etag, modified_ms, checksum: digested.checksum, length })
    }
}

/// Refuses a condition that is false already, before a large body is received (zstore.md, decision 18). The engine decides again
/// when it writes.
pub(crate) async fn check_beforehand(
    engine: &dyn ObjectEngine,
    key: &ObjectKey,
    condition: &Condition,
) -> Result<(), ObjectError> {
    let newest = match engine.info(key).await {
        Ok(info) => Some(info.attributes.etag),
        Err(engine::EngineError::NotFound) => None,
        Err(error) => return Err(error.into()),
    };
    condition.check(newest.as_ref()).map_err(|unmet| match unmet {
        Unmet::Absent => ObjectError::NoSuchKey,
        Unmet::Differs => engine::EngineError::PreconditionFailed.into(),
    })
}
