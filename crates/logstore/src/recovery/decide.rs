//! Deciding what was under way: roll forward, discard, or wait for a missing device (RFD 2, decision 8).
//!
//! A gateway has at most one outstanding write of a key, and numbers its writes. So of one gateway's writes of a key that no
//! checkpoint covers the one with the highest sequence is the newest, whatever is known of its order, and the others don't matter.
//! Where no checkpoint names a run, lists of chunks that were made again (by repair, healing, collection) stand among them: each is the
//! write whose order it carries, however high its own sequence is.
//!
//! | what stands                                         | was acknowledged | decision                                |
//! |-----------------------------------------------------|------------------|-----------------------------------------|
//! | the primary, or a copy that carries the order       | perhaps          | roll forward with that order            |
//! | no primary; at most one readable copy is lacking    | perhaps          | roll forward, ordered before this start |
//! | no primary; two or more readable copies are lacking | no               | discard, look at the one before         |
//!
//! Decision 8 would discard in the second row too when the primary can be read. But a copy that is lacking may also have
//! rotted since it was acknowledged, which one lacking copy can't be told from a torn write. To roll forward is right in both
//! cases: a write that nobody acknowledged may take effect until its key is read. Its position on the primary being lost, it gets
//! an order of this start's own generation before every write that this start will see: after all that came before, because
//! their generations are lower. Another gateway's write with its primary on a missing device stays undecidable: only orders
//! tell its place among ours.

use super::walk::{FoundCopy, FoundRecords, FoundWrite};
use crate::relocate::Recopy;
use crate::store::Inner;
use engine::{EngineError, ObjectKey, UploadRef};
use format::attributes::Attributes;
use format::entry::{Entry, EntryState};
use format::name_entry::NameEntry;
use format::record::{EntryName, Record, RecordKind, Space, WriteId, split_compound};
use format::replicas::Places;
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, Epoch, KeyHash, Order, Place, UploadId};

/// Most readable copies that a write without its primary may lack and still be rolled forward.
const MAX_LACKING: usize = 1;

/// Whether a write can't have been acknowledged, and nothing says that it is to stay.
fn is_discarded(write: &FoundWrite, opened: &[DeviceId]) -> bool {
    write.known_order().is_none() && write.lacking(opened) > MAX_LACKING
}

/// The newest write of each key, in the order in which they were found, and how many others are discarded.
fn newest(found: &FoundRecords) -> (Vec<&FoundWrite>, u64) {
    let mut by_key: HashMap<KeyHash, &FoundWrite> = HashMap::new();
    let (mut discarded, originals) = (0, Originals::of(found));
    for write in &found.written {
        if is_discarded(write, &found.opened) {
            discarded += 1;
            continue;
        }
        by_key
            .entry(write.record.hash)
            .and_modify(|known| {
                if originals.is_newer(write, known) {
                    *known = write
                }
            })
            .or_insert(write);
    }
    let is_newest = |write: &&FoundWrite| by_key.get(&write.record.hash).is_some_and(|known| std::ptr::eq(*known, *write));
    (found.written.iter().filter(is_newest).collect(), discarded)
}

/// What was written first, by key and order: later records of the same order are that write, made again.
struct Originals<'a> {
    writes: HashMap<(KeyHash, Order), WriteId>,
    opened: &'a [DeviceId],
}

impl<'a> Originals<'a> {
    fn of(found: &'a FoundRecords) -> Self {
        let mut originals = HashMap::new();
        for write in found.written.iter().filter(|write| !write.record.flags.relocated) {
            let order = write.known_order();
            order.into_iter().for_each(|order| _ = originals.insert((write.record.hash, order), write.record.write));
        }
        Originals { writes: originals, opened: &found.opened }
    }

    /// Of two writes of a key: by their orders where both are known. Else by sequence if one gateway made them.
    fn is_newer(&self, write: &FoundWrite, known: &FoundWrite) -> bool {
        let (order, known_order) = (write.known_order(), known.known_order());
        if order.is_some() && order == known_order {
            return self.made_as(write) > self.made_as(known);
        }
        let (id, known_id) = (self.written_as(write), self.written_as(known));
        match order.is_some() && known_order.is_some() || id.gateway != known_id.gateway {
            true => order > known_order,
            false => id.sequence > known_id.sequence,
        }
    }

    /// Of one write's lists of chunks the greatest counts: one that was made again, the later the better. The write alone does not tell: in a cell it is the
    /// leader that makes lists again, whoever wrote. One that was torn never came into force.
    fn made_as(&self, write: &FoundWrite) -> (bool, Epoch, WriteId) {
        let record = &write.record;
        let is_made_again = self.written_as(write) != record.write && write.lacking(self.opened) <= MAX_LACKING;
        (is_made_again, record.epoch, record.write)
    }

    fn written_as(&self, write: &FoundWrite) -> WriteId {
        let original = write.known_order().and_then(|order| self.writes.get(&(write.record.hash, order)));
        original.copied().unwrap_or(write.record.write)
    }
}

impl Inner {
    /// Publishes what stands on its primary, after making its missing copies again. Says whether anything was passed over:
    /// writes that were discarded, frames that could not be read.
    pub(super) async fn roll_forward(self: &Arc<Self>, found: FoundRecords) -> Result<bool, EngineError> {
        for (place, frame_bytes) in &found.chunks {
            self.targets.add_live_chunk(place, *frame_bytes as u64);
        }
        self.stats.recovered_records.add(found.written.len() as u64);
        let (newest, discarded) = newest(&found);
        if discarded > 0 {
            env::mark("start: partial writes discarded");
        }
        self.stats.discarded_writes.add(discarded);
        for write in &newest {
            if !self.undecidable.is_key(&write.record.hash) {
                self.publish_found(write).await?;
            }
        }
        // By order and, for descriptors, by rewriting: later ones replace earlier ones.
        for ((hash, order, ..), write) in &found.relocated {
            self.apply_relocation(hash, *order, write).await?;
        }
        // A write that lacks copies and was followed by another of its key had failed.
        let is_incomplete = |write: &&FoundWrite| write.lacking(&found.opened) > 0;
        let made_whole: BTreeSet<WriteId> = newest.into_iter().filter(is_incomplete).map(|write| write.record.write).collect();
        let has_committed = |write: &&FoundWrite| !is_incomplete(write) || made_whole.contains(&write.record.write);
        self.finish_uploads(found.written.iter().filter(has_committed)).await?;
        Ok(discarded > 0 || found.damaged > 0)
    }

    async fn publish_found(self: &Arc<Self>, write: &FoundWrite) -> Result<(), EngineError> {
        let record = &write.record;
        let base = write.base().expect("a write is found by a copy");
        let order = self.order_of_found(write);
        let newest = self.shard(&record.hash).lock().index().newest(&record.hash);
        if let Some(known) = newest.filter(|known| known.order >= order)
            && self.is_own(&record.name, &record.hash, &known).await?
        {
            return Ok(());
        }
        let places = self.make_whole(write, &base, order).await?;
        if self.publish_recovered(record, order, places, base.frame_bytes)? {
            env::mark("start: a write rolled forward");
            self.stats.rolled_forward.add(1);
        }
        Ok(())
    }

    /// Makes the copies again that are missing; where all of them stand, each on a device of its own.
    async fn make_whole(self: &Arc<Self>, write: &FoundWrite, base: &FoundCopy, order: Order) -> Result<Places, EngineError> {
        let devices = write.record.replica_devices;
        let mut has: BTreeSet<DeviceId> = BTreeSet::new();
        // Two copies on one device count once, whatever their numbers say: a former version could number one wrongly.
        let found = write.copies.map(|copy| copy.map(|copy| copy.place).filter(|place| has.insert(place.device)));
        let mut places: SmallVec<[Place; MAX_REPLICAS]> = SmallVec::new();
        for (index, device) in devices.as_slice().iter().enumerate() {
            match found[index] {
                Some(place) => places.push(place),
                None if has.insert(*device) => places.extend(self.make_again(write, base, order, index).await?),
                None => self.background.want_repair(),
            }
        }
        Ok(Places::new(&places).expect("the base is one of them"))
    }

    /// A write's order. One whose position is lost comes after everything of earlier generations, and before all of this one.
    fn order_of_found(&self, write: &FoundWrite) -> Order {
        let lost = || Order { generation: self.first_generation, ..Order::default() };
        write.known_order().unwrap_or_else(lost)
    }

    /// Makes a missing copy again. None if its device can't take it: the write has its other copies, and a full device must
    /// not keep the gateway from starting. It is tried again while the gateway runs.
    async fn make_again(
        self: &Arc<Self>,
        write: &FoundWrite,
        base: &FoundCopy,
        order: Order,
        replica: usize,
    ) -> Result<Option<Place>, EngineError> {
        let device = write.record.replica_devices.as_slice()[replica];
        if !self.targets.is_writable(device) {
            return Ok(None);
        }
        let frame = self.targets.read(&base.place, base.frame_bytes).await.map_err(corrupt)?;
        let copy = Recopy { record: frame.record, payload: frame.payload, order: Some(order), replica, device, moved: false };
        match self.recopy_within_room(copy).await {
            Ok(appended) => {
                env::mark("start: a missing copy made again");
                self.stats.recopied.add(1);
                Ok(Some(appended.place))
            }
            Err(error) => {
                tracing::warn!(device = device.0, %error, "a copy that is missing is made again later");
                self.background.want_repair();
                Ok(None)
            }
        }
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
    async fn apply_relocation(&self, hash: &KeyHash, order: Order, write: &FoundWrite) -> Result<(), EngineError> {
        let record = &write.record;
        let Some(known) = self.shard(hash).lock().index().newest(hash).filter(|known| known.order == order) else {
            return Ok(());
        };
        let all = (0..record.replica_devices.len()).all(|index| write.copies[index].is_some());
        if record.tree_height > 0 && !all || self.is_of_another(hash, &known).await {
            return Ok(());
        }
        let copies = || write.copies.iter().flatten();
        let mut places = known.places;
        if record.tree_height > 0 {
            let rewritten: SmallVec<[Place; MAX_REPLICAS]> = copies().map(|copy| copy.place).collect();
            places = Places::new(&rewritten).expect("all copies stand");
        }
        // A single copy moves within its device.
        for place in places.as_mut_slice() {
            if let Some(copy) = copies().find(|copy| copy.place.device == place.device) {
                *place = copy.place;
            }
        }
        let longest = copies().map(|copy| copy.frame_bytes).max().unwrap_or(0);
        let entry = entry_of(record, order, places, known.frame_bytes.max(longest), self.epochs.present());
        if self.shard(hash).lock().index_mut().relocate(&known.places, entry) {
            self.names.insert(entry.epoch, name_entry_of(record, entry)?);
        }
        Ok(())
    }

    /// Ends the uploads whose objects were committed, and drops the parts of those that ended (RFD 2, decision 15).
    pub(crate) async fn finish_uploads(
        self: &Arc<Self>,
        committed: impl Iterator<Item = &FoundWrite>,
    ) -> Result<(), EngineError> {
        for write in committed {
            let Some(EndedUpload { upload, name, tombstone }) = self.upload_ended_by(write)? else { continue };
            if self.shard(&name.hash()).lock().index().newest(&name.hash()).is_some_and(|known| known.is_live()) {
                match self.drop_entry_as(name.clone(), tombstone.clone()).await {
                    // A full device must not keep the gateway from starting.
                    Err(EngineError::Full) => self.background.end_upload(name, tombstone),
                    ended => ended?,
                }
            }
            self.background.drop_parts(upload);
        }
        Ok(())
    }

    /// The upload that this write, if it was committed, has ended: it is its object, or its tombstone.
    pub(crate) fn upload_ended_by(&self, write: &FoundWrite) -> Result<Option<EndedUpload>, EngineError> {
        let record = &write.record;
        let attributes = || Attributes::decode(record.attributes.clone()).map_err(corrupt);
        let ended = match (record.kind, record.name.space) {
            (RecordKind::Descriptor, Space::Object) => attributes()?.upload.map(|upload| (record.name.name.clone(), upload)),
            (RecordKind::Tombstone, Space::Upload) => {
                let (key, suffix) = split_compound(Space::Upload, &record.name.name).map_err(corrupt)?;
                let upload = suffix.try_into().map(UploadId).expect("split_compound checked the length");
                Some((bytes::Bytes::copy_from_slice(&key), upload))
            }
            _ => None,
        };
        let Some((key, upload)) = ended else { return Ok(None) };
        let name = EntryName::upload(record.name.bucket, &key, upload);
        let Attributes { etag, modified_ms, .. } = attributes()?;
        let tombstone = Attributes { etag, modified_ms, expected: Some(self.order_of_found(write)), ..Attributes::default() };
        let key = ObjectKey::new(record.name.bucket, key).map_err(corrupt)?;
        Ok(Some(EndedUpload { upload: UploadRef { key, upload }, name, tombstone }))
    }
}

/// An upload that was found to have ended.
pub(crate) struct EndedUpload {
    upload: UploadRef,
    pub name: EntryName,
    /// It remembers the outcome, for a Complete that is tried again.
    pub tombstone: Attributes,
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
        checksum: attributes.checksum_scheme(),
        version_id: attributes.version_id,
    })
}
