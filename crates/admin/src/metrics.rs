//! The metrics of the roles that run in a process.

mod gateway;
mod manager;
mod target;

use crate::registry::Registry;
use crate::sources::Sources;
use std::sync::Arc;

/// Registers every figure of these roles. Once per process.
pub fn register(registry: &Registry, sources: &Arc<Sources>) {
    gateway::register(registry, &sources.store);
    manager::register(registry, &sources.manager);
    for device in &sources.devices {
        target::register(registry, device);
    }
    let figures = sources.subsystems.iter().flat_map(|subsystem| subsystem.figures());
    figures.for_each(|figure| registry.take(figure));
    let missing = sources.clone();
    let help = "Devices of the cluster that no disk of this server holds";
    registry.gauge("trilith_target_missing_devices", help, &[], move || missing.missing.len() as f64);
}
