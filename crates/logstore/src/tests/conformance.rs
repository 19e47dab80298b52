use super::support::Rig;
use crate::LogStore;
use engine::conformance::run_all;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

const ZONE_BYTES: u64 = 4 * 1024 * 1024;

async fn engine_over(devices: u32) -> Arc<LogStore> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let rig = Rig::new(SEED.fetch_add(10, Ordering::Relaxed), devices, 64, ZONE_BYTES).await;
    Arc::new(rig.open().await)
}

#[tokio::test]
async fn one_device_conforms() {
    run_all(async || engine_over(1).await).await;
}

#[tokio::test]
async fn three_devices_conform() {
    run_all(async || engine_over(3).await).await;
}
