//! The device as a whole, on simulated disks and on files.

mod answers;
mod append;
mod crash;
mod damage;
mod full;
mod piece;
mod reused;
mod support;
mod sync;
mod unknown;
mod volume;
mod walk;
