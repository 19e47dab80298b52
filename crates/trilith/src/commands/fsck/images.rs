//! Block images: what devices have of them against the manager's records, and records for images that a copy of these lacks.

use super::check::Problems;
use super::look::Looked;
use crate::commands::size::human;
use anyhow::Context;
use bench::tell;
use block::check::{DeviceBlobs, ImageCount, Known, Report, check as check_blobs, found_images};
use device::{Device, VolumeOwner};
use env::Env;
use manager::{ImageRecord, RecoveredImage, Snapshot};
use std::sync::Arc;

/// Checks the images on devices that were opened, and tells what it finds.
pub async fn check(state: &Snapshot, devices: &[Arc<Device>], problems: &mut Problems) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for device in devices {
        match read(device).await {
            Ok(blobs) => found.push(blobs),
            Err(error) => problems.tell(&format!("device {}: {error:#}", device.id()))?,
        }
    }
    let report = check_blobs(&Known::of(state), &found).await;
    for count in &report.images {
        tell_count(state.image(count.image).map(Arc::as_ref), count)?;
    }
    if report.compared_bytes > 0 {
        tell!("compared  {} of images that have several copies", human(report.compared_bytes))?;
    }
    tell_findings(&report, problems)
}

async fn read(device: &Device) -> anyhow::Result<DeviceBlobs> {
    DeviceBlobs::read(device.volume(VolumeOwner::Images)).await.context("reading the headers of images")
}

fn tell_count(record: Option<&ImageRecord>, count: &ImageCount) -> anyhow::Result<()> {
    let ImageCount { image, blobs, pieces } = count;
    let name = match record {
        Some(record) if record.removed_ms.is_some() => format!("{} (in the trash)", record.name),
        Some(record) => record.name.clone(),
        None => "without a record".to_owned(),
    };
    Ok(tell!("image {image}   {name}: {blobs} blobs, {pieces} pieces with content, {}", human(count.bytes()))?)
}

fn tell_findings(report: &Report, problems: &mut Problems) -> anyhow::Result<()> {
    let mut wrong = 0;
    for finding in &report.findings {
        if finding.is_wrong() {
            wrong += 1;
            problems.tell(&finding.to_string())?;
        } else {
            tell!("note      {finding}")?;
        }
    }
    if report.wrong > wrong {
        problems.tell(&format!("{} more about images", report.wrong - wrong))?;
    }
    let untold = report.untold - (report.wrong - wrong);
    if untold > 0 {
        tell!("note      {untold} more notes about images")?;
    }
    Ok(())
}

/// Gives images records that the disks have, and the state, which is about to be imported, does not know.
pub async fn recover(env: &Env, state: &mut Snapshot, disks: &[Looked]) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for disk in disks {
        found.push(read(&disk.device(env).await?).await?);
    }
    for image in state.recover_images(&found_images(&found), env.wall_clock_ms()) {
        let RecoveredImage { id, name, size_bytes, lost_parent } = image;
        tell!(
            "note      image {id} was made after the copy: it is {name} now, with {}, up to the last part that was written. If it was larger: \
             trilith image resize {name} --size SIZE. To give it its name: trilith image rename {name} NAME",
            human(size_bytes)
        )?;
        if let Some(parent) = lost_parent {
            tell!(
                "note      {name} was a clone of image {parent}, of which nothing is known: what it read from there reads as zeros"
            )?;
        }
    }
    Ok(())
}
