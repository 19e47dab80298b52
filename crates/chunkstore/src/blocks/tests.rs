//! Stores over simulated disks and over files.

mod condemned;
mod crash;
mod damage;
mod faults;
mod fences;
mod file;
mod first;
mod ledger;
mod model;
mod reporting;
mod serving;
mod support;
