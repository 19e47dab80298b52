//! A data partition as its clients ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Instant;
use net::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use types::NodeId;

use super::contents::Partition;
use super::{AskLimits, Way};
use crate::data::copies::ask::{Change, ChangeWhat, as_bytes};
use crate::data::copies::record::Record;
use crate::data::{DataError, DataPartition, DataRoom, Extents, PartitionRoom};
use crate::ids::ExtentId;

/// How long a primary may take, and how long a question looks for one. A change that has not begun by then is not begun. The leases of locks count on the second: a change of
/// a client that has lost its locks must not come later ([`crate::meta::limits::LOCK_LEASE`]).
pub const LIMITS: AskLimits = AskLimits { each: Duration::from_secs(5), all: Duration::from_secs(10) };
/// What a partition said of its room is asked again after so long.
const ROOM_AGE: Duration = Duration::from_secs(2);

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ContentAsk {
    Create {
        #[serde(with = "as_bytes")]
        data: Bytes,
    },
    Change(Change),
    Read {
        extent: ExtentId,
        offset: u64,
        len: u64,
    },
    Room,
    Standing,
}

/// An answer, and what the partition has room for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Carried {
    pub answer: Result<ContentAnswer, DataError>,
    pub room: PartitionRoom,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ContentAnswer {
    Done,
    Created(ExtentId),
    Content(#[serde(with = "as_bytes")] Bytes),
    Standing(Standing),
}

/// Where the copies of a partition are, as its group's leader says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub record: Record,
    /// None while no copy in sync leads.
    pub primary: Option<NodeId>,
    pub is_serving: bool,
}

/// A way to the primary of a data partition.
pub trait ContentDoor: Way<ContentAsk, Carried> {
    /// The room as the primary knows it, where that is in this process.
    fn room_here(&self) -> Option<PartitionRoom> {
        None
    }
}

/// A data partition, wherever its primary is.
pub struct ContentPartition<W> {
    inner: Arc<Inner<W>>,
}

struct Inner<W> {
    way: W,
    /// As the last answer said, and when it was asked.
    room: Mutex<(Option<PartitionRoom>, Option<Instant>)>,
    is_asking_room: AtomicBool,
}

impl<W: ContentDoor> Inner<W> {
    async fn ask(&self, asked: ContentAsk) -> Result<ContentAnswer, DataError> {
        let carried = self.way.ask(asked, None).await;
        let carried = carried.map_err(|reason| {
            DataError::Unavailable(format!("data partition {} does not answer: {reason}", self.way.number()))
        })?;
        *self.room.lock() = (Some(carried.room), Some(self.way.env().now()));
        carried.answer
    }

    /// Whether it has answered.
    async fn learn_room(&self) -> bool {
        let told = self.ask(ContentAsk::Room).await;
        told.inspect_err(|error| tracing::debug!(%error, "the room of a data partition is not known yet")).is_ok()
    }
}

impl<W: ContentDoor> ContentPartition<W> {
    pub fn new(way: W) -> ContentPartition<W> {
        ContentPartition { inner: Arc::new(Inner { way, room: Mutex::default(), is_asking_room: AtomicBool::new(false) }) }
    }

    async fn change(&self, extent: ExtentId, what: ChangeWhat) -> Result<(), DataError> {
        self.inner.ask(ContentAsk::Change(Change { extent, what })).await.map(drop)
    }

    /// Where the copies are, and what the partition has.
    pub async fn standing(&self) -> Result<(Standing, PartitionRoom), DataError> {
        match self.inner.ask(ContentAsk::Standing).await? {
            ContentAnswer::Standing(standing) => Ok((standing, self.inner.room.lock().0.clone().unwrap_or_default())),
            _ => Err(another_question()),
        }
    }
}

fn another_question() -> DataError {
    DataError::Unavailable("an answer to another question".to_owned())
}

impl<W: ContentDoor> Extents for ContentPartition<W> {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Append { offset, data }))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Overwrite { offset, data }))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(async move {
            match self.inner.ask(ContentAsk::Read { extent, offset, len: len as u64 }).await? {
                ContentAnswer::Content(content) if content.len() == len => Ok(content),
                _ => Err(another_question()),
            }
        })
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Punch { offset, len }))
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Remove))
    }

    fn room(&self) -> DataRoom {
        self.state().unwrap_or_default().least()
    }
}

impl<W: ContentDoor> Partition for ContentPartition<W> {
    /// What was heard last. Where that is old it is asked for, for the next time.
    fn state(&self) -> Option<PartitionRoom> {
        let Inner { way, room, is_asking_room } = &*self.inner;
        let here = way.room_here();
        if here.is_some() {
            return here;
        }
        let (room, at) = room.lock().clone();
        let is_old = at.is_none_or(|at| way.env().now().saturating_duration_since(at) >= ROOM_AGE);
        if is_old && !is_asking_room.swap(true, Ordering::AcqRel) {
            let inner = self.inner.clone();
            way.env().spawn(async move {
                inner.learn_room().await;
                inner.is_asking_room.store(false, Ordering::Release);
            });
        }
        room
    }

    fn learn(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.inner.learn_room())
    }
}

impl<W: ContentDoor> DataPartition for ContentPartition<W> {
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        Box::pin(async move {
            match self.inner.ask(ContentAsk::Create { data }).await? {
                ContentAnswer::Created(extent) => Ok(extent),
                _ => Err(another_question()),
            }
        })
    }
}
