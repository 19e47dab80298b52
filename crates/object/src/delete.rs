//! Deleting objects.

use engine::Condition;
use futures_util::stream::{self, StreamExt};

use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::service::{ObjectService, object_key};

/// Most keys of one multiple delete (S3).
pub const MAX_DELETE_KEYS: usize = 1000;

/// Deletes of one multiple delete that are under way at once.
const DELETES_IN_FLIGHT: usize = 32;

/// One of several keys to delete.
#[derive(Clone, Debug)]
pub struct DeleteKey {
    pub key: String,
    pub condition: Condition,
}

impl ObjectService {
    /// Deletes an object; one that is not there is no error.
    pub async fn delete(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        condition: Condition,
    ) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::DeleteObject, bucket)?;
        self.delete_in(&bucket, key, condition).await
    }

    /// Deletes several objects, each for itself; outcomes are in the order of the keys.
    pub async fn delete_many(
        &self,
        principal: &Principal,
        bucket: &str,
        keys: Vec<DeleteKey>,
    ) -> Result<Vec<Result<(), ObjectError>>, ObjectError> {
        // That the principal may not delete is an outcome of each key, not of the request.
        let bucket = self.find_bucket(bucket)?;
        if keys.len() > MAX_DELETE_KEYS {
            let reason = format!("one request deletes at most {MAX_DELETE_KEYS} keys, not {}", keys.len());
            return Err(ObjectError::InvalidArgument { reason });
        }
        let deletes = keys.into_iter().map(|DeleteKey { key, condition }| {
            let bucket = &bucket;
            async move {
                bucket.authorize(principal, Action::DeleteObject)?;
                self.delete_in(bucket, &key, condition).await
            }
        });
        Ok(stream::iter(deletes).buffered(DELETES_IN_FLIGHT).collect().await)
    }

    async fn delete_in(&self, bucket: &Bucket, key: &str, condition: Condition) -> Result<(), ObjectError> {
        let key = object_key(bucket, key)?;
        self.inside(bucket, |engine| Box::pin(async move { engine.delete(&key, condition).await })).await
    }
}
