//! The cluster as a process outside of it sees it: it asks nodes where everything is.

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use net::{BoxFuture, CallError, Caller, Identity, Network, RemoteCaller, ServiceTag};
use parking_lot::{Mutex, RwLock};
use types::NodeIdentity;

use crate::limits::MAP_PATIENCE;
use crate::map_service::FRESH;
use crate::protocol::{ChunkMap, MAPS, NodePlace};
use crate::reach::Reach;
use crate::wire;

/// Ways into a cluster from outside.
pub struct Outside {
    env: Env,
    network: Arc<dyn Network>,
    identity: Identity,
    /// Asked when no node of the map answers, and at first.
    entrances: Vec<String>,
    map: RwLock<Arc<ChunkMap>>,
    connections: Mutex<Vec<(Way, Arc<RemoteCaller>)>>,
}

/// An address, and the node that must be there.
type Way = (String, Option<NodeIdentity>);

/// No node of the cluster said where everything is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OutsideError {
    #[error("no node of the cluster answers at {}: is it running?", .entrances.join(", "))]
    NoAnswer {
        entrances: Vec<String>,
        #[source]
        last: Option<CallError>,
    },
}

impl Outside {
    /// Asks at the entrances where everything is.
    pub async fn enter(
        env: &Env,
        network: Arc<dyn Network>,
        identity: Identity,
        entrances: Vec<String>,
    ) -> Result<Arc<Outside>, OutsideError> {
        let (map, connections) = (RwLock::default(), Mutex::default());
        let outside = Outside { env: env.clone(), network, identity, entrances, map, connections };
        match outside.ask(&[]).await {
            Ok(()) => Ok(Arc::new(outside)),
            Err(last) => Err(OutsideError::NoAnswer { entrances: outside.entrances, last }),
        }
    }

    async fn ask(&self, question: &'static [u8]) -> Result<(), Option<CallError>> {
        let known = self.map.read().clone();
        let addresses = known.nodes.iter().map(|node| &node.address).chain(&self.entrances);
        let mut last = None;
        for address in addresses {
            let caller = self.way(address, None).service(MAPS);
            match caller.call(Bytes::from_static(question), self.env.now() + MAP_PATIENCE).await {
                Ok(answer) => {
                    if let Ok(map) = wire::decode::<ChunkMap>(&answer) {
                        *self.map.write() = Arc::new(map);
                        return Ok(());
                    }
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last)
    }

    fn way(&self, address: &str, node: Option<NodeIdentity>) -> Arc<RemoteCaller> {
        let mut connections = self.connections.lock();
        let way = (address.to_owned(), node);
        if let Some((_, caller)) = connections.iter().find(|(known, _)| *known == way) {
            return caller.clone();
        }
        let (env, network, identity) = (&self.env, self.network.clone(), self.identity);
        let caller = Arc::new(match node {
            Some(node) => RemoteCaller::of_node(env, network, address, identity, node),
            None => RemoteCaller::new(env, network, address, identity),
        });
        connections.push((way, caller.clone()));
        caller
    }
}

impl Reach for Outside {
    fn map(&self) -> Arc<ChunkMap> {
        self.map.read().clone()
    }

    fn refresh(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            if self.ask(FRESH).await.is_ok() {
                return true;
            }
            // What a node knows may be newer than what is known here.
            if let Err(error) = self.ask(&[]).await {
                tracing::debug!(?error, "no node says where everything is");
            }
            false
        })
    }

    fn to_node(&self, node: &NodePlace, service: ServiceTag) -> Arc<dyn Caller> {
        Arc::new(self.way(&node.address, Some(node.identity)).service(service))
    }

    fn to_address(&self, address: &str, service: ServiceTag) -> Arc<dyn Caller> {
        Arc::new(self.way(address, None).service(service))
    }
}
