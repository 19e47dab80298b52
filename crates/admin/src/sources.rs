//! Where a status comes from: the roles of this process, asked when somebody wants to know.

use crate::status::{DeviceStatus, EngineStatus, OwnedSpace, Status, UploadsStatus, Warning};
use device::{Device, OwnerUsage, Usage};
use logstore::LogStore;
use manager::{DeviceRecord, DeviceState, Manager, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use subsystem::Subsystem;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, NodeId};

/// Free space below this share of a device is an error that a person should see, in percent. Collection has begun long before.
const LOW_SPACE_PERCENT: u64 = 10;

/// The log engine of a process: of a node of a cluster the present incarnation, if one serves.
pub type StoreSource = Arc<dyn Fn() -> Option<LogStore> + Send + Sync>;

/// Whether clients are answered now: by a gateway while it is in its cell's view and has a serve lease.
pub type MayAnswer = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a node has found out that stands in no record.
pub type SurroundingsSource = Arc<dyn Fn() -> Surroundings + Send + Sync>;

/// The memory of uploads in hand, at the moment.
pub type UploadsSource = Arc<dyn Fn() -> UploadsStatus + Send + Sync>;

/// What a node of a cluster knows of the others, and of its own place among them.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Nodes that do not answer this one.
    pub silent: BTreeSet<NodeId>,
    /// Nodes whose clocks are off, by how many milliseconds they are ahead of this node's.
    pub clocks_off_ms: BTreeMap<NodeId, i64>,
    /// Parts of the index that the leader of the cell is still to look through for what lacks copies; none if that is not known.
    pub repair_left: Option<u64>,
    /// This node has found out that it was removed.
    pub was_removed: bool,
}

/// The roles of a process.
pub struct Sources {
    pub manager: Arc<Manager>,
    pub devices: Vec<Arc<Device>>,
    /// Devices of the cell that no disk of this server holds.
    pub missing: Vec<DeviceId>,
    pub store: StoreSource,
    pub may_answer: MayAnswer,
    /// What the node runs.
    pub subsystems: Vec<Arc<dyn Subsystem>>,
    pub uploads: UploadsSource,
    pub surroundings: SurroundingsSource,
    /// Set when the port is open: a node of a cluster may wait for long.
    pub s3_address: Arc<OnceLock<SocketAddr>>,
    /// What the settings themselves give reason to say.
    pub notices: Vec<Warning>,
}

impl Sources {
    /// Fills in what the roles know.
    pub(crate) fn describe(&self, status: &mut Status) {
        let snapshot = self.manager.snapshot();
        status.cluster = snapshot.cluster().map(|cluster| cluster.id.to_string());
        status.s3_address = self.s3_address.get().map(SocketAddr::to_string);
        status.buckets = snapshot.buckets().len() as u64;
        status.devices = self.devices(&snapshot);
        status.uploads = (self.uploads)();
        status.engine = (self.store)().as_ref().map(engine_of);
        status.cell = crate::cell::describe(&self.manager, &(self.surroundings)());
        let written = self.devices.iter().filter(|device| device.poisoned_by().is_none()).count();
        status.copies = status.cell.as_ref().map_or(written.min(MAX_REPLICAS), |cell| cell.copies) as u64;
        status.subsystems = self.subsystems.iter().flat_map(|subsystem| subsystem.status()).collect();
        status.warnings = self.warnings(status);
    }

    /// Whether this node is no part of its cluster any more.
    pub(crate) fn was_removed(&self) -> bool {
        (self.surroundings)().was_removed
    }

    /// Whether S3 is not served because the cell has as many gateways as it may have.
    pub(crate) fn waits_for_a_place(&self) -> bool {
        (self.store)().is_none() && crate::cell::is_full(&self.manager)
    }

    /// Whether the S3 port is open and there is nothing to answer from, or no right to. It may not know yet that it is out: who is cut off hears of no view.
    pub(crate) fn is_out_of_its_cell(&self) -> bool {
        self.s3_address.get().is_some() && !(self.may_answer)()
    }

    fn devices(&self, snapshot: &Snapshot) -> Vec<DeviceStatus> {
        let open = |record: &DeviceRecord| self.devices.iter().find(|device| device.id() == record.id);
        // Of a cluster: this node's. Those of the others stand in the description of the cell.
        let here: Vec<NodeId> =
            snapshot.devices().filter(|record| open(record).is_some()).filter_map(|record| record.node).collect();
        snapshot
            .devices()
            .filter(|record| open(record).is_some() || record.node.is_none_or(|node| here.contains(&node)))
            .map(|record| match open(record) {
                Some(device) => describe_open(record, device),
                None => describe_missing(record),
            })
            .collect()
    }

    fn warnings(&self, status: &Status) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = status.devices.iter().flat_map(warnings_of).collect();
        let is_cell = status.cell.is_some();
        warnings.extend(self.devices.iter().filter(|device| device.hangs()).map(|device| warning_of_hang(device, is_cell)));
        let waits_for: Vec<String> =
            (self.store)().map(|store| store.waits_for()).unwrap_or_default().iter().map(DeviceId::to_string).collect();
        if !waits_for.is_empty() {
            let devices = waits_for.join(", ");
            warnings.push(Warning::error(
                format!("objects can't be answered: their newest version may be on a device that is missing ({devices})"),
                "bring it back: name it with --devices and start again; only if it is gone for good: trilith device forget",
            ));
        }
        warnings.extend((self.store)().and_then(|store| warning_of_lost(&engine_of(&store))));
        warnings.extend(self.notices.iter().cloned());
        warnings.sort_by_key(|warning| warning.severity);
        warnings
    }
}

fn describe_open(record: &DeviceRecord, device: &Device) -> DeviceStatus {
    let usage = device.usage();
    let poisoned_by = device.poisoned_by().map(|cause| cause.to_string());
    let state = if poisoned_by.is_some() { "read-only" } else { state_name(record.state) };
    DeviceStatus {
        device: record.id.0,
        uuid: record.uuid.to_string(),
        path: device.describe(),
        state: state.to_owned(),
        capacity_bytes: usage.capacity_bytes,
        used_bytes: usage.written_bytes,
        owned: owned_space(device),
        free_bytes: free_bytes(&usage),
        zones: usage.zones,
        free_zones: usage.free_zones,
        poisoned_by,
        corrupt_reads: device.stats().corrupt_reads.get(),
        scrubbed_bytes: device.stats().scrubbed_bytes.get(),
        scrub_damage: device.stats().scrub_damage.get(),
    }
}

fn describe_missing(record: &DeviceRecord) -> DeviceStatus {
    DeviceStatus {
        device: record.id.0,
        uuid: record.uuid.to_string(),
        path: record.path.clone(),
        state: "missing".to_owned(),
        capacity_bytes: record.capacity_bytes,
        used_bytes: 0,
        owned: Vec::new(),
        free_bytes: 0,
        zones: 0,
        free_zones: 0,
        poisoned_by: None,
        corrupt_reads: 0,
        scrubbed_bytes: 0,
        scrub_damage: 0,
    }
}

fn owned_space(device: &Device) -> Vec<OwnedSpace> {
    let space = |OwnerUsage { owner, bytes }| OwnedSpace { owner: owner.name().to_owned(), bytes };
    device.owners().into_iter().map(space).collect()
}

/// What new objects may still take.
pub(crate) fn free_bytes(usage: &Usage) -> u64 {
    let zone_bytes = usage.capacity_bytes / u64::from(usage.zones.max(1));
    u64::from(usage.free_data_zones) * zone_bytes
}

pub(crate) fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Active => "active",
        DeviceState::Draining => "draining",
        DeviceState::Failed => "failed",
        DeviceState::Replaced => "replaced",
    }
}

fn warnings_of(device: &DeviceStatus) -> Vec<Warning> {
    let name = format!("device {} ({})", device.device, device.path);
    let mut warnings = Vec::new();
    if device.state == "missing" {
        warnings.push(Warning::error(format!("{name} is missing"), "attach it, name it with --devices, and start again"));
        return warnings;
    }
    if let Some(cause) = &device.poisoned_by {
        warnings.push(Warning::error(
            format!("{name} takes no more writes: {cause}"),
            "look for the cause in the system's log, then start again; if it comes back, replace the disk",
        ));
    }
    if device.state == "failed" {
        warnings.push(Warning::error(format!("{name} counts as failed"), "replace the disk"));
    }
    if device.free_bytes == 0 {
        warnings.push(Warning::error(
            format!("{name} is full: writes are refused"),
            "delete objects, or add a device with --devices",
        ));
    } else if device.free_bytes < device.capacity_bytes / 100 * LOW_SPACE_PERCENT {
        let percent = device.free_bytes * 100 / device.capacity_bytes.max(1);
        warnings.push(Warning::error(
            format!("{name} has {percent}% of its space free"),
            "delete objects, or add a device with --devices, before it is full",
        ));
    }
    if device.corrupt_reads > 0 {
        warnings.push(Warning::error(
            format!("{name} gave damaged bytes {} times since the start", device.corrupt_reads),
            "the places are in the server's log; check the disk's health (smartctl -a) and replace it if this goes on",
        ));
    }
    warnings
}

fn warning_of_hang(device: &Device, is_cell: bool) -> Warning {
    let (id, path, seconds) = (device.id(), device.describe(), device.owes_answer_for().as_secs());
    let advice = match is_cell {
        true => {
            "the cell goes on without it until it answers: look into the system's log; if it stays so, stop this node and replace the disk"
        }
        false => {
            "writes wait for it: look into the system's log; if it stays so, stop the server and start it without this disk"
        }
    };
    Warning::error(format!("device {id} ({path}) hangs: its disk has not answered for {seconds} s"), advice)
}

fn warning_of_lost(engine: &EngineStatus) -> Option<Warning> {
    (engine.unhealed_copies > 0).then(|| {
        Warning::error(
            format!("{} damaged copies could not be made again", engine.unhealed_copies),
            "the others of the same object are damaged too, or on devices that are away: bring those back; `trilith fsck` tells whose they are",
        )
    })
}

fn engine_of(store: &LogStore) -> EngineStatus {
    let (stats, size) = (store.stats(), store.size());
    EngineStatus {
        keys: size.keys as u64,
        index_bytes: size.full_map_bytes as u64,
        sealed_keys: size.sealed_keys as u64,
        unsaved_names: size.unsaved_names as u64,
        epoch: size.epoch.0,
        writes: stats.writes.get(),
        cached_reads: stats.cached_reads.get(),
        device_reads: stats.device_reads.get(),
        checkpoints: stats.checkpoints.get(),
        collected_zones: stats.collected_zones.get(),
        relocated_bytes: stats.relocated_bytes.get(),
        failed_copies: stats.failed_copies.get(),
        repaired_reads: stats.repaired_reads.get(),
        damaged_copies: stats.damaged_copies.get(),
        healed_copies: stats.healed_copies.get(),
        unhealed_copies: stats.unhealed_copies.get(),
        suspect_copies: size.suspect_copies as u64,
        undecidable_keys: size.undecidable_keys as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceStatus, warnings_of};
    use crate::status::Severity;

    fn sound() -> DeviceStatus {
        DeviceStatus {
            device: 3,
            uuid: String::new(),
            path: "/dev/x".to_owned(),
            state: "active".to_owned(),
            capacity_bytes: 1000,
            used_bytes: 0,
            owned: Vec::new(),
            free_bytes: 1000,
            zones: 10,
            free_zones: 10,
            poisoned_by: None,
            corrupt_reads: 0,
            scrubbed_bytes: 0,
            scrub_damage: 0,
        }
    }

    #[test]
    fn a_sound_device_gives_no_warning() {
        assert_eq!(warnings_of(&sound()), []);
    }

    #[test]
    fn whatever_is_wrong_comes_with_advice() {
        let wrong = [
            (DeviceStatus { state: "missing".to_owned(), free_bytes: 0, ..sound() }, "is missing"),
            (DeviceStatus { poisoned_by: Some("EIO".to_owned()), ..sound() }, "no more writes: EIO"),
            (DeviceStatus { state: "failed".to_owned(), ..sound() }, "failed"),
            (DeviceStatus { free_bytes: 0, ..sound() }, "full"),
            (DeviceStatus { free_bytes: 99, ..sound() }, "9% of its space"),
            (DeviceStatus { corrupt_reads: 2, ..sound() }, "damaged bytes 2 times"),
        ];
        for (device, expected) in wrong {
            let warnings = warnings_of(&device);
            assert_eq!(warnings.len(), 1, "{expected}: {warnings:?}");
            assert!(warnings[0].what.contains(expected), "{warnings:?}");
            assert!(warnings[0].what.contains("device 3 (/dev/x)") && !warnings[0].advice.is_empty());
            assert_eq!(warnings[0].severity, Severity::Error);
        }
    }
}
