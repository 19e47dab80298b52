//! The log of one device: the records of all groups that have their copy there.
//!
//! ```text
//!   step of a machine ─► records ─┬─ the log takes them at once ─────────────► durable ─► the machine is told:
//!                                 └─ it is full, or is being cut: backlog ─────► ...        by a waiting caller, else here
//! ```
//!
//! Records queue up while a write is on its way, of all groups, and go into the next one: the group commit is the wal's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allack::{Durable, Record, StoreError, WalStore};
use device::VolumeError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::DeviceId;

use super::region::{Opened, Region};
use super::{Group, Members};
use crate::journal::Journal;

/// Records that are on their way to the medium.
pub struct Queued {
    pub durable: Durable,
    /// How many records of its group are durable then.
    pub count: u64,
}

/// The log.
pub struct DeviceLog {
    region: Arc<Region>,
    store: WalStore,
    /// None: the device has none.
    journal: Option<Arc<Journal>>,
    backlog: Mutex<Backlog>,
    filled: Notify,
    /// On their way, and only the log's own task waits for them. Machines bound how many there are.
    watched: Mutex<VecDeque<(Arc<Group>, Queued)>>,
    watching: Notify,
    crowded: Notify,
    is_run: AtomicBool,
    /// Why it takes nothing any more.
    failure: Mutex<Option<String>>,
}

/// Records that were not queued at once, in their order. Machines bound how many there are.
#[derive(Default)]
struct Backlog {
    records: Vec<(Arc<Group>, Vec<Record>)>,
    is_being_queued: bool,
}

impl DeviceLog {
    pub(super) fn new(opened: Opened) -> DeviceLog {
        let Opened { region, store, journal, .. } = opened;
        DeviceLog {
            region,
            store,
            journal,
            backlog: Mutex::default(),
            filled: Notify::new(),
            watched: Mutex::default(),
            watching: Notify::new(),
            crowded: Notify::new(),
            is_run: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    pub fn device(&self) -> DeviceId {
        self.region.device()
    }

    /// The journal of small writes of the same device.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Queues records of a group, behind those of earlier calls. None: the log's own task sees to them.
    pub(super) fn queue(&self, group: &Arc<Group>, records: Vec<Record>) -> Option<Queued> {
        let mut backlog = self.backlog.lock();
        if backlog.records.is_empty()
            && !backlog.is_being_queued
            && let Ok(Some(durable)) = self.store.try_queue(&records)
        {
            let count = group.count_records(records.len());
            drop(backlog);
            if self.store.is_crowded() {
                self.crowded.notify_one();
            }
            return Some(Queued { durable, count });
        }
        backlog.records.push((group.clone(), records));
        self.filled.notify_one();
        None
    }

    /// Has the log's own task wait for records.
    pub fn watch(&self, group: &Arc<Group>, queued: Queued) {
        self.watched.lock().push_back((group.clone(), queued));
        self.watching.notify_one();
    }

    /// Lets go of all records that are under way: no caller is left to be told.
    pub(super) fn forget(&self) {
        self.watched.lock().clear();
        self.backlog.lock().records.clear();
    }

    /// Whether its own task is to be begun now.
    pub(super) fn begin(&self) -> bool {
        !self.is_run.swap(true, Ordering::AcqRel)
    }

    /// For as long as the node lives, or until the log fails: then its machines hear of no durable record any more.
    pub(super) async fn run(self: Arc<Self>, members: Arc<Members>) {
        tokio::select! {
            error = self.work_off() => self.fail(&members, &error),
            error = self.watch_records(&members) => self.fail(&members, &error),
            error = self.cut() => self.fail(&members, &error),
            error = self.place_small_writes() => self.fail(&members, &error),
        }
    }

    /// It takes nothing any more: its groups hear of it.
    pub(super) fn fail(&self, members: &Arc<Members>, error: &dyn std::error::Error) {
        let reason = {
            let mut failure = self.failure.lock();
            if failure.is_some() {
                return;
            }
            let causes = super::region::causes(error);
            failure
                .insert(format!("the log of the volume engine on device {} takes nothing more: {causes}", self.device()))
                .clone()
        };
        tracing::error!(reason, "placement groups of volume buckets stand still on this device");
        for group in members.groups().into_iter().filter(|group| group.log.device() == self.device()) {
            group.stand_still(&reason);
            members.ask_to_be_left_out(group.number);
        }
    }

    /// Until that fails.
    async fn place_small_writes(&self) -> VolumeError {
        match &self.journal {
            Some(journal) => journal.run().await,
            None => std::future::pending().await,
        }
    }

    /// Queues what waits for room.
    async fn work_off(&self) -> StoreError {
        loop {
            let taken = {
                let mut backlog = self.backlog.lock();
                backlog.is_being_queued = !backlog.records.is_empty();
                std::mem::take(&mut backlog.records)
            };
            if taken.is_empty() {
                self.filled.notified().await;
                continue;
            }
            for (group, records) in taken {
                match self.store.queue(&records).await {
                    Ok(durable) => {
                        let count = group.count_records(records.len());
                        self.watch(&group, Queued { durable, count });
                    }
                    Err(error) => return error,
                }
            }
        }
    }

    async fn watch_records(&self, members: &Arc<Members>) -> StoreError {
        loop {
            let watched = self.watched.lock().pop_front();
            match watched {
                None => self.watching.notified().await,
                Some((group, queued)) => match queued.durable.await {
                    Ok(()) => members.note_durable(&group, queued.count, Ok(())),
                    Err(error) => return error,
                },
            }
        }
    }

    /// Cuts the log when much of it is in use.
    async fn cut(&self) -> StoreError {
        loop {
            self.crowded.notified().await;
            match self.store.tidy().await {
                Ok(None) => {}
                Ok(Some(keep_from)) => match self.region.keep_from(keep_from).await {
                    Ok(()) => self.store.give_up_before(keep_from),
                    Err(error) => tracing::error!(%error, "the log of the volume engine's groups can't be shortened"),
                },
                Err(error) => return error,
            }
        }
    }
}
