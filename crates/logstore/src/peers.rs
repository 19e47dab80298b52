//! How the gateways of a cell hear each other: numbered streams of items, batched, resent until they are taken (RFD 2, decision 19).
//!
//! ```text
//!   shard's step ── item ──► link: pending ─► one batch at a time ── call ──► hearing of the other gateway, in order
//!                                  ▲                                             │ taken, in this view
//!   shard's step ◄─ confirmations ─┴───────────── the next batch ◄───────────────┘
//! ```
//!
//! What is put out under a shard's lock is queued under it, so that the stream has the order in which the machine spoke. While a batch
//! is under way the next one gathers: the busier a gateway is, the longer its batches.

mod incoming;
mod item;
mod link;
mod wire;

pub(crate) use incoming::{Hearings, Taken, Unheard};
pub(crate) use item::{Item, Staged};
pub(crate) use link::{Confirmed, Link};
pub(crate) use wire::answer;
pub use wire::{Batch, WireError};

use net::Caller;
use std::sync::Arc;
use types::{DeviceId, GatewayId};

/// Ways to the other gateways of a cell.
pub trait Directory: Send + Sync + 'static {
    /// Calls the service of a gateway ([`crate::LogStore::hear`]); nothing if it is not known where that gateway is.
    fn caller(&self, gateway: GatewayId) -> Option<Arc<dyn Caller>>;

    /// The gateway to which messages go together with appends on this device, if there is one.
    fn beside(&self, device: DeviceId) -> Option<GatewayId>;
}
