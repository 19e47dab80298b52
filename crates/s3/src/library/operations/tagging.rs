//! Tags of objects.

use s3s::dto::{
    DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput, PutObjectTaggingInput,
    PutObjectTaggingOutput, Tag,
};
use s3s::{S3Request, S3Response};

use super::{Answer, Operations};
use crate::failure::MALFORMED_XML;
use crate::tags;

pub async fn get_object_tagging(
    operations: &Operations,
    request: S3Request<GetObjectTaggingInput>,
) -> Answer<GetObjectTaggingOutput> {
    let principal = operations.principal(&request);
    let GetObjectTaggingInput { bucket, key, .. } = &request.input;
    let found = operations.service.tags(&principal, bucket, key).await?;
    let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
    let tags = found.iter().map(|(key, value)| Tag { key: text(key), value: text(value) });
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: tags.collect(), version_id: None }))
}

pub async fn put_object_tagging(
    operations: &Operations,
    request: S3Request<PutObjectTaggingInput>,
) -> Answer<PutObjectTaggingOutput> {
    let principal = operations.principal(&request);
    let PutObjectTaggingInput { bucket, key, tagging, .. } = request.input;
    let mut pairs = Vec::with_capacity(tagging.tag_set.len());
    for Tag { key, value } in tagging.tag_set {
        let (Some(key), Some(value)) = (key, value) else { return Err(MALFORMED_XML.into()) };
        pairs.push((key, value));
    }
    operations.service.set_tags(&principal, &bucket, &key, tags::checked(pairs)?).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub async fn delete_object_tagging(
    operations: &Operations,
    request: S3Request<DeleteObjectTaggingInput>,
) -> Answer<DeleteObjectTaggingOutput> {
    let principal = operations.principal(&request);
    let DeleteObjectTaggingInput { bucket, key, .. } = &request.input;
    operations.service.set_tags(&principal, bucket, key, Vec::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}
