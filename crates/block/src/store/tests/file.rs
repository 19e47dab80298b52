//! A store over a file, with real threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, DeviceConfig, VolumeOwner};
use disk::{FileDisk, OpenOptions};
use env::Env;
use futures_util::future::join_all;

use super::support::{BLOCKS, fill, format_options, holder, id, new, overwrite, stamped};
use crate::store::BlobStore;
use crate::stores::{Admission, BlobAt};

const PIECES: u32 = 8;

async fn open_file(env: &Env, path: &Path) -> FileDisk {
    let options = OpenOptions { create: true, capacity_bytes: format_options().capacity_bytes, direct: true };
    // Until the last operation of the one before has ended.
    FileDisk::open_waiting(env, path, &options, Duration::from_secs(10)).await.expect("opens")
}

async fn open_store(env: &Env, path: &Path) -> (Device, Arc<BlobStore>) {
    let device =
        Device::open(Arc::new(open_file(env, path).await), env, DeviceConfig::default()).await.expect("the device opens");
    let store = BlobStore::open(env, device.volume(VolumeOwner::Images)).await.expect("the store opens");
    (device, Arc::new(store))
}

/// Makes a blob, touches its pieces at once, overwrites them, and frees every third one.
async fn use_blob(store: Arc<BlobStore>, one: Admission, index: u32) {
    let id = id(3, index);
    let block = store.create(one, new(id), fill(id, 0..1, 1)).await.expect("there is space");
    let at = BlobAt { block, id };
    let touching = (1..PIECES).map(|piece| store.change(one, at, fill(id, piece..piece + 1, 2)));
    assert!(join_all(touching).await.into_iter().all(|outcome| outcome == Ok(())));
    let writing = (0..64).map(|number| store.change(one, at, overwrite(id, number * 8192, 4096, 3)));
    assert!(join_all(writing).await.into_iter().all(|outcome| outcome == Ok(())));
    if index.is_multiple_of(3) {
        store.free(one, at).await.expect("frees");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_over_a_file_keeps_its_blobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let env = Env::real_with_cores(2);
    Device::format(&open_file(&env, &path).await, &env, &format_options()).await.expect("formats");
    let (device, store) = open_store(&env, &path).await;
    let one = holder(3, 10);
    store.enter(one).await.expect("enters");
    let tasks: Vec<_> = (0..BLOCKS).map(|index| env.spawn(use_blob(store.clone(), one, index))).collect();
    for task in tasks {
        task.await.expect("ends");
    }
    store.close().await;
    device.seal().await.expect("seals");
    drop((device, store));

    let (_device, store) = open_store(&env, &path).await;
    assert_eq!((store.stats().blocks_damaged, store.stats().headers_fallen_back), (0, 0));
    let rows = store.enter(one).await.expect("enters");
    let indexes: Vec<u32> = rows.iter().map(|row| row.at.id.index).collect();
    assert_eq!(indexes, (0..BLOCKS).filter(|index| !index.is_multiple_of(3)).collect::<Vec<_>>());
    for row in rows {
        for (offset, version) in (0..PIECES * 16).map(|block| (block * 4096, block)).map(|(offset, block)| match block {
            even if even.is_multiple_of(2) => (offset, 3),
            first if first < 16 => (offset, 1),
            _ => (offset, 2),
        }) {
            let read = store.read(Some(one), row.at, offset, 4096).await.expect("reads");
            assert!(read == stamped(row.at.id, offset, 4096, version), "byte {offset} of {}", row.at.id);
        }
    }
}
