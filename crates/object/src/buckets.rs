//! Operations on buckets.

use std::sync::Arc;

use bytes::Bytes;
use engine::ObjectEngine;
use manager::{
    BucketEngine, BucketError, BucketRecord, BucketState, CreateBucketError, EtagMode, Manager, ManagerError, NewBucket,
    ProposeError,
};

use crate::directory::{Bucket, Directory};
use crate::error::ObjectError;
use crate::gate::CloseError;
use crate::peers::Peers;
use crate::policy::Policy;
use crate::principal::{Action, Principal};
use crate::service::{ObjectService, settle};

/// How a new bucket keeps its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    pub engine: BucketEngine,
    pub etag: EtagMode,
}

impl Default for BucketOptions {
    fn default() -> Self {
        BucketOptions { engine: BucketEngine::Log, etag: EtagMode::Md5 }
    }
}

/// A bucket in a list of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBucket {
    pub name: String,
    pub created_ms: u64,
}

impl ObjectService {
    /// Makes a bucket; every user may.
    pub async fn create_bucket(
        &self,
        principal: &Principal,
        name: &str,
        options: BucketOptions,
    ) -> Result<Arc<Bucket>, ObjectError> {
        let owner = principal.name().ok_or(ObjectError::AccessDenied)?.to_owned();
        manager::check_bucket_name(name)?;
        let BucketOptions { engine, etag } = options;
        let bucket = NewBucket { name: name.to_owned(), owner, engine, etag };
        self.manager().create_bucket(bucket).await?;
        self.directory.bucket(name)
    }

    /// Whether there is a bucket that the principal may use.
    pub fn head_bucket(&self, principal: &Principal, name: &str) -> Result<Arc<Bucket>, ObjectError> {
        self.bucket(principal, Action::ListBucket, name)
    }

    /// A bucket whose location the principal may learn; the interface knows the region.
    pub fn bucket_location(&self, principal: &Principal, name: &str) -> Result<Arc<Bucket>, ObjectError> {
        self.bucket(principal, Action::GetBucketLocation, name)
    }

    /// The buckets that belong to the principal, by name; to root, all of them.
    pub fn list_buckets(&self, principal: &Principal) -> Result<Vec<ListedBucket>, ObjectError> {
        let user = principal.name().ok_or(ObjectError::AccessDenied)?;
        let is_visible = |record: &Arc<BucketRecord>| principal.is_root() || record.owner == user;
        let records = self.manager().snapshot().buckets().into_iter().filter(is_visible);
        Ok(records.map(|record| ListedBucket { name: record.name.clone(), created_ms: record.created_ms }).collect())
    }

    /// Removes a bucket that holds nothing: stop writes at every node, wait for those under way, verify that it is empty, remove it. Writes
    /// that come meanwhile wait for the outcome, at other nodes they are refused. Once begun it goes on to its end, also when the caller
    /// goes away. Returns when no node shows the bucket any more.
    pub async fn delete_bucket(&self, principal: &Principal, name: &str) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::DeleteBucket, name)?;
        let engine = self.engine_of(&bucket)?;
        // The common mistake is answered without stopping anybody.
        if !engine.is_empty(bucket.id()).await? {
            return Err(ObjectError::BucketNotEmpty);
        }
        let removal = remove_if_empty(Arc::clone(&self.directory), Arc::clone(&self.peers), Arc::clone(engine), bucket);
        let ended = self.env.spawn(removal).await;
        ended.unwrap_or_else(|error| Err(ObjectError::InternalError { detail: format!("removing the bucket: {error}") }))
    }

    /// Ends removals of buckets that a crash, or a caller who went away, left half done: an empty bucket goes, another one is
    /// used as before. Called once, before requests are served.
    pub async fn finish_removals(&self) -> Result<(), ObjectError> {
        for record in self.manager().snapshot().buckets() {
            if record.state == BucketState::Active {
                continue;
            }
            let bucket = self.directory.bucket(&record.name)?;
            let engine = Arc::clone(self.engine_of(&bucket)?);
            match remove_if_empty(Arc::clone(&self.directory), Arc::clone(&self.peers), engine, bucket).await {
                Ok(()) | Err(ObjectError::BucketNotEmpty) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The policy as it was put.
    pub fn bucket_policy(&self, principal: &Principal, name: &str) -> Result<Bytes, ObjectError> {
        let bucket = self.bucket(principal, Action::GetBucketPolicy, name)?;
        let document = bucket.policy_document().ok_or(ObjectError::NoSuchBucketPolicy)?;
        Ok(Bytes::copy_from_slice(document))
    }

    /// Sets the policy, if it is one that will be enforced.
    pub async fn put_bucket_policy(&self, principal: &Principal, name: &str, document: Bytes) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::PutBucketPolicy, name)?;
        Policy::parse(&document, name)?;
        self.manager().set_bucket_policy(name, bucket.id(), Some(document.to_vec())).await?;
        self.settle().await
    }

    /// Takes the policy away; that there is none is no error.
    pub async fn delete_bucket_policy(&self, principal: &Principal, name: &str) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::DeleteBucketPolicy, name)?;
        if bucket.policy_document().is_some() {
            self.manager().set_bucket_policy(name, bucket.id(), None).await?;
        }
        // Also if there was none: it may have been taken away by somebody who was not told that all know.
        self.settle().await
    }

    fn manager(&self) -> &Manager {
        self.directory.manager()
    }
}

async fn remove_if_empty(
    directory: Arc<Directory>,
    peers: Arc<dyn Peers>,
    engine: Arc<dyn ObjectEngine>,
    bucket: Arc<Bucket>,
) -> Result<(), ObjectError> {
    let closed = bucket.gate().close().await.map_err(|error| match error {
        CloseError::Removed => ObjectError::NoSuchBucket,
        CloseError::Busy => ObjectError::Conflict { reason: "the bucket is being deleted already".to_owned() },
    })?;
    let (manager, name, id) = (directory.manager(), bucket.name(), bucket.id());
    let removal = manager.mark_bucket_deleting(name, id).await?;
    // A write that another node has let in ends, acknowledged or not, before anybody looks whether there is one.
    let is_empty = match settle(&directory, &*peers, Some(id)).await {
        Ok(()) => engine.is_empty(id).await.map_err(ObjectError::from),
        Err(unsettled) => Err(unsettled),
    };
    if !matches!(is_empty, Ok(true)) {
        match manager.reactivate_bucket(name, id, removal).await {
            // Somebody else removes it now, and will take it back into use.
            Ok(_) | Err(ManagerError::Refused(BucketError::OtherRemoval)) => {}
            Err(error) => return Err(error.into()),
        }
        is_empty?;
        return Err(ObjectError::BucketNotEmpty);
    }
    manager.remove_bucket(name, id, removal).await?;
    closed.remove();
    directory.forget(id);
    settle(&directory, &*peers, None).await
}

impl From<ManagerError<CreateBucketError>> for ObjectError {
    fn from(error: ManagerError<CreateBucketError>) -> Self {
        match error {
            ManagerError::Failed(error) => error.into(),
            ManagerError::Refused(refusal) => match refusal {
                CreateBucketError::Name(name) => ObjectError::InvalidBucketName(name),
                CreateBucketError::AlreadyExists => ObjectError::BucketAlreadyExists,
                CreateBucketError::AlreadyOwnedByYou => ObjectError::BucketAlreadyOwnedByYou,
                CreateBucketError::Deleting => ObjectError::Conflict { reason: refusal.to_string() },
                CreateBucketError::TooMany => ObjectError::TooManyBuckets { reason: refusal.to_string() },
                CreateBucketError::OwnerLength { .. } => ObjectError::InvalidArgument { reason: refusal.to_string() },
            },
        }
    }
}

impl From<ManagerError<BucketError>> for ObjectError {
    fn from(error: ManagerError<BucketError>) -> Self {
        match error {
            ManagerError::Failed(error) => error.into(),
            ManagerError::Refused(BucketError::NotFound) => ObjectError::NoSuchBucket,
            ManagerError::Refused(refusal @ (BucketError::Deleting | BucketError::NotDeleting | BucketError::OtherRemoval)) => {
                ObjectError::Conflict { reason: refusal.to_string() }
            }
            ManagerError::Refused(refusal @ BucketError::PolicyLength { .. }) => {
                ObjectError::InvalidArgument { reason: refusal.to_string() }
            }
        }
    }
}

impl From<ProposeError> for ObjectError {
    fn from(error: ProposeError) -> Self {
        ObjectError::ServiceUnavailable { reason: error.to_string() }
    }
}
