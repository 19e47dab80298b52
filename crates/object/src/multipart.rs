//! Objects made by parts: the upload's own life. Parts are written in `part`, joined in `complete`.

mod checksum;
mod complete;
mod listing;
mod part;

use std::sync::Arc;

use engine::{ObjectKey, UploadRef};
use format::attributes::{Attributes, ChecksumScheme};
use types::UploadId;

use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::service::{ObjectService, check_attributes, object_key};

pub use complete::{CompleteRequest, Completed, NamedPart};
pub use listing::{ListUploadsRequest, PartsPage, UploadMark, UploadsPage};
pub use part::{CopyPartRequest, WrittenPart};

/// An upload that a request names.
#[derive(Clone, Copy, Debug)]
pub struct UploadName<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
    /// None if what the request names is no id, and so is no upload's. That is said after what is wrong with the bucket and the key.
    pub upload: Option<UploadId>,
}

impl ObjectService {
    /// Opens an upload. Attributes are those of the object to come; `checksum` is what it will carry.
    pub async fn create_upload(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        checksum: Option<ChecksumScheme>,
    ) -> Result<UploadId, ObjectError> {
        let bucket = self.bucket(principal, Action::PutObject, bucket)?;
        let key = object_key(&bucket, key)?;
        check_attributes(&attributes)?;
        if let Some(wanted) = checksum {
            checksum::check_supported(wanted)?;
        }
        let attributes = Attributes { modified_ms: self.now_ms(), upload_checksum: checksum, ..attributes };
        self.inside(&bucket, |engine| Box::pin(async move { engine.create_upload(&key, attributes).await })).await
    }

    /// Ends an upload and drops its parts.
    pub async fn abort_upload(&self, principal: &Principal, name: UploadName<'_>) -> Result<(), ObjectError> {
        let (bucket, upload) = self.upload(principal, Action::AbortMultipartUpload, name)?;
        self.inside(&bucket, |engine| Box::pin(async move { engine.abort(&upload).await })).await
    }

    /// The upload's bucket and the engine's name of it, if the principal may do this.
    fn upload(
        &self,
        principal: &Principal,
        action: Action,
        name: UploadName<'_>,
    ) -> Result<(Arc<Bucket>, UploadRef), ObjectError> {
        let bucket = self.bucket(principal, action, name.bucket)?;
        let key: ObjectKey = object_key(&bucket, name.key)?;
        let upload = name.upload.ok_or(ObjectError::NoSuchUpload)?;
        Ok((bucket, UploadRef { key, upload }))
    }
}
