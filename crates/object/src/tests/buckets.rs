use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use engine::{Committed, Condition, EngineFuture, ObjectEngine, Payload, UploadQuery, Waiter};
use env::Env;
use format::attributes::Attributes;
use manager::{BucketEngine, BucketState, CommandIndex, EtagMode, Manager, Removal};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use types::{BucketId, UploadId};

use super::{World, put_request, root, user};
use crate::buckets::REMOVAL_PATIENCE;
use crate::service::object_key;
use crate::{
    BucketOptions, Engines, MAX_LIST_ITEMS, ObjectError, ObjectService, Peers, Principal, ReadRequest, Settling, Unsettled,
    Upload, UploadName,
};

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
async fn only_buckets_without_objects_go() {
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
    world.service.delete_bucket(&alice, "box").await.expect("removed");
}

/// Opens uploads of `box`, with a part each.
async fn open_uploads(world: &World, count: usize) -> Vec<UploadId> {
    let mut uploads = Vec::new();
    for number in 0..count {
        let key = format!("key-{number:05}");
        let upload =
            world.service.create_upload(&user("alice"), "box", &key, Attributes::default(), None).await.expect("opened");
        let name = UploadName { bucket: "box", key: &key, upload: Some(upload) };
        world.service.put_part(&user("alice"), name, 1, Upload::whole("part".into())).await.expect("written");
        uploads.push(upload);
    }
    uploads
}

async fn open_in(world: &World, bucket: BucketId) -> usize {
    let query = UploadQuery { bucket, prefix: Bytes::new(), after: None, delimiter: Bytes::new(), max_items: 10_000 };
    world.engine.uploads(&query).await.expect("a list").uploads.len()
}

/// As AWS. Caught: a bucket that could not be removed because of an upload that its owner knew nothing of any more.
#[tokio::test]
async fn open_uploads_end_with_their_bucket() {
    let world = World::with_bucket().await;
    let (alice, id) = (user("alice"), world.service.find_bucket("box").expect("there").id());
    // More than a page of them, and an object: that comes first.
    open_uploads(&world, MAX_LIST_ITEMS + 2).await;
    world.put("object", "x").await;
    let outcome = world.service.delete_bucket(&alice, "box").await;
    assert!(matches!(outcome, Err(ObjectError::BucketNotEmpty)), "{outcome:?}");
    assert_eq!(open_in(&world, id).await, MAX_LIST_ITEMS + 2, "none was ended for a removal that was refused");
    world.service.delete(&alice, "box", "object", Condition::None).await.expect("deleted");
    world.service.delete_bucket(&alice, "box").await.expect("removed");
    assert_eq!(open_in(&world, id).await, 0, "what is left would be reclaimed by nobody");
}

/// A crash after some of them were ended.
#[tokio::test]
async fn a_removal_that_was_interrupted_ends_the_uploads_that_are_left() {
    let world = World::with_bucket().await;
    let id = world.service.find_bucket("box").expect("there").id();
    open_uploads(&world, 3).await;
    mark(&world, "box").await;
    world.service.finish_removals().await.expect("ended");
    assert_eq!((state_of(&world.manager, "box"), open_in(&world, id).await), (None, 0));
}

/// Another node takes the bucket back into use while this one looks through its uploads; these are not the removal's to end any more.
#[tokio::test]
async fn uploads_of_a_bucket_that_is_used_again_stay() {
    let world = World::with_bucket().await;
    let id = world.service.find_bucket("box").expect("there").id();
    open_uploads(&world, 1).await;
    let peers = EndsMeanwhile { manager: world.manager.clone(), removes: false, fails: false };
    let outcome = node_with(&world, peers).delete_bucket(&root(), "box").await;
    assert!(matches!(outcome, Err(ObjectError::Conflict { .. })), "{outcome:?}");
    assert_eq!((state_of(&world.manager, "box"), open_in(&world, id).await), (Some(BucketState::Active), 1));
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

/// Two buckets of alice, `box` and `full`, whose removals were interrupted; one of them has an object.
async fn with_half_done_removals() -> World {
    let world = World::with_bucket().await;
    world.bucket("full", EtagMode::Md5).await;
    let alice = user("alice");
    world.service.put(&alice, "full", "key", put_request("x")).await.expect("written");
    for name in ["box", "full"] {
        mark(&world, name).await;
        let outcome = world.service.put(&alice, name, "key", put_request("y")).await;
        assert!(matches!(outcome, Err(ObjectError::Conflict { .. })), "{outcome:?}");
    }
    world.service.get(&alice, "full", "key", &ReadRequest::default()).await.expect("reads go on");
    world
}

/// What a removal begins with.
async fn mark(world: &World, name: &str) -> Removal {
    let id = world.service.find_bucket(name).expect("there").id();
    world.manager.mark_bucket_deleting(name, id).await.expect("marked")
}

fn state_of(manager: &Manager, name: &str) -> Option<BucketState> {
    manager.snapshot().bucket(name).map(|record| record.state)
}

/// The bucket that is empty is gone, the other one in use.
async fn half_done_removals_are_ended(world: &World) {
    assert!(matches!(world.service.find_bucket("box"), Err(ObjectError::NoSuchBucket)));
    assert_eq!(state_of(&world.manager, "full"), Some(BucketState::Active));
    world.service.put(&user("alice"), "full", "key", put_request("y")).await.expect("written again");
}

#[tokio::test]
async fn half_done_removals_are_ended_at_start() {
    let world = with_half_done_removals().await;
    world.service.finish_removals().await.expect("ended");
    half_done_removals_are_ended(&world).await;
}

#[tokio::test]
async fn half_done_removals_are_ended_by_the_next_one() {
    let world = with_half_done_removals().await;
    let alice = user("alice");
    let outcome = world.service.delete_bucket(&alice, "full").await;
    assert!(matches!(outcome, Err(ObjectError::BucketNotEmpty)), "{outcome:?}");
    world.service.delete_bucket(&alice, "box").await.expect("removed");
    half_done_removals_are_ended(&world).await;
}

#[tokio::test(start_paused = true)]
async fn half_done_removals_are_ended_by_and_by() {
    let world = with_half_done_removals().await;
    world.service.look_after_removals();
    tokio::time::sleep(REMOVAL_PATIENCE + Duration::from_secs(1)).await;
    assert!(matches!(state_of(&world.manager, "box"), Some(BucketState::Deleting(_))), "somebody may be at it");
    // This one is begun anew.
    let second = mark(&world, "full").await;
    tokio::time::sleep(REMOVAL_PATIENCE).await;
    assert_eq!(state_of(&world.manager, "box"), None);
    assert_eq!(state_of(&world.manager, "full"), Some(BucketState::Deleting(second)));
    tokio::time::sleep(REMOVAL_PATIENCE).await;
    half_done_removals_are_ended(&world).await;
}

/// While a node waits for the others, the removal is ended by another one.
struct EndsMeanwhile {
    manager: Arc<Manager>,
    removes: bool,
    /// How what waits ends then.
    fails: bool,
}

impl Peers for EndsMeanwhile {
    fn settle(&self, _: CommandIndex, _: Option<BucketId>) -> Settling<'_> {
        Box::pin(async move {
            let state = self.manager.snapshot();
            let Some(bucket) = state.bucket("box") else { return Ok(()) };
            let BucketState::Deleting(removal) = bucket.state else { panic!("the removal stands") };
            let ended = match self.removes {
                true => self.manager.remove_bucket("box", bucket.id, removal).await,
                false => self.manager.reactivate_bucket("box", bucket.id, removal).await.map(drop),
            };
            ended.expect("it was not over");
            if self.fails { Err(Unsettled { reason: "silence".to_owned() }) } else { Ok(()) }
        })
    }
}

#[tokio::test]
async fn a_removal_that_is_over_is_not_ended_once_more() {
    let world = World::with_bucket().await;
    mark(&world, "box").await;
    let peers = EndsMeanwhile { manager: world.manager.clone(), removes: false, fails: false };
    node_with(&world, peers).finish_removals().await.expect("it is over");
    assert_eq!(state_of(&world.manager, "box"), Some(BucketState::Active), "nobody asks for its removal any more");
    world.put("key", "x").await;
}

fn node_with(world: &World, peers: EndsMeanwhile) -> ObjectService {
    let engines = Engines::log(world.engine.clone());
    ObjectService::new(world.manager.clone(), engines, Env::simulated(8)).with_peers(Arc::new(peers))
}

#[tokio::test]
async fn who_asked_for_a_removal_that_another_node_ends_is_told_how_it_ended() {
    for fails in [false, true] {
        let world = World::with_bucket().await;
        let peers = EndsMeanwhile { manager: world.manager.clone(), removes: true, fails };
        node_with(&world, peers).delete_bucket(&root(), "box").await.expect("it is gone");
        assert_eq!(state_of(&world.manager, "box"), None);
        let world = World::with_bucket().await;
        let peers = EndsMeanwhile { manager: world.manager.clone(), removes: false, fails };
        let kept = node_with(&world, peers).delete_bucket(&root(), "box").await;
        let reason = format!("{kept:?}");
        assert_eq!((kept.is_err(), reason.contains("silence")), (true, fails), "{reason}");
        assert_eq!(state_of(&world.manager, "box"), Some(BucketState::Active));
    }
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

/// A client that goes away, or is told that nobody knows. The write hears of it, and ends by itself.
#[tokio::test(start_paused = true)]
async fn a_write_knows_that_its_client_waits_no_more() {
    for goes_away in [true, false] {
        let world = World::with_bucket().await;
        let (service, (tell, told)) = (world.service.clone(), tokio::sync::oneshot::channel());
        let writing = tokio::spawn(async move {
            let bucket = service.find_bucket("box").expect("there");
            let write = |_: Arc<dyn ObjectEngine>| -> EngineFuture<'static, ()> {
                Box::pin(async move {
                    Waiter::present().left().await;
                    tell.send(()).expect("the test waits");
                    Ok(())
                })
            };
            service.inside(&bucket, write).await
        });
        tokio::task::yield_now().await;
        if goes_away {
            writing.abort();
        }
        told.await.expect("it goes on until it has heard");
        match goes_away {
            true => assert!(writing.await.expect_err("it is gone").is_cancelled()),
            false => assert!(matches!(writing.await.expect("it ends"), Err(ObjectError::ServiceUnavailable { .. }))),
        }
    }
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
#[derive(Default)]
struct Neighbour(OnceLock<Weak<ObjectService>>);

impl Peers for Neighbour {
    fn settle(&self, _: CommandIndex, drained: Option<BucketId>) -> Settling<'_> {
        Box::pin(async move {
            let other = self.0.get().and_then(Weak::upgrade);
            if let (Some(other), Some(bucket)) = (other, drained) {
                other.drain(bucket).await;
            }
            Ok(())
        })
    }
}

/// Two nodes that ask each other.
async fn two_nodes() -> (Arc<ObjectService>, Arc<ObjectService>) {
    let world = World::with_bucket().await;
    let peers = [Arc::new(Neighbour::default()), Arc::new(Neighbour::default())];
    let node = |peers: &Arc<Neighbour>| {
        let node = ObjectService::new(world.manager.clone(), Engines::log(world.engine.clone()), Env::simulated(8));
        Arc::new(node.with_peers(peers.clone()))
    };
    let nodes = (node(&peers[0]), node(&peers[1]));
    peers[0].0.set(Arc::downgrade(&nodes.1)).expect("set once");
    peers[1].0.set(Arc::downgrade(&nodes.0)).expect("set once");
    nodes
}

/// Each has closed its gate when the other asks it.
#[tokio::test(start_paused = true)]
async fn two_nodes_that_remove_one_bucket_do_not_wait_for_each_other() {
    let (first, second) = two_nodes().await;
    let alice = user("alice");
    let both = async { tokio::join!(first.delete_bucket(&alice, "box"), second.delete_bucket(&alice, "box")) };
    let both = tokio::time::timeout(Duration::from_secs(60), both).await.expect("they end");
    let is_over = |error: &ObjectError| matches!(error, ObjectError::Conflict { .. } | ObjectError::NoSuchBucket);
    let ((Ok(()), Err(other)) | (Err(other), Ok(()))) = both else { panic!("{both:?}") };
    assert!(is_over(&other), "{other:?}");
    assert!(matches!(first.find_bucket("box"), Err(ObjectError::NoSuchBucket)));
}

/// One node removes, the other ends what it takes for interrupted, and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_when_several_nodes_end_a_removal() {
    for round in 0..100 {
        let (first, second) = two_nodes().await;
        let removing = tokio::spawn(async move { first.delete_bucket(&user("alice"), "box").await });
        let ending = tokio::spawn({
            let second = second.clone();
            async move {
                for _ in 0..20 {
                    second.finish_removals().await.expect("ended");
                    tokio::task::yield_now().await;
                }
            }
        });
        let written = second.put(&user("alice"), "box", "key", put_request("x")).await;
        let removed = removing.await.expect("the removal ends");
        ending.await.expect("it ends");
        second.finish_removals().await.expect("ended");
        let found = second.get(&user("alice"), "box", "key", &ReadRequest::default()).await;
        match &written {
            Ok(_) => assert!(found.is_ok(), "round {round}: an acknowledged write is gone, removed {removed:?}"),
            Err(ObjectError::NoSuchBucket | ObjectError::Conflict { .. }) => {
                assert!(matches!(found, Err(ObjectError::NoSuchBucket)), "round {round}: {removed:?}, {:?}", found.err());
            }
            Err(error) => panic!("round {round}: {error:?}"),
        }
    }
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

/// Caught: what a node had derived of buckets that others removed it kept for ever.
#[tokio::test]
async fn buckets_that_another_node_has_removed_are_forgotten() {
    let (first, second) = two_nodes().await;
    for name in ["box-1", "box-2", "box-3"] {
        first.create_bucket(&user("alice"), name, BucketOptions::default()).await.expect("created");
        second.find_bucket(name).expect("there");
        first.delete_bucket(&user("alice"), name).await.expect("removed");
    }
    second.find_bucket("box").expect("there");
    assert_eq!(second.directory.kept(), 1);
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
