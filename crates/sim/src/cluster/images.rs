//! Block images of a simulated cluster: clients at all nodes write, clear and read them while nodes are killed, paused and cut off. People take
//! snapshots, roll back, clone, resize and have other nodes serve them (docs/rfd/0024).
//!
//! What is judged
//! - The history of every block is that of a register: a read answers the last acknowledged write, or one that was under way. A write that
//!   failed took effect before it failed or never. Every sector is of a write to that place.
//! - A snapshot holds for ever what its image held at some moment while it was taken. A rollback brings that back, and a clone begins with it.
//! - When the faults are over every image is served at one node after the other, and no device of it is out. Each blob has its copies on as
//!   many hosts as the record says, and the copies are equal.
//! - Blocks that no client wrote to are zeros.
//! - No call hangs. A seed run twice is the same.
//!
//! Clients write to a few windows of each image, so that their writes meet: [`WINDOWS`].

mod client;
pub mod door;
mod end;
mod history;
pub(super) mod pattern;
pub(super) mod person;
pub mod run;

#[cfg(test)]
mod tests;

use super::scenario::{FaultMix, Scenario, Strike, Topology, Workload};
use super::table::{CRASHES, MIXED, THREE};
use std::ops::Range;
use std::time::Duration;

/// Where clients write, in blocks of 4 KiB: at the beginning, across pieces, across blobs.
const WINDOWS: [Range<u32>; 4] = [0..16, 248..264, 1016..1036, 2040..2060];
/// Blocks of the largest image.
const BLOCKS: u32 = 2060;
/// Sizes of images in blocks: each ends in a window, within a piece.
const SIZES: [u32; 3] = [259, 1029, BLOCKS];

/// A zone has a blob.
const IMAGE_ZONE_BYTES: u64 = 4 * 1024 * 1024 + 256 * 1024;

const WITH_IMAGES: Topology =
    Topology { name: "three nodes with images", has_images: true, zones: 90, zone_bytes: IMAGE_ZONE_BYTES, ..THREE };

const TOPOLOGIES: [Topology; 3] = [
    WITH_IMAGES,
    Topology { name: "four nodes with images", nodes: 4, ..WITH_IMAGES },
    Topology { name: "three nodes with images on two devices", devices_per_node: 2, zones: 60, ..WITH_IMAGES },
];

pub(super) const FAULTS: [FaultMix; 5] = [
    FaultMix {
        name: "crashes",
        weights: &[
            (Strike::Kill, 5),
            (Strike::KillForLong, 2),
            (Strike::PowerCut, 4),
            (Strike::KillLeader, 2),
            (Strike::KillTwo, 2),
            (Strike::PowerCutOfAll, 2),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "links",
        weights: &[
            (Strike::CutNode, 4),
            (Strike::CutInto, 2),
            (Strike::CutOutOf, 2),
            (Strike::CutLink, 3),
            (Strike::CutOneWay, 3),
            (Strike::CutAndKill, 2),
            (Strike::BreakConnections, 3),
            (Strike::SlowLinks, 2),
            (Strike::SlowOneWay, 2),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "pauses and clocks",
        weights: &[
            (Strike::Pause, 6),
            (Strike::PauseLeader, 2),
            (Strike::WallClockJump, 2),
            (Strike::Kill, 2),
            (Strike::CutNode, 2),
            (Strike::BreakConnections, 1),
        ],
        drift_ppm: 1_000,
        ..CRASHES
    },
    FaultMix {
        name: "disks",
        weights: &[
            (Strike::SlowDisk, 5),
            (Strike::DeviceErrors, 5),
            (Strike::DiskFull, 1),
            (Strike::LogErrors, 1),
            (Strike::PowerCut, 2),
            (Strike::Pause, 1),
        ],
        ..CRASHES
    },
    FaultMix {
        name: LOSSES,
        strikes: 4,
        weights: &[
            (Strike::Replace, 4),
            (Strike::ReplaceDisks, 4),
            (Strike::Kill, 2),
            (Strike::PowerCut, 2),
            (Strike::CutOneWay, 1),
            (Strike::Pause, 1),
        ],
        ..CRASHES
    },
];

/// Devices are lost for good: what is stored has at least two copies.
const LOSSES: &str = "disks and nodes are lost for good";

/// Clients of a run, and the longest pause of each between two calls.
const CLIENTS: u64 = 5;
const THINK: Duration = Duration::from_millis(60);

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
    "fault: the disks of a node replaced",
    "images: a blob begun with fewer copies than the others",
    "images: a blob brought up to date",
    "images: a blob of a returned device freed",
    "images: a blob that a returned device did not lack",
    "images: a blob that was not finished freed",
    "images: a change made again without a device",
    "images: a closed image kept",
    "images: a command about a device without an answer",
    "images: a command about layers that was carried out before",
    "images: a copy made again",
    "images: a copy that the map does not know freed",
    "images: a device entered again",
    "images: a device in doubt",
    "images: a device put in again",
    "images: a device taken out",
    "images: a device that was given up forgotten",
    "images: a holder superseded",
    "images: a keeper that made way",
    "images: a read asked another copy",
    "images: a request that waited for the tenure",
    "images: an image that waits for a silent node",
    "images: content brought to another copy",
    "images: copies compared",
    "images: pieces copied to a newer layer",
    "images: taken over from a former process",
    "images: taken over from another node",
    "images: taken over with copies that may differ",
    "images: taken over without a silent device",
    "person: a clone flattened",
    "person: a clone made",
    "person: a rollback",
    "person: a snapshot read",
    "person: a snapshot removed",
    "person: a snapshot taken",
    "person: an image grown",
    "person: an image served",
    "person: an image shrunk",
    "person: an image unlocked",
    "person: serving ended",
];

/// The scenario of a seed: a few seeds in a row differ in topology and faults.
fn scenario_of(seed: u64) -> Scenario {
    let (topology, faults) = (seed as usize % TOPOLOGIES.len(), seed as usize % FAULTS.len());
    let workload = Workload { name: "images", clients: CLIENTS, think: THINK, ..MIXED };
    Scenario { topology: TOPOLOGIES[topology], workload, faults: FAULTS[faults] }
}
