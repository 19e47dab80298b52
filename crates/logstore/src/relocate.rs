//! Copying records elsewhere while they keep their order: for collection, and for copies that a crash left missing.
//!
//! Order and place are two things (RFD 2, decisions 2 and 10): a copy made here carries its order in its header, and only the index's
//! places change, by compare-and-swap against what they were (decision 10).

use crate::collect::COPY_EXTRA_BYTES;
use crate::index::Located;
use crate::recovery::decide::{entry_of, name_entry_of};
use crate::store::Inner;
use bytes::Bytes;
use device::{AppendClass, Appended};
use engine::EngineError;
use format::frame;
use format::record::{Record, RecordFlags};
use format::replicas::{Places, ReplicaDevices};
use smallvec::SmallVec;
use std::sync::Arc;
use target::append_wait;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, KeyHash, Order, Place};

/// A copy of a record that is to be made.
pub(crate) struct Recopy {
    pub record: Record,
    pub payload: Bytes,
    /// What the record is ordered by; chunks have no order.
    pub order: Option<Order>,
    pub replica: usize,
    pub device: DeviceId,
    /// It replaces a copy elsewhere; else it is one that was missing.
    pub moved: bool,
}

impl Inner {
    /// Appends one copy, in the stream that the order of operations does not live in.
    pub(crate) async fn recopy(&self, copy: Recopy) -> Result<Appended, EngineError> {
        let mut record = copy.record;
        record.replica_index = copy.replica as u8;
        record.order = copy.order;
        record.flags = RecordFlags { relocated: copy.moved, ..record.flags };
        let device = self.targets.device(copy.device).ok_or_else(|| missing(copy.device))?;
        let mut header = Vec::new();
        record.encode(&mut header);
        let frame_bytes = frame::frame_bytes(header.len(), copy.payload.len());
        let mut compose =
            |slot: &mut [u8]| frame::compose(slot, record.kind as u8, self.config.cell, &header, &[&copy.payload[..]]);
        let appended = append_wait(&**device, AppendClass::Relocation, frame_bytes, &mut compose);
        appended.await.map_err(|error| match error.kind() {
            types::ErrorKind::Full => EngineError::Full,
            _ => EngineError::Unavailable { reason: error.to_string() },
        })
    }

    /// The same of a copy that was found missing, if there is room: a full device keeps its last zone for the checkpoint with which a start, or a recovery, ends,
    /// and without which nothing is freed.
    pub(crate) async fn recopy_within_room(&self, copy: Recopy) -> Result<Appended, EngineError> {
        self.check_room(copy.device, copy.payload.len() as u64 + COPY_EXTRA_BYTES)?;
        self.recopy(copy).await
    }

    /// Makes all copies of a record again with another payload: a descriptor whose chunks moved. Publishes the new places unless
    /// the record was replaced meanwhile, and says whether it did.
    pub(crate) async fn rewrite(
        self: &Arc<Self>,
        mut record: Record,
        payload: Bytes,
        (order, old_places): (Order, Places),
    ) -> Result<bool, EngineError> {
        let stay = self.stay_in_step().await?;
        // Looked up within the epoch, as for copies that move.
        let newest = self.shard(&record.hash).lock().index().newest(&record.hash);
        if newest.is_none_or(|known| (known.order, known.places) != (order, old_places)) {
            self.stats.lost_relocations.add(1);
            return Ok(false);
        }
        let devices = self.devices_for(&record.hash, &old_places)?;
        record.replica_devices = ReplicaDevices::new(&devices).expect("as many as there are places, or fewer");
        // A recovery tells this list of chunks from others by the write, and which of them is the later one by the epoch.
        (record.write, record.epoch) = (self.next_write_id(), stay.epoch());
        let mut places: SmallVec<[Place; MAX_REPLICAS]> = SmallVec::new();
        let mut frame_bytes = 0;
        for (replica, device) in devices.iter().enumerate() {
            let copy = Recopy {
                record: record.clone(),
                payload: payload.clone(),
                order: Some(order),
                replica,
                device: *device,
                moved: true,
            };
            let appended = self.recopy(copy).await?;
            places.push(appended.place);
            frame_bytes = frame_bytes.max(appended.frame_bytes as u32);
        }
        let places = Places::new(&places).expect("one for each device");
        self.publish_places(&record, order, &old_places, places, frame_bytes, stay.epoch())
    }

    /// Where the copies of a rewritten record go: where they are, but another device for one that takes no writes, and as many as the
    /// table asks for; fewer if not so many take writes.
    fn devices_for(&self, hash: &KeyHash, places: &Places) -> Result<Vec<DeviceId>, EngineError> {
        let may = |device: DeviceId| self.targets.takes_copies(device);
        let kept = self.targets.kept(places);
        let mut devices: Vec<DeviceId> = kept.iter().map(|place| place.device).filter(|device| may(*device)).collect();
        let table = self.targets.table();
        let wanted = kept.len().max(table.copies());
        while devices.len() < wanted
            && let Some(device) = table.another(hash, &devices, may)
        {
            devices.push(device);
        }
        match devices.is_empty() {
            true => Err(EngineError::Unavailable { reason: "no device takes writes".to_owned() }),
            false => Ok(devices),
        }
    }

    /// Makes one more copy of a record, on a device that has none. Publishes its place unless the record was replaced meanwhile, and
    /// says whether it did. `read` is where the record was read: what was published since has another order, which this record must
    /// never get.
    pub(crate) async fn add_copy(
        self: &Arc<Self>,
        mut record: Record,
        payload: Bytes,
        device: DeviceId,
        read: &Located,
    ) -> Result<bool, EngineError> {
        let stay = self.stay_in_step().await?;
        // Looked up within the epoch, as for copies that move.
        let newest = self.shard(&record.hash).lock().index().newest(&record.hash);
        let Some(known) = newest.filter(|newest| newest == read) else { return Ok(false) };
        let mut places = self.targets.kept(&known.places);
        let replica = places.len();
        let mut devices: SmallVec<[DeviceId; MAX_REPLICAS]> = places.iter().map(|place| place.device).collect();
        if replica == MAX_REPLICAS || devices.contains(&device) {
            return Ok(false);
        }
        devices.push(device);
        record.replica_devices = ReplicaDevices::new(&devices).expect("at most as many as a record may have");
        let copy = Recopy { record: record.clone(), payload, order: Some(known.order), replica, device, moved: true };
        let appended = self.recopy(copy).await?;
        places.push(appended.place);
        let frame_bytes = known.frame_bytes.max(appended.frame_bytes as u32);
        let places = Places::new(&places).expect("counted above");
        self.publish_places(&record, known.order, &known.places, places, frame_bytes, stay.epoch())
    }

    /// Copies one copy of a record within its device. Publishes its new place unless the record was replaced meanwhile.
    pub(crate) async fn move_copy(
        self: &Arc<Self>,
        record: Record,
        payload: Bytes,
        from: Place,
        hash: &KeyHash,
    ) -> Result<bool, EngineError> {
        self.replace_copy(record, payload, (from, from.device), hash).await
    }

    /// Makes one copy of a record again on a device, in the stead of the one at `from`. Publishes its new place unless the record was replaced
    /// meanwhile, or has a copy there.
    pub(crate) async fn replace_copy(
        self: &Arc<Self>,
        mut record: Record,
        payload: Bytes,
        (from, to): (Place, DeviceId),
        hash: &KeyHash,
    ) -> Result<bool, EngineError> {
        let stay = self.stay_in_step().await?;
        // Looked up within the epoch: a tombstone that comes after this is younger than the copy (decision 13).
        let Some(known) = self.shard(hash).lock().index().newest(hash) else { return Ok(false) };
        let Some(replica) = known.places.as_slice().iter().position(|place| *place == from) else { return Ok(false) };
        let mut devices: SmallVec<[DeviceId; MAX_REPLICAS]> =
            known.places.as_slice().iter().map(|place| place.device).collect();
        if to != from.device && devices.contains(&to) {
            return Ok(false);
        }
        devices[replica] = to;
        // The copy that was read may be of a time when the record had fewer.
        record.replica_devices = ReplicaDevices::new(&devices).expect("one for each place");
        let copy = Recopy { record: record.clone(), payload, order: Some(known.order), replica, device: to, moved: true };
        let appended = self.recopy(copy).await?;
        let mut places = known.places;
        places.as_mut_slice()[replica] = appended.place;
        let frame_bytes = known.frame_bytes.max(appended.frame_bytes as u32);
        self.stats.relocated_bytes.add(appended.frame_bytes as u64);
        self.publish_places(&record, known.order, &known.places, places, frame_bytes, stay.epoch())
    }

    /// The compare-and-swap of places.
    fn publish_places(
        &self,
        record: &Record,
        order: Order,
        old_places: &Places,
        places: Places,
        frame_bytes: u32,
        epoch: types::Epoch,
    ) -> Result<bool, EngineError> {
        let entry = entry_of(record, order, places, frame_bytes, epoch);
        let name = name_entry_of(record, entry)?;
        let mut shard = self.shard(&record.hash).lock();
        let old = shard.index().newest(&record.hash);
        if !shard.index_mut().relocate(old_places, entry) {
            self.stats.lost_relocations.add(1);
            return Ok(false);
        }
        self.tell_relocated(old_places, &name);
        self.names.insert(epoch, name);
        drop(shard);
        self.background.note_moved(frame_bytes.into());
        if let Some(old) = old {
            self.targets.remove_live_entry(&old);
        }
        self.targets.add_live_entry(&crate::index::Located::from(&entry));
        Ok(true)
    }
}

fn missing(device: DeviceId) -> EngineError {
    EngineError::Unavailable { reason: format!("device {device} is missing") }
}
