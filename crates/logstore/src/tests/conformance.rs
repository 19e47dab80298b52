use super::support::{KEYLESS, Rig};
use crate::{IndexForm, LogStore};
use engine::conformance::{run_all, run_restarts};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ZONE_BYTES: u64 = 4 * 1024 * 1024;

async fn engine_over(devices: u32) -> Arc<LogStore> {
    Arc::new(fresh(devices).await.open().await)
}

async fn fresh(devices: u32) -> Rig {
    static SEED: AtomicU64 = AtomicU64::new(1);
    Rig::new(SEED.fetch_add(10, Ordering::Relaxed), devices, 64, ZONE_BYTES).await
}

/// Checkpoints and sealings follow close on each other, and on every write.
async fn keyless_over(devices: u32) -> Arc<LogStore> {
    let mut rig = fresh(devices).await;
    (rig.config.index, rig.config.checkpoint_entries) = (KEYLESS, 5);
    Arc::new(rig.open().await)
}

#[tokio::test]
async fn one_device_conforms_without_keys() {
    run_all(async || keyless_over(1).await).await;
}

#[tokio::test]
async fn three_devices_conform_without_keys() {
    run_all(async || keyless_over(3).await).await;
}

#[tokio::test]
async fn one_device_conforms() {
    run_all(async || engine_over(1).await).await;
}

#[tokio::test]
async fn three_devices_conform() {
    run_all(async || engine_over(3).await).await;
}

/// How a gateway ends.
#[derive(Clone, Copy)]
enum End {
    Closed,
    Killed,
    PowerCut,
}

/// Restarts must keep what was acknowledged, in whatever way the gateway ended.
async fn restarts_conform(devices: u32, end: End, index: Option<IndexForm>) {
    let rig: Mutex<Option<Rig>> = Mutex::new(None);
    let factory = async || {
        let mut fresh = Rig::new(77, devices, 64, ZONE_BYTES).await;
        fresh.config.checkpoint_entries = 50;
        fresh.config.index = index.unwrap_or(fresh.config.index);
        let store = Arc::new(fresh.open().await);
        *rig.lock() = Some(fresh);
        store
    };
    let restart = async |store: Arc<LogStore>| {
        let mut ended = rig.lock().take().expect("the factory made one");
        match end {
            End::Closed => {
                store.close().await;
                ended.restart();
            }
            End::Killed => ended.restart(),
            End::PowerCut => ended.crash(),
        }
        drop(store);
        let store = Arc::new(ended.open().await);
        *rig.lock() = Some(ended);
        store
    };
    run_restarts(factory, restart).await;
}

#[tokio::test(start_paused = true)]
async fn orderly_restarts_conform() {
    restarts_conform(1, End::Closed, None).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_after_a_kill_conform() {
    restarts_conform(3, End::Killed, None).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_after_a_power_cut_conform() {
    restarts_conform(3, End::PowerCut, None).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_conform_without_keys() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        restarts_conform(3, end, Some(KEYLESS)).await;
    }
}
