//! A store over a file, with real threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use device::{Device, DeviceConfig};
use disk::{FileDisk, OpenOptions};
use env::Env;
use format::chunk_block::{BLOCK_DATA_BYTES, Era};
use futures_util::future::join_all;

use super::support::{BLOCKS, bytes, options};
use crate::blocks::BlockStore;
use crate::message::{LiveCopy, NodeAnswer, NodeRequest};
use crate::storage_node::tests::rig::{done, end, id, live, write};

const CHUNKS: u64 = 40;
const CAPACITY: u32 = 100_000;

async fn open_file(env: &Env, path: &Path, direct: bool) -> FileDisk {
    let options = OpenOptions { create: true, capacity_bytes: options().capacity_bytes, direct };
    // Until the last operation of the one before has ended.
    FileDisk::open_waiting(env, path, &options, Duration::from_secs(10)).await.expect("opens")
}

async fn open_store(env: &Env, path: &Path, direct: bool) -> (Device, BlockStore) {
    let disk = open_file(env, path, direct).await;
    let device = Device::open(Arc::new(disk), env, DeviceConfig::default()).await.expect("the device opens");
    let store = BlockStore::open(env, device.volume(device::VolumeOwner::Chunks)).await.expect("the store opens");
    (device, store)
}

async fn content(store: &BlockStore, block: u32, number: u64) -> bytes::Bytes {
    match store.handle(block, id(number), NodeRequest::Read).await {
        NodeAnswer::Live(LiveCopy { content: Some(content), .. }) => content,
        other => panic!("chunk {number}: {other:?}"),
    }
}

async fn serve(direct: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let env = Env::real_with_cores(2);
    Device::format(&open_file(&env, &path, direct).await, &env, &options()).await.expect("formats");
    let (device, store) = open_store(&env, &path, direct).await;
    let len = |number: u64| (number * 2_477) as usize;
    let put = |number| {
        let request = NodeRequest::Put { era: Era::default(), capacity: CAPACITY, content: bytes(number, len(number)) };
        store.handle(number as u32 % (BLOCKS - 1), id(number), request)
    };
    assert!(join_all((0..CHUNKS).map(put)).await.into_iter().all(|answer| answer == done(live(0))));
    let whole = bytes(1_000, BLOCK_DATA_BYTES as usize);
    let request = NodeRequest::Put { era: Era::default(), capacity: BLOCK_DATA_BYTES, content: whole.clone() };
    assert_eq!(store.handle(BLOCKS - 1, id(1_000), request).await, done(live(0)));
    let changes = (0..CHUNKS / 2).map(|number| store.handle(number as u32 % (BLOCKS - 1), id(number), write(0, 1, "changed")));
    assert!(join_all(changes).await.into_iter().all(|answer| answer == done(live(1))));
    store.handle(1, id(CHUNKS - 1), end(0)).await;
    store.close().await;
    device.seal().await.expect("seals");
    drop((device, store));

    let (_device, store) = open_store(&env, &path, direct).await;
    assert!(store.damaged_blocks().is_empty());
    assert_eq!(store.stats().headers_fallen_back, 0);
    for number in 0..CHUNKS - 1 {
        let expected = if number < CHUNKS / 2 { bytes::Bytes::from_static(b"changed") } else { bytes(number, len(number)) };
        assert!(content(&store, number as u32 % (BLOCKS - 1), number).await == expected, "chunk {number}");
    }
    assert!(content(&store, BLOCKS - 1, 1_000).await == whole);
    assert_eq!(store.freed(id(0).shard, 10), [id(CHUNKS - 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_over_a_file_keeps_its_chunks() {
    serve(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_over_a_file_keeps_its_chunks_through_the_page_cache() {
    serve(false).await;
}
