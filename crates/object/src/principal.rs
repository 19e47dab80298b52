//! Who asks, and what for.

use std::sync::Arc;

/// Who asks, once the interface has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Without a signature.
    Anonymous,
    User {
        name: Arc<str>,
        /// May do everything.
        is_root: bool,
    },
}

/// What is asked for, by the names that policies use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    GetObject,
    PutObject,
    DeleteObject,
    GetObjectTagging,
    PutObjectTagging,
    AbortMultipartUpload,
    ListMultipartUploadParts,
    ListBucket,
    ListBucketMultipartUploads,
    GetBucketLocation,
    DeleteBucket,
    GetBucketPolicy,
    PutBucketPolicy,
    DeleteBucketPolicy,
}

impl Principal {
    /// The user's name, which owns what the user makes.
    pub fn name(&self) -> Option<&str> {
        match self {
            Principal::Anonymous => None,
            Principal::User { name, .. } => Some(name),
        }
    }

    pub fn is_root(&self) -> bool {
        matches!(self, Principal::User { is_root: true, .. })
    }
}
