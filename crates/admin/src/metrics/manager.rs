//! The manager's figures.

use crate::registry::Registry;
use ::manager::{Manager, Snapshot};
use std::sync::Arc;

type Measure = fn(&Snapshot) -> usize;

const GAUGES: &[(&str, &str, Measure)] = &[
    ("buckets", "Buckets of the cluster", |snapshot| snapshot.buckets().len()),
    ("devices", "Devices of the cluster", |snapshot| snapshot.devices().count()),
    ("credentials", "Access keys", |snapshot| snapshot.credentials().len()),
    ("applied_commands", "Commands applied since the cluster was made", |snapshot| snapshot.applied().0 as usize),
];

type Count = fn(&Manager) -> u64;

const COUNTERS: &[(&str, &str, Count)] = &[
    ("proposals", "Operations that this process has put through the manager's log, refused ones included", |manager| {
        manager.asked().0
    }),
    ("freshenings", "Times that this process has waited for the manager's newest state", |manager| manager.asked().1),
];

pub fn register(registry: &Registry, manager: &Arc<Manager>) {
    for (name, help, count) in COUNTERS {
        let manager = manager.clone();
        registry.counter(&format!("trilith_manager_{name}_total"), help, &[], move || count(&manager));
    }
    for (name, help, measure) in GAUGES {
        let manager = manager.clone();
        registry.gauge(&format!("trilith_manager_{name}"), help, &[], move || measure(&manager.snapshot()) as f64);
    }
}
