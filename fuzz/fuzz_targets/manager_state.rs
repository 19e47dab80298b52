//! The manager's entries in `kv`: whatever stands there, reading them back makes nothing panic, and a state that was accepted
//! takes commands and survives an export.
#![no_main]

use std::sync::Arc;

use disk::{SimDisk, SimOptions};
use env::Env;
use kv::{Batch, Kv, MemoryKv};
use libfuzzer_sys::fuzz_target;
use manager::{DecodeExportError, ImpossibleState, Manager, NewBucket, Snapshot};
use types::{CellId, DeviceUuid};
use wal::{MIN_SEGMENT_BYTES, RegionStore};

const SEGMENTS: usize = 2;
/// Tags 1 to this many, and one that no kind has.
const TAGS: u8 = 14;

fuzz_target!(|entries: Vec<(u8, Vec<u8>, Vec<u8>)>| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O");
    runtime.block_on(run(&entries));
});

async fn run(entries: &[(u8, Vec<u8>, Vec<u8>)]) {
    let kv = MemoryKv::new();
    let mut batch = Batch::new();
    for (tag, name, value) in entries {
        let key = [&[tag % (TAGS + 1) + 1], &name[..]].concat();
        batch.put(key, value.clone());
    }
    kv.commit(batch).expect("memory takes everything");
    let env = Env::simulated(1);
    let size_bytes = MIN_SEGMENT_BYTES * SEGMENTS as u64;
    let disk =
        Arc::new(SimDisk::new(&env, SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() }));
    let store = Arc::new(RegionStore::new(disk, 0, MIN_SEGMENT_BYTES, SEGMENTS));
    // A state after some command beside a log that never began is refused, but only once it was read.
    let Ok(manager) = Manager::open_on(&env, store, Arc::new(kv)).await else { return };
    let before = manager.snapshot();
    assert_eq!(Snapshot::from_export(&before.export()).as_ref(), Ok(before.as_ref()));
    assert_eq!(manager.take_token().await.expect("a token is always to be had").0, before.applied().0 + 1);
    // Refused or carried out, as the state has it; the numbers that are handed out are new.
    if let Ok(device) = manager.add_device(DeviceUuid([5; 16]), "/dev/five", 1).await {
        assert!(before.device(device.id).is_none(), "{} was handed out before", device.id);
    }
    if let Ok(start) = manager.begin_start(CellId(2)).await {
        assert_eq!(start, before.starts(CellId(2)) + 1);
    }
    let bucket = NewBucket {
        name: "pictures".to_owned(),
        owner: "me".to_owned(),
        engine: manager::BucketEngine::Log,
        etag: manager::EtagMode::Md5,
    };
    if let Ok(bucket) = manager.create_bucket(bucket).await {
        assert!(before.buckets().iter().all(|other| other.id != bucket.id), "{} was handed out before", bucket.id);
    }
    let after = manager.snapshot();
    match Snapshot::from_export(&after.export()) {
        Ok(again) => assert_eq!(again, *after),
        // The fuzzer began just below a limit that no manager reaches.
        Err(error) => assert!(
            matches!(error, DecodeExportError::Impossible(ImpossibleState::Number(number)) if number.found == number.limit),
            "{error}"
        ),
    }
}
