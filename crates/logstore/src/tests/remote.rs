//! The engine over targets on other nodes.

use super::script::Script;
use super::support::{Draw, Rig, simulate, soak};
use crate::LogStore;
use engine::EngineError;
use engine::conformance::{run_all, run_restarts};
use env::Env;
use net::{Identity, Network, RemoteCaller, SimulatedNetwork};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use target::{Begin, LogTarget, RemoteTarget, Target, TargetService, Writer};
use types::{ClusterId, DeviceId, NodeIdentity};

const CLUSTER: Identity = Identity { cluster: ClusterId([1; 16]), node: NodeIdentity([1; 16]) };

/// Each device is served by a node of its own.
struct Nodes {
    env: Env,
    network: SimulatedNetwork,
    devices: u32,
}

fn address(device: u32) -> String {
    format!("node {device}")
}

impl Nodes {
    async fn start(rig: &Rig) -> Nodes {
        let (env, network) = (rig.env.clone(), SimulatedNetwork::new(&rig.env));
        let devices = rig.disks.len() as u32;
        for device in 1..=devices {
            let target = Target::open(rig.device(DeviceId(device)).await.unwrap(), &env, Begin::AtOnce).await.unwrap();
            let service = Arc::new(TargetService::new(&env, vec![Arc::new(target)]));
            let listener = network.listen(&address(device)).await.unwrap();
            env.spawn(net::serve(env.clone(), listener, service, CLUSTER));
        }
        Nodes { env, network, devices }
    }

    async fn open(&self, rig: &Rig) -> LogStore {
        let mut targets: Vec<Arc<dyn LogTarget>> = Vec::new();
        for device in 1..=self.devices {
            let network = Arc::new(self.network.clone());
            let caller = Arc::new(RemoteCaller::new(&self.env, network, &address(device), CLUSTER));
            let target = RemoteTarget::connect(&self.env, caller, DeviceId(device), Writer::ALONE).await.unwrap();
            targets.push(Arc::new(target));
        }
        LogStore::open_over(rig.config.clone(), self.env.clone(), rig.manifests.clone(), targets, &[]).await.unwrap()
    }
}

/// The engine over the rig's disks, each on its own node.
async fn open(rig: &Rig) -> LogStore {
    Nodes::start(rig).await.open(rig).await
}

async fn engine_over(devices: u32) -> Arc<LogStore> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let rig = Rig::new(SEED.fetch_add(10, Ordering::Relaxed), devices, 64, 4 << 20).await;
    Arc::new(open(&rig).await)
}

#[tokio::test(start_paused = true)]
async fn one_remote_device_conforms() {
    run_all(async || engine_over(1).await).await;
}

#[tokio::test(start_paused = true)]
async fn three_remote_devices_conform() {
    run_all(async || engine_over(3).await).await;
}

#[tokio::test(start_paused = true)]
async fn restarts_of_all_nodes_conform() {
    let rig: Mutex<Option<Rig>> = Mutex::new(None);
    let factory = async || {
        let mut fresh = Rig::new(77, 3, 64, 4 << 20).await;
        fresh.config.checkpoint_entries = 50;
        let store = Arc::new(open(&fresh).await);
        *rig.lock() = Some(fresh);
        store
    };
    let restart = async |store: Arc<LogStore>| {
        let mut ended = rig.lock().take().expect("the factory made one");
        ended.crash();
        drop(store);
        let store = Arc::new(open(&ended).await);
        *rig.lock() = Some(ended);
        store
    };
    run_restarts(factory, restart).await;
}

/// Connections break all the time, while objects are overwritten and deleted and collection makes room. What was acknowledged stands,
/// in this start and in the next, and what has no answer stands or not, but never over something later.
#[test]
fn broken_connections_lose_nothing() {
    simulate(async {
        let (mut unanswered, mut collected) = (0, 0);
        for seed in 0..4 * soak() {
            let mut rig = Rig::new(1000 + seed, 3, 24, 128 * 1024).await;
            rig.config.checkpoint_entries = 100;
            rig.config.collect_below_free_percent = 60;
            let nodes = Nodes::start(&rig).await;
            let store = nodes.open(&rig).await;
            (1..=3).for_each(|device| nodes.network.delay(&address(device), Duration::from_micros(300)));
            let (network, env) = (nodes.network.clone(), rig.env.clone());
            let breaking = rig.env.spawn(async move {
                loop {
                    env.sleep(Duration::from_millis(1 + env.random_below(100))).await;
                    network.interrupt(&address(1 + env.random_below(3) as u32));
                }
            });
            let (mut script, mut draw) = (Script::default(), Draw::new(seed));
            for _ in 0..400 {
                let name = format!("key-{}", draw.below(12));
                let length = draw.below(8000) as usize;
                let outcome = match draw.below(8) {
                    0 => script.delete(&store, &name).await,
                    1 => script.put_large(&store, &name, length * 3).await,
                    _ => script.put(&store, &name, length).await,
                };
                match outcome {
                    Ok(_) => {}
                    // The next round of collection comes when no connection breaks in it.
                    Err(EngineError::Full) => rig.env.sleep(Duration::from_millis(50)).await,
                    Err(_) => unanswered += 1,
                }
            }
            breaking.abort();
            drop(breaking.await);
            script.judge(&store).await;
            collected += store.stats().collected_zones.get();
            drop(store);
            match seed % 2 {
                0 => rig.restart(),
                _ => rig.crash(),
            }
            script.judge(&open(&rig).await).await;
        }
        assert!(unanswered > 20 && collected > 20, "{unanswered} unanswered writes, {collected} zones collected");
    });
}
