//! Reading the logs: what stands on each device behind the start vector.

use super::OpenError;
use crate::targets::vectors_of;
use bytes::Bytes;
use device::{LogVector, ZoneStream};
use format::manifest::Manifest;
use format::record::{Record, RecordKind, WriteId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use target::{LogEvent, LogFrame, LogTarget, WalkRange};
use topology::{ReplicaSet, ReplicaTable};
use types::limits::MAX_REPLICAS;
use types::{Activation, DeviceId, Epoch, Generation, KeyHash, Order, Place, Position, ZoneIndex};

/// Everything that the walks found.
#[derive(Default)]
pub(crate) struct FoundRecords {
    /// Records as they were written, by write; in the order in which their first copy was found.
    pub written: Vec<FoundWrite>,
    by_write: HashMap<WriteId, usize>,
    /// Copies that were moved, by the order that they kept and by the write that made them: a descriptor that was rewritten
    /// has other chunks, and copies of two rewritings must not be mixed.
    pub relocated: BTreeMap<(KeyHash, Order, Epoch, WriteId), FoundWrite>,
    /// Chunks found, with the bytes of their frames: they count as live until collection knows better.
    pub chunks: Vec<(Place, u32)>,
    pub opened: Vec<DeviceId>,
    pub newest_epoch: Epoch,
    pub newest_generation: Generation,
    pub most_copies: usize,
    /// Frames that were damaged, and ranges that could not be read.
    pub damaged: u64,
    /// Devices with ranges that could not be read, and the first of each.
    unreadable: BTreeMap<DeviceId, String>,
    /// Writes of this epoch and before are decided: the checkpoint has them, or they were never acknowledged.
    covered: Epoch,
    /// There is a checkpoint that names what was moved. Without one, a copy that was moved is all that is known of its record.
    has_places: bool,
}

/// One record and the copies of it that were found.
pub(crate) struct FoundWrite {
    /// One copy's header; they differ in the replica index alone.
    pub record: Record,
    pub copies: [Option<FoundCopy>; MAX_REPLICAS],
    /// The order that a copy carries which was made after the write had been decided.
    pub order: Option<Order>,
}

impl FoundWrite {
    /// A copy to make others of; the primary's, if it stands.
    pub fn base(&self) -> Option<FoundCopy> {
        self.copies.iter().flatten().next().copied()
    }

    /// The write's order, if anything that stands tells it: the primary's position, or a copy that carries it.
    pub fn known_order(&self) -> Option<Order> {
        self.order.or(self.copies[0].map(|copy| Order::new(self.record.generation, copy.position)))
    }

    /// Copies that should stand on devices that can be read, and do not.
    pub fn lacking(&self, opened: &[DeviceId]) -> usize {
        let devices = self.record.replica_devices.as_slice().iter().enumerate();
        devices.filter(|(index, device)| self.copies[*index].is_none() && opened.contains(device)).count()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct FoundCopy {
    pub place: Place,
    pub position: Position,
    pub frame_bytes: u32,
}

/// Walks all devices from where the manifest says.
pub(crate) async fn walk_all(devices: &[Arc<dyn LogTarget>], manifest: &Manifest) -> Result<FoundRecords, OpenError> {
    let from = vectors_of(&manifest.start);
    let has_places = !manifest.runs.is_empty();
    let mut found = FoundRecords { most_copies: 1, covered: manifest.covered, has_places, ..FoundRecords::default() };
    for device in devices {
        found.opened.push(device.id());
        let start = from.get(&device.id()).copied().unwrap_or(LogVector::START);
        let mut walk = device.walk(WalkRange::From(start), true);
        let ended = |detail: String| OpenError::Walk { device: device.id(), detail };
        while let Some(event) = walk.next().await.map_err(|error| ended(error.reason))? {
            match event {
                LogEvent::Frame(frame) => found.note(device.id(), &frame)?,
                // Torn by the crash, then never acknowledged; or damaged since: the other copies tell.
                LogEvent::Damaged { place, damage, .. } => {
                    found.damaged += 1;
                    tracing::info!(device = place.device.0, zone = place.zone.0, offset = place.offset.bytes(), %damage, "passed over a damaged frame");
                }
                LogEvent::Unreadable { place, position, bytes, reason } => {
                    let (zone, offset) = (place.zone.0, place.offset.bytes());
                    found.damaged += 1;
                    if has_runs_alone(&**device, place.zone, position.activation) {
                        // They are reached by the manifest, or not at all.
                        env::mark("start: a range of runs passed over that can't be read");
                        tracing::warn!(device = place.device.0, zone, offset, bytes, %reason, "passed over what the disk can't read of a checkpoint");
                        continue;
                    }
                    tracing::warn!(device = place.device.0, zone, offset, bytes, %reason, "passed over what the disk can't read: other copies tell what stood there");
                    found
                        .unreadable
                        .entry(place.device)
                        .or_insert(format!("zone {zone} offset {offset}: {bytes} bytes: {reason}"));
                }
            }
        }
    }
    Ok(found)
}

/// Whether this zone, in this activation, takes nothing but runs.
fn has_runs_alone(device: &dyn LogTarget, zone: ZoneIndex, activation: Activation) -> bool {
    let info = device.zones().get(zone.0 as usize).copied();
    info.is_some_and(|info| info.activation == activation && info.stream == Some(ZoneStream::Meta))
}

impl FoundRecords {
    /// Refuses what was found if a write may have been acknowledged of which too few copies were read to tell, because ranges could not be: those of
    /// two devices, or of one that alone was read of a key's. `tables` are those by which the writes went that the walks were to find; none if they are not known.
    pub fn check_read(&self, tables: Option<&[ReplicaTable]>) -> Result<(), OpenError> {
        let mut unreadable = self.unreadable.iter();
        let Some((device, range)) = unreadable.next() else { return Ok(()) };
        let is_read = |other: &DeviceId| other != device && self.opened.contains(other);
        let has_another = |set: &ReplicaSet| !set.devices().contains(device) || set.devices().iter().any(is_read);
        let stands_elsewhere =
            tables.is_some_and(|tables| tables.iter().flat_map(ReplicaTable::sets).all(|set| has_another(&set)));
        match stands_elsewhere && unreadable.next().is_none() {
            true => Ok(()),
            false => {
                let todo = format!("attach the devices that are away, or give this one up: trilith device forget {device}");
                let detail = format!("{range}; what stood there may stand nowhere else: {todo}");
                Err(OpenError::Walk { device: *device, detail })
            }
        }
    }

    fn note(&mut self, device: DeviceId, frame: &LogFrame<'_>) -> Result<(), OpenError> {
        let header = Bytes::copy_from_slice(frame.engine_header);
        let record = Record::decode(&header).map_err(|error| OpenError::Walk { device, detail: error.to_string() })?;
        self.newest_epoch = self.newest_epoch.max(record.epoch);
        self.newest_generation = self.newest_generation.max(record.generation);
        self.most_copies = self.most_copies.max(record.replica_devices.len());
        let frame_bytes = frame.frame_bytes as u32;
        match record.kind {
            RecordKind::Chunk | RecordKind::DescriptorNode => {
                self.chunks.push((frame.place, frame_bytes));
                return Ok(());
            }
            // Runs are reached by the manifest; those that it does not name are garbage.
            RecordKind::RunBlock | RecordKind::RunIndex => return Ok(()),
            _ => {}
        }
        let copy = FoundCopy { place: frame.place, position: frame.position, frame_bytes };
        let (index, order) = (record.replica_index as usize, record.order);
        let write = match (record.flags.relocated, record.order) {
            (true, Some(order)) if self.has_places => self
                .relocated
                .entry((record.hash, order, record.epoch, record.write))
                .or_insert_with(|| FoundWrite { order: record.order, record, copies: [None; MAX_REPLICAS] }),
            // A device that was away, or a log whose vector is older than the checkpoint.
            _ if record.epoch <= self.covered => return Ok(()),
            _ => {
                let next = self.written.len();
                let at = *self.by_write.entry(record.write).or_insert(next);
                if at == next {
                    self.written.push(FoundWrite { order: record.order, record, copies: [None; MAX_REPLICAS] });
                }
                &mut self.written[at]
            }
        };
        write.order = write.order.or(order);
        // Of two relocations of one copy the later one counts: walks go in the order of activations.
        write.copies[index] = Some(copy);
        Ok(())
    }
}
