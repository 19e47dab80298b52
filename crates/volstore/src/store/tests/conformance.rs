//! The object engines' suite, and what strict buckets add.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::engine::{Condition, EngineError, ObjectEngine};
use device::SyncMode;
use parking_lot::Mutex;
use smallvec::smallvec;

use super::support::{Rig, attributes_of, bytes, key};
use crate::interface::VolumeEngine;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    let rigs: Mutex<Vec<Rig>> = Mutex::default();
    ::engine::conformance::run_all(async || {
        let seed = rigs.lock().len() as u64;
        let rig = Rig::with(seed, &[160], SyncMode::Always).await;
        let engine = Arc::new(rig.engine());
        rigs.lock().push(rig);
        engine
    })
    .await;
}

/// Each time another way to end: with and without a dump, the process alone and the power.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_what_was_acknowledged() {
    let rig: Mutex<Option<Arc<Rig>>> = Mutex::new(None);
    let count = AtomicU64::new(0);
    let make = async || {
        let made = Arc::new(Rig::with(3, &[160, 160], SyncMode::Always).await);
        let engine = Arc::new(made.engine());
        *rig.lock() = Some(made);
        engine
    };
    let restart = async |engine: Arc<VolumeEngine>| {
        drop(engine);
        let former = rig.lock().take().expect("there is one");
        let count = count.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(3) {
            former.dump().await;
        }
        let next = Arc::new(if count.is_multiple_of(2) { former.crash().await } else { former.restart().await });
        next.store.check().expect("each block has one owner");
        let engine = Arc::new(next.engine());
        *rig.lock() = Some(next);
        engine
    };
    ::engine::conformance::run_restarts(make, restart).await;
}

#[tokio::test]
async fn a_strict_bucket_refuses_to_overwrite() {
    let rig = Rig::new(1).await;
    let engine = VolumeEngine::new(rig.store.clone(), true);
    let put = async |version: u64, length: usize, condition: Condition| {
        let bytes = bytes(version, length);
        engine.put(&key("a"), attributes_of(&bytes), smallvec![bytes.into()], condition).await
    };
    put(1, 100, Condition::None).await.expect("the name is free");
    for condition in [Condition::None, Condition::NoneMatch(Vec::new())] {
        let refused = put(2, 50, condition).await;
        assert!(matches!(refused, Err(EngineError::Conflict { .. })), "{refused:?}");
    }
    let refused = put(2, 50, Condition::Absent).await;
    assert!(matches!(refused, Err(EngineError::PreconditionFailed)), "{refused:?}");
    assert_eq!(rig.get("a").await.expect("reads"), Some(bytes(1, 100)));
    engine.delete(&key("a"), Condition::None).await.expect("deletes");
    put(3, 70, Condition::None).await.expect("the name is free again");
    let rig = rig.crash().await;
    assert_eq!(rig.get("a").await.expect("reads"), Some(bytes(3, 70)));
}
