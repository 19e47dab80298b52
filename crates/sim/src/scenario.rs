//! A simulation as data: topology × workload × faults.

use disk::FaultOdds;
use std::time::Duration;

/// Everything about a run but its seed.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub topology: Topology,
    pub workload: Workload,
    pub faults: Faults,
}

/// Which machines there are and how they are connected.
#[derive(Clone, Copy, Debug)]
pub enum Topology {
    /// A cell of one gateway with its own devices.
    OneMachine(MachineShape),
}

/// One machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineShape {
    pub devices: u32,
    /// Zones of each device, and their bytes.
    pub zones: u64,
    pub zone_bytes: u64,
    /// Every disk request takes a drawn time up to this; at once if zero, so that nothing overtakes anything.
    pub disk_latency: Duration,
    /// Writes between two checkpoints.
    pub checkpoint_entries: usize,
    pub collect_below_free_percent: u8,
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Clients of each machine.
    pub clients: u64,
    /// All clients work on the same keys.
    pub keys: usize,
    /// Requests of a client within one life of its machine.
    pub requests: u64,
    /// Longest content of most PUTs.
    pub small_bytes: u64,
    /// Longest content of the large ones.
    pub large_bytes: u64,
    pub mix: Mix,
}

/// How often each request is made: a request's weight over the sum of all.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub put: u64,
    pub put_large: u64,
    pub put_if_absent: u64,
    pub put_if_match: u64,
    pub delete: u64,
    pub delete_if_match: u64,
    pub copy: u64,
    pub upload: u64,
    pub get: u64,
    pub head: u64,
    pub list: u64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Lives of each machine that end in one of the ways below; a last one, without faults, follows.
    pub lives: u64,
    /// How a life ends: of a hundred, so many in a power cut, so many in a kill of the process, the rest in order.
    pub power_cut_percent: u64,
    pub kill_percent: u64,
    /// How often the power goes while a machine starts.
    pub cut_in_start_percent: u64,
    /// What all disks do, always.
    pub all_disks: FaultOdds,
    /// What one device, drawn once for the run, does beside that while the machine serves. With several devices everything must
    /// survive its lies; with one device only honest failures can.
    pub victim: FaultOdds,
    /// Whether all devices acknowledge flushes without making anything durable. Nothing survives that: it is there to show that the
    /// simulation would notice.
    pub ignores_flush: bool,
    /// How often the victim is not there when the machine starts.
    pub victim_missing_percent: u64,
    /// Ranges of the victim that rot between two lives.
    pub victim_rot: u64,
    /// How often a life finds the victim's space limited to a half.
    pub victim_full_percent: u64,
    /// How far the wall clock of a life is off, at most, either way.
    pub clock_jump: Duration,
    /// Whether clients may be refused: because a device is missing or has failed, or because there is no space.
    pub may_refuse: bool,
}
