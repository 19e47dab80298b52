//! The service: one meaning per operation, whatever protocol asked for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Attended, EngineFuture, ObjectEngine, ObjectKey, Waiter};
use env::Env;
use format::attributes::Attributes;
use futures_util::FutureExt;
use manager::{BucketEngine, BucketState, Manager};
use types::BucketId;
use types::limits::MAX_USER_METADATA_BYTES;

use crate::directory::{Bucket, Directory};
use crate::error::ObjectError;
use crate::gate::{Entered, Removed};
use crate::peers::{NoPeers, Peers, Unsettled};
use crate::principal::{Action, Principal};
use crate::read_ahead::ReadAhead;
use crate::upload_memory::{LEAST_UPLOAD_MEMORY, UploadMemory};

/// How long a request waits for its write. In a cell that has lost its majority a write ends when that is back.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);

/// Buckets and objects. Cheap to share: every operation takes `&self`, and none takes a lock that another holds across an
/// await.
pub struct ObjectService {
    pub(crate) directory: Arc<Directory>,
    pub(crate) engines: Engines,
    pub(crate) env: Env,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) upload_memory: UploadMemory,
}

/// The engines that this process runs.
pub struct Engines {
    pub log: Option<Arc<dyn ObjectEngine>>,
    pub volume: Option<Arc<dyn ObjectEngine>>,
    /// The volume engine, which overwrites nothing.
    pub volume_strict: Option<Arc<dyn ObjectEngine>>,
}

impl ObjectService {
    pub fn new(manager: Arc<Manager>, engines: Engines, env: Env) -> Self {
        let (directory, peers) = (Arc::new(Directory::new(manager)), Arc::new(NoPeers));
        let upload_memory = UploadMemory::new(LEAST_UPLOAD_MEMORY, &env);
        ObjectService { directory, engines, env, peers, read_ahead: ReadAhead::default(), upload_memory }
    }

    /// The same service whose uploads have so much memory together.
    pub fn with_upload_memory(self, limit_bytes: usize) -> Self {
        let upload_memory = UploadMemory::new(limit_bytes, &self.env);
        ObjectService { upload_memory, ..self }
    }

    /// What uploads hold and may hold.
    pub fn upload_memory(&self) -> &UploadMemory {
        &self.upload_memory
    }

    /// The same service on a node of a cluster.
    pub fn with_peers(self, peers: Arc<dyn Peers>) -> Self {
        ObjectService { peers, ..self }
    }

    /// Returns when no write of a bucket is under way here that began before this node's part of the manager showed what it shows now.
    pub async fn drain(&self, bucket: BucketId) {
        self.directory.drain(bucket).await;
    }

    /// Waits until every other gateway shows what this one shows.
    pub(crate) async fn settle(&self) -> Result<(), ObjectError> {
        settle(&self.directory, &*self.peers, None).await
    }

    /// A bucket by its name, for the interface's own needs (whether a host name is a bucket). It authorises nothing.
    pub fn find_bucket(&self, name: &str) -> Result<Arc<Bucket>, ObjectError> {
        self.directory.bucket(name)
    }

    /// The bucket, if the principal may do this in it.
    pub(crate) fn bucket(&self, principal: &Principal, action: Action, name: &str) -> Result<Arc<Bucket>, ObjectError> {
        let bucket = self.directory.bucket(name)?;
        bucket.authorize(principal, action)?;
        Ok(bucket)
    }

    pub(crate) fn engine(&self, bucket: &Bucket) -> Result<&dyn ObjectEngine, ObjectError> {
        self.engine_of(bucket).map(AsRef::as_ref)
    }

    pub(crate) fn engine_of(&self, bucket: &Bucket) -> Result<&Arc<dyn ObjectEngine>, ObjectError> {
        let engine = match bucket.engine() {
            BucketEngine::Log => &self.engines.log,
            BucketEngine::Volume => &self.engines.volume,
            BucketEngine::VolumeStrict => &self.engines.volume_strict,
        };
        engine.as_ref().ok_or_else(|| ObjectError::ServiceUnavailable {
            reason: format!("the engine of bucket {} does not run here", bucket.name()),
        })
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.env.wall_clock_ms()
    }
}

impl Engines {
    /// Buckets of the log engine only.
    pub fn log(engine: Arc<dyn ObjectEngine>) -> Self {
        Engines { log: Some(engine), volume: None, volume_strict: None }
    }

    /// The same, and buckets of the volume engine.
    pub fn with_volume(self, volume: Arc<dyn ObjectEngine>, volume_strict: Arc<dyn ObjectEngine>) -> Self {
        Engines { volume: Some(volume), volume_strict: Some(volume_strict), ..self }
    }
}

/// Waits until every other gateway shows what this node's part of the manager shows, and has drained a bucket.
pub(crate) async fn settle(directory: &Directory, peers: &dyn Peers, drained: Option<BucketId>) -> Result<(), ObjectError> {
    let settled = peers.settle(directory.manager().snapshot().applied(), drained).await;
    settled.map_err(|Unsettled { reason }| ObjectError::ServiceUnavailable { reason })
}

impl ObjectService {
    /// Lets a write into the bucket, for as long as what is returned lives. What the request has seen of the bucket may be old by now: its
    /// content may have taken long to arrive.
    pub(crate) async fn enter(&self, bucket: &Bucket) -> Result<Entered, ObjectError> {
        let entered = tokio::select! {
            biased;
            entered = bucket.gate().enter() => entered.map_err(|Removed| ObjectError::NoSuchBucket)?,
            () = self.env.sleep(WRITE_PATIENCE) => {
                let reason = format!("the bucket has been about to be removed for {WRITE_PATIENCE:?}");
                return Err(ObjectError::ServiceUnavailable { reason });
            }
        };
        match self.directory.state_of(bucket) {
            None => Err(ObjectError::NoSuchBucket),
            Some(BucketState::Deleting(_)) => Err(ObjectError::Conflict { reason: "the bucket is being deleted".to_owned() }),
            Some(BucketState::Active) => Ok(entered),
        }
    }

    /// A write inside the bucket's gate. A client that goes away, or is told that the outcome is not known, ends its wait, not the write: what of it is under
    /// way goes on to its end and is counted inside the gate until then, so that the bucket is not removed beneath it and nothing lands in a bucket that is
    /// gone. Nothing of it begins anew.
    pub(crate) async fn inside<T: Send + 'static>(
        &self,
        bucket: &Bucket,
        write: impl FnOnce(Arc<dyn ObjectEngine>) -> EngineFuture<'static, T>,
    ) -> Result<T, ObjectError> {
        let engine = Arc::clone(self.engine_of(bucket)?);
        let entered = self.enter(bucket).await?;
        let waiter = Waiter::new();
        let write = Some((waiter.attend(write(engine)), entered));
        let mut finishing = Finishing { env: self.env.clone(), waiter, write };
        let ending = poll_fn(|context| {
            let (write, _) = finishing.write.as_mut().expect("polled until it is ready");
            write.poll_unpin(context)
        });
        let outcome = tokio::select! {
            biased;
            outcome = ending => outcome,
            () = self.env.sleep(WRITE_PATIENCE) => {
                let reason = format!("a write has not ended for {WRITE_PATIENCE:?}; its outcome is not known");
                return Err(ObjectError::ServiceUnavailable { reason });
            }
        };
        finishing.write = None;
        Ok(outcome?)
    }
}

/// A write that ends by itself when the request that waits for it is dropped.
struct Finishing<T: Send + 'static> {
    env: Env,
    waiter: Waiter,
    write: Option<(Attended<T>, Entered)>,
}

impl<T: Send + 'static> Drop for Finishing<T> {
    fn drop(&mut self) {
        if let Some((write, entered)) = self.write.take() {
            self.waiter.leave();
            drop(self.env.spawn(async move {
                // Nobody is left to hear of it.
                drop(write.await);
                drop(entered);
            }));
        }
    }
}

pub(crate) fn object_key(bucket: &Bucket, key: &str) -> Result<ObjectKey, ObjectError> {
    Ok(ObjectKey::new(bucket.id(), Bytes::copy_from_slice(key.as_bytes()))?)
}

/// Checks what a client can get wrong in an object's attributes.
pub fn check_attributes(attributes: &Attributes) -> Result<(), ObjectError> {
    let bytes = attributes.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_USER_METADATA_BYTES {
        return Err(ObjectError::MetadataTooLarge { bytes });
    }
    let headers = [
        &attributes.content_type,
        &attributes.content_encoding,
        &attributes.content_disposition,
        &attributes.content_language,
        &attributes.cache_control,
        &attributes.expires,
        &attributes.website_redirect,
    ];
    let header_bytes: usize = headers.into_iter().flatten().map(Bytes::len).sum();
    if header_bytes > MAX_CONTENT_HEADER_BYTES {
        let reason = format!("the content headers have {header_bytes} bytes, at most {MAX_CONTENT_HEADER_BYTES} are kept");
        return Err(ObjectError::InvalidArgument { reason });
    }
    Ok(())
}

/// Most bytes of all content headers of an object together (S3 takes 8 KB of headers in all).
pub const MAX_CONTENT_HEADER_BYTES: usize = 8 * 1024;
