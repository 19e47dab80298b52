//! `manager::Snapshot::from_export`: no bytes make it panic, whether or not their checksum is right; what it accepts survives
//! being written again, and a manager can be made from it that takes commands.
#![no_main]

use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use disk::{SimDisk, SimOptions};
use env::Env;
use kv::MemoryKv;
use libfuzzer_sys::fuzz_target;
use manager::{DecodeExportError, EXPORT_VERSION, ImportError, ImpossibleState, Manager, Snapshot};
use types::CellId;
use wal::{MIN_SEGMENT_BYTES, RegionStore};

const MAGIC: &[u8; 8] = b"TRILMGR\0";
const SEGMENTS: usize = 2;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut copy = MAGIC.to_vec();
    copy.extend_from_slice(&EXPORT_VERSION.to_le_bytes());
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&EXPORT_VERSION.to_le_bytes());
    digest.update(bytes);
    copy.extend_from_slice(&(digest.finalize() as u32).to_le_bytes());
    copy.extend_from_slice(bytes);
    check(&copy);
});

fn check(bytes: &[u8]) {
    let Ok(state) = Snapshot::from_export(bytes) else { return };
    let again = state.export();
    assert_eq!(Snapshot::from_export(&again).as_ref(), Ok(&state));
    assert_eq!(Snapshot::from_export(&again).map(|state| state.export()), Ok(again), "one state, two exports");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O");
    runtime.block_on(import(bytes, &state));
}

/// What is handed out after the import was never handed out before the copy.
async fn import(copy: &[u8], state: &Snapshot) {
    let env = Env::simulated(1);
    let size_bytes = MIN_SEGMENT_BYTES * SEGMENTS as u64;
    let disk =
        Arc::new(SimDisk::new(&env, SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() }));
    let store = Arc::new(RegionStore::new(disk, 0, MIN_SEGMENT_BYTES, SEGMENTS));
    let manager = match Manager::import_on(&env, store, Arc::new(MemoryKv::new()), copy).await {
        Ok(manager) => manager,
        // A copy that is sound, but so old a manager's that nothing can be skipped.
        Err(ImportError::Decode(DecodeExportError::Impossible(ImpossibleState::Number(_)))) => return,
        Err(error) => panic!("a copy that was accepted is refused: {error}"),
    };
    assert!(manager.take_token().await.expect("a token is always to be had").0 > state.applied().0);
    let cell = CellId(1);
    if let Ok(start) = manager.begin_start(cell).await {
        assert!(start > state.starts(cell), "start {start} was counted before");
    }
    assert!(manager.snapshot().next_device() > state.next_device());
}
