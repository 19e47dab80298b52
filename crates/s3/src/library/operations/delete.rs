//! DeleteObjects.

use engine::{Condition, ETagMatch};
use object::{DeleteKey, MAX_DELETE_KEYS};
use s3s::dto::{DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error, ObjectIdentifier};
use s3s::{S3Request, S3Response};

use super::{Answer, Operations};
use crate::failure::{Failure, MALFORMED_XML, NO_SUCH_KEY, NO_SUCH_VERSION, NOT_IMPLEMENTED};
use crate::request_headers::parse_etag;

pub async fn delete_objects(operations: &Operations, request: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
    let principal = operations.principal(&request);
    let DeleteObjectsInput { bucket, delete, .. } = request.input;
    if delete.objects.is_empty() || delete.objects.len() > MAX_DELETE_KEYS {
        return Err(MALFORMED_XML.into());
    }
    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    let mut keys = Vec::with_capacity(delete.objects.len());
    for object in delete.objects {
        match object.version_id.as_deref() {
            _ if object.size.is_some() || object.last_modified_time.is_some() => {
                let refused = Failure::with(NOT_IMPLEMENTED, "Size and LastModifiedTime are not implemented as conditions.");
                errors.push(error(object.key, refused));
            }
            None | Some("null" | "") => keys.push(DeleteKey { condition: condition(&object), key: object.key }),
            Some(_) => errors.push(error(object.key, NO_SUCH_VERSION.into())),
        }
    }
    let names: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
    let outcomes = operations.service.delete_many(&principal, &bucket, keys).await?;
    for (name, outcome) in names.into_iter().zip(outcomes) {
        match outcome.map_err(Failure::from) {
            // S3 answers that an object that was not there is deleted now.
            Ok(_) => deleted.push(name),
            Err(failure) if failure.code == NO_SUCH_KEY => deleted.push(name),
            Err(failure) => errors.push(error(name, failure)),
        }
    }
    let is_quiet = delete.quiet == Some(true);
    let deleted = deleted.into_iter().map(|key| DeletedObject { key: Some(key), ..DeletedObject::default() }).collect();
    Ok(S3Response::new(DeleteObjectsOutput {
        deleted: (!is_quiet).then_some(deleted),
        errors: Some(errors),
        request_charged: None,
    }))
}

fn condition(object: &ObjectIdentifier) -> Condition {
    match &object.e_tag {
        None => Condition::None,
        Some(tag) if tag.value() == "*" => Condition::Match(ETagMatch::Any),
        Some(tag) => Condition::Match(ETagMatch::OneOf(parse_etag(tag.value()).into_iter().collect())),
    }
}

fn error(key: String, failure: Failure) -> Error {
    Error {
        code: Some(failure.code.name.to_owned()),
        key: Some(key),
        message: Some(failure.message().to_owned()),
        version_id: None,
    }
}
