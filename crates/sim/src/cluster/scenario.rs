//! A cluster's simulation as data: topology × workload × faults.

use net::LinkWeather;
use node::{Role, Roles};
use std::time::Duration;

/// Everything about a run but its draws.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub topology: Topology,
    pub workload: Workload,
    pub faults: FaultMix,
}

/// Which nodes there are, and what they have.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    pub name: &'static str,
    pub nodes: usize,
    /// What each node does, by number; empty: everything.
    pub roles: &'static [Role],
    /// Of each target.
    pub devices_per_node: usize,
    /// Zones of each device, and their bytes.
    pub zones: u64,
    pub zone_bytes: u64,
    /// Blocks of each device for chunks.
    pub chunk_blocks: u32,
    /// Registrations of a shard of chunks.
    pub shard_chunks: u64,
    /// Nodes serve block images.
    pub has_images: bool,
    /// Nodes serve file volumes.
    pub has_files: bool,
    /// Writes between two checkpoints.
    pub checkpoint_entries: usize,
    /// Entries of the manager's log between two snapshots.
    pub snapshot_after: u64,
}

impl Topology {
    /// What a node of this number does.
    pub fn roles_of(&self, number: usize) -> Roles {
        self.roles.get(number).map_or_else(Roles::all, |role| Roles::from_iter([*role]))
    }
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub clients: u64,
    /// All clients work on the same keys.
    pub keys: usize,
    /// Longest content of a small PUT, and of a large one or a part.
    pub small_bytes: u64,
    pub large_bytes: u64,
    /// Longest pause of a client between two calls.
    pub think: Duration,
    pub mix: Mix,
}

/// How often each call is made: its weight over the sum of all.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub put: u64,
    pub put_large: u64,
    pub upload: u64,
    pub put_if_absent: u64,
    pub put_if_match: u64,
    pub delete: u64,
    pub delete_if_match: u64,
    pub get: u64,
    pub head: u64,
    pub list: u64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct FaultMix {
    pub name: &'static str,
    /// Faults of a run, and the longest time between two.
    pub strikes: u64,
    pub calm: Duration,
    /// What strikes, with its weight.
    pub weights: &'static [(Strike, u64)],
    /// In which time devices are scrubbed; zero: never.
    pub scrub_period: Duration,
    /// What all links are like, all the time.
    pub weather: LinkWeather,
    /// How far each node's clock may run fast or slow; no more than leases allow for.
    pub drift_ppm: i64,
}

/// One fault. Nodes, times and places are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// A process is killed and started again.
    Kill,
    /// The same, and it is away for long: chunks are put without it, and what is being made there is given up.
    KillForLong,
    /// A machine loses its power: with what its disks had not made durable, in part.
    PowerCut,
    /// Two of three at once: no quorum until one is back.
    KillTwo,
    PowerCutOfAll,
    /// One comes back late: the others found the cell without its devices.
    PowerCutOfAllOneLate,
    /// The devices of all nodes but one fail, and what is written then stands there alone; power is cut, and that node comes back late: what it may hold is refused
    /// until then.
    LastDevicesLate,
    /// A process does not run while its clock goes on: for longer than its lease, or less.
    Pause,
    /// The same for the node that leads the manager.
    PauseLeader,
    KillLeader,
    /// The member that leads recoveries and background work is killed in the middle of some.
    KillCellLeader,
    /// A node and all others don't reach each other.
    CutNode,
    /// Others don't reach a node, which reaches them.
    CutInto,
    /// A node doesn't reach others, which reach it.
    CutOutOf,
    /// Two nodes don't reach each other; both reach all others.
    CutLink,
    /// One direction of one link.
    CutOneWay,
    /// A link of a node is cut, and the node is killed.
    CutAndKill,
    /// Connections break all the time: messages are lost, and told again.
    BreakConnections,
    /// Messages take long.
    SlowLinks,
    /// In one direction of one link.
    SlowOneWay,
    /// A node is away until others write without it, and another's messages to it take long when it is back: it hears of copies that are added
    /// before it hears of the writes.
    SlowReturn,
    /// A wall clock jumps by up to hours, either way.
    WallClockJump,
    /// Blocks of one device go bad.
    Corrupt,
    /// Chunks and headers of blocks rot on one device; its node is started again then.
    RotChunks,
    /// A device takes long for each request for a while.
    SlowDisk,
    /// A device answers requests with errors for a while; its node is started again then.
    DeviceErrors,
    /// The disk below a device has no space left.
    DiskFull,
    /// The disk of a node's consensus log answers with errors; the node is started again then.
    LogErrors,
    /// A node is gone for ever, with its disks, and a new one takes its place. At most once in a run.
    Replace,
    /// A node is gone for ever, with its disks, and is removed; a new one takes its place when the others have gone on without it. At most once in a run.
    ReplaceLate,
    /// All disks of a node are lost, and it has others: what they held gets copies again.
    ReplaceDisks,
}
