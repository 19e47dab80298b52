mod cluster;
mod store;

mod basics;
mod exchanges;
mod faults;
mod folder;
mod framed;
mod full_log;
mod heartbeats;
mod leases;
mod log_space;
mod membership;
mod ordered;
mod rot;
mod rows;
mod snapshots;
