//! Several services at one address: the first byte of a request says which of them is meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::call::{BoxFuture, Refusal, Request, Service};

/// Which service of an address is meant. One list for the whole program, so that no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceTag(pub u8);

impl ServiceTag {
    /// Members of consensus groups among themselves.
    pub const CONSENSUS: ServiceTag = ServiceTag(1);
    /// Managers among themselves: proposals for the leader.
    pub const MANAGER: ServiceTag = ServiceTag(2);

    /// A request for the service of this tag: the tag, then the request. It must still fit a frame.
    pub fn mark(self, request: &[u8]) -> Bytes {
        let mut marked = Vec::with_capacity(1 + request.len());
        marked.push(self.0);
        marked.extend_from_slice(request);
        Bytes::from(marked)
    }
}

/// A service that hands each request on, without its first byte, to the service which that byte names.
#[derive(Clone, Default)]
pub struct Router {
    services: BTreeMap<ServiceTag, Arc<dyn Service>>,
}

impl Router {
    pub fn new() -> Router {
        Router::default()
    }

    /// Serves `service` under `tag`, which must be free.
    pub fn with(mut self, tag: ServiceTag, service: Arc<dyn Service>) -> Router {
        let earlier = self.services.insert(tag, service);
        assert!(earlier.is_none(), "two services under tag {}", tag.0);
        self
    }

    /// The service that is meant, and what is meant for it.
    fn pick(&self, request: &Request) -> Result<(&Arc<dyn Service>, Request), Refusal> {
        let Some(tag) = request.payload.first() else { return Err(Refusal::new("a request for no service")) };
        let Some(service) = self.services.get(&ServiceTag(*tag)) else {
            return Err(Refusal::new(format!("no service {tag} at this address")));
        };
        Ok((service, Request { payload: request.payload.slice(1..), deadline: request.deadline }))
    }
}

impl Service for Router {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        match self.pick(&request) {
            Ok((service, request)) => service.handle(request),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    fn answer_may_wait(&self, request: &Request) -> bool {
        self.pick(request).is_ok_and(|(service, request)| service.answer_may_wait(&request))
    }
}
