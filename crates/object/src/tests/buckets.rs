use std::sync::Arc;

use bytes::Bytes;
use engine::{Committed, Condition, EngineFuture, ObjectEngine, Payload};
use env::Env;
use format::attributes::Attributes;
use manager::{BucketEngine, BucketState, CommandIndex, EtagMode};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use types::BucketId;

use super::{World, put_request, root, user};
use crate::service::object_key;
use crate::{BucketOptions, Engines, ObjectError, ObjectService, Peers, Principal, ReadRequest, Settling, Unsettled};

fn names(world: &World, principal: &Principal) -> Vec<String> {
    let buckets = world.service.list_buckets(principal).expect("a list");
    buckets.into_iter().map(|bucket| bucket.name).collect()
}

#[tokio::test]
async fn made_seen_and_removed() {
    let world = World::new().await;
    let (alice, bob) = (user("alice"), user("bob"));
    let outcome = world.service.head_bucket(&alice, "b11");
    assert!(matches!(outcome, Err(ObjectError::NoSuchBucket)));
    let bucket = world.service.create_bucket(&alice, "b11", BucketOptions::default()).await.expect("made");
    assert_eq!((bucket.name(), bucket.owner(), bucket.etag_mode()), ("b11", "alice", EtagMode::Md5));
    world.service.create_bucket(&bob, "b12", BucketOptions::default()).await.expect("made");
    let again = world.service.create_bucket(&alice, "b11", BucketOptions::default()).await.map(|_| ());
    assert!(matches!(again, Err(ObjectError::BucketAlreadyOwnedByYou)), "{again:?}");
    let taken = world.service.create_bucket(&bob, "b11", BucketOptions::default()).await.map(|_| ());
    assert!(matches!(taken, Err(ObjectError::BucketAlreadyExists)), "{taken:?}");
    let invalid = world.service.create_bucket(&bob, "B_", BucketOptions::default()).await.map(|_| ());
    assert!(matches!(invalid, Err(ObjectError::InvalidBucketName(_))), "{invalid:?}");
    let nobody = world.service.create_bucket(&Principal::Anonymous, "b13", BucketOptions::default()).await.map(|_| ());
    assert!(matches!(nobody, Err(ObjectError::AccessDenied)), "{nobody:?}");

    assert_eq!(names(&world, &alice), ["b11"]);
    assert_eq!(names(&world, &bob), ["b12"]);
    assert_eq!(names(&world, &root()), ["b11", "b12"]);
    assert!(matches!(world.service.list_buckets(&Principal::Anonymous), Err(ObjectError::AccessDenied)));
    assert!(matches!(world.service.head_bucket(&bob, "b11"), Err(ObjectError::AccessDenied)));
    assert!(matches!(world.service.bucket_location(&bob, "b11"), Err(ObjectError::AccessDenied)));

    let denied = world.service.delete_bucket(&bob, "b11").await;
    assert!(matches!(denied, Err(ObjectError::AccessDenied)), "{denied:?}");
    world.service.delete_bucket(&alice, "b11").await.expect("removed");
    assert_eq!(names(&world, &root()), ["b12"]);
    let gone = world.service.delete_bucket(&alice, "b11").await;
    assert!(matches!(gone, Err(ObjectError::NoSuchBucket)), "{gone:?}");
}

#[tokio::test]
async fn only_empty_buckets_go() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    world.put("key", "x").await;
    let outcome = world.service.delete_bucket(&alice, "box").await;
    assert!(matches!(outcome, Err(ObjectError::BucketNotEmpty)), "{outcome:?}");
    assert_eq!(world.get("key").await.expect("still there"), b"x");
    world.put("other", "y").await;
    for key in ["key", "other"] {
        world.service.delete(&alice, "box", key, engine::Condition::None).await.expect("deleted");
    }
    let upload = world.service.create_upload(&alice, "box", "key", Default::default(), None).await.expect("opened");
    let outcome = world.service.delete_bucket(&alice, "box").await;
    assert!(matches!(outcome, Err(ObjectError::BucketNotEmpty)), "{outcome:?}");
    let name = crate::UploadName { bucket: "box", key: "key", upload };
    world.service.abort_upload(&alice, name).await.expect("aborted");
    world.service.delete_bucket(&alice, "box").await.expect("removed");
}

#[tokio::test]
async fn a_bucket_made_again_is_another() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let first = world.service.find_bucket("box").expect("there").id();
    world.service.delete_bucket(&alice, "box").await.expect("removed");
    let outcome = world.service.put(&alice, "box", "key", put_request("x")).await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchBucket)), "{outcome:?}");
    world.bucket("box", EtagMode::Fast).await;
    let second = world.service.find_bucket("box").expect("there");
    assert_ne!(second.id(), first);
    assert_eq!(second.etag_mode(), EtagMode::Fast);
    world.put("key", "x").await;
}

#[tokio::test]
async fn half_done_removals_are_ended_at_start() {
    let world = World::with_bucket().await;
    world.bucket("full", EtagMode::Md5).await;
    let alice = user("alice");
    world.service.put(&alice, "full", "key", put_request("x")).await.expect("written");
    for name in ["box", "full"] {
        let id = world.service.find_bucket(name).expect("there").id();
        world.manager.mark_bucket_deleting(name, id).await.expect("marked");
        let outcome = world.service.put(&alice, name, "key", put_request("y")).await;
        assert!(matches!(outcome, Err(ObjectError::Conflict { .. })), "{outcome:?}");
    }
    world.service.get(&alice, "full", "key", &ReadRequest::default()).await.expect("reads go on");
    world.service.finish_removals().await.expect("ended");
    assert!(matches!(world.service.find_bucket("box"), Err(ObjectError::NoSuchBucket)));
    let snapshot = world.manager.snapshot();
    assert_eq!(snapshot.bucket("full").map(|record| record.state), Some(BucketState::Active));
    world.service.put(&alice, "full", "key", put_request("y")).await.expect("written again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_in_a_removed_bucket() {
    for round in 0..30 {
        let world = World::with_bucket().await;
        let id = world.service.find_bucket("box").expect("there").id();
        let service = world.service.clone();
        let writing = tokio::spawn(async move { service.put(&user("alice"), "box", "key", put_request("x")).await });
        let removed = world.service.delete_bucket(&user("alice"), "box").await;
        let written = writing.await.expect("the write ends");
        let is_empty = engine::ObjectEngine::is_empty(world.engine.as_ref(), id).await.expect("emptiness");
        match (&removed, &written) {
            (Ok(()), Err(ObjectError::NoSuchBucket)) => assert!(is_empty, "round {round}: a write went into a removed bucket"),
            (Err(ObjectError::BucketNotEmpty), Ok(_)) => assert!(!is_empty, "round {round}: an acknowledged write is gone"),
            _ => panic!("round {round}: removed {removed:?}, written {written:?}"),
        }
    }
}

/// A write of `box/key` that has begun, and what lets it end.
async fn write_under_way(service: Arc<ObjectService>) -> (JoinHandle<Result<(), ObjectError>>, Arc<Notify>) {
    let bucket = service.find_bucket("box").expect("there");
    let may_end = Arc::new(Notify::new());
    let (told, key) = (may_end.clone(), object_key(&bucket, "key").expect("a key"));
    let writing = tokio::spawn(async move {
        let write = |engine: Arc<dyn ObjectEngine>| -> EngineFuture<'static, Committed> {
            Box::pin(async move {
                told.notified().await;
                engine.put(&key, Attributes::default(), Payload::new(), Condition::None).await
            })
        };
        service.inside(&bucket, write).await.map(|_| ())
    });
    tokio::task::yield_now().await;
    (writing, may_end)
}

/// A client goes away while its write is on its way: the write goes on, and the bucket is not removed beneath it.
#[tokio::test]
async fn a_write_whose_client_went_away_ends_before_its_bucket_goes() {
    for goes_away in [false, true] {
        let world = World::with_bucket().await;
        let (writing, may_end) = write_under_way(world.service.clone()).await;
        if goes_away {
            writing.abort();
            assert!(writing.await.expect_err("it is gone").is_cancelled());
        }
        let (service, alice) = (world.service.clone(), user("alice"));
        let mut removed = Box::pin(service.delete_bucket(&alice, "box"));
        for _ in 0..100 {
            assert!(futures_util::poll!(&mut removed).is_pending(), "the bucket goes while a write is on its way");
            tokio::task::yield_now().await;
        }
        may_end.notify_one();
        let removed = removed.await;
        assert!(matches!(removed, Err(ObjectError::BucketNotEmpty)), "gone away: {goes_away}: {removed:?}");
        assert!(service.get(&user("alice"), "box", "key", &ReadRequest::default()).await.is_ok());
    }
}

#[tokio::test]
async fn a_bucket_of_an_engine_that_does_not_run_is_unavailable() {
    let world = World::new().await;
    let options = BucketOptions { engine: BucketEngine::Volume, ..BucketOptions::default() };
    world.service.create_bucket(&user("alice"), "volumes", options).await.expect("made");
    let outcome = world.service.put(&user("alice"), "volumes", "key", put_request(Bytes::new())).await;
    assert!(matches!(outcome, Err(ObjectError::ServiceUnavailable { .. })), "{outcome:?}");
}

/// Another node's service over the same manager, which drains when it is asked to.
struct Neighbour(Arc<ObjectService>);

impl Peers for Neighbour {
    fn settle(&self, _: CommandIndex, drained: Option<BucketId>) -> Settling<'_> {
        Box::pin(async move {
            if let Some(bucket) = drained {
                self.0.drain(bucket).await;
            }
            Ok(())
        })
    }
}

/// Two nodes: the first asks the second.
async fn two_nodes() -> (ObjectService, Arc<ObjectService>) {
    let world = World::with_bucket().await;
    let node = || ObjectService::new(world.manager.clone(), Engines::log(world.engine.clone()), Env::simulated(8));
    let second = Arc::new(node());
    (node().with_peers(Arc::new(Neighbour(second.clone()))), second)
}

#[tokio::test]
async fn a_write_at_another_node_ends_before_its_bucket_goes() {
    let (first, second) = two_nodes().await;
    let (writing, may_end) = write_under_way(second.clone()).await;
    let alice = user("alice");
    let mut removed = Box::pin(first.delete_bucket(&alice, "box"));
    for _ in 0..100 {
        assert!(futures_util::poll!(&mut removed).is_pending(), "the bucket goes while a write is on its way");
        tokio::task::yield_now().await;
    }
    may_end.notify_one();
    let removed = removed.await;
    assert!(matches!(removed, Err(ObjectError::BucketNotEmpty)), "{removed:?}");
    writing.await.expect("it ends").expect("acknowledged");
    assert!(second.get(&user("alice"), "box", "key", &ReadRequest::default()).await.is_ok());
    second.put(&user("alice"), "box", "late", put_request("x")).await.expect("used as before");
}

/// A request that found the bucket, and whose content arrives when it is gone.
#[tokio::test]
async fn a_write_that_comes_late_to_another_node_does_not_land_in_a_removed_bucket() {
    let (first, second) = two_nodes().await;
    let bucket = second.find_bucket("box").expect("there");
    first.delete_bucket(&user("alice"), "box").await.expect("removed");
    let key = object_key(&bucket, "key").expect("a key");
    let write = |engine: Arc<dyn ObjectEngine>| -> EngineFuture<'static, Committed> {
        Box::pin(async move { engine.put(&key, Attributes::default(), Payload::new(), Condition::None).await })
    };
    let outcome = second.inside(&bucket, write).await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchBucket)), "{outcome:?}");
}

/// Does not hear of every other node.
struct Deaf;

impl Peers for Deaf {
    fn settle(&self, _: CommandIndex, _: Option<BucketId>) -> Settling<'_> {
        Box::pin(async { Err(Unsettled { reason: "node 3 does not answer".to_owned() }) })
    }
}

#[tokio::test]
async fn nothing_is_removed_while_another_node_may_write() {
    let world = World::with_bucket().await;
    let engines = Engines::log(world.engine.clone());
    let node = ObjectService::new(world.manager.clone(), engines, Env::simulated(8)).with_peers(Arc::new(Deaf));
    let alice = user("alice");
    let refused = node.delete_bucket(&alice, "box").await;
    assert!(matches!(refused, Err(ObjectError::ServiceUnavailable { .. })), "{refused:?}");
    world.put("key", "x").await;
    let policy = node.delete_bucket_policy(&alice, "box").await;
    assert!(matches!(policy, Err(ObjectError::ServiceUnavailable { .. })), "{policy:?}");
}
