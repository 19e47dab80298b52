//! File volumes (CFS, Liu et al. 2019; docs/rfd/0025): a tree of inodes in meta partitions, contents in extents of data partitions, and the client between.
//!
//! ```text
//!   a mount ─► client ─┬─► meta: inodes, dentries, orphans, replies; one replicated machine a partition
//!                      └─► data: extents, written once by appends and changed in place; on the device's volume for files
//! ```
#![forbid(unsafe_code)]

pub mod asking;
pub mod client;
pub mod data;
pub mod door;
pub mod ids;
pub mod meta;
mod part;
pub mod protocol;
mod transactions;

pub use door::{LeftMount, MountDoor, Mounted};
pub use part::{FileStarter, Files};
