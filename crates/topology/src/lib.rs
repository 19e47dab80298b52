//! Who is where: replica-set tables, CRUSH over failure domains, views and leases; later the cluster map.
#![forbid(unsafe_code)]

mod crush;
mod lease;
mod replica_table;
mod view;

pub use crush::{
    Branch, Group, GroupCountError, Leaf, Level, MAX_ATTEMPTS_PER_COPY, MAX_GROUPS, PlacementGroups, Rule, SelectError, Tree,
    TreeError, choose, moved_copies,
};
pub use lease::{
    ClockReading, DEFAULT_LEASE_DURATION_MS, GrantedLeases, HeldLease, LeaseTerms, MAX_CLOCK_DRIFT_PPM, WRITES_AFTER_LEASE_MS,
};
pub use replica_table::{REPLICA_SLOTS, ReplicaSet, ReplicaTable, Site, TableError};
pub use view::{MAX_CELL_GATEWAYS, View, ViewError};
