//! The network: requests between nodes of one process. Some answers are lost; a node that has ended neither asks nor answers; a link can have trouble with a service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller, Request, Service, ServiceTag};
use parking_lot::Mutex;
use types::NodeId;

/// How long a late request may take when it has arrived.
const LATE_PATIENCE: Duration = Duration::from_secs(5);

/// How long requests are on their way, at most.
const USUAL_US: u64 = 900;
const SLOW_US: u64 = 6_000;

type Services = BTreeMap<ServiceTag, Arc<dyn Service>>;

/// What happens to requests on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// They are lost.
    Cut,
    /// They arrive with [`Wire::deliver_late`], when their senders have given up.
    Late,
    /// They are carried out, and the answers are lost.
    Unanswered,
}

#[derive(Default)]
pub struct Wire {
    nodes: Mutex<BTreeMap<NodeId, (Env, Services)>>,
    /// From a node, to a node.
    troubles: Mutex<BTreeMap<(NodeId, NodeId, ServiceTag), Trouble>>,
    late: Mutex<Vec<LateRequest>>,
}

/// A request that is still on its way.
#[derive(Clone)]
pub struct LateRequest {
    pub to: NodeId,
    pub payload: Bytes,
    tag: ServiceTag,
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
        self.trouble(from, to, tag, Trouble::Cut);
    }

    /// From now on a node's requests to a service of another one have trouble.
    pub fn trouble(&self, from: NodeId, to: NodeId, tag: ServiceTag, trouble: Trouble) {
        self.troubles.lock().insert((from, to, tag), trouble);
    }

    /// Ends all troubles. What is late stays so.
    pub fn heal(&self) {
        self.troubles.lock().clear();
    }

    /// Requests that are still on their way.
    pub fn late(&self) -> Vec<LateRequest> {
        self.late.lock().clone()
    }

    /// What is late arrives. How many of these requests were carried out.
    pub async fn deliver_late(&self) -> usize {
        let late = std::mem::take(&mut *self.late.lock());
        let mut done = 0;
        for LateRequest { to, tag, payload } in late {
            let Some((env, service)) = self.service(to, tag) else { continue };
            let request = Request { payload, deadline: env.now() + LATE_PATIENCE };
            done += usize::from(service.handle(request).await.is_ok());
        }
        done
    }

    fn service(&self, node: NodeId, tag: ServiceTag) -> Option<(Env, Arc<dyn Service>)> {
        let nodes = self.nodes.lock();
        let (env, services) = nodes.get(&node)?;
        Some((env.clone(), services.get(&tag)?.clone()))
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
            // One in four is slow: of what goes to several nodes at once, some may arrive and some not.
            let most = if self.from.random_below(4) == 0 { SLOW_US } else { USUAL_US };
            self.from.sleep(Duration::from_micros(100 + self.from.random_below(most))).await;
            let unanswered = |reason: &str| CallError::Unanswered { address: address.clone(), reason: reason.to_owned() };
            let Some((env, service)) = self.wire.service(self.to, self.tag) else {
                return Err(CallError::NotSent { address, reason: "it is down".to_owned() });
            };
            let patience = deadline.saturating_duration_since(self.from.now());
            let trouble = self.wire.troubles.lock().get(&(self.me, self.to, self.tag)).copied();
            if let Some(Trouble::Cut | Trouble::Late) = trouble {
                if trouble == Some(Trouble::Late) {
                    self.wire.late.lock().push(LateRequest { to: self.to, tag: self.tag, payload });
                }
                self.from.sleep(patience).await;
                return Err(unanswered("the link has trouble"));
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
            if self.from.random_below(200) == 0 || trouble == Some(Trouble::Unanswered) {
                return Err(unanswered("the answer was lost"));
            }
            answer.map_err(|refusal| CallError::Refused { address, refusal })
        })
    }
}

pub fn process(env: &Env) -> env::Process {
    env.simulation().expect("it is simulated").process().clone()
}
