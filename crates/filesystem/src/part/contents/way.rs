//! The way of a node to a data partition: to the primary, which is found by the group.

use std::sync::Arc;

use bytes::Bytes;
use env::{Env, Instant};
use groups::Host;
use manager::FilePartitionId;
use net::{BoxFuture, Refusal, Request, Service};

use super::Contents;
use super::member::{ContentKind, ContentMember};
use crate::asking::Way;
use crate::asking::content::{Carried, ContentAnswer, ContentAsk, ContentDoor, LIMITS, Standing};
use crate::data::copies::ask::{Change, ChangeWhat};
use crate::data::copies::reign::{RecordDoor, Reign};
use crate::data::{DataError, PartitionRoom};
use crate::part::leader::{Search, Told};

/// `begins_by`: the asker waits no longer.
async fn answer_here(member: &ContentMember, ask: ContentAsk, begins_by: Instant) -> Told<Carried> {
    if matches!(ask, ContentAsk::Standing) {
        return standing(member).await;
    }
    let Some(reign) = member.reign() else { return not_primary(member) };
    match carry_out(&reign, ask, begins_by).await {
        Err(DataError::Unavailable(reason)) if reign.is_over() || reign.env().now() >= begins_by => Told::Unknown(reason),
        answer => Told::Answer(Carried { answer, room: member.room(&reign) }),
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
    let room = reign.as_ref().map_or_else(PartitionRoom::default, |reign| member.room(reign));
    let standing = Standing {
        record: door.record(),
        primary: reign.as_ref().map(|_| member.around().me),
        is_serving: reign.is_some_and(|reign| reign.is_serving()),
    };
    Told::Answer(Carried { answer: Ok(ContentAnswer::Standing(standing)), room })
}

async fn carry_out(reign: &Arc<Reign>, ask: ContentAsk, begins_by: Instant) -> Result<ContentAnswer, DataError> {
    match ask {
        ContentAsk::Create { data } => reign.create(data, begins_by).await.map(ContentAnswer::Created),
        ContentAsk::Change(Change { what: ChangeWhat::Create { .. } | ChangeWhat::Cut { .. }, .. }) => {
            Err(DataError::Unavailable("a change that only primaries make".to_owned()))
        }
        ContentAsk::Change(change) => reign.change(change, begins_by).await.map(|()| ContentAnswer::Done),
        ContentAsk::Read { extent, offset, len } => reign.read(extent, offset, len as usize).await.map(ContentAnswer::Content),
        ContentAsk::Room | ContentAsk::Standing => Ok(ContentAnswer::Done),
    }
}

/// Whether it changes content that files have: it must not outlive a change of names before it.
fn is_in_place(ask: &ContentAsk) -> bool {
    matches!(ask, ContentAsk::Change(Change { what: ChangeWhat::Overwrite { .. } | ChangeWhat::Punch { .. }, .. }))
}

/// Serves the data partitions whose primary this node is.
pub struct ContentService(pub Arc<Contents>);

impl Service for ContentService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let (partition, ask): (u32, ContentAsk) = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let told = match self.0.member(FilePartitionId(partition)) {
                Some(member) => answer_here(&member, ask, request.deadline).await,
                None => Told::Elsewhere(None),
            };
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

/// The way to a data partition.
pub struct ContentWay {
    search: Search,
    host: Arc<Host<ContentKind>>,
}

impl ContentWay {
    pub fn new(search: Search, host: Arc<Host<ContentKind>>) -> ContentWay {
        ContentWay { search, host }
    }
}

impl Way<ContentAsk, Carried> for ContentWay {
    async fn ask(&self, asked: ContentAsk, until: Option<Instant>) -> Result<Carried, String> {
        let longest = self.env().now() + LIMITS.all;
        let until = until.map_or(longest, |until| until.min(longest));
        if is_in_place(&asked) {
            self.search.settle().await?;
        }
        let here = || async {
            let begins_by = until.min(self.env().now() + LIMITS.each);
            match self.host.get(self.number()) {
                Some(member) => Some(answer_here(&member, asked.clone(), begins_by).await),
                None => None,
            }
        };
        self.search.ask(&asked, Some(until), here).await
    }

    fn number(&self) -> u32 {
        self.search.number()
    }

    fn env(&self) -> &Env {
        self.search.env()
    }
}

impl ContentDoor for ContentWay {
    fn room_here(&self) -> Option<PartitionRoom> {
        let member = self.host.get(self.number())?;
        let reign = member.reign()?;
        Some(member.room(&reign))
    }
}
