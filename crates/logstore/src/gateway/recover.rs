//! What a removed gateway left: decided once for all members, by the leader of the view (RFD 5, rules 3 to 6).
//!
//! ```text
//!   fence and drain every target of the table, and others that alone may have copies ─► walk from the start vector
//!   ─► make missing copies ─► Recovered to every member ─► AllRecovered ─► every member holds them ─► Decided
//!   ─► checkpoint: the next walk begins behind what was discarded
//! ```
//!
//! In a cell the primary's copy comes first and the others carry its order. So every copy that stands tells its write's order; a write
//! of which only the primary's copy stands is rolled forward like the rest, because nobody knows what was acknowledged.

use super::member::Member;
use crate::machine::CellMessage;
use crate::peers::Item;
use crate::recovery::OpenError;
use crate::recovery::decide::{EndedUpload, entry_of, name_entry_of};
use crate::recovery::walk::{FoundCopy, FoundRecords, FoundWrite, walk_all};
use crate::relocate::Recopy;
use crate::store::{Inner, LogStore, draft};
use crate::write::WriteOp;
use engine::EngineError;
use format::attributes::Attributes;
use format::name_entry::NameEntry;
use format::record::{EntryName, Record, RecordKind, Space, WriteId};
use format::replicas::{Places, ReplicaDevices};
use net::BoxFuture;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use target::LogTarget;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, Epoch, GatewayId, KeyHash, Order, Place, ViewNumber};

impl LogStore {
    /// As leader of its view: decides what these removed gateways left, by what stands on the devices `read`. These have been fenced
    /// against them and drained; they are those of the table, and others until [`devices_to_wait_for`](crate::devices_to_wait_for) names
    /// none. Fails when the view changes; the next one's leader begins again.
    pub fn recover<'a>(
        &'a self,
        removed: &'a BTreeSet<GatewayId>,
        read: &'a [DeviceId],
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let Some(member) = &inner.member else { return Ok(()) };
            let view = member.view().number();
            env::mark("gateway: recovery of removed gateways begins");
            let recovered = member.while_in(view, inner.recover(member, view, removed, read)).await;
            if recovered.is_err() && member.view().number() > view {
                env::mark("gateway: recovery interrupted by another view");
            }
            recovered
        })
    }
}

impl Inner {
    async fn recover(
        self: &Arc<Self>,
        member: &Member,
        view: ViewNumber,
        removed: &BTreeSet<GatewayId>,
        read: &[DeviceId],
    ) -> Result<(), EngineError> {
        // Everybody has the view: what is told from here on finds its way into it.
        member.progress.wait_for(|_| member.all_carried()).await;
        if member.has_chosen_checkpoint() {
            // What others told of the records in its checkpoint, moves above all, it has when it has joined: nothing of that waits for this recovery.
            member.until(|heard| !heard.joining).await;
            // Before it says that it has carried, a member tells which moves it knows of.
            self.applied_all().await;
        } else {
            self.leave_to_who_has_maps(member)?;
            self.begin_beyond_checkpoints(member).await?;
        }
        let mut found = self.walk_logs(member, read).await?;
        self.pass_over_void(member, &mut found);
        for write in newest_of(&found, removed) {
            self.roll_on(write).await?;
        }
        self.tell_held_on(&found, removed);
        let all = CellMessage::AllRecovered { view };
        member.push_to_all(&Item::All(all.clone()));
        self.take_in_cell_message(member, self.me, all);
        member
            .progress
            .wait_for(|_| {
                let heard = member.heard.lock();
                heard.holding.contains(&self.me) && member.view().others().iter().all(|other| heard.holding.contains(other))
            })
            .await;
        let ending = self.begin_to_end_uploads(&found, removed)?;
        let decided = CellMessage::Decided { gateways: removed.iter().copied().collect() };
        member.push_to_all(&Item::All(decided.clone()));
        self.take_in_cell_message(member, self.me, decided);
        // One that has not the maps gets them now that nothing is undecided.
        member.until(|heard| !heard.joining).await;
        // Who has passed over what a removed leader installed, for want of what another one had concluded, takes it in now.
        self.tell_installed(&self.checkpoints.lock().await.manifest);
        self.have_ended(ending).await;
        self.finish_uploads(committed(&found, removed).into_iter()).await?;
        self.end_complete_uploads().await?;
        self.finish_checkpoint().await?;
        member.heard.lock().recovered.extend(removed);
        member.moved();
        env::mark("gateway: recovery done");
        tracing::info!(?removed, view = view.0, "recovered what removed gateways left");
        Ok(())
    }

    /// Ends the uploads of which these gateways had made the objects and not the ends. Queued before anything is decided: a Complete that is
    /// repeated, and has waited for the decision, comes after it, and finds how the first one ended, though its object may be overwritten since.
    fn begin_to_end_uploads(
        self: &Arc<Self>,
        found: &FoundRecords,
        removed: &BTreeSet<GatewayId>,
    ) -> Result<Vec<(EntryName, Arc<WriteOp>)>, EngineError> {
        let of_uploads = |kind: RecordKind| -> BTreeSet<KeyHash> {
            let is_so = |write: &&FoundWrite| write.record.kind == kind && write.record.name.space == Space::Upload;
            found
                .written
                .iter()
                .filter(is_so)
                .filter(|write| write.known_order().is_some())
                .map(|write| write.record.hash)
                .collect()
        };
        let (begun, ended) = (of_uploads(RecordKind::Upload), of_uploads(RecordKind::Tombstone));
        let is_known = |hash: &KeyHash| self.shard(hash).lock().index().newest(hash).is_some_and(|known| known.is_live());
        // Known here, or about to be with what was found.
        let is_open = |hash: &KeyHash| !ended.contains(hash) && (begun.contains(hash) || is_known(hash));
        let mut open: BTreeMap<EntryName, Attributes> = BTreeMap::new();
        for write in committed(found, removed).into_iter().filter(|write| write.record.kind == RecordKind::Descriptor) {
            let Some(EndedUpload { name, tombstone, .. }) = self.upload_ended_by(write)? else { continue };
            if is_open(&name.hash()) {
                env::mark("gateway: recovery ends an upload whose object was made");
                open.insert(name, tombstone);
            }
        }
        // What its gateway has told before it died: the walk finds no object that a checkpoint covers.
        open.extend(self.background.told_endings().into_iter().filter(|(name, _)| is_open(&name.hash())));
        let mut ending = Vec::new();
        for (name, tombstone) in open {
            self.upload_is_ending(name.clone(), tombstone.clone());
            let op = WriteOp::new(self, draft(RecordKind::Tombstone, name.clone(), &tombstone), false);
            match self.start(&op) {
                Ok(()) => ending.push((name, op)),
                Err(error) => tracing::warn!(%error, "an upload whose object is complete is ended later"),
            }
        }
        Ok(ending)
    }

    /// Waits for the ends of uploads. What finds no room, or no device, is tried again in the background.
    async fn have_ended(&self, ending: Vec<(EntryName, Arc<WriteOp>)>) {
        for (name, op) in ending {
            match op.finished().await {
                Ok(_) => self.background.upload_ended(&name),
                Err(error) => tracing::warn!(%error, "an upload whose object is complete is ended later"),
            }
        }
    }

    /// A checkpoint that goes on if the recovery is given up: an epoch that has begun must drain, and what is installed must be followed, before
    /// the next one begins.
    async fn finish_checkpoint(self: &Arc<Self>) -> Result<(), EngineError> {
        let inner = self.clone();
        let checkpoint = self.env.spawn(async move { inner.checkpoint().await });
        checkpoint.await.unwrap_or_else(|error| Err(EngineError::Internal { detail: error.to_string() }))
    }

    /// A shard holds everything that was recovered. After the last one the leader is told.
    pub(super) fn shard_holds_recovered(self: &Arc<Self>, view: ViewNumber) {
        let Some(member) = &self.member else { return };
        let leader = {
            let mut heard = member.heard.lock();
            if heard.view != view {
                return;
            }
            heard.holding_shards += 1;
            if heard.holding_shards < self.shards.len() {
                return;
            }
            heard.leader
        };
        match leader {
            Some(leader) if leader == self.me => drop(member.heard.lock().holding.insert(self.me)),
            Some(leader) => {
                let inner = self.clone();
                self.env.spawn(async move { inner.say_held(leader, view).await });
            }
            None => {}
        }
        member.moved();
    }

    /// Tells the leader that this gateway holds everything, when it has heard all that the others had said. The leader passes a write over that another one has
    /// followed, and a follower in read-after-write mode is announced to nobody: who had not heard of it would read what was before both.
    async fn say_held(&self, leader: GatewayId, view: ViewNumber) {
        let Some(member) = &self.member else { return };
        let heard_out = async {
            member.hear_out().await;
            Ok(())
        };
        if member.while_in(view, heard_out).await.is_ok() {
            member.push(leader, &Item::All(CellMessage::RecoveredHeld { view }));
        }
    }

    /// One that has chosen no checkpoint lacks what other members were told and have applied: it leads no recovery beside one that has. Fails, and the
    /// gateway with it: it joins anew, and who has the maps leads the next view.
    fn leave_to_who_has_maps(&self, member: &Member) -> Result<(), EngineError> {
        let mut heard = member.heard.lock();
        if heard.hello.values().all(|(_, installed)| installed.is_none()) {
            return Ok(());
        }
        heard.gives_up = true;
        drop(heard);
        member.moved();
        env::mark("gateway: a recovery left to who has the maps");
        Err(EngineError::Unavailable { reason: "another gateway has the maps of the cell, and is to lead it".to_owned() })
    }

    /// From where the checkpoint of the member ends that has come least far: what a newer one has, be it that a removed gateway has
    /// written it down itself, that gateway may not have told to all. Those that join, and have chosen none, have the newest before they serve.
    async fn walk_logs(&self, member: &Member, read: &[DeviceId]) -> Result<FoundRecords, EngineError> {
        let held = |device: &DeviceId| {
            let reason = || format!("device {device} was fenced, and this gateway has no hold on it yet");
            self.targets.device(*device).cloned().ok_or_else(|| EngineError::Unavailable { reason: reason() })
        };
        let devices: Vec<Arc<dyn LogTarget>> = read.iter().map(held).collect::<Result<_, _>>()?;
        let least = {
            let heard = member.heard.lock();
            heard.hello.values().filter_map(|(_, installed)| *installed).fold(self.remembered.epoch(), Epoch::min)
        };
        let own = self.checkpoints.lock().await.as_of(least);
        // Where nobody has chosen one, all are going to have the newest.
        let manifest = if self.has_joined() { own } else { self.newest_manifest()?.unwrap_or(own) };
        let found = walk_all(&devices, &manifest).await.map_err(not_read)?;
        found.check_read(Some(&member.heard.lock().uncovered)).map_err(not_read)?;
        Ok(found)
    }

    /// What a former recovery did not find of gateways that it has decided is void: members of which one has decided and another has not would end with different
    /// contents. Devices that were away then may be back; nobody has acknowledged it, because one device of each write's that was read, and fenced, did not have it.
    fn pass_over_void(&self, member: &Member, found: &mut FoundRecords) {
        let decided = member.heard.lock().decided.clone();
        let is_known = |write: &FoundWrite| {
            let newest = self.shard(&write.record.hash).lock().index().newest(&write.record.hash);
            newest.map(|newest| newest.order) >= write.known_order()
        };
        let before = found.written.len();
        found.written.retain(|write| !decided.contains(&write.record.write.gateway) || is_known(write));
        if found.written.len() < before {
            env::mark("gateway: recovery passed over what a former one had not found");
        }
    }

    /// Tells every member what former leaders have told of writes that the walk did not find: their only copies may have been on what is gone since. Some
    /// members hold them and some do not, and all must publish the same.
    fn tell_held_on(self: &Arc<Self>, found: &FoundRecords, removed: &BTreeSet<GatewayId>) {
        let walked: BTreeSet<WriteId> = found.written.iter().map(|write| write.record.write).collect();
        let is_told = |name: &NameEntry| removed.contains(&name.entry.write.gateway) && !walked.contains(&name.entry.write);
        for shard in &self.shards {
            let held: Vec<NameEntry> = shard.lock().held().into_iter().filter(is_told).collect();
            for name in held {
                env::mark("gateway: a recovered write told again that the walk did not find");
                self.step_on(shard, Some(&name), |keys, out| keys.recover(name.entry, out));
            }
        }
    }

    /// Makes a write's missing copies again and tells every member of it.
    async fn roll_on(self: &Arc<Self>, write: &FoundWrite) -> Result<(), EngineError> {
        let record = &write.record;
        let (Some(order), Some(base)) = (write.known_order(), write.base()) else {
            env::mark("gateway: recovery passed over a write without its primary");
            return Ok(());
        };
        let is_covered = record.epoch <= self.remembered.covered();
        let mut made = None;
        loop {
            let newest = self.shard(&record.hash).lock().index().newest(&record.hash);
            if newest.is_some_and(|newest| newest.order > order) {
                // All are told of what replaced it, by who wrote that (`say_held`) or by this recovery. A member that is ahead may have forgotten that it
                // was a delete.
                return Ok(());
            }
            let known = newest.filter(|known| known.order == order);
            // A delete does no harm where it is known. That all have heard of one before it is forgotten is not relied on here.
            let is_forgotten_delete = newest.is_none() && record.kind == RecordKind::Tombstone;
            if known.is_none() && is_covered && !is_forgotten_delete {
                // The walk began further back, for a member that lags. What this gateway's checkpoint covers and its index lacks was replaced,
                // perhaps by a delete that is forgotten.
                return Ok(());
            }
            let places = match (known, made) {
                // Published here: its copies are complete, and may have moved.
                (Some(known), _) => known.places,
                (None, Some(made)) => made,
                (None, None) => *made.insert(self.make_missing(write, &base, order).await?),
            };
            let places = self.moved_places(&record.hash, order, places);
            let entry = entry_of(record, order, places, base.frame_bytes, self.epochs.present());
            let name = name_entry_of(record, entry)?;
            let is_told = self.step(&record.hash, Some(&name), |keys, out| {
                // Another try of a recovery that has decided is made beside moves: what is told is where the record stands now.
                let stands = keys.index().newest(&record.hash).filter(|now| now.order == order).map(|now| now.places);
                if stands != known.map(|known| known.places) {
                    return false;
                }
                keys.recover(entry, out);
                if keys.holds(&entry) {
                    keys.held_names.insert(entry.write, name.clone());
                }
                true
            });
            if is_told {
                return Ok(());
            }
        }
    }

    /// Makes the copies that a write lacks, as far as devices take them; where all of them stand.
    async fn make_missing(&self, write: &FoundWrite, base: &FoundCopy, order: Order) -> Result<Places, EngineError> {
        let frame = self.targets.read(&base.place, base.frame_bytes).await;
        let frame = frame.map_err(|error| EngineError::Unavailable { reason: error.to_string() })?;
        let mut places = write.copies.map(|copy| copy.map(|copy| copy.place));
        for (replica, device) in self.devices_for_copies(&frame.record, &places) {
            let (record, payload) = (with_copy_on(&frame.record, &places, replica, device), frame.payload.clone());
            let copy = Recopy { record, payload, order: Some(order), replica, device, moved: false };
            match self.recopy_within_room(copy).await {
                Ok(appended) => {
                    env::mark("gateway: recovery made a missing copy");
                    places[replica] = Some(appended.place);
                }
                Err(error) => {
                    tracing::warn!(device = device.0, %error, "a copy that is missing is made again later");
                    self.background.want_repair();
                }
            }
        }
        env::mark("gateway: recovery rolled a write forward");
        self.stats.rolled_forward.add(1);
        let places: SmallVec<[Place; MAX_REPLICAS]> = places.into_iter().flatten().collect();
        Ok(Places::new(&places).expect("the base is one of them"))
    }

    /// The copies that a write lacks, by their numbers, and the devices that get them: its own first, then others of the table. A copy has the
    /// number that its device has in the record: by the numbers, who founds the cell anew tells the copies apart.
    fn devices_for_copies(&self, record: &Record, places: &[Option<Place>]) -> Vec<(usize, DeviceId)> {
        let (table, own) = (self.targets.table().clone(), record.replica_devices.as_slice());
        let may = |device: DeviceId| table.devices().contains(&device) && self.targets.is_writable(device);
        let mut has: Vec<DeviceId> = places.iter().flatten().map(|place| place.device).collect();
        let is_free = |replica: usize, has: &[DeviceId]| !has.contains(&own[replica]) && may(own[replica]);
        let mut lacking: Vec<usize> = (0..own.len()).filter(|replica| places[*replica].is_none()).collect();
        lacking.sort_by_key(|replica| !is_free(*replica, &has));
        let wanted = own.len().min(table.copies()).saturating_sub(has.len());
        let mut made = Vec::new();
        for replica in lacking.into_iter().take(wanted) {
            let own = is_free(replica, &has).then_some(own[replica]);
            let Some(device) = own.or_else(|| table.another(&record.hash, &has, may)) else { break };
            has.push(device);
            made.push((replica, device));
        }
        made
    }
}

/// What these gateways had committed, whether it is the newest of its key or not: a write that lacks copies and was followed by another had failed.
fn committed<'a>(found: &'a FoundRecords, removed: &BTreeSet<GatewayId>) -> Vec<&'a FoundWrite> {
    let newest: BTreeSet<WriteId> = newest_of(found, removed).iter().map(|write| write.record.write).collect();
    let is_whole = |write: &FoundWrite| write.lacking(&found.opened) == 0 || newest.contains(&write.record.write);
    let is_committed =
        |write: &&FoundWrite| removed.contains(&write.record.write.gateway) && write.known_order().is_some() && is_whole(write);
    found.written.iter().filter(is_committed).collect()
}

fn not_read(error: OpenError) -> EngineError {
    EngineError::Unavailable { reason: error.to_string() }
}

/// The record with the devices that its copies are on once this one has been made.
fn with_copy_on(record: &Record, places: &[Option<Place>], replica: usize, device: DeviceId) -> Record {
    let own = record.replica_devices.as_slice().iter().zip(places);
    let mut devices: SmallVec<[DeviceId; MAX_REPLICAS]> =
        own.map(|(own, place)| place.map_or(*own, |place| place.device)).collect();
    devices[replica] = device;
    let replica_devices = ReplicaDevices::new(&devices).expect("as many as before");
    Record { replica_devices, ..record.clone() }
}

/// Of each key the newest write of these gateways.
fn newest_of<'a>(found: &'a FoundRecords, removed: &BTreeSet<GatewayId>) -> Vec<&'a FoundWrite> {
    let mut by_key: BTreeMap<KeyHash, &FoundWrite> = BTreeMap::new();
    for write in found.written.iter().filter(|write| removed.contains(&write.record.write.gateway)) {
        let newest = by_key.entry(write.record.hash).or_insert(write);
        if write.known_order() > newest.known_order() {
            *newest = write;
        }
    }
    by_key.into_values().collect()
}
