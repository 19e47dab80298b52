//! The scenarios: each a few words about what differs from [`ORDINARY`].

use crate::scenario::{Faults, MachineShape, Mix, Scenario, Topology, Workload};
use disk::FaultOdds;
use std::time::Duration;

/// A disk as good as it should be, for constants that differ from it in a few words.
pub(crate) const NO_FAULTS: FaultOdds = FaultOdds {
    fail_read: 0,
    fail_write: 0,
    fail_torn_write: 0,
    fail_flush: 0,
    lose_write: 0,
    tear_write: 0,
    misdirect_write: 0,
    corrupt_write: 0,
    corrupt_read: 0,
    delay: 0,
    delay_at_most: Duration::ZERO,
    cache_miss: 0,
};

const THREE_DEVICES: MachineShape = MachineShape {
    devices: 3,
    zones: 40,
    zone_bytes: 512 * 1024,
    disk_latency: Duration::from_micros(900),
    checkpoint_entries: 24,
    collect_below_free_percent: 30,
};

const ONE_DEVICE: MachineShape = MachineShape { devices: 1, ..THREE_DEVICES };

const MIXED: Workload = Workload {
    clients: 4,
    keys: 4,
    requests: 24,
    small_bytes: 6000,
    large_bytes: 300_000,
    mix: Mix {
        put: 22,
        put_large: 3,
        put_if_absent: 8,
        put_if_match: 10,
        delete: 8,
        delete_if_match: 5,
        copy: 6,
        upload: 4,
        get: 20,
        head: 4,
        list: 10,
    },
};

/// Lives that end in every way, on disks that only take their time.
const RESTARTS: Faults = Faults {
    lives: 5,
    power_cut_percent: 50,
    kill_percent: 30,
    cut_in_start_percent: 30,
    all_disks: FaultOdds { cache_miss: 300_000, ..NO_FAULTS },
    victim: NO_FAULTS,
    ignores_flush: false,
    victim_missing_percent: 0,
    victim_rot: 0,
    victim_full_percent: 0,
    clock_jump: Duration::ZERO,
    may_refuse: false,
};

const ORDINARY: Scenario = Scenario {
    name: "three devices, restarts",
    topology: Topology::OneMachine(THREE_DEVICES),
    workload: MIXED,
    faults: RESTARTS,
};

/// Scenarios in which nothing may be wrong.
pub const SCENARIOS: &[Scenario] = &[
    ORDINARY,
    Scenario { name: "one device, restarts", topology: Topology::OneMachine(ONE_DEVICE), ..ORDINARY },
    Scenario {
        name: "one device that answers at once, collected all the time",
        topology: Topology::OneMachine(MachineShape {
            zones: 24,
            disk_latency: Duration::ZERO,
            collect_below_free_percent: 100,
            ..ONE_DEVICE
        }),
        ..ORDINARY
    },
    Scenario {
        name: "three devices, collected all the time",
        topology: Topology::OneMachine(MachineShape { zones: 24, collect_below_free_percent: 100, ..THREE_DEVICES }),
        ..ORDINARY
    },
    Scenario {
        name: "one hot key",
        workload: Workload { clients: 6, keys: 2, requests: 16, small_bytes: 1000, large_bytes: 150_000, ..MIXED },
        ..ORDINARY
    },
    Scenario {
        name: "wall clocks that jump, slow disks",
        faults: Faults {
            clock_jump: Duration::from_secs(400 * 24 * 3600),
            all_disks: FaultOdds { delay: 50_000, delay_at_most: Duration::from_secs(2), cache_miss: 300_000, ..NO_FAULTS },
            ..RESTARTS
        },
        ..ORDINARY
    },
    Scenario {
        name: "a device is missing at some starts",
        faults: Faults { victim_missing_percent: 40, may_refuse: true, ..RESTARTS },
        ..ORDINARY
    },
    Scenario {
        name: "a device fails reads",
        faults: Faults { victim: FaultOdds { fail_read: 100_000, corrupt_read: 100_000, ..NO_FAULTS }, ..RESTARTS },
        ..ORDINARY
    },
    Scenario {
        name: "a device fails writes",
        faults: Faults {
            victim: FaultOdds { fail_write: 10_000, fail_torn_write: 10_000, fail_flush: 5_000, ..NO_FAULTS },
            may_refuse: true,
            ..RESTARTS
        },
        ..ORDINARY
    },
    Scenario {
        name: "a device lies",
        faults: Faults {
            victim: FaultOdds {
                lose_write: 15_000,
                tear_write: 15_000,
                misdirect_write: 10_000,
                corrupt_write: 15_000,
                ..NO_FAULTS
            },
            may_refuse: true,
            ..RESTARTS
        },
        ..ORDINARY
    },
    Scenario { name: "a device rots", faults: Faults { victim_rot: 40, may_refuse: true, ..RESTARTS }, ..ORDINARY },
    Scenario {
        name: "a device has no space",
        faults: Faults { victim_full_percent: 50, may_refuse: true, ..RESTARTS },
        ..ORDINARY
    },
    Scenario {
        name: "everything at once",
        faults: Faults {
            lives: 8,
            clock_jump: Duration::from_secs(3600),
            all_disks: FaultOdds { delay: 10_000, delay_at_most: Duration::from_millis(200), cache_miss: 300_000, ..NO_FAULTS },
            victim: FaultOdds {
                fail_read: 20_000,
                corrupt_read: 20_000,
                fail_write: 3_000,
                fail_torn_write: 3_000,
                lose_write: 5_000,
                tear_write: 5_000,
                misdirect_write: 5_000,
                corrupt_write: 5_000,
                ..NO_FAULTS
            },
            victim_missing_percent: 20,
            victim_rot: 40,
            may_refuse: true,
            ..RESTARTS
        },
        ..ORDINARY
    },
];

/// The scenario of this name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
