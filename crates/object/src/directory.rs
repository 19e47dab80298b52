//! Buckets by name, as requests see them: the manager's record, its policy already parsed, its gate.
//!
//! The manager's snapshot is the truth. What is derived from a record stands in a table beside it that is never changed in
//! place, so that a lookup takes no lock and awaits nothing; a record that is not the one in the table (another incarnation,
//! a new policy) is derived again.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use manager::{BucketEngine, BucketRecord, BucketState, EtagMode, Manager};
use types::BucketId;

use crate::error::ObjectError;
use crate::gate::Gate;
use crate::policy::Policy;
use crate::principal::{Action, Principal};

/// One bucket as a request sees it.
#[derive(Debug)]
pub struct Bucket {
    record: Arc<BucketRecord>,
    policy: Policy,
    gate: Arc<Gate>,
}

/// All buckets.
pub(crate) struct Directory {
    manager: Arc<Manager>,
    derived: ArcSwap<HashMap<BucketId, Arc<Bucket>>>,
}

impl Bucket {
    pub fn id(&self) -> BucketId {
        self.record.id
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The user who made it.
    pub fn owner(&self) -> &str {
        &self.record.owner
    }

    pub fn created_ms(&self) -> u64 {
        self.record.created_ms
    }

    pub fn engine(&self) -> BucketEngine {
        self.record.engine
    }

    pub fn etag_mode(&self) -> EtagMode {
        self.record.etag
    }

    /// The policy document as it was put.
    pub fn policy_document(&self) -> Option<&[u8]> {
        self.record.policy.as_deref()
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Whether the principal may do this here: root and the owner everything, everybody what the policy says.
    pub fn authorize(&self, principal: &Principal, action: Action) -> Result<(), ObjectError> {
        let is_owner = principal.name().is_some_and(|name| name == self.record.owner);
        if principal.is_root() || is_owner || self.policy.allows(action) {
            return Ok(());
        }
        Err(ObjectError::AccessDenied)
    }

    fn derive(record: &Arc<BucketRecord>, gate: Arc<Gate>) -> Bucket {
        let policy = record.policy.as_deref().map(|document| Policy::parse(document, &record.name));
        let policy = policy.transpose().unwrap_or_else(|error| {
            // Written by a newer version, perhaps: what is not understood grants nothing.
            tracing::warn!(bucket = record.name, %error, "the stored policy is not understood and grants nothing");
            None
        });
        Bucket { record: Arc::clone(record), policy: policy.unwrap_or_default(), gate }
    }
}

impl Directory {
    pub(crate) fn new(manager: Arc<Manager>) -> Self {
        Directory { manager, derived: ArcSwap::default() }
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    /// A bucket by its name, also one that is being deleted.
    pub(crate) fn bucket(&self, name: &str) -> Result<Arc<Bucket>, ObjectError> {
        let snapshot = self.manager.snapshot();
        let record = snapshot.bucket(name).ok_or(ObjectError::NoSuchBucket)?;
        let derived = self.derived.load();
        match derived.get(&record.id) {
            Some(bucket) if Arc::ptr_eq(&bucket.record, record) => Ok(Arc::clone(bucket)),
            _ => self.derive(record),
        }
    }

    #[cold]
    fn derive(&self, record: &Arc<BucketRecord>) -> Result<Arc<Bucket>, ObjectError> {
        // The gate outlives changes of the record. Two threads that derive at once end with one gate, because the table is
        // swapped only if it is still the one that was copied.
        self.derived.rcu(|table| {
            let mut next = HashMap::clone(table);
            // Of a bucket that another node has removed nobody else tells. What stands in the table was there by this snapshot, or is gone by it.
            let there: HashSet<BucketId> = self.manager.snapshot().buckets().iter().map(|bucket| bucket.id).collect();
            next.retain(|id, _| there.contains(id));
            let gate = table.get(&record.id).map_or_else(Arc::default, |bucket| Arc::clone(&bucket.gate));
            next.insert(record.id, Arc::new(Bucket::derive(record, gate)));
            next
        });
        // A bucket is forgotten after the manager has published its removal. If that has happened since our snapshot, the gate
        // may be a new one, which is open: it must not let anything in.
        let is_current = self.manager.snapshot().bucket(&record.name).is_some_and(|current| current.id == record.id);
        if !is_current {
            self.forget(record.id);
            return Err(ObjectError::NoSuchBucket);
        }
        let derived = self.derived.load();
        let bucket = derived.get(&record.id).ok_or(ObjectError::NoSuchBucket)?;
        if Arc::ptr_eq(&bucket.record, record) {
            return Ok(Arc::clone(bucket));
        }
        // Changed again meanwhile: this request still sees the snapshot that it took, through the one gate.
        Ok(Arc::new(Bucket::derive(record, Arc::clone(&bucket.gate))))
    }

    /// Where a bucket is in its life now; none if it is gone, be it that another has its name.
    pub(crate) fn state_of(&self, bucket: &Bucket) -> Option<BucketState> {
        let record = self.manager.bucket(bucket.name())?;
        (record.id == bucket.id()).then_some(record.state)
    }

    /// Waits for the writes inside a bucket's gate. Who comes later sees what the manager shows now.
    pub(crate) async fn drain(&self, bucket: BucketId) {
        let Some(gate) = self.derived.load().get(&bucket).map(|bucket| Arc::clone(&bucket.gate)) else { return };
        gate.drain().await;
    }

    /// Buckets of which something is kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.derived.load().len()
    }

    /// Forgets what was derived of a bucket that is gone.
    pub(crate) fn forget(&self, bucket: BucketId) {
        self.derived.rcu(|table| {
            let mut next = HashMap::clone(table);
            next.remove(&bucket);
            next
        });
    }
}
