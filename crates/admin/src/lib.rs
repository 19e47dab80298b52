//! The admin port: metrics, health and status over HTTP.
//!
//! | path | answers |
//! |---|---|
//! | `/metrics` | every counter and gauge in the OpenMetrics text format |
//! | `/health/live` | 200 while the process answers at all: restart it if it doesn't |
//! | `/health/ready` | 200 while S3 requests are served, or, without a gateway, what the node has; else 503: send it no requests |
//! | `/status` | JSON ([`Status`]): what runs, how full it is, what is wrong and what to do about it |
//! | `/scrub` | POST, with `?device=N` or of all: scrubs now. GET: how far that is, JSON ([`ScrubStatus`]) |
//!
//! Invariants
//! - Nothing here changes what is stored, and no answer holds a secret: a scrub reads. So the port asks for no credentials; it listens on loopback
//!   unless told otherwise, and then whoever reaches it reads figures, device paths and the count of buckets.
//! - No answer walks objects or names: its cost does not grow with what is stored. (The zone tables of the devices are summed;
//!   a device has at most 65,536 zones.)
//! - Numbers are read when they are asked for. Nobody pushes into this crate, and no hot path knows it.
//!
//! Reading order: `registry`, `status`, `sources`, `metrics`, `scrub`, `server`.
#![forbid(unsafe_code)]

mod registry;
mod status;

mod cell;
mod sources;

mod metrics;

mod scrub;
mod server;

pub use metrics::register;
pub use registry::{MAX_SERIES, Registry};
pub use scrub::{ScrubStatus, ScrubStep};
pub use server::{Admin, AdminServer, BindError, MAX_CONNECTIONS};
pub use sources::{MayAnswer, Sources, StoreSource, Surroundings, SurroundingsSource, UploadsSource};
pub use status::{
    CellDevice, CellNode, CellStatus, DeviceStatus, EngineStatus, NodeGateway, Severity, Status, UploadsStatus, Warning,
};
