//! Stores over simulated disks and over a file.

mod crash;
mod damage;
mod faults;
mod file;
mod holders;
mod ledger;
mod model;
mod serving;
mod space;
mod support;
mod weak;
mod writes;
