//! The network: requests between nodes of one process. Some answers are lost; a node that has ended neither asks nor answers; a link can be cut for a service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller, Request, Service, ServiceTag};
use parking_lot::Mutex;
use types::NodeId;

type Services = BTreeMap<ServiceTag, Arc<dyn Service>>;

#[derive(Default)]
pub struct Wire {
    nodes: Mutex<BTreeMap<NodeId, (Env, Services)>>,
    /// From a node, to a node.
    cuts: Mutex<BTreeSet<(NodeId, NodeId, ServiceTag)>>,
}

impl Wire {
    pub fn begin(&self, node: NodeId, env: Env, services: Services) {
        self.nodes.lock().insert(node, (env, services));
    }

    pub fn end(&self, node: NodeId) {
        self.nodes.lock().remove(&node);
    }

    /// From now on nothing of a service gets from a node to another one.
    pub fn cut(&self, from: NodeId, to: NodeId, tag: ServiceTag) {
        self.cuts.lock().insert((from, to, tag));
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        self.cuts.lock().clear();
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.lock().contains_key(&node)
    }
}

/// The way of a node to a service of another one.
pub struct Line {
    pub wire: Arc<Wire>,
    pub me: NodeId,
    pub from: Env,
    pub to: NodeId,
    pub tag: ServiceTag,
}

impl Caller for Line {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            let address = format!("node {}", self.to);
            self.from.sleep(Duration::from_micros(100 + self.from.random_below(900))).await;
            let unanswered = |reason: &str| CallError::Unanswered { address: address.clone(), reason: reason.to_owned() };
            let found =
                self.wire.nodes.lock().get(&self.to).map(|(env, services)| (env.clone(), services.get(&self.tag).cloned()));
            let Some((env, Some(service))) = found else {
                return Err(CallError::NotSent { address, reason: "it is down".to_owned() });
            };
            let patience = deadline.saturating_duration_since(self.from.now());
            if self.wire.cuts.lock().contains(&(self.me, self.to, self.tag)) {
                self.from.sleep(patience).await;
                return Err(unanswered("the link is cut"));
            }
            let request = Request { payload, deadline: env.now() + patience };
            let (caller, callee) = (self.from.clone(), env.clone());
            let work = env.spawn(async move {
                let (caller, callee) = (process(&caller), process(&callee));
                tokio::select! {
                    answer = service.handle(request) => Some(answer),
                    () = tokio::time::sleep(patience) => None,
                    () = caller.ended() => None,
                    () = callee.ended() => None,
                }
            });
            let answer = work.await.ok().flatten().ok_or_else(|| unanswered("it has ended, or is slow"))?;
            if self.from.random_below(200) == 0 {
                return Err(unanswered("the answer was lost"));
            }
            answer.map_err(|refusal| CallError::Refused { address, refusal })
        })
    }
}

pub fn process(env: &Env) -> env::Process {
    env.simulation().expect("it is simulated").process().clone()
}
