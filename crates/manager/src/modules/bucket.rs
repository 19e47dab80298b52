//! Buckets.
//!
//! ```text
//!            create              mark               remove
//!   (none) ─────────▶ Active ──────────▶ Deleting ─────────▶ (none)
//!                        ◀──────────────────┘
//!                             reactivate
//! ```
//!
//! Deleting takes two steps because only the object layer can tell whether a bucket is empty, and only after it has stopped
//! taking writes. Every step names the incarnation that it means: between two steps the name may have come to mean another. The second
//! step also names the first one: the bucket may have been in use again since, and marked by somebody else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{BucketId, ErrorKind};

use super::commands;
use crate::error::ManagerError;
use crate::kind::{Numbers, Record};
use crate::limits::{MAX_BUCKETS, MAX_POLICIES_BYTES, MAX_POLICY_BYTES, MAX_USER_BYTES, NUMBER_LIMIT};
use crate::manager::Manager;
use crate::name::{InvalidBucketName, check_bucket_name};
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// One incarnation of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRecord {
    pub id: BucketId,
    pub name: String,
    pub created_ms: u64,
    /// The user who made it.
    pub owner: String,
    pub engine: BucketEngine,
    pub etag: EtagMode,
    /// The policy document as it was put, JSON.
    pub policy: Option<Vec<u8>>,
    pub state: BucketState,
}

/// Which engine keeps the objects of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketEngine {
    Log,
    Volume,
    /// The volume engine, where an object that is there is not overwritten.
    VolumeStrict,
}

/// How the ETags of a bucket's objects are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EtagMode {
    /// MD5 of the content, as S3 does.
    Md5,
    /// Something cheaper that clients must treat as opaque.
    Fast,
}

/// Where a bucket is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketState {
    Active,
    /// Takes no writes while the object layer verifies that it is empty.
    Deleting(Removal),
}

/// One attempt to remove a bucket: the index of the command that began it. What an attempt has verified says nothing once another has begun,
/// because writes may have been let in between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal(pub u64);

/// Bucket ids that an import skips.
pub const IMPORT_SKIPPED_BUCKETS: u64 = 1 << 32;

impl Record for BucketRecord {
    type Key = String;

    const TAG: u8 = 5;
    const NAME: &'static str = "bucket";
    /// From 1, so that 0 can mean none in records.
    const NUMBERS: Option<Numbers> = Some(Numbers { first: 1, limit: NUMBER_LIMIT, skipped: IMPORT_SKIPPED_BUCKETS });

    fn is_at(&self, key: &String) -> bool {
        self.name == *key
    }

    fn check(&self, _: &String, state: &Snapshot) -> Result<(), ImpossibleState> {
        Ok(check_number(Self::NAME, self.id.0, state.buckets.next)?)
    }
}

commands! {
    Bucket,
    /// Commands about buckets.
    BucketCommand: CreateBucket, MarkBucketDeleting, ReactivateBucket, RemoveBucket, SetBucketPolicy,
}

/// A bucket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBucket {
    pub name: String,
    pub owner: String,
    pub engine: BucketEngine,
    pub etag: EtagMode,
}

impl Snapshot {
    /// A bucket by its name, in whatever state it is.
    pub fn bucket(&self, name: &str) -> Option<&Arc<BucketRecord>> {
        self.buckets.get(name)
    }

    /// All buckets by name.
    pub fn buckets(&self) -> Vec<Arc<BucketRecord>> {
        self.buckets.values().cloned().collect()
    }
}

/// Makes a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateBucket {
    pub name: String,
    pub owner: String,
    pub engine: BucketEngine,
    pub etag: EtagMode,
    pub created_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateBucketError {
    #[error(transparent)]
    Name(#[from] InvalidBucketName),
    #[error("the owner's name has {found} bytes; the longest is {MAX_USER_BYTES}")]
    OwnerLength { found: usize },
    #[error("the bucket exists and belongs to somebody else")]
    AlreadyExists,
    #[error("the bucket exists and is yours")]
    AlreadyOwnedByYou,
    #[error("a bucket of that name is being deleted; try again later")]
    Deleting,
    #[error("the cluster has {MAX_BUCKETS} buckets and takes no more")]
    TooMany,
}

impl Refusal for CreateBucketError {
    fn kind(&self) -> ErrorKind {
        match self {
            CreateBucketError::Name(_) | CreateBucketError::OwnerLength { .. } => ErrorKind::Invalid,
            CreateBucketError::AlreadyExists | CreateBucketError::AlreadyOwnedByYou | CreateBucketError::Deleting => {
                ErrorKind::Conflict
            }
            CreateBucketError::TooMany => ErrorKind::Full,
        }
    }
}

impl Operation for CreateBucket {
    type Reply = Arc<BucketRecord>;
    type Refusal = CreateBucketError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<BucketRecord>, CreateBucketError> {
        check_bucket_name(&self.name)?;
        if self.owner.len() > MAX_USER_BYTES {
            return Err(CreateBucketError::OwnerLength { found: self.owner.len() });
        }
        if let Some(existing) = edit.state.bucket(&self.name) {
            return Err(match existing.state {
                BucketState::Deleting(_) => CreateBucketError::Deleting,
                BucketState::Active if existing.owner == self.owner => CreateBucketError::AlreadyOwnedByYou,
                BucketState::Active => CreateBucketError::AlreadyExists,
            });
        }
        if edit.state.buckets.len() >= MAX_BUCKETS {
            return Err(CreateBucketError::TooMany);
        }
        let bucket = Arc::new(BucketRecord {
            id: BucketId(edit.take_number::<BucketRecord>()),
            name: self.name.clone(),
            created_ms: self.created_ms,
            owner: self.owner.clone(),
            engine: self.engine,
            etag: self.etag,
            policy: None,
            state: BucketState::Active,
        });
        Ok(edit.set(bucket.name.clone(), bucket))
    }
}

/// Why a change of an existing bucket was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// Neither this bucket nor another of its name, or another incarnation of it.
    #[error("there is no such bucket")]
    NotFound,
    #[error("the bucket is being deleted")]
    Deleting,
    #[error("the bucket is in use; mark it as deleting first")]
    NotDeleting,
    #[error("somebody else has begun to delete the bucket since")]
    OtherRemoval,
    #[error("a policy of {found} bytes; the longest is {MAX_POLICY_BYTES}")]
    PolicyLength { found: usize },
    #[error(
        "the policies of all buckets have {MAX_POLICIES_BYTES} bytes together, and there is no room for more: shorten some"
    )]
    Policies,
}

impl Refusal for BucketError {
    fn kind(&self) -> ErrorKind {
        match self {
            BucketError::NotFound => ErrorKind::NotFound,
            BucketError::Deleting | BucketError::NotDeleting | BucketError::OtherRemoval => ErrorKind::Conflict,
            BucketError::PolicyLength { .. } => ErrorKind::Invalid,
            BucketError::Policies => ErrorKind::Full,
        }
    }
}

/// Stops writes to a bucket, before it is verified to be empty. Marking it again is no error: the first attempt may have died. If it has not, it
/// can't go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkBucketDeleting {
    pub name: String,
    pub id: BucketId,
}

impl Operation for MarkBucketDeleting {
    type Reply = Removal;
    type Refusal = BucketError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Removal, BucketError> {
        let bucket = Arc::clone(incarnation(edit.state, &self.name, self.id)?);
        let removal = Removal(index.0);
        set_state(edit, &bucket, BucketState::Deleting(removal));
        Ok(removal)
    }
}

/// Takes a bucket that turned out not to be empty back into use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReactivateBucket {
    pub name: String,
    pub id: BucketId,
    pub removal: Removal,
}

impl Operation for ReactivateBucket {
    type Reply = Arc<BucketRecord>;
    type Refusal = BucketError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<BucketRecord>, BucketError> {
        let bucket = Arc::clone(being_removed(edit.state, &self.name, self.id, self.removal)?);
        Ok(set_state(edit, &bucket, BucketState::Active))
    }
}

/// Forgets a bucket that was marked and verified to be empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveBucket {
    pub name: String,
    pub id: BucketId,
    pub removal: Removal,
}

impl Operation for RemoveBucket {
    type Reply = ();
    type Refusal = BucketError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), BucketError> {
        being_removed(edit.state, &self.name, self.id, self.removal)?;
        edit.remove::<BucketRecord>(&self.name);
        Ok(())
    }
}

/// Sets a bucket's policy, or takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBucketPolicy {
    pub name: String,
    pub id: BucketId,
    pub policy: Option<Vec<u8>>,
}

impl Operation for SetBucketPolicy {
    type Reply = Arc<BucketRecord>;
    type Refusal = BucketError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<BucketRecord>, BucketError> {
        if let Some(policy) = &self.policy
            && policy.len() > MAX_POLICY_BYTES
        {
            return Err(BucketError::PolicyLength { found: policy.len() });
        }
        let bucket = incarnation(edit.state, &self.name, self.id)?;
        if bucket.state != BucketState::Active {
            return Err(BucketError::Deleting);
        }
        if let Some(policy) = &self.policy {
            let others = edit.state.buckets.values().filter(|other| other.id != self.id);
            let others: usize = others.map(|other| other.policy.as_ref().map_or(0, Vec::len)).sum();
            let before = bucket.policy.as_ref().map_or(0, Vec::len);
            if policy.len() > before && others + policy.len() > MAX_POLICIES_BYTES {
                return Err(BucketError::Policies);
            }
        }
        let bucket = Arc::new(BucketRecord { policy: self.policy.clone(), ..BucketRecord::clone(bucket) });
        Ok(edit.set(bucket.name.clone(), bucket))
    }
}

fn incarnation<'a>(state: &'a Snapshot, name: &str, id: BucketId) -> Result<&'a Arc<BucketRecord>, BucketError> {
    state.bucket(name).filter(|bucket| bucket.id == id).ok_or(BucketError::NotFound)
}

/// The bucket, if this attempt to remove it is still the one that is under way.
fn being_removed<'a>(
    state: &'a Snapshot,
    name: &str,
    id: BucketId,
    removal: Removal,
) -> Result<&'a Arc<BucketRecord>, BucketError> {
    let bucket = incarnation(state, name, id)?;
    match bucket.state {
        BucketState::Deleting(present) if present == removal => Ok(bucket),
        BucketState::Deleting(_) => Err(BucketError::OtherRemoval),
        BucketState::Active => Err(BucketError::NotDeleting),
    }
}

fn set_state(edit: &mut Edit<'_>, bucket: &BucketRecord, state: BucketState) -> Arc<BucketRecord> {
    let bucket = Arc::new(BucketRecord { state, ..BucketRecord::clone(bucket) });
    edit.set(bucket.name.clone(), bucket)
}

impl Manager {
    /// Makes a bucket, dated now.
    pub async fn create_bucket(&self, bucket: NewBucket) -> Result<Arc<BucketRecord>, ManagerError<CreateBucketError>> {
        let NewBucket { name, owner, engine, etag } = bucket;
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(CreateBucket { name, owner, engine, etag, created_ms }).await
    }

    /// First step of deleting a bucket: it takes no more writes, and no earlier attempt to delete it goes on. Then verify that it is empty.
    pub async fn mark_bucket_deleting(&self, name: &str, id: BucketId) -> Result<Removal, ManagerError<BucketError>> {
        self.propose(MarkBucketDeleting { name: name.to_owned(), id }).await
    }

    /// Second step of deleting a bucket that is empty.
    pub async fn remove_bucket(&self, name: &str, id: BucketId, removal: Removal) -> Result<(), ManagerError<BucketError>> {
        self.propose(RemoveBucket { name: name.to_owned(), id, removal }).await
    }

    /// Second step of deleting a bucket that is not empty: it is used as before.
    pub async fn reactivate_bucket(
        &self,
        name: &str,
        id: BucketId,
        removal: Removal,
    ) -> Result<Arc<BucketRecord>, ManagerError<BucketError>> {
        self.propose(ReactivateBucket { name: name.to_owned(), id, removal }).await
    }

    /// Sets a bucket's policy, or takes it away.
    pub async fn set_bucket_policy(
        &self,
        name: &str,
        id: BucketId,
        policy: Option<Vec<u8>>,
    ) -> Result<Arc<BucketRecord>, ManagerError<BucketError>> {
        self.propose(SetBucketPolicy { name: name.to_owned(), id, policy }).await
    }
}
