//! CRUSH: who holds a thing is computed from a map of the cluster, and nobody keeps a list (Weil et al. 2006).
//!
//! ```text
//!   object ── hash ──► placement group ── question ──► Tree::select ──► devices
//!
//!   zone ─┬─ pod ─┬─ rack ─┬─ host ─┬─ device      straw2 at every branch: a domain is chosen
//!         └─ ...  └─ ...   └─ ...   └─ device      with the weight of the devices under it
//! ```
//!
//! - [`straw2`]: one weighted choice among some items.
//! - [`tree`]: the hierarchy of failure domains and its weights.
//! - [`select`]: n devices in different domains, by a rule.
//! - [`groups`]: objects to groups, groups to devices.
//!
//! Everything is integer arithmetic and depends on the map alone, not on the order in which it was put together: all processes of a
//! cluster have to come to the same devices.

mod groups;
mod select;
mod straw2;
mod tree;

pub use groups::{Group, GroupCountError, MAX_GROUPS, PlacementGroups, moved_copies};
pub use select::{MAX_ATTEMPTS_PER_COPY, Rule, SelectError};
pub use straw2::choose;
pub use tree::{Branch, Leaf, Level, Tree, TreeError};

#[cfg(test)]
mod tests;
