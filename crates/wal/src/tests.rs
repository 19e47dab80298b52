//! What the tests share: a log on one simulated disk.

mod append;
mod corruption;
mod crash;
mod folder;
mod tail;

use std::sync::Arc;

use disk::{SimDisk, SimOptions};
use env::Env;

use super::{Lsn, OpenError, OpenOptions, RegionStore, SegmentStore, Wal};

const SEGMENT_BYTES: u64 = 32 * 1024;
const SEGMENT_COUNT: usize = 8;

type Records = Vec<(Lsn, Vec<u8>)>;

fn new_disk(env: &Env, seed: u64) -> SimDisk {
    let size_bytes = SEGMENT_BYTES * SEGMENT_COUNT as u64;
    SimDisk::new(env, SimOptions { seed, size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() })
}

fn store_on(disk: &SimDisk) -> Arc<dyn SegmentStore> {
    Arc::new(RegionStore::new(Arc::new(disk.clone()), 0, SEGMENT_BYTES, SEGMENT_COUNT))
}

async fn open_from(env: &Env, disk: &SimDisk, keep_from: Lsn) -> Result<(Wal, Records), OpenError> {
    let mut records = Records::new();
    let options = OpenOptions { keep_from, ..OpenOptions::default() };
    let wal = Wal::open(env, store_on(disk), options, &mut |lsn, payload| records.push((lsn, payload.to_vec()))).await?;
    Ok((wal, records))
}

async fn open(env: &Env, disk: &SimDisk) -> Result<(Wal, Records), OpenError> {
    open_from(env, disk, Lsn::FIRST).await
}
