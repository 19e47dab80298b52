//! Deciding what was under way: roll forward, discard, or wait for a missing device (zstore.md, decision 8).

use super::walk::{FoundCopy, FoundRecords, FoundWrite};
use crate::relocate::Recopy;
use crate::store::Inner;
use engine::{EngineError, ObjectKey, UploadRef};
use format::attributes::Attributes;
use format::entry::{Entry, EntryState};
use format::name_entry::NameEntry;
use format::record::{split_compound, EntryName, Record, RecordKind, Space};
use format::replicas::Places;
use smallvec::SmallVec;
use std::sync::Arc;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, KeyHash, Order, Place, UploadId};

/// Keys whose newest record can't be told: a write of theirs has its primary on a missing device.
pub(super) fn undecidable(found: &FoundRecords, missing: &[DeviceId]) -> hashbrown::HashSet<KeyHash> {
    let lost = |write: &&FoundWrite| missing.contains(&write.record.replica_devices.primary()) && write.base().is_none();
    found.written.iter().filter(lost).map(|write| write.record.hash).collect()
}

impl Inner {
    /// Publishes what stands on its primary, after making its missing copies again.
    pub(super) async fn roll_forward(self: &Arc<Self>, found: FoundRecords) -> Result<(), EngineError> {
        for (place, frame_bytes) in &found.chunks {
            self.targets.add_live_chunk(place, *frame_bytes as u64);
        }
        for write in &found.written {
            self.stats.recovered_records.add(1);
            if self.undecidable.contains(&write.record.hash) {
                continue;
            }
            match write.base() {
                Some((base, order)) => self.publish_found(write, &base, order).await?,
                None => self.stats.discarded_writes.add(1),
            }
        }
        for ((hash, order), write) in &found.relocated {
            self.apply_relocation(hash, *order, write)?;
        }
        self.finish_uploads(&found).await
    }

    async fn publish_found(self: &Arc<Self>, write: &FoundWrite, base: &FoundCopy, order: Order) -> Result<(), EngineError> {
        let record = &write.record;
        let mut places: SmallVec<[Place; MAX_REPLICAS]> = SmallVec::new();
        for (index, device) in record.replica_devices.as_slice().iter().enumerate() {
            match write.copies[index] {
                Some(copy) => places.push(copy.place),
                None if self.targets.device(*device).is_some_and(|device| device.poisoned_by().is_none()) => {
                    let frame = self.targets.read(&base.place, base.frame_bytes).await;
                    let frame = frame.map_err(|error| EngineError::Corrupt { detail: error.to_string() })?;
                    let copy = Recopy {
                        record: frame.record,
                        payload: frame.payload,
                        order: Some(order),
                        replica: index,
                        device: *device,
                        moved: false,
                    };
                    places.push(self.recopy(copy).await?.place);
                    self.stats.recopied.add(1);
                }
                None => {}
            }
        }
        let places = Places::new(&places).expect("the base is one of them");
        if self.publish_recovered(record, order, places, base.frame_bytes)? {
            self.stats.rolled_forward.add(1);
        }
        Ok(())
    }

    /// Takes a record into index and names as one of the present epoch; false if something newer is known.
    fn publish_recovered(&self, record: &Record, order: Order, places: Places, frame_bytes: u32) -> Result<bool, EngineError> {
        let entry = entry_of(record, order, places, frame_bytes, self.epochs.present());
        let mut shard = self.shard(&record.hash).lock();
        if shard.index_mut().publish(entry).is_err() {
            return Ok(false);
        }
        let name = name_entry_of(record, entry)?;
        self.note_open_upload(&name);
        self.names.insert(entry.epoch, name);
        Ok(true)
    }

    /// Moves the places of a record whose copies were relocated. A descriptor that was relocated has another list of chunks, so
    /// it counts only when all its copies have it.
    fn apply_relocation(&self, hash: &KeyHash, order: Order, write: &FoundWrite) -> Result<(), EngineError> {
        let record = &write.record;
        let Some(known) = self.shard(hash).lock().index().newest(hash).filter(|known| known.order == order) else { return Ok(()) };
        let all = (0..record.replica_devices.len()).all(|index| write.copies[index].is_some());
        if record.tree_height > 0 && !all {
            return Ok(());
        }
        let mut places = known.places;
        for (index, place) in places.as_mut_slice().iter_mut().enumerate() {
            if let Some(copy) = write.copies[index] {
                *place = copy.place;
            }
        }
        let longest = write.copies.iter().flatten().map(|copy| copy.frame_bytes).max().unwrap_or(0);
        let entry = entry_of(record, order, places, known.frame_bytes.max(longest), self.epochs.present());
        if self.shard(hash).lock().index_mut().relocate(&known.places, entry) {
            self.names.insert(entry.epoch, name_entry_of(record, entry)?);
        }
        Ok(())
    }

    /// Ends the uploads whose objects were committed, and drops the parts of those that ended (zstore.md, decision 15).
    async fn finish_uploads(self: &Arc<Self>, found: &FoundRecords) -> Result<(), EngineError> {
        for write in found.written.iter().filter(|write| write.base().is_some()) {
            let record = &write.record;
            let ended = match (record.kind, record.name.space) {
                (RecordKind::Descriptor, Space::Object) => {
                    let attributes = Attributes::decode(record.attributes.clone()).map_err(corrupt)?;
                    attributes.upload.map(|upload| (record.name.name.clone(), upload))
                }
                (RecordKind::Tombstone, Space::Upload) => {
                    let (key, suffix) = split_compound(Space::Upload, &record.name.name).map_err(corrupt)?;
                    let upload = suffix.try_into().map(UploadId).expect("split_compound checked the length");
                    Some((bytes::Bytes::copy_from_slice(&key), upload))
                }
                _ => None,
            };
            let Some((key, upload)) = ended else { continue };
            let name = EntryName::upload(record.name.bucket, &key, upload);
            if self.shard(&name.hash()).lock().index().newest(&name.hash()).is_some_and(|known| known.is_live()) {
                self.drop_entry(name).await?;
            }
            let key = ObjectKey::new(record.name.bucket, key).map_err(corrupt)?;
            self.background.drop_parts(UploadRef { key, upload });
        }
        Ok(())
    }
}

fn corrupt(error: impl std::fmt::Display) -> EngineError {
    EngineError::Corrupt { detail: error.to_string() }
}

/// The index entry of a record.
pub(crate) fn entry_of(record: &Record, order: Order, places: Places, frame_bytes: u32, epoch: types::Epoch) -> Entry {
    Entry {
        hash: record.hash,
        write: record.write,
        epoch,
        order,
        places,
        frame_bytes,
        length: record.length,
        state: if record.kind == RecordKind::Tombstone { EntryState::Tombstone } else { EntryState::Live },
        large: record.tree_height > 0,
    }
}

/// What a list says of a record.
pub(crate) fn name_entry_of(record: &Record, entry: Entry) -> Result<NameEntry, EngineError> {
    let attributes = Attributes::decode(record.attributes.clone()).map_err(corrupt)?;
    Ok(NameEntry {
        name: EntryName { name: bytes::Bytes::copy_from_slice(&record.name.name), ..record.name },
        entry,
        etag: attributes.etag,
        modified_ms: attributes.modified_ms,
        storage_class: attributes.storage_class,
        version_id: attributes.version_id,
    })
}
