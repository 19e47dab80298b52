//! Operations on buckets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{EngineError, ListQuery, ObjectEngine, ObjectKey, UploadPage, UploadQuery, UploadRef};
use hashbrown::HashMap;
use manager::{
    BucketEngine, BucketError, BucketRecord, BucketState, CreateBucketError, EtagMode, Manager, ManagerError, NewBucket,
    ProposeError, Removal,
};
use types::{BucketId, UploadId};

use crate::directory::{Bucket, Directory};
use crate::error::ObjectError;
use crate::gate::{CloseError, Closed};
use crate::list::MAX_LIST_ITEMS;
use crate::peers::Peers;
use crate::policy::Policy;
use crate::principal::{Action, Principal};
use crate::service::{ObjectService, settle};

/// How long a removal is left to who began it. One whose gateways answer takes less: it waits seconds for one that does not.
pub(crate) const REMOVAL_PATIENCE: Duration = Duration::from_secs(30);

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

    /// Removes a bucket that holds no objects: stop writes at every node, wait for those under way, verify that there are none, end the open
    /// uploads, remove it. Writes that come meanwhile wait for the outcome, at other nodes they are refused. Once begun it goes on to its
    /// end, also when the caller goes away. Returns when no node shows the bucket any more. What an interrupted removal has left is finished
    /// here too.
    pub async fn delete_bucket(&self, principal: &Principal, name: &str) -> Result<(), ObjectError> {
        let bucket = self.bucket(principal, Action::DeleteBucket, name)?;
        let engine = self.engine_of(&bucket)?;
        // The common mistake is answered without stopping anybody. A bucket that is stopped is to come back into use.
        let is_in_use = self.directory.state_of(&bucket) == Some(BucketState::Active);
        if is_in_use && has_objects(&**engine, bucket.id()).await? {
            return Err(ObjectError::BucketNotEmpty);
        }
        let removing = remove_if_empty(self.removing(&bucket)?);
        let ended = self.env.spawn(removing).await;
        ended.unwrap_or_else(|error| Err(ObjectError::InternalError { detail: format!("removing the bucket: {error}") }))
    }

    /// Ends removals of buckets that a crash, or a caller who went away, left half done: an empty bucket goes, another one is
    /// used as before. For a start, before requests are served.
    pub async fn finish_removals(&self) -> Result<(), ObjectError> {
        for (record, removal) in self.removals() {
            self.finish_removal(&record, removal).await?;
        }
        Ok(())
    }

    /// Ends, from here on, the removals that nobody has ended in [`REMOVAL_PATIENCE`]: their gateway has gone, or could not reach the manager.
    pub fn look_after_removals(self: &Arc<Self>) {
        let (env, weak) = (self.env.clone(), Arc::downgrade(self));
        let looking = async move {
            let mut seen = HashMap::new();
            loop {
                env.sleep(REMOVAL_PATIENCE).await;
                let Some(service) = weak.upgrade() else { return };
                seen = service.finish_old_removals(&seen).await;
            }
        };
        drop(self.env.spawn(looking));
    }

    /// Ends the removals that stood at the last look; those that stand now.
    async fn finish_old_removals(&self, seen: &HashMap<BucketId, Removal>) -> HashMap<BucketId, Removal> {
        for (record, removal) in self.removals() {
            if seen.get(&record.id) != Some(&removal) {
                continue;
            }
            match self.finish_removal(&record, removal).await {
                Ok(()) => tracing::info!(bucket = record.name, "a removal of the bucket that was interrupted has been ended"),
                Err(error) => {
                    tracing::warn!(bucket = record.name, %error, "a removal of the bucket that was interrupted can't be ended now");
                }
            }
        }
        self.removals().into_iter().map(|(record, removal)| (record.id, removal)).collect()
    }

    /// The buckets that are being removed.
    fn removals(&self) -> Vec<(Arc<BucketRecord>, Removal)> {
        let records = self.manager().snapshot().buckets().into_iter();
        let removed = records.filter_map(|record| match record.state {
            BucketState::Deleting(removal) => Some((record, removal)),
            BucketState::Active => None,
        });
        removed.collect()
    }

    /// Does what is left of a removal that somebody has begun, and may still be at.
    async fn finish_removal(&self, record: &BucketRecord, removal: Removal) -> Result<(), ObjectError> {
        let bucket = match self.directory.bucket(&record.name) {
            Ok(bucket) if bucket.id() == record.id => bucket,
            Ok(_) | Err(ObjectError::NoSuchBucket) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Others do this for each other when they settle.
        self.directory.drain(bucket.id()).await;
        match self.removing(&bucket)?.end(removal, None).await {
            // The last two: somebody else has ended it.
            Ok(()) | Err(ObjectError::BucketNotEmpty | ObjectError::NoSuchBucket | ObjectError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn removing(&self, bucket: &Arc<Bucket>) -> Result<Removing, ObjectError> {
        Ok(Removing {
            directory: Arc::clone(&self.directory),
            peers: Arc::clone(&self.peers),
            engine: Arc::clone(self.engine_of(bucket)?),
            bucket: Arc::clone(bucket),
        })
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

/// The removal of a bucket, without the service: it outlives the request.
struct Removing {
    directory: Arc<Directory>,
    peers: Arc<dyn Peers>,
    engine: Arc<dyn ObjectEngine>,
    bucket: Arc<Bucket>,
}

async fn remove_if_empty(removing: Removing) -> Result<(), ObjectError> {
    let bucket = &removing.bucket;
    let closed = bucket.gate().close().await.map_err(|error| match error {
        CloseError::Removed => ObjectError::NoSuchBucket,
        CloseError::Busy => ObjectError::Conflict { reason: "the bucket is being deleted already".to_owned() },
    })?;
    let removal = removing.directory.manager().mark_bucket_deleting(bucket.name(), bucket.id()).await?;
    removing.end(removal, Some(closed)).await
}

impl Removing {
    /// Removes the bucket if it has no objects, or takes it back into use. Several nodes may do this at once for one removal: each step is
    /// refused once another one has ended it, and while the removal stands nothing is written, so that what one has verified holds.
    ///
    /// Open uploads end before the bucket is gone: afterwards nobody would know that their parts belong to nothing. A crash in between leaves
    /// the removal, and the node that finishes it ends the rest of them.
    ///
    /// This node shows the removal, and the writes that it had let in before have ended. `closed` is its gate, if it is closed.
    async fn end(&self, removal: Removal, closed: Option<Closed>) -> Result<(), ObjectError> {
        let Removing { directory, peers, bucket, .. } = self;
        let (manager, name, id) = (directory.manager(), bucket.name(), bucket.id());
        // A write that another node has let in ends, acknowledged or not, before anybody looks whether there is one.
        let is_empty = match settle(directory, &**peers, Some(id)).await {
            Ok(()) => self.clear(removal).await,
            Err(unsettled) => Err(unsettled),
        };
        let ended = match is_empty {
            Ok(true) => manager.remove_bucket(name, id, removal).await,
            _ => manager.reactivate_bucket(name, id, removal).await.map(drop),
        };
        match (ended, is_empty) {
            // Gone: another node has ended this removal meanwhile.
            (Ok(()), Ok(true)) | (Err(ManagerError::Refused(BucketError::NotFound)), _) => {}
            // The bucket is used as before, or somebody has begun another removal.
            (Ok(()) | Err(ManagerError::Refused(_)), Err(error)) => return Err(error),
            (Ok(()) | Err(ManagerError::Refused(_)), Ok(false)) => return Err(ObjectError::BucketNotEmpty),
            (Err(error), _) => return Err(error.into()),
        }
        if let Some(closed) = closed {
            closed.remove();
        }
        directory.forget(id);
        settle(directory, &**peers, None).await
    }

    /// Whether the bucket is empty, after its open uploads were ended if it has no objects.
    async fn clear(&self, removal: Removal) -> Result<bool, ObjectError> {
        let (engine, id) = (&self.engine, self.bucket.id());
        if has_objects(&**engine, id).await? {
            return Ok(false);
        }
        let mut after = None;
        loop {
            let UploadPage { uploads, truncated, .. } = engine.uploads(&uploads_after(id, after)).await?;
            after = uploads.last().map(|last| (last.key.clone(), Some(last.upload)));
            if !uploads.is_empty() {
                // Another node may have taken the bucket back into use, and these may have been opened since.
                self.check_stands(removal).await?;
            }
            for upload in uploads {
                let upload = UploadRef { key: ObjectKey::new(id, upload.key)?, upload: upload.upload };
                match engine.abort(&upload).await {
                    // The other one: another node has ended it.
                    Ok(()) | Err(EngineError::NoSuchUpload) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if !truncated {
                return Ok(engine.is_empty(id).await?);
            }
        }
    }

    /// Whether the removal stands at this moment, by the manager's leader. What was listed before this moment was opened before the removal began.
    async fn check_stands(&self, removal: Removal) -> Result<(), ObjectError> {
        let fresh = self.directory.manager().fresh().await;
        fresh.map_err(|error| ObjectError::ServiceUnavailable { reason: error.to_string() })?;
        match self.directory.state_of(&self.bucket) {
            Some(BucketState::Deleting(present)) if present == removal => Ok(()),
            _ => Err(ObjectError::Conflict { reason: "another node has ended this removal of the bucket".to_owned() }),
        }
    }
}

async fn has_objects(engine: &dyn ObjectEngine, bucket: BucketId) -> Result<bool, EngineError> {
    let none = Bytes::new;
    let first = ListQuery { bucket, prefix: none(), start_after: none(), delimiter: none(), max_items: 1 };
    Ok(!engine.list(&first).await?.items.is_empty())
}

fn uploads_after(bucket: BucketId, after: Option<(Bytes, Option<UploadId>)>) -> UploadQuery {
    UploadQuery { bucket, prefix: Bytes::new(), after, delimiter: Bytes::new(), max_items: MAX_LIST_ITEMS }
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
            ManagerError::Refused(refusal @ (BucketError::PolicyLength { .. } | BucketError::Policies)) => {
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
