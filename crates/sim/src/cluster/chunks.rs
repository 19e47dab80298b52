//! The chunk store of a simulated cluster: clients at all nodes put, get, modify, delete and relocate chunks through the services of
//! `chunkstore`, while nodes are killed, paused and cut off (docs/rfd/0011, docs/rfd/0012).
//!
//! What is judged
//! - The history of every chunk is that of one register: an acknowledged put or modification is seen by every later get, and nobody gets
//!   another chunk's bytes.
//! - After the disks of a node were replaced, every chunk has all its copies again, on devices that there are.
//! - After a node was removed and before there is another one, no chunk waits for its copy there; when there is one, every chunk has all its copies again.
//! - Where chunks have rotted on one device, all copies are sound again in the end.
//! - When the faults are over, every chunk is read once more through every node, before and after the power of all nodes is cut; all say
//!   the same.
//! - A seed run twice is the same.

mod client;
mod history;
pub mod rot;
pub mod run;

#[cfg(test)]
mod tests;

use super::scenario::{FaultMix, Scenario, Strike, Topology, Workload};
use super::table::{CRASHES, MIXED, THREE};
use manager::modules::chunks::limits::BULK_BLOCKS;
use std::time::Duration;

/// Blocks of each device: few, so that chunks share them and they fill.
const BLOCKS: u32 = 12;

/// More of them where blocks are lost for good: their chunks need room elsewhere.
const SPARE_BLOCKS: u32 = 20;

/// A zone has a block.
const CHUNK_ZONE_BYTES: u64 = 4 * 1024 * 1024 + 256 * 1024;

const WITH_CHUNKS: Topology =
    Topology { name: "three nodes with chunks", chunk_blocks: BLOCKS, zone_bytes: CHUNK_ZONE_BYTES, ..THREE };
/// Shards get full soon, one after the other; each needs a bulk of each device.
const SMALL_SHARDS: Topology =
    Topology { name: "three nodes with small shards", chunk_blocks: 16 * BULK_BLOCKS, shard_chunks: 24, ..WITH_CHUNKS };

const TOPOLOGIES: [Topology; 5] = [
    WITH_CHUNKS,
    Topology { name: "four nodes with chunks", nodes: 4, ..WITH_CHUNKS },
    Topology { name: "three nodes with chunks on two devices", devices_per_node: 2, zones: 24, ..WITH_CHUNKS },
    SMALL_SHARDS,
    Topology { name: "four nodes with small shards", nodes: 4, ..SMALL_SHARDS },
];

const FAULTS: [FaultMix; 5] = [
    FaultMix {
        name: "crashes",
        weights: &[
            (Strike::Kill, 4),
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
            (Strike::CutNode, 3),
            (Strike::CutInto, 2),
            (Strike::CutOutOf, 2),
            (Strike::CutLink, 3),
            (Strike::CutOneWay, 3),
            (Strike::BreakConnections, 3),
            (Strike::SlowLinks, 2),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "pauses and clocks",
        weights: &[
            (Strike::Pause, 5),
            (Strike::PauseLeader, 2),
            (Strike::WallClockJump, 3),
            (Strike::Kill, 2),
            (Strike::BreakConnections, 2),
        ],
        drift_ppm: 1_000,
        ..CRASHES
    },
    FaultMix {
        name: "disks and nodes are replaced",
        strikes: 4,
        weights: &[
            (Strike::ReplaceDisks, 3),
            (Strike::Replace, 3),
            (Strike::Kill, 2),
            (Strike::PowerCut, 1),
            (Strike::CutOneWay, 1),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "chunks rot",
        scrub_period: ROT_SCRUB,
        weights: &[(Strike::RotChunks, 5), (Strike::Kill, 2), (Strike::PowerCut, 2), (Strike::CutNode, 1), (Strike::Pause, 1)],
        ..CRASHES
    },
];

/// How often devices are scrubbed where chunks rot.
const ROT_SCRUB: Duration = Duration::from_secs(5);

/// Clients of a run, and the longest pause of each between two calls.
const CLIENTS: u64 = 4;
const THINK: Duration = Duration::from_millis(60);

/// The scenario of a seed: a few seeds in a row differ in topology and faults.
fn scenario_of(seed: u64) -> Scenario {
    let (topology, faults) = (seed as usize % TOPOLOGIES.len(), seed as usize / TOPOLOGIES.len() % FAULTS.len());
    let (mut topology, faults) = (TOPOLOGIES[topology], FAULTS[faults]);
    if !faults.scrub_period.is_zero() {
        topology.chunk_blocks += SPARE_BLOCKS;
    }
    Scenario { topology, workload: workload(), faults }
}

fn workload() -> Workload {
    Workload { name: "chunks", clients: CLIENTS, think: THINK, ..MIXED }
}
