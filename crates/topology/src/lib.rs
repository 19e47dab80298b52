//! Who is where: replica-set tables, views, leases, and later the cluster map.
#![forbid(unsafe_code)]

mod crush;
mod lease;
mod replica_table;
mod view;

pub use lease::{ClockReading, DEFAULT_LEASE_DURATION_MS, GrantedLeases, HeldLease, LeaseTerms, MAX_CLOCK_DRIFT_PPM};
pub use replica_table::{REPLICA_SLOTS, ReplicaSet, ReplicaTable, Site, TableError};
pub use view::{MAX_CELL_GATEWAYS, View, ViewError};
