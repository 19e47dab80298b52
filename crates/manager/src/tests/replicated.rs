//! Managers of several members, over simulated disks and a simulated network.

mod basics;
mod cluster;
mod faults;
mod framed;
mod late;
mod members;
mod records;
mod snapshots;

pub(super) use cluster::single_member;
