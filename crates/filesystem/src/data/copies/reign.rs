//! A primary: the time of one leader of the partition's group whose copy is in sync.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use device::Finishing;
use env::{Env, Instant};
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use types::{DeviceId, NodeId};

use super::CopyStore;
use super::ask::{Change, ChangeWhat, Copy};
use super::gate::Pass;
use super::keeper::Keeper;
use super::limits::{REST, ROOM_LEFT};
use super::members::Seat;
use super::record::{Command, Record, RecordChange, RecordRefusal};
use super::standing::Standing;
use super::works::Works;
use crate::data::latches::Latches;
use crate::data::{DataError, MAX_OPEN_EXTENTS, PartitionRoom};
use crate::ids::{BLOCK_BYTES, ExtentId};

/// The partition's group, as its leader uses it.
pub trait RecordDoor: Send + Sync {
    /// The record as this node has it.
    fn record(&self) -> Record;

    /// Puts a command through the log.
    fn commit(&self, command: Command) -> BoxFuture<'_, Result<Result<(), RecordRefusal>, CommitError>>;

    /// The term in which this node leads, for sure; the record is as of then or later. None if it may not lead.
    fn confirm(&self) -> BoxFuture<'_, Option<u64>>;
}

/// Ways to copies.
pub trait Ways: Send + Sync {
    fn copy(&self, node: NodeId, device: DeviceId) -> Arc<dyn Copy>;
}

/// Why a command may not be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// This node does not lead any more.
    NotLeader,
    /// It may be committed, or not: the same command can be proposed again.
    Again,
}

/// What a reign is made of.
#[derive(Clone)]
pub struct Realm {
    pub env: Env,
    pub me: NodeId,
    pub partition: u32,
    pub own: Arc<Keeper>,
    pub door: Arc<dyn RecordDoor>,
    pub ways: Arc<dyn Ways>,
}

/// A primary.
pub struct Reign {
    pub(super) realm: Realm,
    pub(super) term: u64,
    pub(super) standing: Mutex<Standing>,
    /// Something changed for which others may wait.
    pub(super) changed: Notify,
    pub(super) latches: Latches,
    pub(super) works: Works,
    /// One command at a time.
    committing: tokio::sync::Mutex<()>,
    pub(super) seats: Mutex<BTreeMap<NodeId, Arc<Seat>>>,
    is_over: AtomicBool,
    /// One range of its own copy is written anew at a time.
    pub(super) mending: Arc<Semaphore>,
}

/// It is not the primary any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

impl From<Over> for DataError {
    fn from(_: Over) -> DataError {
        DataError::Unavailable("another node serves it now".to_owned())
    }
}

impl Reign {
    /// The reign of this node in a term, which its group has confirmed. It serves after [`Reign::take_over`].
    pub fn new(realm: Realm, term: u64) -> Arc<Reign> {
        // A group has one election a second at most.
        let short = u32::try_from(term).expect("a group has fewer elections");
        let standing = Mutex::new(Standing::new(realm.me, short, realm.door.record()));
        Arc::new(Reign {
            realm,
            term,
            standing,
            changed: Notify::new(),
            latches: Latches::default(),
            works: Works::default(),
            committing: tokio::sync::Mutex::default(),
            seats: Mutex::default(),
            is_over: AtomicBool::new(false),
            mending: Arc::new(Semaphore::new(1)),
        })
    }

    pub fn term(&self) -> u64 {
        self.term
    }

    pub fn env(&self) -> &Env {
        &self.realm.env
    }

    /// The record as this primary has committed it.
    pub fn record(&self) -> Record {
        self.standing.lock().record().clone()
    }

    pub fn is_serving(&self) -> bool {
        !self.is_over() && self.standing.lock().is_serving()
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether changes are under way.
    #[cfg(test)]
    pub fn has_changes(&self) -> bool {
        self.standing.lock().has_changes()
    }

    /// Whether its own copy takes no writes, while another one could serve.
    pub fn is_stuck(&self) -> bool {
        self.own().is_stuck() && !self.standing.lock().backups().is_empty()
    }

    /// Ends it: what waits is refused.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(super) fn check(&self) -> Result<(), Over> {
        if self.is_over() { Err(Over) } else { Ok(()) }
    }

    pub(super) fn own(&self) -> &dyn CopyStore {
        &**self.realm.own.store()
    }

    pub(super) fn own_pass(&self) -> Pass {
        Pass { term: self.term, session: 1 }
    }

    /// Waits until something has changed, but not for long.
    pub(super) async fn rest(&self) -> Result<(), Over> {
        self.check()?;
        tokio::select! {
            () = self.changed.notified() => {}
            () = self.env().sleep(REST) => {}
        }
        self.check()
    }

    /// Has the record changed, with what this primary knows at its turn; none: nothing is to be changed.
    pub(super) async fn commit_with(
        &self,
        change: impl FnOnce(&mut Standing) -> Option<RecordChange>,
    ) -> Result<Result<(), RecordRefusal>, Over> {
        let _turn = self.committing.lock().await;
        let change = {
            let mut standing = self.standing.lock();
            // In one step with what it is told: a change that has failed here ends the reign before it counts as ended.
            self.check()?;
            change(&mut standing)
        };
        let Some(change) = change else { return Ok(Ok(())) };
        let command = Command { reign: self.term, change };
        loop {
            match self.realm.door.commit(command.clone()).await {
                Ok(Err(RecordRefusal::Reign)) | Err(CommitError::NotLeader) => {
                    self.end();
                    return Err(Over);
                }
                Ok(outcome) => {
                    self.standing.lock().set_record(self.realm.door.record());
                    self.changed.notify_waiters();
                    return Ok(outcome);
                }
                Err(CommitError::Again) => self.rest().await?,
            }
        }
    }

    pub(super) async fn commit(&self, change: RecordChange) -> Result<Result<(), RecordRefusal>, Over> {
        self.commit_with(|_| Some(change)).await
    }

    /// What the partition has, and the room of its copies in sync.
    pub fn room(&self) -> PartitionRoom {
        let used = self.own().used(self.realm.partition);
        let (own, backups) = {
            let standing = self.standing.lock();
            (standing.record().copies.get(&self.realm.me).copied(), standing.backups())
        };
        let seats = self.seats.lock();
        let backups = backups.iter().filter_map(|node| seats.get(node));
        let backups = backups.filter_map(|seat| Some((seat.device(), seat.room()?)));
        let devices = own.map(|device| (device, self.own().room())).into_iter().chain(backups).collect();
        PartitionRoom { is_open: used.extents < MAX_OPEN_EXTENTS && !self.own().is_stuck(), used, devices }
    }

    /// Refuses what is of another partition: its extents may lie on the same device.
    fn check_partition(&self, extent: ExtentId) -> Result<(), DataError> {
        if extent.partition == self.realm.partition { Ok(()) } else { Err(DataError::NoExtent(extent)) }
    }

    /// Makes an extent that begins with these bytes, as [`Reign::change`] does.
    pub async fn create(self: &Arc<Self>, data: Bytes, begins_by: Instant) -> Result<ExtentId, DataError> {
        let extent = self.standing.lock().next_extent(self.realm.partition);
        self.change(Change { extent, what: ChangeWhat::Create { data } }, begins_by).await?;
        Ok(extent)
    }

    /// Makes a change on all copies in sync. It goes on if it is waited for no more. What has not begun by then is refused: its caller may have told that
    /// it failed, and asked for another change.
    pub fn change(self: &Arc<Self>, change: Change, begins_by: Instant) -> BoxFuture<'static, Result<(), DataError>> {
        let reign = self.clone();
        Box::pin(Finishing::new(self.env(), async move {
            reign.check_partition(change.extent)?;
            reign.change_all(change, begins_by).await
        }))
    }

    /// Whether all copies in sync have room for what a change adds.
    pub(super) fn check_room(&self, change: &Change) -> Result<(), DataError> {
        let (ChangeWhat::Create { data } | ChangeWhat::Append { data, .. }) = &change.what else { return Ok(()) };
        if self.standing.lock().is_alone() {
            // Its store says so.
            return Ok(());
        }
        match self.room().least().free_bytes < data.len() as u64 + ROOM_LEFT {
            true => Err(DataError::Full),
            false => Ok(()),
        }
    }

    /// Reads the primary's own copy, as it is once nothing of these blocks is under way. What is damaged there is read from another copy in sync, and written anew.
    pub async fn read(self: &Arc<Self>, extent: ExtentId, offset: u64, len: usize) -> Result<Bytes, DataError> {
        self.check_partition(extent)?;
        let blocks = offset / BLOCK_BYTES..offset.saturating_add(len as u64).div_ceil(BLOCK_BYTES);
        loop {
            self.check()?;
            let (is_readable, is_alone, is_serving) = {
                let standing = self.standing.lock();
                (standing.is_readable(extent), standing.is_alone(), standing.is_serving())
            };
            if !is_readable {
                self.rest().await?;
                continue;
            }
            // Changes have their latches before this primary serves, and begin then.
            let has_latch = is_serving && !is_alone;
            let _latch = if has_latch { Some(self.latches.share(extent, blocks.clone()).await) } else { None };
            if self.realm.door.confirm().await != Some(self.term) {
                return Err(Over.into());
            }
            self.check()?;
            let own = self.own().read(extent, offset, len).await;
            if !is_alone && !is_serving && self.standing.lock().is_serving() {
                continue;
            }
            return match own {
                Err(damaged @ DataError::Damaged { .. }) => {
                    let content = self.read_elsewhere(extent, offset, len).await.ok_or(damaged)?;
                    self.mend_later(extent, offset..offset + len as u64);
                    Ok(content)
                }
                own => own,
            };
        }
    }
}
