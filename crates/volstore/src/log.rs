//! A placement group's log. On a lone server it is a write-ahead log on owned units; in a cluster the group's members agree on it.
//!
//! The rest of the engine sees six things of it: room for a record, a record's number and when it is durable, up to where all is settled, how full it is, that its
//! first records are given up, and whether this node may answer from what it holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use allack::limits::MAX_ENTRY_BYTES;
use device::{Volume, VolumeDisk};
use disk::BLOCK_BYTES;
use env::Env;
use tokio::sync::oneshot;
use wal::{Lsn, OpenError, OpenOptions, RegionStore, Reservation, Settling, Wal};

use crate::blocks::{BlockError, LogicalVolume};

use crate::limits::{LOG_SEGMENTS, LOG_SHARE, MAX_LOG_SEGMENT_BYTES, MIN_LOG_SEGMENT_BYTES};
use crate::name::Opseq;
use crate::seat::Seat;
use crate::superblock::SUPERBLOCK_SLOTS;

/// The volumes that a flush has to reach: contents stand on all of them.
pub struct Volumes {
    pub all: Vec<Option<LogicalVolume>>,
    pub settling: Settling,
}

impl Volumes {
    /// Has all that was done before stand on the medium.
    pub async fn settle(&self) -> Result<(), BlockError> {
        let done_before = self.settling.done_below();
        for volume in self.all.iter().flatten() {
            volume.flush().await?;
        }
        self.settling.note_flushed(done_before);
        Ok(())
    }

    /// Mutations below this number are resolved: their records and contents are written.
    pub fn note_done(&self, below: Opseq) {
        self.settling.note_done(below.0);
    }

    /// Mutations below this number are resolved, and stand on the medium.
    pub fn settled_below(&self) -> Opseq {
        Opseq(self.settling.settled_below())
    }
}

/// Where the log's segments stand on the home volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    pub segment_bytes: u64,
}

impl LogPlace {
    pub fn of(volume_bytes: u64) -> LogPlace {
        let block = BLOCK_BYTES as u64;
        let share = volume_bytes / LOG_SHARE / LOG_SEGMENTS as u64 / block * block;
        LogPlace { segment_bytes: share.clamp(MIN_LOG_SEGMENT_BYTES, MAX_LOG_SEGMENT_BYTES) }
    }

    /// The first byte of a segment.
    pub fn segment_start(&self, index: usize) -> u64 {
        SUPERBLOCK_SLOTS * BLOCK_BYTES as u64 + index as u64 * self.segment_bytes
    }

    /// Blocks of the superblock and the log.
    pub fn fixed_blocks(&self) -> u64 {
        self.segment_start(LOG_SEGMENTS) / BLOCK_BYTES as u64
    }
}

/// The log.
pub enum PgLog {
    Wal(Wal),
    Replicated(Seat),
}

/// Room for a record.
pub enum Room {
    Wal(Reservation),
    Replicated,
}

/// Why a record was not taken, or whether it was is not known.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error(transparent)]
    Wal(#[from] wal::AppendError),
    #[error("the log of the placement group is full until its names are written")]
    Full,
    #[error("{reason}")]
    NotServing { reason: String },
}

/// A record on its way. Ready when it is durable at all members.
pub enum Pending {
    Wal(wal::Pending),
    Replicated(oneshot::Receiver<()>),
}

impl Future for Pending {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match &mut *self {
            Pending::Wal(pending) => ready!(Pin::new(pending).poll(context)).map(drop).map_err(LogError::from),
            Pending::Replicated(told) => {
                let reason = "the placement group changes its primary: whether the write has taken effect is not known";
                ready!(Pin::new(told).poll(context)).map_err(|_| LogError::NotServing { reason: reason.to_owned() })
            }
        })
    }
}

impl PgLog {
    /// Opens the log on a volume, or begins it, and hands out its records.
    pub async fn open(
        env: &Env,
        volumes: Arc<Volumes>,
        home: Volume,
        place: LogPlace,
        keep_from: Opseq,
        replay: &mut (dyn FnMut(Opseq, &[u8]) + Send),
    ) -> Result<PgLog, OpenError> {
        let store = segments(volumes, home, place);
        let options = OpenOptions { keep_from: Lsn(keep_from.0), begin_at: Lsn::FIRST };
        let wal = Wal::open(env, Arc::new(store), options, &mut |lsn, bytes| replay(Opseq(lsn.0), bytes)).await?;
        Ok(PgLog::Wal(wal))
    }

    /// Longest record.
    pub fn max_record_bytes(&self) -> usize {
        match self {
            PgLog::Wal(wal) => wal.max_record_bytes(),
            PgLog::Replicated(_) => MAX_ENTRY_BYTES,
        }
    }

    /// Waits for room for a record.
    pub async fn reserve(&self, bytes: usize) -> Result<Room, LogError> {
        match self {
            PgLog::Wal(wal) => Ok(Room::Wal(wal.reserve(bytes).await?)),
            PgLog::Replicated(_) => Ok(Room::Replicated),
        }
    }

    /// Takes a record. Its number is fixed now; it is durable when what is returned is ready.
    pub fn append(&self, room: Room, record: Vec<u8>) -> Result<(Opseq, Pending), LogError> {
        match (self, room) {
            (PgLog::Wal(_), Room::Wal(room)) => {
                let pending = room.append(record)?;
                Ok((Opseq(pending.lsn().0), Pending::Wal(pending)))
            }
            (PgLog::Replicated(seat), _) => seat.append(record),
            (PgLog::Wal(_), Room::Replicated) => unreachable!("room in another log"),
        }
    }

    /// Whether a record fits that is none of a start's. A write-ahead log was asked for room before.
    pub fn has_room(&self, bytes: usize) -> bool {
        match self {
            PgLog::Wal(_) => true,
            PgLog::Replicated(seat) => seat.has_room(bytes),
        }
    }

    /// All copies have a superblock that needs no records before this one: a primary has opened the store.
    pub async fn note_opened(&self, keep_from: Opseq) {
        match self {
            PgLog::Wal(_) => {}
            PgLog::Replicated(seat) => seat.note_released_before(keep_from).await,
        }
    }

    /// Segments that hold records which are needed.
    pub fn live_segments(&self) -> usize {
        match self {
            PgLog::Wal(wal) => wal.live_segment_count(),
            PgLog::Replicated(seat) => seat.live_segments(),
        }
    }

    /// Gives up the records before this one.
    pub async fn truncate_before(&self, opseq: Opseq) {
        match self {
            PgLog::Wal(wal) => wal.truncate_before(Lsn(opseq.0)),
            PgLog::Replicated(seat) => seat.release_before(opseq).await,
        }
    }

    /// Whether what this node holds is the newest, so that it may be read here.
    pub fn may_read(&self) -> bool {
        match self {
            PgLog::Wal(_) => true,
            PgLog::Replicated(seat) => seat.may_read(),
        }
    }
}

/// The segments: a fixed number, at the start of the home volume. The log waits for a dump. Its flushes reach all volumes.
fn segments(volumes: Arc<Volumes>, home: Volume, place: LogPlace) -> RegionStore {
    let settle = move || {
        let volumes = volumes.clone();
        let settle = async move {
            volumes.settle().await.map_err(|error| match error {
                BlockError::Volume(error) => error,
                BlockError::Copy { .. } => unreachable!("a lone server has its volumes here"),
            })
        };
        Box::pin(settle) as _
    };
    let disk = Arc::new(VolumeDisk::new(home, Arc::new(settle)));
    RegionStore::new(disk, place.segment_start(0), place.segment_bytes, LOG_SEGMENTS).waiting_when_full()
}
