//! A cluster for tests of those who ask: a map, and nodes of which some are silent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use format::chunk_id::ShardId;
use net::{BoxFuture, CallError, Caller, ServiceTag};
use parking_lot::Mutex;
use types::{DeviceId, NodeId, NodeIdentity};

use crate::protocol::{ChunkMap, NodePlace, ShardPlace};
use crate::reach::Reach;

/// What a node answers.
pub type Answer = Box<dyn Fn(NodeId, ServiceTag, &Bytes) -> Bytes + Send + Sync>;

pub struct Played {
    env: Env,
    known: Mutex<Arc<ChunkMap>>,
    /// What is known after the next refresh, which says whether it is surely new.
    pub truth: Mutex<Arc<ChunkMap>>,
    pub is_fresh: bool,
    /// How long a refresh takes.
    pub refresh_takes: Duration,
    pub silent: Mutex<BTreeSet<NodeId>>,
    /// How long an answer takes.
    pub answer_takes: Mutex<Duration>,
    answer: Answer,
    /// Who was asked, one after the other.
    asked: Mutex<Vec<NodeId>>,
}

impl Played {
    pub fn new(env: &Env, map: ChunkMap, answer: Answer) -> Played {
        let (map, silent, asked) = (Arc::new(map), Mutex::default(), Mutex::default());
        Played {
            env: env.clone(),
            known: Mutex::new(map.clone()),
            truth: Mutex::new(map),
            is_fresh: true,
            refresh_takes: Duration::ZERO,
            silent,
            answer_takes: Mutex::default(),
            answer,
            asked,
        }
    }

    pub fn silence(&self, node: NodeId) {
        self.silent.lock().insert(node);
    }

    pub fn hear_again(&self, node: NodeId) {
        self.silent.lock().remove(&node);
    }

    /// Since this was asked last.
    pub fn take_asked(&self) -> Vec<NodeId> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// Nodes with one device each, of the same number, and one shard whose unit and lookup units are on these nodes.
pub fn map_of_nodes(nodes: u32, members: &[u32], hosts: &[u32]) -> ChunkMap {
    let node = |id| NodePlace { id: NodeId(id), identity: NodeIdentity([id as u8; 16]), address: format!("node-{id}:1") };
    let ids = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect();
    let shard = ShardPlace { shard: ShardId(1), is_open: true, members: ids(members), hosts: ids(hosts) };
    ChunkMap {
        version: 1,
        nodes: (0..nodes).map(node).collect(),
        devices: (0..nodes).map(|node| (DeviceId(node), NodeId(node))).collect(),
        next_shard: 2,
        shards: vec![shard],
    }
}

impl Reach for Arc<Played> {
    fn map(&self) -> Arc<ChunkMap> {
        self.known.lock().clone()
    }

    fn refresh(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            self.env.sleep(self.refresh_takes).await;
            *self.known.lock() = self.truth.lock().clone();
            self.is_fresh
        })
    }

    fn to_node(&self, node: &NodePlace, service: ServiceTag) -> Arc<dyn Caller> {
        Arc::new(Way { cluster: self.clone(), node: node.id, service })
    }

    fn to_address(&self, address: &str, _: ServiceTag) -> Arc<dyn Caller> {
        unreachable!("{address} is not a node's")
    }
}

struct Way {
    cluster: Arc<Played>,
    node: NodeId,
    service: ServiceTag,
}

impl Caller for Way {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        let Way { cluster, node, service } = self;
        cluster.asked.lock().push(*node);
        Box::pin(async move {
            let takes = *cluster.answer_takes.lock();
            if cluster.silent.lock().contains(node) || cluster.env.now() + takes > deadline {
                cluster.env.sleep_until(deadline).await;
                let (address, reason) = (format!("node-{}:1", node.0), "silent".to_owned());
                return Err(CallError::Unanswered { address, reason });
            }
            cluster.env.sleep(takes).await;
            Ok((cluster.answer)(*node, *service, &payload))
        })
    }
}
