//! Reading everything: the manager's state, the devices, and through the engine every copy of every object.

use super::folder_copy::FolderCopy;
use super::images;
use super::kept::Kept;
use super::look::{Looked, manager_copy};
use super::manifests::ManagerManifests;
use super::volumes;
use crate::commands::size::human;
use crate::place::Place;
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::tell;
use bytes::Bytes;
use device::Device;
use engine::{ListItem, ListQuery, ObjectEngine};
use env::Env;
use logstore::{CheckFinding, CheckReport, LogStore, LogStoreConfig};
use manager::{BucketEngine, BucketRecord, Snapshot};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use types::{BucketId, DeviceId};

/// Names asked of a list at a time.
const LIST_PAGE: usize = 1000;
/// Longer than anybody waits: nothing is to be written down meanwhile.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Checks everything, tells what it finds, and whether all is well. Changes nothing.
pub async fn run(env: &Env, folder: &Path, place: &Place, disks: &[Looked]) -> anyhow::Result<bool> {
    if !folder.is_dir() {
        bail!("there is no {}: trilith fsck --rebuild makes it anew from the devices", folder.display());
    }
    let copy = FolderCopy::of(folder)?;
    let opened = Kept::open(env, copy.path(), place)
        .await
        .with_context(|| format!("{} can't be used; move it away and run: trilith fsck --rebuild", folder.display()))?;
    let manager = opened.manager.clone();
    let state = manager.snapshot();
    let (buckets, devices) = (state.buckets(), state.devices().count());
    tell!("manager   state {} with {} buckets and {devices} devices", state.applied().0, buckets.len())?;
    let mut problems = Problems::default();
    let (opened, missing) = open_devices(env, &state, disks, &mut problems).await?;
    images::check(&state, &opened, &mut problems).await?;
    let volumes = volumes::check(env, &manager, &opened, &mut problems).await?;
    let manifests = Arc::new(ManagerManifests::new(manager, LogStoreConfig::default().cell));
    let store = match LogStore::open(quiet(), env.clone(), manifests, opened, &missing).await {
        Ok(store) => store,
        Err(error) => {
            problems.tell(&format!("the log engine can't start: {error}"))?;
            return Ok(false);
        }
    };
    for device in store.waits_for() {
        problems.tell(&format!(
            "some objects can't be answered until device {device} is back: their newest version may be there"
        ))?;
    }
    tell!("logs      {} writes that no checkpoint has; a start takes them in", store.stats().recovered_records.get())?;
    let made_again = store.stats().recopied.get();
    if made_again > 0 {
        tell!("note      {made_again} copies of those are torn, damaged or missing; a start makes them again from the others")?;
    }
    let report = store.check().await;
    tell_report(&report, &mut problems)?;
    if store.waits_for().is_empty() {
        check_buckets(&store, &buckets, &report, &mut problems).await?;
    }
    for bucket in buckets.iter().filter(|bucket| bucket.engine != BucketEngine::Log) {
        let (objects, bytes) = volumes.objects.get(&bucket.id).copied().unwrap_or_default();
        tell_bucket(bucket, objects, bytes)?;
    }
    Ok(problems.count == 0)
}

/// Settings under which the engine does nothing by itself.
fn quiet() -> LogStoreConfig {
    LogStoreConfig {
        checkpoint_entries: usize::MAX,
        checkpoint_bytes: u64::MAX,
        checkpoint_interval: NEVER,
        collect_below_free_percent: 0,
        ..LogStoreConfig::default()
    }
}

/// What is wrong, told as it is found.
#[derive(Default)]
pub struct Problems {
    count: u64,
}

impl Problems {
    pub fn tell(&mut self, what: &str) -> Printed {
        self.count += 1;
        tell!("WRONG: {what}")
    }
}

async fn open_devices(
    env: &Env,
    state: &Snapshot,
    disks: &[Looked],
    problems: &mut Problems,
) -> anyhow::Result<(Vec<Arc<Device>>, Vec<DeviceId>)> {
    let cluster = state.cluster().context("the manager knows no cluster: no server has ever started on this folder")?;
    let mut devices = Vec::new();
    for disk in disks {
        let path = disk.path.display();
        let Some(record) = state.devices().find(|record| record.uuid == disk.superblock.device_uuid) else {
            problems.tell(&format!(
                "{path} is device {} of cluster {}, and the manager of cluster {} does not know it",
                disk.superblock.device, disk.superblock.cluster, cluster.id
            ))?;
            continue;
        };
        let device = match disk.device(env).await {
            Ok(device) => device,
            Err(error) => {
                problems.tell(&format!("device {}: {error:#}", record.id))?;
                continue;
            }
        };
        let copy = match manager_copy(&device).await {
            Ok(Some(copy)) if copy.applied() >= state.applied() => "a copy of the manager's state".to_owned(),
            Ok(Some(copy)) => format!("a copy of the manager's state {}", copy.applied().0),
            Ok(None) => "no copy of the manager's state: the next start makes one".to_owned(),
            Err(error) => {
                problems.tell(&format!("device {}: {error:#}", record.id))?;
                continue;
            }
        };
        tell!("device {}  {path}: {} in use, {copy}", record.id, human(device.usage().written_bytes))?;
        devices.push(Arc::new(device));
    }
    let is_open = |id: DeviceId| devices.iter().any(|device: &Arc<Device>| device.id() == id);
    let missing: Vec<_> = state.devices().filter(|record| !is_open(record.id)).collect();
    for record in &missing {
        problems.tell(&format!("device {} ({}) is missing: name it with --devices", record.id, record.path))?;
    }
    let missing = missing.iter().map(|record| record.id).collect();
    Ok((devices, missing))
}

fn tell_report(report: &CheckReport, problems: &mut Problems) -> Printed {
    tell!("checked   {} records and {} chunks, {} in all copies", report.records, report.chunks, human(report.bytes))?;
    if report.few_copies > 0 {
        tell!(
            "note      {} of them have fewer good copies than new ones get: written while devices were away, or on devices that are gone",
            report.few_copies
        )?;
    }
    for finding in &report.findings {
        problems.tell(&describe(finding))?;
    }
    let told = report.findings.len() as u64;
    let all = report.lost + report.bad_copies;
    if all > told {
        problems.tell(&format!("{} bad copies in all, and {} without a good one", report.bad_copies, report.lost))?;
    }
    Ok(())
}

fn describe(finding: &CheckFinding) -> String {
    let owner = match &finding.owner {
        Some(name) => format!("`{}` in bucket {}", String::from_utf8_lossy(&name.name), name.bucket.0),
        None => "something whose name can't be read".to_owned(),
    };
    let bad: Vec<String> = finding
        .bad
        .iter()
        .map(|(place, why)| format!("device {} zone {} offset {}: {why}", place.device, place.zone.0, place.offset.bytes()))
        .collect();
    let rest = match finding.good {
        0 => "no other copy is good: it is lost".to_owned(),
        1 => "another copy is good".to_owned(),
        good => format!("{good} other copies are good"),
    };
    format!("{owner}: {}; {rest}", bad.join("; "))
}

fn tell_bucket(bucket: &BucketRecord, objects: u64, bytes: u64) -> Printed {
    tell!("bucket    {}: {objects} objects, {}", bucket.name, human(bytes))
}

/// Compares what lists say with what the index holds.
async fn check_buckets(
    store: &LogStore,
    buckets: &[Arc<BucketRecord>],
    report: &CheckReport,
    problems: &mut Problems,
) -> anyhow::Result<()> {
    for bucket in buckets.iter().filter(|bucket| bucket.engine == BucketEngine::Log) {
        let (objects, bytes) = report.objects.get(&bucket.id).copied().unwrap_or_default();
        tell_bucket(bucket, objects, bytes)?;
        match listed(store, bucket.id).await {
            Ok(listed) if listed == objects => {}
            Ok(listed) => problems.tell(&format!("bucket {}: a list names {listed} objects", bucket.name))?,
            Err(error) => problems.tell(&format!("bucket {}: listing it: {error}", bucket.name))?,
        }
    }
    for (id, (objects, bytes)) in &report.objects {
        if buckets.iter().all(|bucket| bucket.id != *id) {
            problems.tell(&format!(
                "{objects} objects ({}) of bucket number {}, which the manager does not know",
                human(*bytes),
                id.0
            ))?;
        }
    }
    Ok(())
}

async fn listed(store: &LogStore, bucket: BucketId) -> Result<u64, engine::EngineError> {
    let empty = Bytes::new;
    let mut query = ListQuery { bucket, prefix: empty(), start_after: empty(), delimiter: empty(), max_items: LIST_PAGE };
    let mut count = 0;
    loop {
        let page = store.list(&query).await?;
        count += page.items.len() as u64;
        match page.items.last() {
            Some(ListItem::Object(last)) if page.truncated => query.start_after = last.key.clone(),
            _ => return Ok(count),
        }
    }
}
