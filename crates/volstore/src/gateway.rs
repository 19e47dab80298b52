//! The volume engine as a gateway has it: the placement groups.
//!
//! ```text
//!   name ─► group ─┬─ its primary is this node ─► a call ──────┬─► answer           list ─► all groups ─► merged
//!                  └─ another one ─────────────► a question ───┘
//! ```

mod merging;
mod pieces;

use ::engine::{
    Committed, CompletePart, Condition, Content, EngineError, EngineFuture, Found, ListPage, ListQuery, ObjectEngine,
    ObjectInfo, ObjectKey, PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef, Waiter,
};
use bytes::Bytes;
use format::attributes::Attributes;
use manager::PLACEMENT_GROUPS;
use types::{BucketId, UploadId};

use crate::asking::{Answer, Ask, Packed, PartSource, Question, WireInfo, WirePart, engine_error, wire_condition};
use crate::desk;
use crate::interface::VolumeEngine;
use crate::limits::{PRIMARY_PATIENCE, PRIMARY_PAUSE, QUESTION_PATIENCE};
use crate::name::{Name, Opseq};
use crate::place::{Place, Primary};
use crate::record::decode_attributes;
use crate::store::StagedContent;

use pieces::{RemoteReader, RemoteStaged};

/// The engine of a gateway. Clones are the same one.
#[derive(Clone)]
pub struct Gateway {
    place: Place,
    is_strict: bool,
}

impl Gateway {
    pub fn new(place: Place, is_strict: bool) -> Gateway {
        Gateway { place, is_strict }
    }

    /// The engine of a group that is served here.
    fn here(&self, group: u32) -> Option<VolumeEngine> {
        let office = self.place.office(group)?;
        office.store.may_answer().then(|| office.engine(self.is_strict))
    }

    /// The engine of a name's group, if that is served here.
    fn here_of(&self, name: &Name) -> Option<VolumeEngine> {
        self.here(Place::group_of(name))
    }

    /// Asks the primary of a name's group.
    async fn ask(&self, name: &Name, ask: Ask) -> Result<Answer, EngineError> {
        self.ask_group(Place::group_of(name), ask).await
    }

    /// Asks a group's primary, whichever node that is. What may have been carried out is asked again only if it may be repeated.
    async fn ask_group(&self, group: u32, ask: Ask) -> Result<Answer, EngineError> {
        let (is_read, may_be_repeated) = (ask.is_read(), ask.may_be_repeated());
        let question = Question { group, is_strict: self.is_strict, ask };
        let until = self.place.env().now() + PRIMARY_PATIENCE;
        loop {
            if !is_read && Waiter::present().has_left() {
                return Err(EngineError::Unavailable { reason: "the client has gone".to_owned() });
            }
            let unavailable = match self.place.primary(group) {
                None => match self.place.obstacle(group) {
                    Some(obstacle) => return Err(obstacle),
                    None => EngineError::Unavailable { reason: format!("placement group {group} has no primary that serves") },
                },
                Some(primary) => match self.try_ask(primary, &question).await {
                    Ok(Answer::Failed(failure)) => match engine_error(failure) {
                        error @ EngineError::Unavailable { .. } if is_read => error,
                        error => return Err(error),
                    },
                    Ok(answer) => return Ok(answer),
                    Err((error, nothing_was_done)) if nothing_was_done || may_be_repeated => error,
                    Err((error, _)) => return Err(error),
                },
            };
            if self.place.env().now() >= until {
                return Err(unavailable);
            }
            self.place.env().sleep(PRIMARY_PAUSE).await;
        }
    }

    /// An error comes with whether it is certain that nothing was done.
    async fn try_ask(&self, primary: Primary, question: &Question) -> Result<Answer, (EngineError, bool)> {
        let env = self.place.env();
        match primary {
            Primary::Here(office) => {
                let answered = desk::answer(&office, env, question.clone()).await;
                Ok(answered.unwrap_or_else(|error| Answer::Failed(crate::asking::failure_of(error))))
            }
            Primary::There(caller) => {
                let question = postcard::to_allocvec(question).expect("a question has no type that can't be written");
                let answered = caller.call(question.into(), env.now() + QUESTION_PATIENCE).await;
                let unavailable = |reason: String| EngineError::Unavailable { reason };
                let bytes = answered.map_err(|error| (unavailable(error.to_string()), error.is_definite()))?;
                postcard::from_bytes(&bytes).map_err(|error| (unavailable(format!("an answer that is none: {error}")), false))
            }
        }
    }

    /// The engine that has what was staged, if it was staged here.
    fn staged_here(&self, staged: &mut StagedChunks) -> Option<VolumeEngine> {
        let content: &mut StagedContent = staged.inner.as_any_mut().downcast_mut()?;
        Some(VolumeEngine::new(content.store.clone(), self.is_strict))
    }

    /// Takes what was staged at another node: its number there. Nothing is dropped there any more.
    fn take_staged(staged: &mut StagedChunks) -> Result<u64, EngineError> {
        let staged: Option<&mut RemoteStaged> = staged.inner.as_any_mut().downcast_mut();
        Ok(staged.ok_or_else(odd)?.take())
    }
}

/// The group may be served elsewhere by now.
fn is_unavailable<T>(answer: &Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Unavailable { .. }))
}

fn odd() -> EngineError {
    EngineError::Unavailable { reason: "an answer to another question".to_owned() }
}

fn pack(attributes: &Attributes) -> Result<Packed, EngineError> {
    attributes.check_length().map_err(|error| EngineError::Invalid { reason: error.to_string() })?;
    Ok(attributes.to_bytes().to_vec().into())
}

fn unpack(attributes: &[u8]) -> Result<Attributes, EngineError> {
    decode_attributes(attributes).map_err(|_| odd())
}

fn joined(payload: &Payload) -> Vec<u8> {
    payload.iter().flat_map(|part| part.iter().copied()).collect()
}

fn info_of(info: &WireInfo) -> Result<ObjectInfo, EngineError> {
    Ok(ObjectInfo { length: info.length, attributes: unpack(&info.attributes)?, order: info.opseq.order() })
}

fn committed_of(answer: Answer) -> Result<Committed, EngineError> {
    let Answer::Committed { attributes, opseq } = answer else { return Err(odd()) };
    let Attributes { etag, modified_ms, .. } = unpack(&attributes)?;
    Ok(Committed { etag, order: opseq.order(), modified_ms })
}

fn part_of(part: &WirePart) -> Result<PartInfo, EngineError> {
    let WirePart { number, length, opseq, .. } = *part;
    Ok(PartInfo { number, length, attributes: unpack(&part.attributes)?, order: opseq.order() })
}

impl ObjectEngine for Gateway {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        self.here_of(&Name::of(key))?.open_cached(key).filter(|found| !is_unavailable(found))
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            let name = Name::of(key);
            let group = Place::group_of(&name);
            if let Some(here) = self.here(group) {
                let found = here.open(key).await;
                if !is_unavailable(&found) {
                    return found;
                }
            }
            match self.ask_group(group, Ask::Open { name }).await? {
                Answer::Whole { info, bytes } => Ok(Found { info: info_of(&info)?, content: Content::Whole(bytes.into()) }),
                Answer::Held { info, parts, held } => {
                    let reader = RemoteReader::new(self.clone(), group, held, parts);
                    Ok(Found { info: info_of(&info)?, content: Content::Chunked(Box::new(reader)) })
                }
                _ => Err(odd()),
            }
        })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move {
            let name = Name::of(key);
            if let Some(here) = self.here_of(&name) {
                let info = here.info(key).await;
                if !is_unavailable(&info) {
                    return info;
                }
            }
            match self.ask(&name.clone(), Ask::Info { name }).await? {
                Answer::Info(info) => info_of(&info),
                _ => Err(odd()),
            }
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let name = Name::of(key);
            if let Some(here) = self.here_of(&name) {
                return here.put(key, attributes, payload, condition).await;
            }
            let (attributes, condition) = (pack(&attributes)?, wire_condition(&condition));
            let bytes = joined(&payload);
            drop(payload);
            committed_of(self.ask(&name.clone(), Ask::Put { name, attributes, bytes, condition }).await?)
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        let name = Name::of(key);
        match self.here_of(&name) {
            Some(here) => here.stage(key, part),
            None => StagedChunks { length: 0, inner: Box::new(RemoteStaged::new(self.clone(), name)) },
        }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            if let Some(here) = self.staged_here(staged) {
                return here.stage_pieces(staged, chunk).await;
            }
            let remote: &mut RemoteStaged = staged.inner.as_any_mut().downcast_mut().ok_or_else(odd)?;
            let bytes = joined(&chunk);
            drop(chunk);
            let length = bytes.len() as u64;
            let (name, held) = (remote.name().clone(), remote.held());
            let Answer::Staged { held } = self.ask(remote.name(), Ask::Stage { name, held, bytes }).await? else {
                return Err(odd());
            };
            remote.hold(held);
            staged.length += length;
            Ok(())
        })
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        mut staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            if let Some(here) = self.staged_here(&mut staged) {
                return here.commit(key, staged, attributes, condition).await;
            }
            let (attributes, condition) = (pack(&attributes)?, wire_condition(&condition));
            let (name, held) = (Name::of(key), Gateway::take_staged(&mut staged)?);
            committed_of(self.ask(&name.clone(), Ask::Commit { name, attributes, held, condition }).await?)
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let name = Name::of(key);
            if let Some(here) = self.here_of(&name) {
                return here.set_tags(key, tags).await;
            }
            let tags = tags.into_iter().map(|(tag, value)| (tag.to_vec(), value.to_vec())).collect();
            committed_of(self.ask(&name.clone(), Ask::SetTags { name, tags }).await?)
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let name = Name::of(key);
            if let Some(here) = self.here_of(&name) {
                return here.delete(key, condition).await;
            }
            let condition = wire_condition(&condition);
            self.ask(&name.clone(), Ask::Delete { name, condition }).await.map(drop)
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(self.list_groups(query))
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            for group in 0..PLACEMENT_GROUPS {
                match self.ask_group(group, Ask::IsEmpty { bucket }).await? {
                    Answer::IsEmpty(true) => {}
                    Answer::IsEmpty(false) => return Ok(false),
                    _ => return Err(odd()),
                }
            }
            Ok(true)
        })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(async move {
            let (name, attributes) = (Name::of(key), pack(&attributes)?);
            match self.ask(&name.clone(), Ask::CreateUpload { name, attributes }).await? {
                Answer::Upload(upload) => Ok(upload),
                _ => Err(odd()),
            }
        })
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(async move {
            let name = Name::of(&upload.key);
            match self.ask(&name.clone(), Ask::Upload { name, upload: upload.upload }).await? {
                Answer::Attributes(attributes) => unpack(&attributes),
                _ => Err(odd()),
            }
        })
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(async move {
            let name = Name::of(&upload.key);
            let bytes = match content {
                PartContent::Whole(payload) => match self.here_of(&name) {
                    Some(here) => return here.put_part(upload, number, attributes, PartContent::Whole(payload)).await,
                    None => PartSource::Whole(joined(&payload)),
                },
                PartContent::Staged(mut staged) => match self.staged_here(&mut staged) {
                    Some(here) => return here.put_part(upload, number, attributes, PartContent::Staged(staged)).await,
                    None => PartSource::Held(Gateway::take_staged(&mut staged)?),
                },
            };
            let attributes = pack(&attributes)?;
            let ask = Ask::PutPart { name: name.clone(), upload: upload.upload, number, attributes, bytes };
            match self.ask(&name, ask).await? {
                Answer::Parts(parts) => part_of(parts.first().ok_or_else(odd)?),
                _ => Err(odd()),
            }
        })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            let (name, max_parts) = (Name::of(&upload.key), u32::try_from(max_parts).unwrap_or(u32::MAX));
            match self.ask(&name.clone(), Ask::Parts { name, upload: upload.upload, after, max_parts }).await? {
                Answer::Parts(parts) => parts.iter().map(part_of).collect(),
                _ => Err(odd()),
            }
        })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let parts = parts.iter().map(|part| (part.number, Opseq::of_order(part.order))).collect();
            let (name, attributes, condition) = (Name::of(&upload.key), pack(&attributes)?, wire_condition(&condition));
            let ask = Ask::Complete { name: name.clone(), upload: upload.upload, parts, attributes, condition };
            committed_of(self.ask(&name, ask).await?)
        })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let name = Name::of(&upload.key);
            self.ask(&name.clone(), Ask::Abort { name, upload: upload.upload }).await.map(drop)
        })
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(self.list_group_uploads(query))
    }
}
