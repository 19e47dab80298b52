//! The operations that come to us through the library's types. Headers are read by [`crate::request_headers`] here as well, so
//! that every way reads them alike; the library's part is the XML, and the sorting out.

mod attributes;
mod buckets;
mod completed;
mod convert;
mod delete;
mod multipart;
mod parts;
mod settings;
mod tagging;
mod versions;

use std::sync::Arc;

use bytes::Bytes;
use object::{Bucket, ObjectService, Principal};
use s3s::dto;
use s3s::{S3, S3Request, S3Response, S3Result};
use tracing::instrument::WithSubscriber;

use super::{FailureSlot, Log, OwnDocument, access};
use crate::config::S3Config;
use crate::failure::Failure;

/// The service as the library calls it.
pub struct Operations {
    service: Arc<ObjectService>,
    region: String,
}

/// Of the documents that are written here.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// What an operation answers.
type Answer<T> = Result<S3Response<T>, Failure>;

/// An answer whose document is written here: the library's types lack some of what it says.
fn own_document<T>(output: T, document: Bytes) -> S3Response<T> {
    let mut answer = S3Response::new(output);
    answer.extensions.insert(OwnDocument(document));
    answer
}

impl Operations {
    pub fn new(config: &S3Config, service: Arc<ObjectService>) -> Operations {
        Operations { service, region: config.region.clone() }
    }

    /// Who asks.
    fn principal<T>(&self, request: &S3Request<T>) -> Principal {
        access::principal(&request.extensions)
    }

    /// A bucket whose settings the asker may see: those of its owner and of root.
    fn settings_of<T>(&self, request: &S3Request<T>, bucket: &str) -> Result<Arc<Bucket>, Failure> {
        let principal = self.principal(request);
        let bucket = self.service.find_bucket(bucket)?;
        bucket.authorize(&principal, object::Action::GetBucketPolicy)?;
        Ok(bucket)
    }
}

macro_rules! operations {
    ($($module:ident::$name:ident($input:ident) -> $output:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Operations {
            $(
                async fn $name(&self, mut request: S3Request<dto::$input>) -> S3Result<S3Response<dto::$output>> {
                    let slot = request.extensions.remove::<FailureSlot>().unwrap_or_default();
                    let Log(log) = request.extensions.remove().unwrap_or_default();
                    $module::$name(self, request).with_subscriber(log).await.map_err(|failure| slot.put(failure))
                }
            )*
        }
    };
}

operations! {
    buckets::list_buckets(ListBucketsInput) -> ListBucketsOutput;
    buckets::create_bucket(CreateBucketInput) -> CreateBucketOutput;
    buckets::head_bucket(HeadBucketInput) -> HeadBucketOutput;
    buckets::delete_bucket(DeleteBucketInput) -> DeleteBucketOutput;
    buckets::get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput;
    buckets::get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput;
    buckets::put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput;
    buckets::delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput;
    delete::delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput;
    multipart::create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput;
    multipart::complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput;
    multipart::abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput;
    parts::list_parts(ListPartsInput) -> ListPartsOutput;
    multipart::list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput;
    versions::list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput;
    settings::get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput;
    settings::get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput;
    settings::get_object_acl(GetObjectAclInput) -> GetObjectAclOutput;
    settings::put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput;
    settings::put_object_acl(PutObjectAclInput) -> PutObjectAclOutput;
    tagging::get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput;
    tagging::put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput;
    tagging::delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput;
    attributes::get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput;
    settings::get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput;
    settings::get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput;
    settings::get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput;
    settings::get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput;
    settings::get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput;
    settings::get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput;
    settings::get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput;
    settings::get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput;
    settings::get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput;
    settings::get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput;
    settings::get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput;
    settings::get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput;
    settings::get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput;
    settings::get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput;
}
