//! File volumes of a simulated cluster: programs at all nodes work with names and contents of mounted volumes while nodes are killed, paused and cut off
//! (docs/rfd/0025 and 0028). The door of a node hands out the client of each mount, where the program speaks FUSE.
//!
//! What is judged
//! - Names: create, mkdir, link, unlink, rmdir, rename in all its ways, lookup and listings. There is an order of the calls, each at one moment between its call
//!   and its answer, in which a tree gives the same answers ([`tree`]).
//! - Contents: each half of a block of 4 KiB is a register. A log has each acknowledged append once, whole, in the order of calls that did not overlap, and each
//!   other append at most once; a read is a beginning of it. Nothing is damaged.
//! - When the faults are over every node serves all volumes, all contents can be read at every node, and all copies are in sync; and again after a power cut of all.
//! - Extents of files go with these. Nothing is left of a volume that was removed.
//! - No call hangs. A seed run twice is the same.
//!
//! A mount outlives its process when that is killed: the next one makes calls again that were not answered. It does not outlive its machine's power.
//!
//! Reading order: `tree`, `log`, `history`, `door`, `user`, `names`, `contents`, `end`, `space`, `run`.

mod contents;
pub mod door;
mod end;
mod history;
mod log;
mod names;
pub mod run;
mod space;
mod tree;
mod user;

#[cfg(test)]
mod tests;

use super::images::FAULTS;
use super::scenario::{Scenario, Topology, Workload};
use super::table::{MIXED, THREE};
use std::time::Duration;

/// Halves of blocks of a file of blocks.
const HALVES: usize = 40;
/// Most records of a log.
const MAX_RECORDS: usize = 300;
/// Inodes of a yard that programs remember.
const KNOWN_INODES: usize = 12;
/// Sets of directories of a volume.
const YARDS: usize = 2;
/// Trees of a volume, of one seed and the next.
const TREES: [u32; 2] = [3, 1];
/// One run of so many has two volumes, the others have one: each is two groups more.
const TWO_VOLUMES_EVERY: u64 = 4;

/// Primaries leave 16 MiB free for what is under way.
const WITH_FILES: Topology =
    Topology { name: "three nodes with files", has_files: true, zones: 100, snapshot_after: 300, ..THREE };

const TOPOLOGIES: [Topology; 3] = [
    WITH_FILES,
    Topology { name: "four nodes with files", nodes: 4, ..WITH_FILES },
    Topology { name: "three nodes with files on two devices", devices_per_node: 2, zones: 80, ..WITH_FILES },
];

/// Programs of a run, and the longest pause of each between two calls.
const PROGRAMS: u64 = 8;
const THINK: Duration = Duration::from_millis(200);

/// The scenario of a seed: a few seeds in a row differ in topology and faults.
fn scenario_of(seed: u64) -> Scenario {
    let (topology, faults) = (seed as usize % TOPOLOGIES.len(), seed as usize % FAULTS.len());
    let workload = Workload { name: "files", clients: PROGRAMS, think: THINK, ..MIXED };
    Scenario { topology: TOPOLOGIES[topology], workload, faults: FAULTS[faults] }
}

/// Branches that every long run takes.
#[cfg(test)]
const MUST_OCCUR: &[&str] = &[
    "fault: a link cut one way",
    "fault: a node cut off",
    "fault: a node replaced",
    "fault: a slow disk",
    "fault: errors of a device",
    "fault: kill",
    "fault: pause",
    "fault: power cut",
    "fault: power cut of all",
    "fault: the disks of a node replaced",
    "files: a call begun anew after another client's",
    "files: a command answered from memory",
    "files: a copy left",
    "files: a copy rebuilt",
    "files: a longer copy cut",
    "files: a part of a transaction held for long",
    "files: a session lost its locks",
    "files: a transaction of another leader concluded",
    "files: a transaction was in the way",
    "files: an overwrite answered after a change of primary",
    "files: another leader of a tree",
    "files: another primary",
    "files: blocks that differed made alike",
    "files: the end of a file locked for an append",
    "program: a call made again in another process",
    "space: extents that went with their files",
];
