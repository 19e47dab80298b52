//! A node's part of the volume engine, among its subsystems.

use std::sync::Arc;

use ::engine::ObjectEngine;
use device::VolumeOwner;
use manager::Snapshot;
use net::{BoxFuture, Service, ServiceTag};
use subsystem::{Figure, Loss, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::DeviceId;

use crate::interface::VolumeEngine;
use crate::store::{Founding, Store, StoreStats};

/// Begins a node's part.
pub struct ObjectsStarter;

/// A node's objects of volume buckets.
pub struct Objects {
    store: Store,
}

impl Objects {
    /// The engine of S3 buckets.
    pub fn engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(VolumeEngine::overwriting(self.store.clone()))
    }

    /// The engine of strict buckets.
    pub fn strict_engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(VolumeEngine::strict(self.store.clone()))
    }
}

impl Starter for ObjectsStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let volumes = around.devices.iter().map(|device| device.volume(VolumeOwner::Objects)).collect();
            let there: Vec<DeviceId> = around.devices.iter().map(|device| device.id()).collect();
            let manager = around.manager.clone();
            let founding: Founding = Box::new(move || may_found(&manager.snapshot(), &there));
            let store = Store::open(&around.env, volumes, founding).await;
            Ok(Arc::new(Objects { store }) as Arc<dyn Subsystem>)
        })
    }
}

/// Whether a store that is not on this node's devices is nowhere else.
fn may_found(state: &Snapshot, there: &[DeviceId]) -> Result<(), String> {
    if state.nodes().count() > 1 {
        return Err(
            "the volume engine runs on a server of its own, and this cluster has several nodes: use the node on which \
                    the volume buckets were made, or a bucket of the log engine"
                .to_owned(),
        );
    }
    let missing = state.devices().find(|device| !there.contains(&device.id));
    missing.map_or(Ok(()), |device| {
        Err(format!("device {} ({}) is missing, and objects of volume buckets may be on it: attach it", device.id, device.path))
    })
}

type Pick = fn(&StoreStats) -> u64;

/// Name between `trilith_volume_engine_` and `_total`, help, and which count.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("mutations", "Mutations of volume buckets", |stats| stats.mutations),
    ("written_bytes", "Bytes of content that were written, in whole blocks", |stats| stats.written_bytes),
    ("reads", "Reads of pieces of content", |stats| stats.reads),
    ("read_bytes", "Bytes of those reads", |stats| stats.read_bytes),
    ("damaged_reads", "Reads whose bytes did not match their sums", |stats| stats.damaged),
    ("dumps", "Dumps of the names", |stats| stats.dumps),
    ("dump_bytes", "Bytes of those dumps", |stats| stats.dump_bytes),
    ("revoked", "Mutations whose content the last start has not found", |stats| stats.revoked),
];

const GAUGES: &[(&str, &str, Pick)] = &[
    ("objects", "Objects of volume buckets", |stats| stats.objects),
    ("used_bytes", "Bytes of blocks that have an owner", |stats| stats.used_bytes),
    ("limbo_bytes", "Bytes of those blocks that will be free", |stats| stats.limbo_bytes),
    ("log_live_segments", "Segments of the log that are needed", |stats| stats.log_live_segments),
];

impl Subsystem for Objects {
    fn name(&self) -> &'static str {
        "volume-engine"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        Vec::new()
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        vec![Box::pin(async move { self.store.maintain().await })]
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match loss.devices.iter().any(|device| self.store.needs_device(*device)) {
                false => Ok(()),
                true => Err(format!(
                    "objects of volume buckets, or their names, are on {} alone. Copy these buckets elsewhere and remove them; {} gives them up",
                    loss.whose, loss.all_the_same
                )),
            }
        })
    }

    fn close_device(&self, _: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(self.store.close())
    }

    fn figures(&self) -> Vec<Figure> {
        let counter = |(name, help, pick): &(&str, &'static str, Pick)| {
            let (store, pick) = (self.store.clone(), *pick);
            Figure::counter(format!("trilith_volume_engine_{name}_total"), help, move || pick(&store.stats()))
        };
        let gauge = |(name, help, pick): &(&str, &'static str, Pick)| {
            let (store, pick) = (self.store.clone(), *pick);
            Figure::gauge(format!("trilith_volume_engine_{name}"), help, move || pick(&store.stats()) as f64)
        };
        COUNTERS.iter().map(counter).chain(GAUGES.iter().map(gauge)).collect()
    }

    fn status(&self) -> Vec<StatusLine> {
        let StoreStats { objects, used_bytes, .. } = self.store.stats();
        if objects == 0 && used_bytes == 0 {
            return Vec::new();
        }
        let text = format!("{objects} objects of volume buckets, {used_bytes} bytes of blocks");
        vec![StatusLine { label: "volumes".to_owned(), text }]
    }
}

#[cfg(test)]
mod tests {
    use env::Env;
    use manager::{Manager, RegisterNode};
    use types::{DeviceUuid, NodeIdentity};

    use super::may_found;

    #[tokio::test]
    async fn a_store_is_founded_where_nothing_can_be_elsewhere() {
        let manager = Manager::open_in_memory(&Env::simulated(1)).await.expect("a manager in memory");
        let device = manager.add_device(DeviceUuid([1; 16]), "disk", 1 << 30).await.expect("adds");
        assert_eq!(may_found(&manager.snapshot(), &[device.id]), Ok(()));
        let refused = may_found(&manager.snapshot(), &[]).expect_err("its device is missing");
        assert!(refused.contains("is missing"), "{refused}");
        for number in 1..=2 {
            assert_eq!(may_found(&manager.snapshot(), &[device.id]), Ok(()), "one node at most");
            let text = |port: u16| format!("127.0.0.{number}:{port}");
            let node = RegisterNode {
                identity: NodeIdentity([number; 16]),
                name: format!("n{number}"),
                address: text(9002),
                admin_address: text(9001),
                s3_address: text(9000),
                host: String::new(),
                rack: String::new(),
                zone: String::new(),
                version: "1".to_owned(),
                joined_ms: 1,
            };
            manager.register_node(node).await.expect("registers");
        }
        let refused = may_found(&manager.snapshot(), &[device.id]).expect_err("another node has it");
        assert!(refused.contains("several nodes"), "{refused}");
    }
}
