//! Stores over simulated disks and over a file.

mod crash;
mod damage;
mod faults;
mod file;
mod holders;
mod ledger;
mod model;
mod pages;
mod serving;
mod space;
mod summing;
pub(crate) mod support;
mod weak;
mod writes;
