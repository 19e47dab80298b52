//! Who is where: replica-set tables, and later the cluster map, views and leases.
#![forbid(unsafe_code)]

mod replica_table;

pub use replica_table::{REPLICA_SLOTS, ReplicaSet, ReplicaTable, TableError};
