//! Tags of objects.

use bytes::Bytes;

use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::read::ReadRequest;
use crate::service::{ObjectService, object_key};

impl ObjectService {
    /// An object's tags, names and values in the order given.
    pub async fn tags(&self, principal: &Principal, bucket: &str, key: &str) -> Result<Vec<(Bytes, Bytes)>, ObjectError> {
        self.bucket(principal, Action::GetObjectTagging, bucket)?;
        let head = self.head(principal, bucket, key, &ReadRequest::default()).await?;
        Ok(head.info.attributes.tags)
    }

    /// Replaces all tags of an object. Its content, tag and time stay.
    pub async fn set_tags(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        tags: Vec<(Bytes, Bytes)>,
    ) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::PutObjectTagging, bucket)?;
        let key = object_key(&bucket, key)?;
        self.inside(&bucket, |engine| Box::pin(async move { engine.set_tags(&key, tags).await })).await?;
        Ok(())
    }
}
