//! Mounts served by this process or by others that it starts, seen by real calls of applications.
//!
//! They take root and `/dev/fuse`, and some of them programs of Debian's (`setfacl`, `flock`, `fusermount3`, `python3`). Where these
//! lack each test says so and passes.

mod data;
mod directories;
mod ends;
mod harness;
mod locks;
mod memfs;
mod names;
mod notifications;
mod serve;
mod takeover;
