//! Volumes mounted over partitions in memory, seen by real calls of applications.
//!
//! They take root and `/dev/fuse`, and some of them programs of Debian's (`setfacl`, `getfacl`, `python3`). Where these lack each test says so and
//! passes.

mod content;
mod directories;
mod exclusive;
mod extended;
mod harness;
mod names;
mod random;
mod space;
mod trees;
