//! The volume engine: objects on raw blocks, and one record of metadata beside them (docs/rfd/0026, after Cheetah).
//!
//! ```text
//!   put     ─► latch of the name ─► blocks ─┬─► bytes  ─┐
//!                                           └─► record ─┴─► visible ─► answer;  the version before ─► limbo ─► free
//!   delete  ─► latch ─► record ─► answer;  blocks ─► limbo ─► free
//!   get     ─► name ─► version, pinned ─► bytes, checked ─► answer
//!   dump    ─► rows ─► superblock ─► the log is cut
//! ```
//!
//! Invariants:
//! - An answer is given when the record and the bytes are durable, as the device's mode of synchronisation says.
//! - Neither of the two writes waits for the other.
//! - Bytes that a visible version names are written by no request.
//! - A block that no record names is free: there are no orphans.
#![forbid(unsafe_code)]

mod content;
mod dump;
mod limits;
mod name;
mod record;
mod sums;
mod superblock;

mod blocks;
mod space;

mod pg;

mod replay;

mod medium;
mod store;

mod block_service;
mod journal;
mod keeper;
mod members;
mod mirror;
mod office;
mod own_copy;
mod seat;
mod wire;

mod interface;

mod asking;
mod desk;
mod fsck;
mod gateway;
mod part;
mod place;

#[cfg(test)]
mod simulation;

pub use interface::VolumeEngine;
pub use limits::MAX_LOG_DIVISOR;
pub use members::Ways;
pub use part::{Around, Objects, ObjectsStarter};

pub use store::{CheckReport, StoreStats};
