//! Clusters of three `trilith serve`, each a process with its folder and addresses: what they do for clients, and what becomes of it when
//! nodes are killed, paused, stopped and started again.
//!
//! A failure prints the seed and where the folders and logs are; TRILITH_TEST_SEED replays the clients' choices, though not what the
//! threads make of them.

mod chunks;
mod dev;
mod disks;
mod endpoints;
pub mod fixture;
mod growth;
mod input;
mod kills;
mod objects;
mod pauses;
mod removal;
mod roles;
mod sixth;
mod starts;
mod tls;
mod traffic;
mod waits;

/// Nodes of the clusters of these tests.
const NODES: usize = 3;
