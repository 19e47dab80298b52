//! The device as a whole, on simulated disks and on files.

mod append;
mod crash;
mod damage;
mod full;
mod piece;
mod support;
mod volume;
mod walk;
