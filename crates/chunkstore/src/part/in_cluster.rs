//! The cluster as a node sees it: where everything is, by the manager's state here, and ways there.

use crate::map_service::map_of;
use crate::protocol::{ChunkMap, NodePlace};
use crate::reach::Reach;
use env::Env;
use manager::Manager;
use net::{BoxFuture, Caller, LocalCaller, Service, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use types::NodeId;

use subsystem::Callers;

/// A node's ways.
pub struct InCluster {
    env: Env,
    me: NodeId,
    manager: Arc<Manager>,
    callers: Callers,
    /// What this node serves itself needs no connection.
    here: OnceLock<BTreeMap<ServiceTag, Arc<dyn Service>>>,
    map: Mutex<Arc<ChunkMap>>,
}

impl InCluster {
    pub fn new(env: &Env, me: NodeId, manager: Arc<Manager>, callers: Callers) -> Arc<InCluster> {
        let map = Mutex::new(Arc::new(map_of(&manager.snapshot())));
        Arc::new(InCluster { env: env.clone(), me, manager, callers, here: OnceLock::new(), map })
    }

    /// These services are this node's own.
    pub fn serve_here(&self, services: BTreeMap<ServiceTag, Arc<dyn Service>>) {
        assert!(self.here.set(services).is_ok(), "a node starts once");
    }

    fn local(&self, service: ServiceTag) -> Option<Arc<dyn Caller>> {
        let service = self.here.get()?.get(&service)?;
        Some(Arc::new(LocalCaller::new(&self.env, service.clone())))
    }
}

impl Reach for InCluster {
    fn map(&self) -> Arc<ChunkMap> {
        let state = self.manager.snapshot();
        let mut map = self.map.lock();
        if map.version != state.applied().0 {
            *map = Arc::new(map_of(&state));
        }
        map.clone()
    }

    fn refresh(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let fresh = self.manager.fresh().await;
            fresh.inspect_err(|error| tracing::debug!(%error, "the manager's leader does not answer")).is_ok()
        })
    }

    fn to_node(&self, node: &NodePlace, service: ServiceTag) -> Arc<dyn Caller> {
        let local = if node.id == self.me { self.local(service) } else { None };
        local.unwrap_or_else(|| self.callers.to_place(&node.address, node.identity, service))
    }

    fn to_address(&self, address: &str, service: ServiceTag) -> Arc<dyn Caller> {
        self.callers.to(address, service)
    }
}
