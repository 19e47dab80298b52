//! The axes of the matrix, and the place of a seed in it.

use super::scenario::{FaultMix, Mix, Scenario, Strike, Topology, Workload};
use net::LinkWeather;
use node::Role::{Gateway, Manager, Target};
use std::time::Duration;

pub(super) const THREE: Topology = Topology {
    name: "three nodes",
    nodes: 3,
    roles: &[],
    devices_per_node: 1,
    zones: 40,
    zone_bytes: 512 * 1024,
    chunk_blocks: 0,
    shard_chunks: chunkstore::limits::DEFAULT_SHARD_CHUNKS,
    has_images: false,
    has_files: false,
    checkpoint_entries: 60,
    snapshot_after: consensus::limits::SNAPSHOT_AFTER_ENTRIES,
};

/// What a cluster is made of.
pub const TOPOLOGIES: &[Topology] = &[
    THREE,
    Topology { name: "three nodes with two devices", devices_per_node: 2, zones: 24, ..THREE },
    // So few zones that collection must make room all the time.
    Topology { name: "three nodes short of space", zones: 22, zone_bytes: 256 * 1024, checkpoint_entries: 40, ..THREE },
    Topology { name: "five nodes", nodes: 5, zones: 24, snapshot_after: 20, ..THREE },
];

pub(super) const MIXED: Workload = Workload {
    name: "mixed",
    clients: 4,
    keys: 5,
    small_bytes: 6_000,
    large_bytes: 90_000,
    think: Duration::from_millis(80),
    mix: Mix {
        put: 25,
        put_large: 3,
        upload: 2,
        put_if_absent: 8,
        put_if_match: 8,
        delete: 8,
        delete_if_match: 4,
        get: 30,
        head: 6,
        list: 6,
    },
};

/// What clients do.
pub const WORKLOADS: &[Workload] = &[
    MIXED,
    Workload {
        name: "conditional",
        keys: 2,
        mix: Mix {
            put: 8,
            put_large: 0,
            upload: 0,
            put_if_absent: 20,
            put_if_match: 25,
            delete: 6,
            delete_if_match: 12,
            get: 24,
            head: 5,
            list: 0,
        },
        ..MIXED
    },
    Workload {
        name: "deletes and lists",
        keys: 8,
        small_bytes: 600,
        mix: Mix {
            put: 25,
            put_large: 0,
            upload: 0,
            put_if_absent: 5,
            put_if_match: 0,
            delete: 25,
            delete_if_match: 0,
            get: 10,
            head: 5,
            list: 30,
        },
        ..MIXED
    },
    Workload {
        name: "large objects and uploads",
        clients: 3,
        keys: 3,
        mix: Mix {
            put: 15,
            put_large: 20,
            upload: 20,
            put_if_absent: 3,
            put_if_match: 5,
            delete: 7,
            delete_if_match: 0,
            get: 25,
            head: 2,
            list: 3,
        },
        ..MIXED
    },
    Workload { name: "many keys", clients: 5, keys: 40, small_bytes: 14_000, think: Duration::from_millis(40), ..MIXED },
];

const FINE: LinkWeather = LinkWeather { is_cut: false, longest_delay: Duration::ZERO, breaks_per_million: 0 };

pub(super) const CRASHES: FaultMix = FaultMix {
    name: "crashes",
    strikes: 5,
    calm: Duration::from_millis(1_500),
    weights: &[
        (Strike::Kill, 3),
        (Strike::PowerCut, 3),
        (Strike::KillLeader, 2),
        (Strike::KillCellLeader, 3),
        (Strike::KillTwo, 2),
        (Strike::PowerCutOfAll, 2),
    ],
    scrub_period: Duration::ZERO,
    weather: FINE,
    drift_ppm: 200,
};

/// What goes wrong.
pub const FAULTS: &[FaultMix] = &[
    CRASHES,
    FaultMix {
        name: "links",
        weights: &[
            (Strike::CutNode, 3),
            (Strike::CutInto, 2),
            (Strike::CutOutOf, 2),
            (Strike::CutLink, 3),
            (Strike::CutOneWay, 3),
            (Strike::BreakConnections, 2),
            (Strike::SlowLinks, 2),
            (Strike::CutAndKill, 2),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "pauses and clocks",
        weights: &[
            (Strike::Pause, 5),
            (Strike::PauseLeader, 3),
            (Strike::WallClockJump, 2),
            (Strike::Kill, 1),
            (Strike::CutNode, 1),
        ],
        drift_ppm: 1_000,
        ..CRASHES
    },
    FaultMix {
        name: "disks",
        scrub_period: Duration::from_secs(5),
        weights: &[
            (Strike::Corrupt, 4),
            (Strike::DeviceErrors, 4),
            (Strike::DiskFull, 2),
            (Strike::LogErrors, 2),
            (Strike::PowerCut, 2),
            (Strike::PowerCutOfAll, 1),
        ],
        ..CRASHES
    },
    FaultMix {
        name: "a bad network",
        weather: LinkWeather { is_cut: false, longest_delay: Duration::from_millis(4), breaks_per_million: 2_000 },
        weights: &[
            (Strike::Kill, 2),
            (Strike::PowerCut, 2),
            (Strike::CutOneWay, 2),
            (Strike::CutLink, 2),
            (Strike::SlowLinks, 1),
        ],
        strikes: 4,
        ..CRASHES
    },
    FaultMix {
        name: "a node is replaced",
        weights: &[(Strike::Replace, 4), (Strike::Kill, 2), (Strike::CutOneWay, 1), (Strike::Pause, 1), (Strike::Corrupt, 1)],
        ..CRASHES
    },
    FaultMix {
        name: "everything",
        strikes: 6,
        weights: &[
            (Strike::Kill, 2),
            (Strike::PowerCut, 2),
            (Strike::KillCellLeader, 2),
            (Strike::KillTwo, 1),
            (Strike::PowerCutOfAll, 1),
            (Strike::Pause, 2),
            (Strike::CutNode, 1),
            (Strike::CutInto, 1),
            (Strike::CutOneWay, 1),
            (Strike::CutAndKill, 2),
            (Strike::BreakConnections, 1),
            (Strike::DeviceErrors, 1),
            (Strike::WallClockJump, 1),
        ],
        ..CRASHES
    },
];

/// How many scenarios the matrix has.
pub const SCENARIOS: u64 = (TOPOLOGIES.len() * WORKLOADS.len() * FAULTS.len()) as u64;

/// The last of so many seeds runs what the matrix hardly brings about. Prime to the matrix's size: no place in it is always left out.
pub const RARE_EVERY: u64 = 23;

/// Collection beside messages that are late on one way, foundings without a node's devices, keys that can't be decided, and disks that are replaced.
pub const RARE: FaultMix = FaultMix {
    name: "what is rare",
    weights: &[
        (Strike::SlowOneWay, 5),
        (Strike::SlowReturn, 4),
        (Strike::PowerCutOfAllOneLate, 2),
        (Strike::LastDevicesLate, 2),
        (Strike::CutAndKill, 2),
        (Strike::KillCellLeader, 2),
        (Strike::KillTwo, 1),
        (Strike::ReplaceDisks, 4),
    ],
    ..CRASHES
};
const RARE_TOPOLOGIES: [Topology; 2] = [
    Topology { name: "three nodes short of space", zones: 22, zone_bytes: 256 * 1024, checkpoint_entries: 40, ..THREE },
    Topology {
        name: "five nodes short of space",
        nodes: 5,
        zones: 18,
        zone_bytes: 256 * 1024,
        checkpoint_entries: 40,
        ..THREE
    },
];

/// One of so many seeds, the last, runs where each role is a node of its own. As [`RARE_EVERY`].
pub const APART_EVERY: u64 = 19;

/// Three managers, three targets, two gateways.
pub const APART: Topology = Topology {
    name: "roles apart",
    nodes: 8,
    roles: &[Manager, Manager, Manager, Target, Target, Target, Gateway, Gateway],
    ..THREE
};

/// The scenario that a seed runs: as many seeds in a row run each scenario of the matrix once, but for those that run the rare ones
/// and those with roles apart.
pub fn scenario_of(seed: u64) -> Scenario {
    if seed % RARE_EVERY == RARE_EVERY - 1 {
        let turn = (seed / RARE_EVERY) as usize;
        let workload = Workload { think: Duration::from_millis(25), ..WORKLOADS[turn / 2 % WORKLOADS.len()] };
        return Scenario { topology: RARE_TOPOLOGIES[turn % 2], workload, faults: RARE };
    }
    if seed % APART_EVERY == APART_EVERY - 1 {
        let turn = (seed / APART_EVERY) as usize;
        let (faults, workload) = (turn % FAULTS.len(), turn / FAULTS.len());
        return Scenario {
            topology: APART,
            workload: WORKLOADS[(workload + faults) % WORKLOADS.len()],
            faults: FAULTS[faults],
        };
    }
    // In this order the axes turn at once, so that a few seeds in a row differ in everything.
    let place = (seed % SCENARIOS) as usize;
    let (faults, rest) = (place % FAULTS.len(), place / FAULTS.len());
    let (workload, topology) = (rest % WORKLOADS.len(), rest / WORKLOADS.len());
    Scenario {
        topology: TOPOLOGIES[(topology + workload + faults) % TOPOLOGIES.len()],
        workload: WORKLOADS[(workload + faults) % WORKLOADS.len()],
        faults: FAULTS[faults],
    }
}
