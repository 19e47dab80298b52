//! The log engine's part of a node, among its subsystems: targets, and the gateway that takes part in the cell (`incarnation`).

use crate::node::Inner;
use crate::roles::{Role, Roles};
use bytes::Bytes;
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use std::sync::{Arc, Weak};
use subsystem::{Loss, Subsystem, Task};
use target::TargetService;

/// The log engine.
pub(crate) struct LogEngine {
    node: Weak<Inner>,
    roles: Roles,
    targets: Arc<TargetService>,
}

impl LogEngine {
    pub fn new(node: Weak<Inner>, roles: Roles, targets: TargetService) -> LogEngine {
        LogEngine { node, roles, targets: Arc::new(targets) }
    }
}

impl Subsystem for LogEngine {
    fn name(&self) -> &'static str {
        "objects"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let gateway = Arc::new(GatewayService(self.node.clone()));
        vec![(ServiceTag::TARGETS, self.targets.clone()), (ServiceTag::GATEWAYS, gateway)]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let Some(node) = self.node.upgrade() else { return Vec::new() };
        let fences = |target: &Arc<_>| -> Task { Box::pin(node.clone().keep_fences(Arc::clone(target))) };
        let mut tasks: Vec<Task> = node.targets.iter().map(fences).collect();
        if self.roles.has(Role::Gateway) {
            tasks.push(Box::pin(node.live()));
        }
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let node = self.node.upgrade().ok_or("this node ends")?;
            node.check_no_object_lost(loss).await
        })
    }
}

/// Takes in what other gateways say.
struct GatewayService(Weak<Inner>);

impl Service for GatewayService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let store = self.0.upgrade().and_then(|node| node.vitals.get().store);
            let store = store.ok_or_else(|| Refusal::early("no gateway runs here"))?;
            store.hear(&request.payload).await.map_err(Refusal::new)
        })
    }

    /// What it confirms counts when the copies of the writes do that came with it.
    fn answer_may_wait(&self, _request: &Request) -> bool {
        true
    }
}
