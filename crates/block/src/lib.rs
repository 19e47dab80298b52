//! Block images (FastStore, Zhang et al. 2024; docs/rfd/0024): written in place, read by one holder, kept in layers.
//!
//! ```text
//!   an export, a command ─► image: one holder's map, range locks, layers ─► stores: the blobs of each device ─► volume of the device
//!                             │
//!                             └─► registry: the image's record at the manager (token, size, snapshots, which devices count)
//! ```
#![forbid(unsafe_code)]
// Requests are futures in futures, some of them deep.
#![recursion_limit = "256"]

pub mod check;
pub mod door;
pub mod image;
mod part;
pub mod protocol;
pub mod registry;
pub mod store;
pub mod stores;
pub mod wire;

pub use door::{Door, Offered, OpenImage};
pub use part::{ImageStarter, Images};
