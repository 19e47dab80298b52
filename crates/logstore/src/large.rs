//! Large objects: chunks, and the tree of descriptors over them (ZStore, section 3.1, figure 3).
//!
//! ```text
//!   height 1                       height 2
//!   descriptor record              descriptor record
//!   ├─ chunk                       ├─ node ─┬─ chunk
//!   ├─ chunk                       │        └─ chunk
//!   └─ chunk                       └─ node ─── chunk
//! ```
//!
//! A chunk is a record of its own that becomes reachable only through the descriptor, whose append is the commit. Chunks, nodes
//! and the descriptor are durable in this order.

mod reader;
mod staging;
mod tree;

pub(crate) use reader::LargeReader;
pub(crate) use staging::{Kept, LogStaged};
pub(crate) use tree::{Tree, read_tree};
