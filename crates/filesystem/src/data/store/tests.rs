//! Stores over simulated disks, compared with a partition in memory.

mod copies;
mod crash;
mod damage;
mod model;
mod records;
mod serving;
mod space;
mod support;
mod writes;
