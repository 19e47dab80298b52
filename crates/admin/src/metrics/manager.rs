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

pub fn register(registry: &Registry, manager: &Arc<Manager>) {
    for (name, help, measure) in GAUGES {
        let manager = manager.clone();
        registry.gauge(&format!("trilith_manager_{name}"), help, &[], move || measure(&manager.snapshot()) as f64);
    }
}
