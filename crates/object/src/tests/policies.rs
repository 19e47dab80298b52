use bytes::Bytes;
use engine::Condition;

use super::{World, put_request, root, user};
use crate::{
    CopyRequest, CopySource, DeleteKey, ListRequest, MetadataDirective, ObjectError, OwnAttributes, Principal, ReadRequest,
};

const NOBODY: Principal = Principal::Anonymous;

fn policy(actions: &str, resource: &str) -> Bytes {
    let text = format!(r#"{{"Statement":[{{"Effect":"Allow","Principal":"*","Action":{actions},"Resource":"{resource}"}}]}}"#);
    Bytes::from(text)
}

impl World {
    async fn allow(&self, actions: &str, resource: &str) {
        self.service.put_bucket_policy(&user("alice"), "box", policy(actions, resource)).await.expect("a good policy");
    }
}

/// What the principal may do in `box`, tried out.
async fn permitted(world: &World, principal: &Principal) -> Vec<&'static str> {
    let service = &world.service;
    world.put("key", "x").await;
    let request = ReadRequest::default();
    let tries = [
        ("get", service.get(principal, "box", "key", &request).await.map(|_| ())),
        ("cached", service.get_cached(principal, "box", "key", &request).unwrap_or(Err(ObjectError::NoSuchKey)).map(|_| ())),
        ("head", service.head(principal, "box", "key", &request).await.map(|_| ())),
        ("put", service.put(principal, "box", "new", put_request("y")).await.map(|_| ())),
        ("list", service.list(principal, "box", &ListRequest { max_items: 5, ..ListRequest::default() }).await.map(|_| ())),
        ("location", service.bucket_location(principal, "box").map(|_| ())),
        ("uploads", service.list_uploads(principal, "box", &Default::default()).await.map(|_| ())),
        ("policy", service.bucket_policy(principal, "box").map(|_| ())),
        ("delete", service.delete(principal, "box", "new", Condition::None).await.map(|_| ())),
    ];
    let mut allowed = Vec::new();
    for (name, outcome) in tries {
        match outcome {
            Ok(()) => allowed.push(name),
            Err(ObjectError::AccessDenied) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    allowed
}

#[tokio::test]
async fn without_a_policy_the_owner_and_root_only() {
    let world = World::with_bucket().await;
    assert_eq!(permitted(&world, &NOBODY).await, [""; 0]);
    assert_eq!(permitted(&world, &user("bob")).await, [""; 0]);
    let outcome = world.service.bucket_policy(&user("alice"), "box");
    assert!(matches!(outcome, Err(ObjectError::NoSuchBucketPolicy)), "{outcome:?}");
    world.allow(r#""s3:ListBucket""#, "arn:aws:s3:::box").await;
    let all = ["get", "cached", "head", "put", "list", "location", "uploads", "policy", "delete"];
    assert_eq!(permitted(&world, &user("alice")).await, all);
    assert_eq!(permitted(&world, &root()).await, all);
}

#[tokio::test]
async fn a_policy_is_for_everybody_until_it_is_changed() {
    let world = World::with_bucket().await;
    world.allow(r#""s3:GetObject""#, "arn:aws:s3:::box/*").await;
    for principal in [NOBODY, user("bob")] {
        assert_eq!(permitted(&world, &principal).await, ["get", "cached", "head"]);
    }
    world.allow(r#"["s3:PutObject","s3:DeleteObject"]"#, "arn:aws:s3:::box/*").await;
    assert_eq!(permitted(&world, &NOBODY).await, ["put", "delete"]);
    world.allow(r#"["s3:ListBucket","s3:GetBucketLocation","s3:ListBucketMultipartUploads"]"#, "arn:aws:s3:::box").await;
    assert_eq!(permitted(&world, &NOBODY).await, ["list", "location", "uploads"]);
    let document = world.service.bucket_policy(&user("alice"), "box").expect("a policy");
    assert!(document.ends_with(br#""Resource":"arn:aws:s3:::box"}]}"#), "it comes back as it was put");
    world.service.delete_bucket_policy(&user("alice"), "box").await.expect("deleted");
    world.service.delete_bucket_policy(&user("alice"), "box").await.expect("deleting nothing is no error");
    assert_eq!(permitted(&world, &NOBODY).await, [""; 0]);
}

#[tokio::test]
async fn a_bad_policy_changes_nothing() {
    let world = World::with_bucket().await;
    world.allow(r#""s3:GetObject""#, "arn:aws:s3:::box/*").await;
    let outcome = world.service.put_bucket_policy(&user("alice"), "box", policy(r#""s3:*""#, "arn:aws:s3:::box/*")).await;
    assert!(matches!(outcome, Err(ObjectError::MalformedPolicy(_))), "{outcome:?}");
    assert_eq!(permitted(&world, &NOBODY).await, ["get", "cached", "head"]);
    let outcome = world.service.put_bucket_policy(&NOBODY, "box", policy(r#""s3:GetObject""#, "arn:aws:s3:::box/*")).await;
    assert!(matches!(outcome, Err(ObjectError::AccessDenied)), "{outcome:?}");
}

#[tokio::test]
async fn who_may_not_list_does_not_learn_what_is_absent() {
    let world = World::with_bucket().await;
    world.allow(r#""s3:GetObject""#, "arn:aws:s3:::box/*").await;
    let outcome = world.service.get(&NOBODY, "box", "absent", &ReadRequest::default()).await;
    assert!(matches!(outcome, Err(ObjectError::AccessDenied)), "{outcome:?}");
    let outcome = world.service.head(&NOBODY, "box", "absent", &ReadRequest::default()).await;
    assert!(matches!(outcome, Err(ObjectError::AccessDenied)), "{outcome:?}");
    let outcome = world.service.get(&user("alice"), "box", "absent", &ReadRequest::default()).await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchKey)), "{outcome:?}");
}

#[tokio::test]
async fn copy_sources_are_authorised() {
    let world = World::with_bucket().await;
    world.put("secret", "x").await;
    let bob = user("bob");
    world.service.create_bucket(&bob, "bobs", Default::default()).await.expect("made");
    let request = || CopyRequest {
        source: CopySource { bucket: "box".to_owned(), key: "secret".to_owned(), ..CopySource::default() },
        metadata: MetadataDirective::Copy,
        condition: Condition::None,
        checksum: None,
        own: OwnAttributes::default(),
    };
    let outcome = world.service.copy(&bob, "bobs", "mine", request()).await;
    assert!(matches!(outcome, Err(ObjectError::AccessDenied)), "{outcome:?}");
    let upload = world.service.create_upload(&bob, "bobs", "mine", Default::default(), None).await.expect("opened");
    let name = crate::UploadName { bucket: "bobs", key: "mine", upload: Some(upload) };
    let part = crate::CopyPartRequest { source: request().source, range: None };
    let outcome = world.service.copy_part(&bob, name, 1, part).await;
    assert!(matches!(outcome, Err(ObjectError::AccessDenied)), "{outcome:?}");
    world.allow(r#""s3:GetObject""#, "arn:aws:s3:::box/*").await;
    world.service.copy(&bob, "bobs", "mine", request()).await.expect("the policy lets everybody read");
}

#[tokio::test]
async fn deleting_many_is_judged_key_by_key() {
    let world = World::with_bucket().await;
    world.put("key", "x").await;
    let keys = || vec![DeleteKey { key: "key".to_owned(), condition: Condition::None }];
    let outcomes = world.service.delete_many(&NOBODY, "box", keys()).await.expect("the request is fine");
    assert!(matches!(outcomes[..], [Err(ObjectError::AccessDenied)]), "{outcomes:?}");
    assert_eq!(world.get("key").await.expect("still there"), b"x");
}
