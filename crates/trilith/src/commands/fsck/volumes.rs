//! Objects of volume buckets: their groups are opened in memory as a start would open them, and all content is read.

use super::check::Problems;
use crate::commands::size::human;
use anyhow::Context;
use bench::tell;
use device::{Device, VolumeOwner};
use env::Env;
use manager::Manager;
use std::sync::Arc;
use volstore::{CheckReport, Objects};

/// Checks the objects on devices that were opened, and tells what it finds.
pub async fn check(
    env: &Env,
    manager: &Arc<Manager>,
    devices: &[Arc<Device>],
    problems: &mut Problems,
) -> anyhow::Result<CheckReport> {
    let state = manager.snapshot();
    if state.placements().next().is_none() {
        return Ok(CheckReport::default());
    }
    let me = state.nodes().next().context("the manager knows no node")?.id;
    let volumes = devices.iter().map(|device| device.volume(VolumeOwner::Objects)).collect();
    let report = Objects::serve_alone(env, manager.clone(), me, volumes).check().await;
    tell!("checked   {} of objects in volume buckets", human(report.good_bytes))?;
    if report.given_up > 0 {
        tell!(
            "note      {} puts to volume buckets were under way at the end and lack bytes; a start gives them up",
            report.given_up
        )?;
    }
    for finding in &report.findings {
        problems.tell(finding)?;
    }
    let untold = report.wrong - report.findings.len() as u64;
    if untold > 0 {
        problems.tell(&format!("{untold} more about volume buckets"))?;
    }
    Ok(report)
}
