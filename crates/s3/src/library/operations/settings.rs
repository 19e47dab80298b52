//! Settings of buckets and objects that clients ask for, and that buckets here have at their defaults.

use object::{ObjectError, ReadRequest};
use s3s::dto::{
    GetBucketAccelerateConfigurationInput, GetBucketAccelerateConfigurationOutput, GetBucketAclInput, GetBucketAclOutput,
    GetBucketCorsInput, GetBucketCorsOutput, GetBucketEncryptionInput, GetBucketEncryptionOutput,
    GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput, GetBucketLoggingInput, GetBucketLoggingOutput,
    GetBucketNotificationConfigurationInput, GetBucketNotificationConfigurationOutput, GetBucketOwnershipControlsInput,
    GetBucketOwnershipControlsOutput, GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput, GetBucketReplicationInput,
    GetBucketReplicationOutput, GetBucketRequestPaymentInput, GetBucketRequestPaymentOutput, GetBucketTaggingInput,
    GetBucketTaggingOutput, GetBucketVersioningInput, GetBucketVersioningOutput, GetBucketWebsiteInput, GetBucketWebsiteOutput,
    GetObjectAclInput, GetObjectAclOutput, GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput,
    GetPublicAccessBlockInput, GetPublicAccessBlockOutput, Grant, Grantee, Payer, Permission, PolicyStatus, PutBucketAclInput,
    PutBucketAclOutput, PutObjectAclInput, PutObjectAclOutput, Type,
};
use s3s::{S3Request, S3Response};

use super::convert::owner;
use super::{Answer, Operations};
use crate::failure::{
    ACL_NOT_SUPPORTED, Code, Failure, MISSING_SECURITY_HEADER, NO_SUCH_CORS_CONFIGURATION, NO_SUCH_ENCRYPTION_CONFIGURATION,
    NO_SUCH_LIFECYCLE_CONFIGURATION, NO_SUCH_OBJECT_LOCK_CONFIGURATION, NO_SUCH_OWNERSHIP_CONTROLS,
    NO_SUCH_PUBLIC_ACCESS_BLOCK, NO_SUCH_REPLICATION_CONFIGURATION, NO_SUCH_TAG_SET, NO_SUCH_WEBSITE_CONFIGURATION,
};

macro_rules! never_set {
    ($($name:ident($input:ident) -> $output:ident: $code:ident;)*) => {
        $(
            pub async fn $name(operations: &Operations, request: S3Request<$input>) -> Answer<$output> {
                Err(never_set(operations, &request, &request.input.bucket, $code))
            }
        )*
    };
}

never_set! {
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput: NO_SUCH_LIFECYCLE_CONFIGURATION;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput: NO_SUCH_CORS_CONFIGURATION;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput: NO_SUCH_ENCRYPTION_CONFIGURATION;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput: NO_SUCH_OBJECT_LOCK_CONFIGURATION;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput: NO_SUCH_TAG_SET;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput: NO_SUCH_REPLICATION_CONFIGURATION;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput: NO_SUCH_WEBSITE_CONFIGURATION;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput: NO_SUCH_OWNERSHIP_CONTROLS;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput: NO_SUCH_PUBLIC_ACCESS_BLOCK;
}

fn never_set<T>(operations: &Operations, request: &S3Request<T>, bucket: &str, code: &'static Code) -> Failure {
    match operations.settings_of(request, bucket) {
        Ok(_) => code.into(),
        Err(failure) => failure,
    }
}

macro_rules! at_default {
    ($($name:ident($input:ident) -> $output:ident;)*) => {
        $(
            pub async fn $name(operations: &Operations, request: S3Request<$input>) -> Answer<$output> {
                operations.settings_of(&request, &request.input.bucket)?;
                Ok(S3Response::new($output::default()))
            }
        )*
    };
}

at_default! {
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput;
}

pub async fn get_bucket_request_payment(
    operations: &Operations,
    request: S3Request<GetBucketRequestPaymentInput>,
) -> Answer<GetBucketRequestPaymentOutput> {
    operations.settings_of(&request, &request.input.bucket)?;
    let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
    Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
}

pub async fn get_bucket_policy_status(
    operations: &Operations,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> Answer<GetBucketPolicyStatusOutput> {
    let bucket = operations.settings_of(&request, &request.input.bucket)?;
    // Every policy that is accepted grants something to everybody.
    let document = bucket.policy_document().ok_or(ObjectError::NoSuchBucketPolicy)?;
    let status = PolicyStatus { is_public: Some(!document.is_empty()) };
    Ok(S3Response::new(GetBucketPolicyStatusOutput { policy_status: Some(status) }))
}

pub async fn get_bucket_acl(operations: &Operations, request: S3Request<GetBucketAclInput>) -> Answer<GetBucketAclOutput> {
    let bucket = operations.settings_of(&request, &request.input.bucket)?;
    let output = GetBucketAclOutput { grants: Some(vec![full_control(bucket.owner())]), owner: Some(owner(bucket.owner())) };
    Ok(S3Response::new(output))
}

pub async fn get_object_acl(operations: &Operations, request: S3Request<GetObjectAclInput>) -> Answer<GetObjectAclOutput> {
    let bucket = operations.settings_of(&request, &request.input.bucket)?;
    let principal = operations.principal(&request);
    operations.service.head(&principal, bucket.name(), &request.input.key, &ReadRequest::default()).await?;
    Ok(S3Response::new(GetObjectAclOutput {
        grants: Some(vec![full_control(bucket.owner())]),
        owner: Some(owner(bucket.owner())),
        request_charged: None,
    }))
}

/// Takes a list by name that says what holds anyway; the headers were looked at before.
pub async fn put_bucket_acl(operations: &Operations, request: S3Request<PutBucketAclInput>) -> Answer<PutBucketAclOutput> {
    operations.settings_of(&request, &request.input.bucket)?;
    let PutBucketAclInput { acl, access_control_policy, .. } = request.input;
    check_named(acl.is_some(), access_control_policy.is_some())?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// The same of an object.
pub async fn put_object_acl(operations: &Operations, request: S3Request<PutObjectAclInput>) -> Answer<PutObjectAclOutput> {
    let bucket = operations.settings_of(&request, &request.input.bucket)?;
    let principal = operations.principal(&request);
    operations.service.head(&principal, bucket.name(), &request.input.key, &ReadRequest::default()).await?;
    let PutObjectAclInput { acl, access_control_policy, .. } = request.input;
    check_named(acl.is_some(), access_control_policy.is_some())?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

fn check_named(is_named: bool, is_written: bool) -> Result<(), Failure> {
    match (is_named, is_written) {
        (_, true) => Err(ACL_NOT_SUPPORTED.into()),
        (true, false) => Ok(()),
        (false, false) => Err(Failure::new(MISSING_SECURITY_HEADER).detail("MissingHeaderName", "x-amz-acl")),
    }
}

/// Ownership is the only access control list there is.
fn full_control(user: &str) -> Grant {
    let owner = owner(user);
    Grant {
        grantee: Some(Grantee {
            display_name: owner.display_name,
            email_address: None,
            id: owner.id,
            type_: Type::from_static(Type::CANONICAL_USER),
            uri: None,
        }),
        permission: Some(Permission::from_static(Permission::FULL_CONTROL)),
    }
}
