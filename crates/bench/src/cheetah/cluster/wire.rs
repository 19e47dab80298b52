//! The network of nodes in one process: a call is carried out on the thread of the node that is asked. It counts what goes where.

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller, Request, Service, ServiceTag};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::runtime::Handle;
use types::NodeId;

/// The first byte of a question that writes blocks (`volstore::wire`).
const WRITES_BLOCKS: u8 = 3;

/// Who answers for a node, and on which thread.
struct Door {
    thread: Handle,
    services: BTreeMap<ServiceTag, Arc<dyn Service>>,
}

/// Bytes of blocks by the node that sends them and the one that writes them.
pub type Carried = BTreeMap<(NodeId, NodeId), u64>;

/// The network.
#[derive(Default)]
pub struct Wire {
    doors: Mutex<BTreeMap<NodeId, Door>>,
    silent: Mutex<BTreeSet<NodeId>>,
    carried: Mutex<Carried>,
}

impl Wire {
    pub fn begin(&self, node: NodeId, thread: Handle, services: Vec<(ServiceTag, Arc<dyn Service>)>) {
        self.doors.lock().insert(node, Door { thread, services: services.into_iter().collect() });
    }

    /// A node answers nothing any more, and all others know it.
    pub fn end(&self, node: NodeId) {
        self.doors.lock().remove(&node);
        self.silent.lock().insert(node);
    }

    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.silent.lock().clone()
    }

    /// What was carried so far.
    pub fn carried(&self) -> Carried {
        self.carried.lock().clone()
    }

    fn door(&self, node: NodeId, tag: ServiceTag) -> Option<(Handle, Arc<dyn Service>)> {
        let doors = self.doors.lock();
        let door = doors.get(&node)?;
        Some((door.thread.clone(), door.services.get(&tag)?.clone()))
    }
}

/// The way of a node to a service of another one.
pub struct Line {
    pub wire: Arc<Wire>,
    pub env: Env,
    pub me: NodeId,
    pub to: NodeId,
    pub tag: ServiceTag,
}

impl Caller for Line {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            let address = format!("node {}", self.to);
            let Some((thread, service)) = self.wire.door(self.to, self.tag) else {
                return Err(CallError::NotSent { address, reason: "it is down".to_owned() });
            };
            if self.tag == ServiceTag::OBJECT_BLOCKS && payload.first() == Some(&WRITES_BLOCKS) {
                *self.wire.carried.lock().entry((self.me, self.to)).or_default() += payload.len() as u64;
            }
            let work = thread.spawn(async move { service.handle(Request { payload, deadline }).await });
            tokio::select! {
                answer = work => match answer {
                    Ok(answer) => answer.map_err(|refusal| CallError::Refused { address, refusal }),
                    Err(_) => Err(CallError::Unanswered { address, reason: "it has ended".to_owned() }),
                },
                () = self.env.sleep_until(deadline) => {
                    Err(CallError::Unanswered { address, reason: "its deadline has passed".to_owned() })
                }
            }
        })
    }
}
