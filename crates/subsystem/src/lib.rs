//! What a node runs, besides its place in the manager: a list of subsystems behind one trait.
//!
//! ```text
//!   Starter ── start(Surroundings) ──► Subsystem ──► services at the node's address      while the node lives
//!                                          │    └──► tasks
//!                                          ├── would a device's loss lose anything?       a device or node is removed
//!                                          ├── hand over, close a device                  the node stops
//!                                          ├── am I cut off, leave                        the node was removed
//!                                          └── figures, status lines, scrubs              the admin port asks
//! ```
//!
//! A subsystem is a crate for its machines and services, a module of the manager, one implementation of [`Subsystem`] and its [`Starter`], a
//! command file of the program, and its pages in `docs`. The program names its starter in the list that it starts a node with. Nothing else
//! knows it.
#![forbid(unsafe_code)]

mod callers;
mod figure;
mod latency;

pub use callers::Callers;
pub use figure::{AskedScrub, Figure, Read, ScrubStep, StatusLine};
pub use latency::{Latencies, LatencySeries};

use device::Device;
use env::Env;
use manager::Manager;
use net::{BoxFuture, Service, ServiceTag};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{DeviceId, NodeId};

/// What a subsystem is given to live in.
#[derive(Clone)]
pub struct Surroundings {
    pub env: Env,
    pub me: NodeId,
    /// Where this node listens.
    pub address: String,
    /// The node's consensus groups.
    pub member: consensus::Node,
    pub manager: Arc<Manager>,
    pub callers: Callers,
    pub silent: Silent,
    /// Of this node.
    pub devices: Vec<Arc<Device>>,
}

/// Nodes that do not answer this one.
pub type Silent = Arc<dyn Fn() -> BTreeSet<NodeId> + Send + Sync>;

/// A task for as long as the node lives.
pub type Task = BoxFuture<'static, ()>;

/// Makes a subsystem when its node starts.
pub trait Starter: Send {
    /// Opens what the subsystem has on this node. An error ends the start, and says what to do.
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>>;
}

/// Devices that are to be given up for good.
pub struct Loss {
    pub devices: BTreeSet<DeviceId>,
    /// Whose they are, for the answer to a person.
    pub whose: String,
    /// The option with which a person insists.
    pub all_the_same: String,
}

/// One part of what a node runs.
pub trait Subsystem: Any + Send + Sync {
    /// One word, for logs and the status.
    fn name(&self) -> &'static str;

    /// What it serves at the node's address. Each tag is in [`net::ServiceTag`]'s list.
    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)>;

    /// What runs beside, from the node's start on.
    fn tasks(self: Arc<Self>) -> Vec<Task>;

    /// Refuses the loss of devices if something has its last copies there. The answer says what would be lost, or why that can't be told.
    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>>;

    /// The node stops: others lead what this one leads. The node does not wait for ever.
    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The node stops, and its tasks have ended: ends what writes to a device, so that it can be sealed.
    fn close_device(&self, _: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Whether it needs the manager's leader, and has not heard it lately. Then the node looks whether it was removed.
    fn is_cut_off(&self) -> bool {
        false
    }

    /// The node was removed from its cluster: the subsystem leaves what it is a member of. The manager is not heard any more.
    fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Its metrics.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Its lines of `trilith status`.
    fn status(&self) -> Vec<StatusLine> {
        Vec::new()
    }

    /// Begins to read what it has on a device, or on all, and looks for damage.
    fn begin_scrub(&self, _: Option<DeviceId>) -> Vec<AskedScrub> {
        Vec::new()
    }

    /// How far the scrubs are that were begun.
    fn scrubs(&self) -> Vec<AskedScrub> {
        Vec::new()
    }
}

/// The subsystem of a type, if the list has one.
pub fn find<S: Subsystem>(subsystems: &[Arc<dyn Subsystem>]) -> Option<&S> {
    subsystems.iter().find_map(|subsystem| {
        let subsystem: &dyn Any = subsystem.as_ref();
        subsystem.downcast_ref()
    })
}
