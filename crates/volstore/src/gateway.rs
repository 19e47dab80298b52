//! The volume engine as a gateway has it: the store of this server, or the placement groups of the cluster.
//!
//! ```text
//!   name ─► group ─► primary, here or there ─► answer           list ─► all groups ─► merged
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
use crate::place::{Place, Primary, Whereabouts};
use crate::record::decode_attributes;

use pieces::{RemoteReader, RemoteStaged};

/// The engine of a gateway. Clones are the same one.
#[derive(Clone)]
pub struct Gateway {
    lone: VolumeEngine,
    place: Place,
    is_strict: bool,
}

impl Gateway {
    /// `lone`: the store of this server, for buckets of the same kind.
    pub fn new(lone: VolumeEngine, place: Place, is_strict: bool) -> Gateway {
        Gateway { lone, place, is_strict }
    }

    /// The store of this server, if that has all objects.
    fn lone(&self) -> Result<Option<&VolumeEngine>, EngineError> {
        match self.place.whereabouts() {
            Whereabouts::Lone => Ok(Some(&self.lone)),
            Whereabouts::Groups => Ok(None),
            Whereabouts::Unknown(reason) => Err(EngineError::Unavailable { reason }),
        }
    }

    /// Asks the primary of a name's group.
    async fn ask(&self, name: &Name, ask: Ask) -> Result<Answer, EngineError> {
        self.ask_group(Place::group_of(name), ask).await
    }

    /// Asks a group's primary, whichever node that is. What may have been carried out is asked again only if it is a read.
    async fn ask_group(&self, group: u32, ask: Ask) -> Result<Answer, EngineError> {
        let is_read = ask.is_read();
        let question = Question { group, is_strict: self.is_strict, ask };
        let bytes = Bytes::from(postcard::to_allocvec(&question).expect("a question has no type that can't be written"));
        let until = self.place.env().now() + PRIMARY_PATIENCE;
        loop {
            if !is_read && Waiter::present().has_left() {
                return Err(EngineError::Unavailable { reason: "the client has gone".to_owned() });
            }
            let unavailable = match self.place.primary(group) {
                None => EngineError::Unavailable { reason: format!("placement group {group} has no primary that serves") },
                Some(primary) => match self.try_ask(primary, &bytes).await {
                    Ok(Answer::Failed(failure)) => match engine_error(failure) {
                        error @ EngineError::Unavailable { .. } if is_read => error,
                        error => return Err(error),
                    },
                    Ok(answer) => return Ok(answer),
                    Err((error, may_ask_again)) if may_ask_again || is_read => error,
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
    async fn try_ask(&self, primary: Primary, question: &Bytes) -> Result<Answer, (EngineError, bool)> {
        let env = self.place.env();
        match primary {
            Primary::Here(office) => {
                let question = postcard::from_bytes(question).expect("it was written here");
                let answered = desk::answer(&office, env, question).await;
                Ok(answered.unwrap_or_else(|error| Answer::Failed(crate::asking::failure_of(error))))
            }
            Primary::There(caller) => {
                let answered = caller.call(question.clone(), env.now() + QUESTION_PATIENCE).await;
                let unavailable = |reason: String| EngineError::Unavailable { reason };
                let bytes = answered.map_err(|error| (unavailable(error.to_string()), error.is_definite()))?;
                postcard::from_bytes(&bytes).map_err(|error| (unavailable(format!("an answer that is none: {error}")), false))
            }
        }
    }

    /// Takes what was staged for a group's primary: its number there. Nothing is dropped there any more.
    fn take_staged(staged: &mut StagedChunks) -> Result<u64, EngineError> {
        let staged: Option<&mut RemoteStaged> = staged.inner.as_any_mut().downcast_mut();
        let elsewhere =
            || EngineError::Unavailable { reason: "the cluster has changed while the object was written".to_owned() };
        Ok(staged.ok_or_else(elsewhere)?.take())
    }
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
        self.lone().ok().flatten()?.open_cached(key)
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.open(key).await;
            }
            let name = Name::of(key);
            let group = Place::group_of(&name);
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
            if let Some(lone) = self.lone()? {
                return lone.info(key).await;
            }
            let name = Name::of(key);
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
            if let Some(lone) = self.lone()? {
                return lone.put(key, attributes, payload, condition).await;
            }
            let (name, attributes, condition) = (Name::of(key), pack(&attributes)?, wire_condition(&condition));
            let bytes = joined(&payload);
            drop(payload);
            committed_of(self.ask(&name.clone(), Ask::Put { name, attributes, bytes, condition }).await?)
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        match self.lone() {
            Ok(Some(lone)) => lone.stage(key, part),
            _ => StagedChunks { length: 0, inner: Box::new(RemoteStaged::new(self.clone(), Name::of(key))) },
        }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let Some(remote) = staged.inner.as_any_mut().downcast_mut::<RemoteStaged>() else {
                return self.lone.stage_pieces(staged, chunk).await;
            };
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
            if let Some(lone) = self.lone()? {
                return lone.commit(key, staged, attributes, condition).await;
            }
            let (attributes, condition) = (pack(&attributes)?, wire_condition(&condition));
            let (name, held) = (Name::of(key), Gateway::take_staged(&mut staged)?);
            committed_of(self.ask(&name.clone(), Ask::Commit { name, attributes, held, condition }).await?)
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.set_tags(key, tags).await;
            }
            let name = Name::of(key);
            let tags = tags.into_iter().map(|(tag, value)| (tag.to_vec(), value.to_vec())).collect();
            committed_of(self.ask(&name.clone(), Ask::SetTags { name, tags }).await?)
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.delete(key, condition).await;
            }
            let (name, condition) = (Name::of(key), wire_condition(&condition));
            self.ask(&name.clone(), Ask::Delete { name, condition }).await.map(drop)
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move {
            match self.lone()? {
                Some(lone) => lone.list(query).await,
                None => self.list_groups(query).await,
            }
        })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.is_empty(bucket).await;
            }
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
            if let Some(lone) = self.lone()? {
                return lone.create_upload(key, attributes).await;
            }
            let (name, attributes) = (Name::of(key), pack(&attributes)?);
            match self.ask(&name.clone(), Ask::CreateUpload { name, attributes }).await? {
                Answer::Upload(upload) => Ok(upload),
                _ => Err(odd()),
            }
        })
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.upload(upload).await;
            }
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
            if let Some(lone) = self.lone()? {
                return lone.put_part(upload, number, attributes, content).await;
            }
            let bytes = match content {
                PartContent::Whole(payload) => PartSource::Whole(joined(&payload)),
                PartContent::Staged(mut staged) => PartSource::Held(Gateway::take_staged(&mut staged)?),
            };
            let (name, attributes) = (Name::of(&upload.key), pack(&attributes)?);
            let ask = Ask::PutPart { name: name.clone(), upload: upload.upload, number, attributes, bytes };
            match self.ask(&name, ask).await? {
                Answer::Parts(parts) => part_of(parts.first().ok_or_else(odd)?),
                _ => Err(odd()),
            }
        })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.parts(upload, after, max_parts).await;
            }
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
            if let Some(lone) = self.lone()? {
                return lone.complete(upload, parts, attributes, condition).await;
            }
            let parts = parts.iter().map(|part| (part.number, Opseq::of_order(part.order))).collect();
            let (name, attributes, condition) = (Name::of(&upload.key), pack(&attributes)?, wire_condition(&condition));
            let ask = Ask::Complete { name: name.clone(), upload: upload.upload, parts, attributes, condition };
            committed_of(self.ask(&name, ask).await?)
        })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            if let Some(lone) = self.lone()? {
                return lone.abort(upload).await;
            }
            let name = Name::of(&upload.key);
            self.ask(&name.clone(), Ask::Abort { name, upload: upload.upload }).await.map(drop)
        })
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move {
            match self.lone()? {
                Some(lone) => lone.uploads(query).await,
                None => self.list_group_uploads(query).await,
            }
        })
    }
}
