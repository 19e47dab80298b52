//! A write on its way: from its turn, over the appends on its targets, to the acknowledgement.
//!
//! In a cell the primary's copy comes first, and the others carry the order that it got: should the primary be lost together with its
//! gateway, they tell where the write stands among those of other gateways (decision 9, RFD 3). A gateway that nobody writes beside appends
//! all copies at once.
//!
//! The operation belongs to the engine, not to the request that asked for it: completions of appends drive it, on the thread that
//! reaps them, so that a client that goes away leaves nothing half done. The request's future only listens.
//!
//! ```text
//!   Queued ──turn──► Appending ──last copy──► Done
//!      │ exclusive       ▲  └─ failed ───────► Done(error)
//!      ├──turn──► Deciding ── condition false ► Done(error)
//!      └─ nobody waits any more ──────────────► Done(error)
//! ```

mod draft;
mod guard;
mod queue;

pub(crate) use draft::Draft;
pub(crate) use guard::TurnGuard;

use crate::gather::{CopyFailure, Gather, Gathered};
use crate::index::Located;
use crate::store::Inner;
use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, Appended};
use engine::{Committed, EngineError, Waiter};
use format::entry::Entry;
use format::name_entry::NameEntry;
use format::record::{EntryName, Record, RecordFlags, RecordKind, WriteId};
use format::replicas::ReplicaDevices;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;
use types::{Epoch, Generation, Order, Position};

/// How long a client waits until it is certain whether a failed append has landed. The key's turn waits as long as it takes.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);

/// One write of one key.
pub(crate) struct WriteOp {
    inner: Arc<Inner>,
    this: Weak<WriteOp>,
    draft: Draft,
    /// The request evaluates a condition when the turn comes.
    decides: bool,
    /// Attributes that became known only after the turn was asked for.
    amended: OnceLock<Bytes>,
    progress: Mutex<Progress>,
}

struct Progress {
    stage: Stage,
    waker: Option<Waker>,
    /// The epoch that it is in, until it is published or given up. Durable copies alone are not enough: in a cell the entry
    /// is published when the last member has heard of the write, and an epoch that ends before lacks it.
    in_epoch: Option<Epoch>,
}

enum Stage {
    Queued,
    /// Given up after its turn had come, before it heard of it: whoever says so ends the turn.
    Withdrawn(EngineError),
    Deciding {
        write: WriteId,
        newest: Option<Located>,
    },
    Appending(Appending),
    Done(Result<Committed, EngineError>),
}

struct Appending {
    write: WriteId,
    epoch: Epoch,
    generation: Generation,
    devices: ReplicaDevices,
    gather: Gather,
    /// The other copies wait for the primary's.
    primary_first: bool,
    /// The primary's copy may yet land: its target has not answered.
    is_primary_out: bool,
}

impl WriteOp {
    pub fn new(inner: &Arc<Inner>, draft: Draft, decides: bool) -> Arc<Self> {
        let progress = Mutex::new(Progress { stage: Stage::Queued, waker: None, in_epoch: None });
        let amended = OnceLock::new();
        Arc::new_cyclic(|this| WriteOp { inner: inner.clone(), this: this.clone(), draft, decides, amended, progress })
    }

    /// The operation as completions need it, which know it by reference.
    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("whoever calls holds it")
    }

    /// The same write once more, after it was refused.
    pub fn anew(&self) -> Arc<Self> {
        WriteOp::new(&self.inner, self.draft.clone(), self.decides)
    }

    /// Waits for the end. After a failure also until writes go around the device that failed.
    pub async fn finished(&self) -> Result<Committed, EngineError> {
        let outcome = self.ended().await;
        if outcome.is_err() {
            self.inner.targets.failures_settled().await;
        }
        outcome
    }

    async fn ended(&self) -> Result<Committed, EngineError> {
        poll_fn(|context| {
            let mut progress = self.progress.lock();
            match &progress.stage {
                Stage::Done(outcome) => Poll::Ready(outcome.clone()),
                _ => {
                    progress.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for the turn of a deciding write; the newest record of the key. The caller goes on with [`WriteOp::append`] or
    /// [`WriteOp::withdraw`]. Fails if the newest record can't be told.
    pub async fn turn(&self) -> Result<Option<Located>, EngineError> {
        let newest = self.turn_comes().await?;
        self.inner.check_decidable(&self.draft.hash)?;
        Ok(newest)
    }

    async fn turn_comes(&self) -> Result<Option<Located>, EngineError> {
        poll_fn(|context| {
            let mut progress = self.progress.lock();
            match &progress.stage {
                Stage::Deciding { newest, .. } => Poll::Ready(Ok(*newest)),
                Stage::Done(Err(error)) => Poll::Ready(Err(error.clone())),
                _ => {
                    progress.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The write's turn has come.
    pub fn dispatched(self: &Arc<Self>, write: WriteId, newest: Option<Located>) {
        if self.decides {
            return self.decide(write, newest);
        }
        let absent = newest.is_none_or(|newest| !newest.is_live());
        let unseen = self.inner.some_write_failed.load(Ordering::Acquire) || !self.inner.is_decidable(&self.draft.hash);
        if self.draft.kind == RecordKind::Tombstone && absent && self.inner.is_alone() && !unseen {
            // Nothing to delete, nobody else who could be writing it, no failed write that a start could roll forward over this
            // delete, and no version on a missing device: no record is needed.
            let committed = Committed { etag: self.draft.etag, order: Default::default(), modified_ms: self.draft.modified_ms };
            self.give_up(Ok(committed));
            return;
        }
        self.append_as(write);
    }

    /// Lets the request decide, unless it has gone away.
    fn decide(self: &Arc<Self>, write: WriteId, newest: Option<Located>) {
        let (withdrawn, waker) = {
            let mut progress = self.progress.lock();
            let withdrawn = match &progress.stage {
                Stage::Withdrawn(error) => Some(error.clone()),
                // Given up since its turn came: the gateway has left its cell, and nobody would end it again.
                Stage::Done(_) => return,
                _ => None,
            };
            if withdrawn.is_none() {
                progress.stage = Stage::Deciding { write, newest };
            }
            (withdrawn, progress.waker.take())
        };
        if let Some(error) = withdrawn {
            self.give_up(Err(error));
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Gives a deciding write other attributes than its draft has.
    pub fn amend(&self, attributes: Bytes) {
        self.amended.set(attributes).expect("a write is amended once");
    }

    /// A deciding write goes ahead.
    pub fn append(self: &Arc<Self>) {
        let write = match &self.progress.lock().stage {
            Stage::Deciding { write, .. } => *write,
            // Given up since its turn came: the gateway has left its cell.
            Stage::Done(_) => return,
            _ => panic!("a write is appended once, after its turn came"),
        };
        self.append_as(write);
    }

    /// Ends it without a record, if it is queued or deciding; harmless if it is not.
    pub fn withdraw(self: &Arc<Self>, error: EngineError) {
        if self.inner.cancel(self) {
            self.finish(Err(error));
            return;
        }
        let is_deciding = {
            let mut progress = self.progress.lock();
            match progress.stage {
                Stage::Deciding { .. } => true,
                // Its turn has come, and the thread that will say so is on its way: it ends the turn.
                Stage::Queued => {
                    progress.stage = Stage::Withdrawn(error.clone());
                    false
                }
                Stage::Withdrawn(_) | Stage::Appending(_) | Stage::Done(_) => false,
            }
        };
        if is_deciding {
            self.give_up(Err(error));
        }
    }

    fn append_as(self: &Arc<Self>, write: WriteId) {
        // The table as of now: an older one than its shard's would give an order that is too low. And as of then: a checkpoint forgets the tables that were
        // over when its epoch ended.
        let epoch = self.inner.epochs.enter();
        let table = self.inner.shard(&self.draft.hash).lock().table.clone();
        let devices =
            ReplicaDevices::new(table.set_of(&self.draft.hash).devices()).expect("a replica set has one to three devices");
        let (generation, primary_first) = (table.generation(), !self.inner.is_alone() && devices.len() > 1);
        let gather = Gather::new(&devices);
        let appending = Appending { write, epoch, generation, devices, gather, primary_first, is_primary_out: false };
        {
            let mut progress = self.progress.lock();
            let withdrawn = match &progress.stage {
                // Given up since its turn came: the gateway has left its cell.
                Stage::Done(_) => return self.inner.epochs.leave(epoch),
                Stage::Withdrawn(error) => Some(error.clone()),
                _ => None,
            };
            if let Some(error) = withdrawn {
                drop(progress);
                self.inner.epochs.leave(epoch);
                return self.give_up(Err(error));
            }
            progress.stage = Stage::Appending(appending);
            progress.in_epoch = Some(epoch);
            self.draft.kept.iter().for_each(|kept| kept.record_sent());
        }
        let record = self.record(write, epoch, generation, devices);
        // The announcement goes to each other gateway with the append that takes the same way, and at the latest when the last copies are under
        // way.
        let member = self.inner.member.iter();
        match primary_first {
            true => {
                self.append_copies(record, 0..1);
                member.for_each(|member| member.hurry_beside(devices.as_slice()[0]));
            }
            // The primary last: what a secondary refuses at once is then on no primary.
            false => {
                self.append_copies(record, (0..devices.len()).rev());
                member.for_each(|member| member.hurry_all());
            }
        }
    }

    /// The primary's copy landed: the others follow, with the order that it got. If it did not, there are none.
    fn append_others(self: &Arc<Self>, next: Others, primary: Result<Position, AppendError>) {
        let Others { write, epoch, generation, devices } = next;
        match primary {
            Ok(position) => {
                let order = Some(Order::new(generation, position));
                let record = Record { order, ..self.record(write, epoch, generation, devices) };
                self.append_copies(record, 1..devices.len());
                self.inner.member.iter().for_each(|member| member.hurry_all());
            }
            Err(error) => (1..devices.len()).for_each(|index| self.appended(index as u64, Err(error.clone()))),
        }
    }

    fn append_copies(self: &Arc<Self>, mut record: Record, replicas: impl Iterator<Item = usize>) {
        let class = if self.draft.kind == RecordKind::Tombstone { AppendClass::Tombstone } else { AppendClass::Data };
        let pieces: smallvec::SmallVec<[&[u8]; 2]> = self.draft.payload.iter().map(|piece| &piece[..]).collect();
        let devices = record.replica_devices;
        let mut refused: Option<AppendError> = None;
        for index in replicas {
            record.replica_index = index as u8;
            let done: Arc<dyn AppendDone> = self.clone();
            let appended = match &refused {
                Some(error) => Err(error.clone()),
                None => {
                    let device = devices.as_slice()[index];
                    self.inner.targets.append(device, class, &record, &pieces, done, index as u64)
                }
            };
            if let Err(error) = appended {
                self.appended(index as u64, Err(error.clone()));
                refused = Some(error);
            }
        }
    }

    fn record(&self, write: WriteId, epoch: Epoch, generation: Generation, devices: ReplicaDevices) -> Record {
        Record {
            kind: self.draft.kind,
            flags: RecordFlags::default(),
            write,
            epoch,
            generation,
            order: None,
            replica_index: 0,
            replica_devices: devices,
            hash: self.draft.hash,
            length: self.draft.length,
            tree_height: self.draft.tree_height,
            name: self.draft.name.clone(),
            chunk: None,
            attributes: self.amended.get().unwrap_or(&self.draft.attributes).clone(),
        }
    }

    /// All copies are accounted for.
    fn gathered(&self, appending: Appending, frame_bytes: u32) {
        match appending.gather.outcome(appending.generation, None) {
            Gathered::Durable { order, places } => {
                let entry = Entry {
                    hash: self.draft.hash,
                    write: appending.write,
                    epoch: appending.epoch,
                    order,
                    places,
                    frame_bytes,
                    length: self.draft.length,
                    state: self.draft.state(),
                    large: self.draft.tree_height > 0,
                };
                self.inner.publish(entry);
            }
            Gathered::Full { partly } => {
                self.inner.some_write_failed.fetch_or(partly, Ordering::AcqRel);
                match partly {
                    true => self.draft.kept.iter().for_each(|kept| kept.record_is_unknown(appending.epoch)),
                    false => self.draft.kept.iter().for_each(|kept| kept.record_refused()),
                }
                self.give_up_when_settled(&appending, Err(EngineError::Full));
            }
            Gathered::Unknown(reason) => {
                env::mark("gateway: a write of unknown outcome");
                self.draft.kept.iter().for_each(|kept| kept.record_is_unknown(appending.epoch));
                self.inner.some_write_failed.store(true, Ordering::Release);
                self.inner.targets.note_failure();
                self.give_up_when_settled(&appending, Err(EngineError::Unavailable { reason }));
            }
        }
    }

    /// Keeps the turn, and the freeze if there is one, until what may stand of the write is below all that others write from then on. Else it
    /// could be taken for the newest by who recovers; if it was made under a condition, one that was false there (decision 19).
    fn give_up_when_settled(&self, appending: &Appending, outcome: Result<Committed, EngineError>) {
        let out = appending.is_primary_out.then_some(appending.devices.as_slice()[0]);
        if self.inner.is_settled(out) {
            return self.give_up(outcome);
        }
        let (this, generation) = (self.this(), appending.generation);
        self.inner.env.spawn(async move {
            let settled = this.inner.settled(out, generation);
            tokio::pin!(settled);
            tokio::select! {
                biased;
                () = &mut settled => return this.give_up(outcome),
                () = this.inner.env.sleep(SETTLE_PATIENCE) => {}
            }
            let reason = "whether an earlier try of this write has landed can't be told".to_owned();
            this.finish(Err(EngineError::Busy { reason }));
            settled.await;
            this.inner.end_turn(this.draft.hash);
        });
    }

    /// Ends the turn without an entry.
    fn give_up(&self, outcome: Result<Committed, EngineError>) {
        self.inner.end_turn(self.draft.hash);
        self.finish(outcome);
    }

    /// Tells the request.
    pub fn finish(&self, outcome: Result<Committed, EngineError>) {
        let (waker, epoch) = {
            let mut progress = self.progress.lock();
            progress.stage = Stage::Done(outcome);
            (progress.waker.take(), progress.in_epoch.take())
        };
        if let Some(epoch) = epoch {
            self.inner.epochs.leave(epoch);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Who waits for it.
    pub fn waiter(&self) -> &Waiter {
        &self.draft.waiter
    }

    pub fn name(&self) -> &EntryName {
        &self.draft.name
    }

    /// What the listing says of this write.
    pub fn name_entry(&self, entry: &Entry) -> NameEntry {
        NameEntry {
            name: self.draft.name.clone(),
            entry: *entry,
            etag: self.draft.etag,
            modified_ms: self.draft.modified_ms,
            storage_class: self.draft.storage_class,
            checksum: self.draft.checksum,
            version_id: None,
        }
    }

    /// The acknowledgement.
    pub fn acknowledged(&self, entry: &Entry) {
        let committed = Committed { etag: self.draft.etag, order: entry.order, modified_ms: self.draft.modified_ms };
        self.finish(Ok(committed));
    }
}

/// What the copies after the primary's are made by.
struct Others {
    write: WriteId,
    epoch: Epoch,
    generation: Generation,
    devices: ReplicaDevices,
}

impl AppendDone for WriteOp {
    fn appended(&self, token: u64, outcome: Result<Appended, AppendError>) {
        let frame_bytes = outcome.as_ref().map_or(0, |appended| appended.frame_bytes);
        let primary = outcome.as_ref().map(|appended| appended.position).map_err(Clone::clone);
        let is_out = token == 0 && outcome.as_ref().is_err_and(|error| !error.is_certain());
        let outcome = outcome.map(|appended| (appended.place, appended.position)).map_err(|error| failure(&error));
        let (complete, others) = {
            let mut progress = self.progress.lock();
            let Stage::Appending(appending) = &mut progress.stage else {
                assert!(self.inner.is_deposed(), "an append completes while its write is appending");
                return;
            };
            appending.is_primary_out |= is_out;
            let is_complete = appending.gather.note(token as usize, outcome);
            let Appending { write, epoch, generation, devices, primary_first, .. } = *appending;
            let others = (primary_first && token == 0).then_some(Others { write, epoch, generation, devices });
            let complete = match is_complete {
                true => match std::mem::replace(&mut progress.stage, Stage::Queued) {
                    Stage::Appending(appending) => Some(appending),
                    _ => None,
                },
                false => None,
            };
            (complete, others)
        };
        if let Some(others) = others {
            self.this().append_others(others, primary);
        }
        if let Some(appending) = complete {
            self.gathered(appending, frame_bytes as u32);
        }
    }
}

/// Classifies a device's refusal or failure.
pub(crate) fn failure(error: &AppendError) -> CopyFailure {
    match error {
        AppendError::Full { .. } => CopyFailure::Full,
        other => CopyFailure::Unknown(other.to_string()),
    }
}
