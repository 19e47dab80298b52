//! The log that all groups of a process share: one `wal`, so that one write and one flush serve them all.
//!
//! ```text
//!   group 1 ─┐                                   ┌─ base: replay begins at record 40
//!   group 2 ─┼─► records, interleaved ─► wal ────┤
//!   group 3 ─┘                                   └─ segments before record 40 are used again
//! ```
//!
//! Invariants
//! - Memory holds what the log holds of each group (votes, entries, snapshots): the log is read only when it is opened.
//! - A record that a group needs is never given up. `keep_from` in the base moves first, durably, and only to where the oldest
//!   needed record stands; what replaces older records is durable before that.
//! - A group that is quiet does not hold the log up: what it needs of old segments is said again at the log's end.
//! - Nobody fills the log: what may be long claims room first, and what frees room has some of its own.
//! - After a failed write nothing is written: every group of this process stops, and a restart finds out what is on the medium.

mod base;
mod bounds;
mod folder;
mod group;
mod recycle;
mod room;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use disk::Disk;
use env::Env;
use kv::{Kv, MemoryKv};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wal::{AppendError, OpenOptions, Pending, SegmentStore, Tail, Wal};

pub use base::{BASE_BYTES, BaseError, SlotError};
pub(crate) use base::{Base, check_slot};
pub(crate) use bounds::entry_bytes_of_full;
pub use folder::PlaceError;
pub(crate) use group::GroupLog;
use room::Needs;
pub(crate) use room::{Claim, Purpose};
pub use state::ReplayError;
pub(crate) use state::{GroupState, Snapshot, snapshot_checksum};

use crate::id::{GroupId, NodeId};
use crate::limits::{
    MAX_BATCH_BYTES, MAX_COMMAND_BYTES, MAX_GROUPS, MAX_LOG_SEGMENTS, MIN_LOG_SEGMENTS, SNAPSHOT_AFTER_ENTRIES,
    SNAPSHOT_PIECE_BYTES,
};
use crate::record::{Change, RECORD_OVERHEAD_BYTES, Record, RecordError};

/// The longest record: a command in an entry of its own, with room for a membership.
const LONGEST_RECORD_BYTES: usize = MAX_COMMAND_BYTES + 2 * RECORD_OVERHEAD_BYTES;

const _: () = assert!(MAX_BATCH_BYTES <= MAX_COMMAND_BYTES);

const _: () = assert!(SNAPSHOT_PIECE_BYTES + RECORD_OVERHEAD_BYTES <= LONGEST_RECORD_BYTES);

/// Where the shared log lies.
#[derive(Clone)]
pub struct LogPlace {
    /// The segments of the log.
    pub segments: Arc<dyn SegmentStore>,
    /// [`BASE_BYTES`] that say where replay begins; zeros before the log's first use.
    pub base: Arc<dyn Disk>,
    /// Segments that there is room for, between [`MIN_LOG_SEGMENTS`] and [`MAX_LOG_SEGMENTS`].
    pub most_segments: usize,
    /// A part of the log is left to this group, whatever others need: the one that all others depend on.
    pub favoured: Option<GroupId>,
    /// What machines of rows are kept as, beside the log. It goes with the log: neither is of use without the other.
    pub rows: Arc<dyn Kv>,
    /// What keeps the log's last records when the process ends. Without one no group is ordered ([`crate::Group::set_ordered`]).
    pub tail: Option<Arc<dyn Tail>>,
    /// A group makes a snapshot after so many entries: [`SNAPSHOT_AFTER_ENTRIES`] but where snapshots are to be seen early.
    pub snapshot_after: u64,
}

impl LogPlace {
    /// A log of at most so many segments. Rows are in memory: for a node that has no machines of rows, or names another store.
    pub fn new(segments: Arc<dyn SegmentStore>, base: Arc<dyn Disk>, most_segments: usize) -> LogPlace {
        let rows = Arc::new(MemoryKv::new());
        LogPlace { segments, base, most_segments, favoured: None, rows, tail: None, snapshot_after: SNAPSHOT_AFTER_ENTRIES }
    }
}

/// The shared log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error(transparent)]
    Wal(#[from] wal::OpenError),
    #[error("record {lsn} of the consensus log")]
    Record {
        lsn: u64,
        #[source]
        cause: RecordError,
    },
    #[error("record {lsn} of the consensus log")]
    Replay {
        lsn: u64,
        #[source]
        cause: ReplayError,
    },
    #[error(
        "segments of {segment_bytes} bytes take records of {found} bytes; {} are needed",
        LONGEST_RECORD_BYTES + SNAPSHOT_PIECE_BYTES
    )]
    SmallSegments { segment_bytes: u64, found: usize },
    #[error("room for {found} segments; at least {MIN_LOG_SEGMENTS} are needed, at most {MAX_LOG_SEGMENTS} are used")]
    Segments { found: usize },
    #[error("{found} groups stand in the consensus log, at most {MAX_GROUPS} are allowed")]
    Groups { found: usize },
}

/// The shared log. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedLog {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    wal: Wal,
    base: Base,
    segment_bytes: u64,
    most_segments: usize,
    favoured: Option<GroupId>,
    snapshot_after: u64,
    groups: Mutex<BTreeMap<GroupId, Arc<Mutex<GroupState>>>>,
    /// Somebody gave something up.
    untidy: Notify,
    /// One at a time tidies up.
    tidying: tokio::sync::Mutex<()>,
    /// One at a time writes a snapshot.
    writing_snapshot: tokio::sync::Mutex<()>,
    is_closed: AtomicBool,
    /// Room that was promised and may not be filled yet.
    claimed_bytes: AtomicU64,
    needs: Needs,
}

impl SharedLog {
    /// Opens the log of `node` and reads it.
    pub(crate) async fn open(env: &Env, node: NodeId, place: &LogPlace) -> Result<SharedLog, LogError> {
        if !(MIN_LOG_SEGMENTS..=MAX_LOG_SEGMENTS).contains(&place.most_segments) {
            return Err(LogError::Segments { found: place.most_segments });
        }
        let base = Base::open(Arc::clone(&place.base), node).await?;
        let mut groups: BTreeMap<GroupId, GroupState> = BTreeMap::new();
        let mut refused = None;
        let mut take = |lsn: wal::Lsn, bytes: &[u8]| {
            if refused.is_some() {
                return;
            }
            refused = match Record::decode(bytes) {
                Err(cause) => Some(LogError::Record { lsn: lsn.0, cause }),
                Ok(Record { change: Change::Mark, .. }) => None,
                Ok(Record { group, change }) => {
                    let replayed = groups.entry(group).or_default().replay(group, change, lsn);
                    replayed.err().map(|cause| LogError::Replay { lsn: lsn.0, cause })
                }
            };
        };
        let options = OpenOptions { keep_from: base.keep_from(), ..OpenOptions::default() };
        let wal = Wal::open_keeping(env, Arc::clone(&place.segments), place.tail.clone(), options, &mut take).await?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        let found = wal.max_record_bytes();
        if found < LONGEST_RECORD_BYTES + SNAPSHOT_PIECE_BYTES {
            return Err(LogError::SmallSegments { segment_bytes: place.segments.segment_bytes(), found });
        }
        for (group, state) in &mut groups {
            state.check(*group).map_err(|cause| LogError::Replay { lsn: wal.durable_lsn().0, cause })?;
        }
        groups.retain(|_, state| !state.is_empty());
        if groups.len() > MAX_GROUPS {
            return Err(LogError::Groups { found: groups.len() });
        }
        let inner = Inner {
            env: env.clone(),
            wal,
            base,
            segment_bytes: place.segments.segment_bytes(),
            most_segments: place.most_segments,
            favoured: place.favoured,
            snapshot_after: place.snapshot_after,
            groups: Mutex::new(groups.into_iter().map(|(group, state)| (group, Arc::new(Mutex::new(state)))).collect()),
            untidy: Notify::new(),
            tidying: tokio::sync::Mutex::new(()),
            writing_snapshot: tokio::sync::Mutex::new(()),
            is_closed: AtomicBool::new(false),
            claimed_bytes: AtomicU64::new(0),
            needs: Needs::default(),
        };
        let log = SharedLog { inner: Arc::new(inner) };
        log.measure();
        Ok(log)
    }

    /// Groups that the log knows.
    pub(crate) fn groups(&self) -> Vec<GroupId> {
        self.inner.groups.lock().keys().copied().collect()
    }

    /// The part of one group.
    pub(crate) fn group(&self, group: GroupId) -> GroupLog {
        let state = Arc::clone(self.inner.groups.lock().entry(group).or_default());
        GroupLog::new(self.clone(), group, state)
    }

    /// Forgets a group, durably. Nobody may use its [`GroupLog`] afterwards. Must not be dropped before it ends.
    pub(crate) async fn remove(&self, group: GroupId) -> Result<(), AppendError> {
        // While the log is tidied up, what a group says again must not come after its removal.
        let _alone = self.inner.tidying.lock().await;
        let state = Arc::clone(self.inner.groups.lock().entry(group).or_default());
        let bytes = Record { group, change: Change::Remove }.encode();
        let room = self.inner.wal.reserve(bytes.len()).await?;
        // Nor may what the group was writing when it was stopped: a snapshot takes its time.
        let removal = {
            let mut state = state.lock();
            state.set_removed();
            room.append(bytes)?
        };
        removal.await?;
        self.inner.groups.lock().remove(&group);
        self.inner.untidy.notify_one();
        Ok(())
    }

    /// Waits until all that ordered groups were told of is durable.
    pub(crate) async fn settle(&self) -> Result<(), AppendError> {
        self.inner.wal.settle().await
    }

    /// Whether nothing gets durable until there is room in the log's file system.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.inner.wal.waits_for_room()
    }

    /// Has the log looked after soon.
    pub(crate) fn call_housekeeping(&self) {
        self.inner.untidy.notify_one();
    }

    /// Segments in use.
    pub(crate) fn live_segments(&self) -> usize {
        self.inner.wal.live_segment_count()
    }

    /// Queues a record that nothing in memory refers to.
    async fn append(&self, group: GroupId, change: Change) -> Result<Pending, AppendError> {
        let bytes = Record { group, change }.encode();
        let room = self.inner.wal.reserve(bytes.len()).await?;
        room.append(bytes)
    }
}
