//! Contents of a volume as its clients ask for them: of the primary, which is found by the group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Instant;
use groups::Host;
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use types::{FileVolumeId, NodeId};

use super::Contents;
use super::member::{ContentKind, ContentMember};
use crate::data::copies::ask::{Change, ChangeWhat, as_bytes};
use crate::data::copies::record::Record;
use crate::data::copies::reign::{RecordDoor, Reign};
use crate::data::{DataError, DataPartition, DataRoom, Extents};
use crate::ids::ExtentId;
use crate::part::leader::{Search, SearchLimits, Told};

/// How long a primary may take, and how long a request looks for one. The leases of locks count on the second: a change of a client that has lost its locks must not come
/// later ([`crate::meta::limits::LOCK_LEASE`]).
pub const LIMITS: SearchLimits = SearchLimits { each: Duration::from_secs(5), all: Duration::from_secs(10) };
/// What a partition said of its room is asked again after so long.
const ROOM_AGE: Duration = Duration::from_secs(2);

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Create,
    Change(Change),
    Read { extent: ExtentId, offset: u64, len: u64 },
    Room,
    Standing,
}

/// An answer, and the room that there is.
#[derive(Debug, Serialize, Deserialize)]
struct Carried {
    answer: Result<Answer, DataError>,
    room: DataRoom,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Created(ExtentId),
    Content(#[serde(with = "as_bytes")] Bytes),
    Standing(Standing),
}

/// Where the copies of a volume are, as its group's leader says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub record: Record,
    /// None while no copy in sync leads.
    pub primary: Option<NodeId>,
    pub is_serving: bool,
}

async fn answer_here(member: &ContentMember, ask: Ask) -> Told<Carried> {
    if matches!(ask, Ask::Standing) {
        return standing(member).await;
    }
    let Some(reign) = member.reign() else { return not_primary(member) };
    match carry_out(&reign, ask).await {
        Err(DataError::Unavailable(reason)) if reign.is_over() => Told::Unknown(reason),
        answer => Told::Answer(Carried { answer, room: reign.room() }),
    }
}

fn not_primary(member: &ContentMember) -> Told<Carried> {
    let status = member.group().status();
    let leader = status.leader.filter(|leader| *leader != member.group().node());
    match leader.and_then(|leader| status.addresses.get(&leader).cloned()) {
        Some(address) => Told::Elsewhere(Some(address)),
        None => Told::Again("no copy in sync leads it".to_owned()),
    }
}

async fn standing(member: &ContentMember) -> Told<Carried> {
    let door = member.door();
    if door.catch_up().await.is_none() {
        return not_primary(member);
    }
    let reign = member.reign();
    let room = reign.as_ref().map_or_else(DataRoom::default, |reign| reign.room());
    let standing = Standing {
        record: door.record(),
        primary: reign.as_ref().map(|_| member.around().me),
        is_serving: reign.is_some_and(|reign| reign.is_serving()),
    };
    Told::Answer(Carried { answer: Ok(Answer::Standing(standing)), room })
}

async fn carry_out(reign: &Arc<Reign>, ask: Ask) -> Result<Answer, DataError> {
    match ask {
        Ask::Create => reign.create().await.map(Answer::Created),
        Ask::Change(Change { what: ChangeWhat::Create | ChangeWhat::Cut { .. }, .. }) => {
            Err(DataError::Unavailable("a change that only primaries make".to_owned()))
        }
        Ask::Change(change) => reign.change(change).await.map(|()| Answer::Done),
        Ask::Read { extent, offset, len } => reign.read(extent, offset, len as usize).await.map(Answer::Content),
        Ask::Room | Ask::Standing => Ok(Answer::Done),
    }
}

/// Serves the volumes whose primary this node is.
pub struct ContentService(pub Arc<Contents>);

impl Service for ContentService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let (volume, ask): (u32, Ask) = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let told = match self.0.member(FileVolumeId(volume)) {
                Some(member) => answer_here(&member, ask).await,
                None => Told::Elsewhere(None),
            };
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

/// The way to a volume's contents.
#[derive(Clone)]
pub struct ContentWay {
    inner: Arc<Inner>,
}

struct Inner {
    search: Search,
    host: Arc<Host<ContentKind>>,
    /// As the last answer said, and when.
    room: Mutex<(DataRoom, Option<Instant>)>,
    is_asking_room: AtomicBool,
}

impl ContentWay {
    pub fn new(search: Search, host: Arc<Host<ContentKind>>) -> ContentWay {
        let (room, is_asking_room) = (Mutex::default(), AtomicBool::new(false));
        ContentWay { inner: Arc::new(Inner { search, host, room, is_asking_room }) }
    }

    async fn ask(&self, asked: Ask) -> Result<Answer, DataError> {
        let Inner { search, host, room, .. } = &*self.inner;
        let volume = search.number();
        let here = || async {
            match host.get(volume) {
                Some(member) => Some(answer_here(&member, asked.clone()).await),
                None => None,
            }
        };
        let carried: Result<Carried, String> = search.ask(&asked, here).await;
        let carried = carried
            .map_err(|reason| DataError::Unavailable(format!("the contents of volume {volume} do not answer: {reason}")))?;
        *room.lock() = (carried.room, Some(search.around().env.now()));
        carried.answer
    }

    async fn change(&self, extent: ExtentId, what: ChangeWhat) -> Result<(), DataError> {
        self.ask(Ask::Change(Change { extent, what })).await.map(drop)
    }

    /// Has the room known, so far as the primary answers.
    pub async fn learn_room(&self) {
        if let Err(error) = self.ask(Ask::Room).await {
            tracing::debug!(%error, "the room for a volume is not known yet");
        }
    }

    /// Where the copies are.
    pub async fn standing(&self) -> Result<Standing, DataError> {
        match self.ask(Ask::Standing).await? {
            Answer::Standing(standing) => Ok(standing),
            _ => Err(another_question()),
        }
    }
}

fn another_question() -> DataError {
    DataError::Unavailable("an answer to another question".to_owned())
}

impl Extents for ContentWay {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Append { offset, data }))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.change(extent, ChangeWhat::Overwrite { offset, data }))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(async move {
            match self.ask(Ask::Read { extent, offset, len: len as u64 }).await? {
                Answer::Content(content) if content.len() == len => Ok(content),
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

    /// What was heard last. Where that is old it is asked for, for the next time.
    fn room(&self) -> DataRoom {
        let Inner { search, host, room, is_asking_room } = &*self.inner;
        if let Some(reign) = host.get(search.number()).and_then(|member| member.reign()) {
            return reign.room();
        }
        let (room, at) = *room.lock();
        let is_old = at.is_none_or(|at| search.around().env.now().saturating_duration_since(at) >= ROOM_AGE);
        if is_old && !is_asking_room.swap(true, Ordering::AcqRel) {
            let way = self.clone();
            search.around().env.spawn(async move {
                way.learn_room().await;
                way.inner.is_asking_room.store(false, Ordering::Release);
            });
        }
        room
    }
}

impl DataPartition for ContentWay {
    fn create(&self) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        Box::pin(async move {
            match self.ask(Ask::Create).await? {
                Answer::Created(extent) => Ok(extent),
                _ => Err(another_question()),
            }
        })
    }
}
