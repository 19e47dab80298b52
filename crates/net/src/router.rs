//! Several services at one address: the first byte of a request says which of them is meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::call::{BoxFuture, Refusal, Request, Service};

/// Which service of an address is meant. All numbers of the program stand in the list below, so that none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceTag(pub u8);

macro_rules! service_tags {
    ($($(#[$about:meta])* $name:ident = $number:literal;)*) => {
        impl ServiceTag {
            $($(#[$about])* pub const $name: ServiceTag = ServiceTag($number);)*
        }

        const _: () = {
            let numbers: &[u8] = &[$($number),*];
            let mut at = 1;
            while at < numbers.len() {
                assert!(numbers[at - 1] < numbers[at], "numbers ascend, so that none is used twice");
                at += 1;
            }
        };
    };
}

service_tags! {
    /// Members of consensus groups among themselves.
    CONSENSUS = 1;
    /// Managers among themselves: proposals for the leader.
    MANAGER = 2;
    /// Targets, for gateways and recoveries.
    TARGETS = 3;
    /// Gateways among themselves.
    GATEWAYS = 4;
    /// Heartbeats, for the manager's leader.
    HEARTBEATS = 5;
    /// Whether a node is there.
    PINGS = 6;
    /// Whether a node knows of a change.
    SETTLINGS = 7;
    /// Removals of nodes and devices.
    REMOVALS = 8;
    /// The chunk store: blocks of a node's devices.
    CHUNK_BLOCKS = 9;
    /// The chunk store: lookup units of a node.
    CHUNK_HOSTS = 10;
    /// The chunk store: maintenance units that a node is a member of.
    CHUNK_UNITS = 11;
    /// The chunk store: answers to clients that asked through a lookup host.
    CHUNK_DELIVERIES = 12;
    /// The chunk store: where everything is.
    CHUNK_MAPS = 13;
    /// The chunk store: loads of nodes, where the manager is led.
    CHUNK_LOADS = 14;
    /// Which nodes are members of placed groups.
    GROUPS = 15;
    /// Block images: what people ask.
    IMAGES = 16;
    /// Block images: the blobs of a node's devices.
    BLOBS = 17;
    /// File volumes: what people ask.
    FILES = 18;
    /// File volumes: the trees that a node leads.
    FILE_TREES = 19;
    /// File volumes: the contents that a node serves as their primary.
    FILE_CONTENTS = 20;
    /// File volumes: the copies of contents on a node's devices.
    FILE_COPIES = 21;
    /// The volume engine: members of placement groups among themselves.
    OBJECT_MESSAGES = 22;
    /// The volume engine: blocks of copies, for primaries.
    OBJECT_BLOCKS = 23;
    /// The volume engine: what gateways ask primaries.
    OBJECTS = 24;
}

impl ServiceTag {
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
    /// Gets whole requests whose tag is none of those.
    otherwise: Option<Arc<dyn Service>>,
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

    /// Serves `service`, which picks by the tag itself, under all tags that have no service here.
    pub fn otherwise(self, service: Arc<dyn Service>) -> Router {
        Router { otherwise: Some(service), ..self }
    }

    /// The service that is meant, and what is meant for it.
    fn pick(&self, request: &Request) -> Result<(&Arc<dyn Service>, Request), Refusal> {
        let Some(tag) = request.payload.first() else { return Err(Refusal::new("a request for no service")) };
        match (self.services.get(&ServiceTag(*tag)), &self.otherwise) {
            (Some(service), _) => Ok((service, Request { payload: request.payload.slice(1..), deadline: request.deadline })),
            (None, Some(otherwise)) => {
                Ok((otherwise, Request { payload: request.payload.clone(), deadline: request.deadline }))
            }
            (None, None) => Err(Refusal::new(format!("no service {tag} at this address"))),
        }
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
