//! The manager in a folder and in memory: restarts, concurrency, failures, copies.

use std::sync::Arc;

use disk::{Fault, FaultRule, Operation, SimDisk, SimOptions};
use env::Env;
use kv::{Kv, MemoryKv};
use types::{BucketId, CellId, DeviceUuid, Epoch, ErrorKind, Generation, Token};
use wal::RegionStore;

use crate::limits::{LOG_SEGMENT_BYTES, MAX_MANIFEST_BYTES, PERSIST_INTERVAL_COMMANDS};
use crate::{
    BucketEngine, DeviceState, EtagMode, FreshError, IMPORT_SKIPPED_BUCKETS, IMPORT_SKIPPED_COMMANDS, IMPORT_SKIPPED_DEVICES,
    ImportError, Manager, ManagerError, NewBucket, OpenError, ProposeError, Snapshot,
};

pub(super) fn bucket(name: &str, owner: &str) -> NewBucket {
    NewBucket { name: name.to_owned(), owner: owner.to_owned(), engine: BucketEngine::Log, etag: EtagMode::Md5 }
}

/// A little of everything.
pub(super) async fn fill(manager: &Manager) {
    manager.ensure_cluster(1).await.unwrap();
    let device = manager.add_device(DeviceUuid([1; 16]), "/dev/one", 1 << 40).await.unwrap();
    manager.set_device_state(device.id, DeviceState::Draining).await.unwrap();
    let made = manager.create_bucket(bucket("photos", "alice")).await.unwrap();
    manager.set_bucket_policy("photos", made.id, Some(b"{}".to_vec())).await.unwrap();
    manager.create_bucket(bucket("going", "bob")).await.unwrap();
    manager.set_root_credential("admin", "correct horse").await.unwrap();
    manager.add_credential("AKIA1", "battery staple", "alice").await.unwrap();
    manager.install_manifest(CellId(0), Epoch(0), Epoch(3), vec![1, 2, 3]).await.unwrap();
    manager.install_replica_table(None, Generation(1), vec![4]).await.unwrap();
    manager.set_config("region", Some("us-east-1")).await.unwrap();
}

fn new_disk(env: &Env) -> SimDisk {
    let size_bytes = 4 * LOG_SEGMENT_BYTES;
    SimDisk::new(env, SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() })
}

async fn open_on(env: &Env, disk: &SimDisk, kv: &Arc<MemoryKv>) -> Result<Manager, OpenError> {
    let store = RegionStore::new(Arc::new(disk.clone()), 0, LOG_SEGMENT_BYTES, 4);
    Manager::open_on(env, Arc::new(store), Arc::clone(kv) as Arc<dyn Kv>).await
}

#[tokio::test]
async fn a_folder_holds_everything_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::real();
    let manager = Manager::open(&env, &folder.path().join("manager")).await.unwrap();
    fill(&manager).await;
    let before = Snapshot::clone(&manager.snapshot());
    assert_eq!(before.bucket("photos").unwrap().policy.as_deref(), Some(&b"{}"[..]));
    drop(manager);
    let manager = Manager::open(&env, &folder.path().join("manager")).await.unwrap();
    assert_eq!(*manager.snapshot(), before);
    manager.persist().await.unwrap();
    let made = manager.create_bucket(bucket("later", "alice")).await.unwrap();
    assert_eq!(made.id, BucketId(3));
    drop(manager);
    let manager = Manager::open(&env, &folder.path().join("manager")).await.unwrap();
    assert_eq!(manager.bucket("later").unwrap(), made);
}

#[tokio::test]
async fn the_log_is_shortened_only_behind_a_persist() {
    let env = Env::simulated(1);
    let (disk, kv) = (new_disk(&env), Arc::new(MemoryKv::new()));
    let manager = open_on(&env, &disk, &kv).await.unwrap();
    fill(&manager).await;
    for round in 0..3 * PERSIST_INTERVAL_COMMANDS {
        manager.set_config("round", Some(&round.to_string())).await.unwrap();
    }
    // Of 2 MiB each: they fill the four segments several times over.
    for epoch in 4..40 {
        manager
            .install_manifest(CellId(0), Epoch(epoch - 1), Epoch(epoch), vec![epoch as u8; MAX_MANIFEST_BYTES / 2])
            .await
            .unwrap();
    }
    let expected = manager.snapshot();
    assert!(kv.pending_batches() < PERSIST_INTERVAL_COMMANDS as usize);
    let (disk, kv) = (disk.crash(), Arc::new(kv.crash()));
    let manager = open_on(&env, &disk, &kv).await.unwrap();
    assert_eq!(manager.snapshot(), expected);
    // Without its state the log alone is refused, and so is the state without its log.
    let alone = open_on(&env, &disk.crash(), &Arc::new(MemoryKv::new())).await.err().unwrap();
    assert!(matches!(alone, OpenError::Log(wal::OpenError::Missing { .. })), "{alone}");
    let alone = open_on(&env, &new_disk(&env), &Arc::new(kv.crash())).await.err().unwrap();
    assert!(matches!(alone, OpenError::Log(wal::OpenError::Missing { .. })), "{alone}");
}

#[tokio::test]
async fn a_failed_log_ends_the_taking_of_commands() {
    let env = Env::simulated(1);
    let (disk, kv) = (new_disk(&env), Arc::new(MemoryKv::new()));
    let manager = open_on(&env, &disk, &kv).await.unwrap();
    fill(&manager).await;
    let before = manager.snapshot();
    manager.fresh().await.unwrap();
    assert_eq!(manager.failure(), None);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    let failed = manager.create_bucket(bucket("unlucky", "alice")).await.unwrap_err();
    assert!(matches!(failed, ManagerError::Failed(ProposeError::Log(_))), "{failed}");
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert!(manager.take_token().await.is_err());
    assert!(
        matches!(manager.fresh().await, Err(FreshError::Failed(ProposeError::Log(_)))),
        "nobody prepares what it can't take"
    );
    assert!(matches!(manager.failure(), Some(ProposeError::Log(_))));
    assert_eq!(manager.snapshot(), before, "readers go on");
}

#[tokio::test]
async fn a_failed_persist_ends_the_taking_of_commands_and_keeps_the_log() {
    let env = Env::simulated(1);
    let (disk, kv) = (new_disk(&env), Arc::new(MemoryKv::new()));
    let manager = open_on(&env, &disk, &kv).await.unwrap();
    fill(&manager).await;
    let before = manager.snapshot();
    kv.fail_next_persist();
    assert!(matches!(manager.persist().await, Err(ProposeError::Persist(_))));
    assert!(matches!(manager.take_token().await, Err(ManagerError::Failed(ProposeError::Persist(_)))));
    let manager = open_on(&env, &disk.crash(), &Arc::new(kv.crash())).await.unwrap();
    assert_eq!(manager.snapshot(), before);
}

#[tokio::test]
async fn a_copy_makes_a_manager_that_repeats_no_id() {
    let env = Env::simulated(1);
    let manager = Manager::open_in_memory(&env).await.unwrap();
    fill(&manager).await;
    let copy = manager.snapshot().export();
    let lost = manager.create_bucket(bucket("after-the-copy", "alice")).await.unwrap();
    let token = manager.take_token().await.unwrap();

    let (disk, kv) = (new_disk(&env), Arc::new(MemoryKv::new()));
    let store = || Arc::new(RegionStore::new(Arc::new(disk.clone()), 0, LOG_SEGMENT_BYTES, 4));
    let restored = Manager::import_on(&env, store(), Arc::clone(&kv) as Arc<dyn Kv>, &copy).await.unwrap();
    assert_eq!(restored.snapshot().cluster(), manager.snapshot().cluster());
    assert_eq!(restored.snapshot().credentials(), manager.snapshot().credentials());
    assert!(restored.bucket("after-the-copy").is_none());
    let made = restored.create_bucket(bucket("after-the-copy", "alice")).await.unwrap();
    assert!(made.id.0 >= IMPORT_SKIPPED_BUCKETS && made.id != lost.id);
    assert!(restored.take_token().await.unwrap() > token);
    assert!(restored.take_token().await.unwrap() > Token(IMPORT_SKIPPED_COMMANDS));
    let device = restored.add_device(DeviceUuid([2; 16]), "/dev/two", 1).await.unwrap();
    assert!(device.id.0 >= IMPORT_SKIPPED_DEVICES);
    let expected = restored.snapshot();
    drop(restored);

    let again = Manager::import_on(&env, store(), Arc::clone(&kv) as Arc<dyn Kv>, &copy).await.err().unwrap();
    assert!(matches!(again, ImportError::NotEmpty { .. }), "{again}");
    let disk = disk.crash();
    let reopened = open_on(&env, &disk, &Arc::new(kv.crash())).await.unwrap();
    assert_eq!(reopened.snapshot(), expected);
}

#[tokio::test]
async fn an_import_that_was_cut_short_is_repeated_not_opened() {
    let env = Env::simulated(1);
    let manager = Manager::open_in_memory(&env).await.unwrap();
    fill(&manager).await;
    let copy = manager.snapshot().export();
    let (disk, kv) = (new_disk(&env), Arc::new(MemoryKv::new()));
    kv.fail_next_persist();
    let store = RegionStore::new(Arc::new(disk.clone()), 0, LOG_SEGMENT_BYTES, 4);
    let cut = Manager::import_on(&env, Arc::new(store), Arc::clone(&kv) as Arc<dyn Kv>, &copy).await;
    assert!(matches!(cut.err().unwrap(), ImportError::Open(OpenError::Persist(_))));
    let (disk, kv) = (disk.crash(), Arc::new(kv.crash()));
    let half = open_on(&env, &disk, &kv).await.err().unwrap();
    assert!(matches!(half, OpenError::Log(wal::OpenError::Missing { .. })), "{half}");
    let store = RegionStore::new(Arc::new(disk.clone()), 0, LOG_SEGMENT_BYTES, 4);
    let restored = Manager::import_on(&env, Arc::new(store), kv as Arc<dyn Kv>, &copy).await.unwrap();
    assert_eq!(restored.snapshot().buckets(), manager.snapshot().buckets());
}
