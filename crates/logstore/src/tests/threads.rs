//! Real threads on a real file: what clients of a few keys see is linearizable, and the list agrees with it.

use super::history::Value;
use super::support::{BUCKET, Draw, MemoryManifests, key, soak};
use crate::{LogStore, LogStoreConfig};
use device::{Device, DeviceConfig, FormatOptions};
use disk::{Disk, FileDisk, OpenOptions, install_ring};
use engine::{Condition, ETagMatch, EngineError, ListItem, ListQuery, ObjectEngine};
use env::{Env, set_core_index};
use format::attributes::ETag;
use model::linearizability::History;
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use types::{CellId, ClusterId, DeviceId};

const KEYS: [&str; 3] = ["a", "b", "c"];
const THREADS: u64 = 2;
const TASKS: u64 = 4;
const STEPS: u64 = 50;
const ZONE_BYTES: u64 = 1024 * 1024;

type Histories = Arc<BTreeMap<&'static str, Mutex<History<Register<u64>>>>>;

fn number_of(tag: &ETag) -> u64 {
    let ETag::Md5(bytes) = tag else { panic!("tags of values are MD5s") };
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

async fn client(store: LogStore, histories: Histories, number: u64, seed: u64) {
    let mut draw = Draw::new(seed * 1000 + number);
    for step in 0..STEPS {
        let name = KEYS[draw.below(KEYS.len() as u64) as usize];
        let history = &histories[name];
        let value = Value::new((number << 32) + step + 1, draw.below(2000) as usize);
        match draw.below(8) {
            0..3 => {
                let call = history.lock().call(Call::Read);
                let found = match store.open(&key(name)).await {
                    Ok(found) => Some(number_of(&found.info.attributes.etag)),
                    Err(EngineError::NotFound) => None,
                    Err(error) => panic!("{name}: {error}"),
                };
                history.lock().answer(call, Outcome::Read(found));
            }
            3..6 => {
                let call = history.lock().call(Call::Write(Some(value.number)));
                store.put(&key(name), value.attributes(), smallvec![value.bytes.clone()], Condition::None).await.unwrap();
                history.lock().answer(call, Outcome::Written);
            }
            6 => {
                let call = history.lock().call(Call::Write(None));
                store.delete(&key(name), Condition::None).await.unwrap();
                history.lock().answer(call, Outcome::Written);
            }
            _ => swap(&store, history, name, value).await,
        }
    }
}

/// Replaces what a read found, if it is still there.
async fn swap(store: &LogStore, history: &Mutex<History<Register<u64>>>, name: &str, value: Value) {
    let found = store.info(&key(name)).await.ok().map(|info| info.attributes.etag);
    let condition = found.map_or(Condition::Absent, |tag| Condition::Match(ETagMatch::OneOf(vec![tag])));
    let expected = found.as_ref().map(number_of);
    let call = history.lock().call(Call::Swap { expected, new: Some(value.number) });
    match store.put(&key(name), value.attributes(), smallvec![value.bytes.clone()], condition).await {
        Ok(_) => history.lock().answer(call, Outcome::Swapped),
        // What was there instead is not told.
        Err(EngineError::PreconditionFailed | EngineError::NotFound) => history.lock().withdraw(call),
        Err(error) => panic!("{name}: {error}"),
    }
}

async fn open_on_files(directory: &std::path::Path, env: &Env) -> LogStore {
    let mut devices = Vec::new();
    for id in 1..=2 {
        let capacity_bytes = Some(40 * ZONE_BYTES);
        let options = OpenOptions { create: true, capacity_bytes, ..OpenOptions::default() };
        let disk = FileDisk::open(&directory.join(format!("disk-{id}")), &options).unwrap();
        let format = FormatOptions {
            cluster: ClusterId([1; 16]),
            device: DeviceId(id),
            cell: CellId(1),
            zone_bytes: Some(ZONE_BYTES),
            capacity_bytes,
            overwrite: false,
        };
        Device::format(&disk, env, &format).await.unwrap();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        devices.push(Arc::new(Device::open(disk, env, DeviceConfig::default()).await.unwrap()));
    }
    let config = LogStoreConfig { checkpoint_entries: 20, collect_below_free_percent: 100, ..LogStoreConfig::default() };
    LogStore::open(config, env.clone(), Arc::new(MemoryManifests::default()), devices, &[]).await.unwrap()
}

/// The list and the reads of quiet keys agree.
async fn list_agrees(store: &LogStore) {
    let query = ListQuery {
        bucket: BUCKET,
        prefix: bytes::Bytes::new(),
        start_after: bytes::Bytes::new(),
        delimiter: bytes::Bytes::new(),
        max_items: 100,
    };
    let mut listed = BTreeMap::new();
    for item in store.list(&query).await.unwrap().items {
        let ListItem::Object(object) = item else { panic!("{item:?}") };
        listed.insert(String::from_utf8(object.key.to_vec()).unwrap(), object.etag);
    }
    for name in KEYS {
        let read = store.info(&key(name)).await.ok().map(|info| info.attributes.etag);
        assert_eq!(listed.get(name).copied(), read, "{name}");
    }
}

fn run(seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::real_with_cores(THREADS as usize);
    let histories: Histories = Arc::new(KEYS.iter().map(|name| (*name, Mutex::default())).collect());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opener = runtime();
    let store = opener.block_on(open_on_files(directory.path(), &env));
    let together = Arc::new(Barrier::new(THREADS as usize));
    let mut threads = Vec::new();
    for thread in 0..THREADS {
        let (store, histories, together) = (store.clone(), histories.clone(), together.clone());
        let runtime = runtime();
        threads.push(std::thread::spawn(move || {
            set_core_index(thread as usize);
            runtime.block_on(async {
                // Where the kernel has no rings, the disk's own threads serve.
                let _ring = install_ring().ok();
                together.wait();
                let mut tasks = tokio::task::JoinSet::new();
                for task in 0..TASKS {
                    tasks.spawn(client(store.clone(), histories.clone(), 1 + thread * TASKS + task, seed));
                }
                while let Some(ended) = tasks.join_next().await {
                    ended.unwrap();
                }
            });
        }));
    }
    // The opener's runtime has the background work: checkpoints, merges, collection.
    opener.block_on(async {
        while threads.iter().any(|thread| !thread.is_finished()) {
            env.sleep(std::time::Duration::from_millis(5)).await;
        }
        for thread in threads {
            thread.join().unwrap();
        }
        list_agrees(&store).await;
        store.close().await;
    });
    assert!(store.stats().checkpoints.get() > 0, "checkpoints ran beside the clients");
    for (name, history) in histories.iter() {
        if let Err(violation) = history.lock().check(None) {
            panic!("seed {seed}, {name}: {violation}");
        }
    }
}

#[test]
fn what_threads_see_is_linearizable() {
    for seed in 1..=2 * soak() {
        run(seed);
    }
}
