//! Questions of gateways, at the primary of the group that they are about.
//!
//! What a gateway holds here, readers and staged content, is given up when it was not asked for in a while: the gateway may be gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::engine::{
    Committed, CompletePart, EngineError, ListQuery, ObjectEngine, ObjectKey, PartContent, Payload, StagedChunks, UploadQuery,
    UploadRef, Waiter,
};
use bytes::Bytes;
use env::{Env, Instant};
use format::attributes::Attributes;
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use types::UploadId;
use types::limits::MAX_SMALL_BYTES;

use crate::asking::{
    Answer, Ask, PartSource, Question, WireCondition, WireInfo, WirePart, condition_of, failure_of, wire_listed,
};
use crate::interface::VolumeEngine;
use crate::limits::{HELD_IDLE, MAINTAIN_INTERVAL, MAX_HELD};
use crate::name::{Name, Opseq};
use crate::office::Office;
use crate::place::Place;
use crate::record::decode_attributes;
use crate::store::Pinned;

/// What gateways hold at a primary.
#[derive(Default)]
pub struct Desk {
    held: Mutex<BTreeMap<u64, (Instant, Holding)>>,
}

enum Holding {
    Reader(Arc<Pinned>),
    Staged(StagedChunks),
}

impl Desk {
    /// Numbers of two desks differ: a gateway that has one of a former view is told so.
    fn hold(&self, env: &Env, holding: Holding) -> Result<u64, EngineError> {
        let mut held = self.held.lock();
        if held.len() >= MAX_HELD {
            return Err(EngineError::Busy {
                reason: format!("{MAX_HELD} readers and writers of large objects are as many as there may be"),
            });
        }
        let number = env.random_u64() | 1;
        held.insert(number, (env.now(), holding));
        Ok(number)
    }

    fn reader(&self, number: u64, now: Instant) -> Result<Arc<Pinned>, EngineError> {
        match self.held.lock().get_mut(&number) {
            Some((used, Holding::Reader(pinned))) => {
                *used = now;
                Ok(pinned.clone())
            }
            _ => Err(gone()),
        }
    }

    fn staged(&self, number: u64) -> Result<StagedChunks, EngineError> {
        match self.held.lock().remove(&number) {
            Some((_, Holding::Staged(staged))) => Ok(staged),
            _ => Err(gone()),
        }
    }

    fn put_back(&self, number: u64, now: Instant, staged: StagedChunks) {
        self.held.lock().insert(number, (now, Holding::Staged(staged)));
    }

    /// Gives up what is not asked for, for as long as it is polled.
    pub async fn tidy(&self, env: &Env) {
        loop {
            env.sleep(MAINTAIN_INTERVAL).await;
            let now = env.now();
            let idle = |used: &Instant| now.saturating_duration_since(*used) >= HELD_IDLE;
            let gone: Vec<_> = self.held.lock().extract_if(.., |_, (used, _)| idle(used)).collect();
            drop(gone);
        }
    }
}

fn gone() -> EngineError {
    EngineError::Unavailable { reason: "what was read or written is not held any more: try again".to_owned() }
}

/// Answers gateways of other nodes.
pub struct QuestionService(pub Place);

impl Service for QuestionService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let question: Question =
                postcard::from_bytes(&request.payload).map_err(|error| Refusal::new(format!("no question: {error}")))?;
            let Some(office) = self.0.office(question.group) else {
                let obstacle = self.0.obstacle(question.group);
                let obstacle = obstacle.ok_or_else(|| Refusal::early("this node does not serve the placement group"))?;
                return Ok(encoded(&Answer::Failed(failure_of(obstacle))));
            };
            let env = self.0.env().clone();
            // It goes on when the gateway is gone, and then begins nothing anew: its client may have asked another one.
            let leaving = Leaving(Waiter::new());
            let work = leaving.0.attend({
                let env = env.clone();
                Box::pin(async move { answer(&office, &env, question).await })
            });
            let answered = env.spawn(work).await.map_err(Refusal::new)?;
            let answer = answered.unwrap_or_else(|error| Answer::Failed(failure_of(error)));
            Ok(encoded(&answer))
        })
    }
}

fn encoded(answer: &Answer) -> Bytes {
    postcard::to_allocvec(answer).expect("an answer has no type that can't be written").into()
}

/// Who asked is gone when this is dropped.
struct Leaving(Waiter);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Answers a question at the primary.
pub async fn answer(office: &Office, env: &Env, question: Question) -> Result<Answer, EngineError> {
    office.until_lease(env).await;
    let engine = office.engine(question.is_strict);
    let desk = &office.desk;
    match question.ask {
        Ask::Open { name } => open(office, env, &name).await,
        Ask::Read { held, from, to } => {
            let pinned = desk.reader(held, env.now())?;
            Ok(Answer::Bytes(pinned.read(from..to).await?.to_vec()))
        }
        Ask::Drop { held } => {
            let dropped = desk.held.lock().remove(&held);
            drop(dropped);
            Ok(Answer::Done)
        }
        Ask::Stage { name, held, bytes } => {
            let mut staged = if held == 0 { engine.stage(&key_of(&name)?, None) } else { desk.staged(held)? };
            engine.stage_pieces(&mut staged, payload(bytes)).await?;
            if held == 0 {
                return Ok(Answer::Staged { held: desk.hold(env, Holding::Staged(staged))? });
            }
            desk.put_back(held, env.now(), staged);
            Ok(Answer::Staged { held })
        }
        Ask::Commit { name, attributes, held, condition } => {
            let staged = if held == 0 { engine.stage(&key_of(&name)?, None) } else { desk.staged(held)? };
            let (key, attributes) = (key_of(&name)?, unpack(&attributes)?);
            committed(engine.commit(&key, staged, attributes, condition_in(&condition)?).await?)
        }
        ask @ (Ask::List { .. } | Ask::IsEmpty { .. } | Ask::Uploads { .. }) => list(&engine, ask).await,
        ask @ (Ask::Info { .. } | Ask::Put { .. } | Ask::SetTags { .. } | Ask::Delete { .. }) => object(&engine, ask).await,
        ask => upload(&engine, desk, ask).await,
    }
}

async fn open(office: &Office, env: &Env, name: &Name) -> Result<Answer, EngineError> {
    let pinned = office.store.pin(name)?.ok_or(EngineError::NotFound)?;
    let object = pinned.object();
    let info = WireInfo { length: object.content.length(), attributes: object.attributes.clone(), opseq: object.opseq };
    let parts = object.content.parts.as_ref().map(|parts| parts.to_vec());
    if parts.is_some() || info.length > MAX_SMALL_BYTES as u64 {
        let held = office.desk.hold(env, Holding::Reader(Arc::new(pinned)))?;
        return Ok(Answer::Held { info, parts, held });
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < info.length {
        bytes.extend_from_slice(&pinned.read(bytes.len() as u64..info.length).await?);
    }
    Ok(Answer::Whole { info, bytes })
}

async fn object(engine: &VolumeEngine, ask: Ask) -> Result<Answer, EngineError> {
    match ask {
        Ask::Info { name } => {
            let info = engine.info(&key_of(&name)?).await?;
            let (attributes, opseq) = (pack(&info.attributes), Opseq::of_order(info.order));
            Ok(Answer::Info(WireInfo { length: info.length, attributes, opseq }))
        }
        Ask::Put { name, attributes, bytes, condition } => {
            let (key, attributes) = (key_of(&name)?, unpack(&attributes)?);
            committed(engine.put(&key, attributes, payload(bytes), condition_in(&condition)?).await?)
        }
        Ask::SetTags { name, tags } => {
            let tags = tags.into_iter().map(|(tag, value)| (tag.into(), value.into())).collect();
            committed(engine.set_tags(&key_of(&name)?, tags).await?)
        }
        Ask::Delete { name, condition } => {
            engine.delete(&key_of(&name)?, condition_in(&condition)?).await?;
            Ok(Answer::Done)
        }
        _ => Err(odd()),
    }
}

async fn list(engine: &VolumeEngine, ask: Ask) -> Result<Answer, EngineError> {
    match ask {
        Ask::List { bucket, prefix, start_after, delimiter, max_items } => {
            let (prefix, start_after, delimiter) = (prefix.into(), start_after.into(), delimiter.into());
            let query = ListQuery { bucket, prefix, start_after, delimiter, max_items: max_items as usize };
            let page = engine.list(&query).await?;
            Ok(Answer::Listed { items: page.items.into_iter().map(wire_listed).collect(), truncated: page.truncated })
        }
        Ask::IsEmpty { bucket } => Ok(Answer::IsEmpty(engine.is_empty(bucket).await?)),
        Ask::Uploads { bucket, prefix, after, delimiter, max_items } => {
            let after = after.map(|(key, upload)| (key.into(), upload));
            let (prefix, delimiter) = (prefix.into(), delimiter.into());
            let query = UploadQuery { bucket, prefix, after, delimiter, max_items: max_items as usize };
            let page = engine.uploads(&query).await?;
            let wire = |found: ::engine::ListedUpload| {
                let attributes = Attributes {
                    modified_ms: found.initiated_ms,
                    storage_class: found.storage_class,
                    upload_checksum: found.checksum,
                    ..Attributes::default()
                };
                (found.key.to_vec(), found.upload, pack(&attributes))
            };
            let uploads = page.uploads.into_iter().map(wire).collect();
            let prefixes = page.prefixes.iter().map(|prefix| prefix.to_vec()).collect();
            Ok(Answer::Uploads { uploads, prefixes, truncated: page.truncated })
        }
        _ => Err(odd()),
    }
}

async fn upload(engine: &VolumeEngine, desk: &Desk, ask: Ask) -> Result<Answer, EngineError> {
    match ask {
        Ask::CreateUpload { name, attributes } => {
            Ok(Answer::Upload(engine.create_upload(&key_of(&name)?, unpack(&attributes)?).await?))
        }
        Ask::Upload { name, upload } => Ok(Answer::Attributes(pack(&engine.upload(&upload_of(&name, upload)?).await?))),
        Ask::PutPart { name, upload, number, attributes, bytes } => {
            let content = match bytes {
                PartSource::Whole(bytes) => PartContent::Whole(payload(bytes)),
                PartSource::Held(0) => PartContent::Staged(engine.stage(&key_of(&name)?, None)),
                PartSource::Held(held) => PartContent::Staged(desk.staged(held)?),
            };
            let part = engine.put_part(&upload_of(&name, upload)?, number, unpack(&attributes)?, content).await?;
            Ok(Answer::Parts(vec![wire_part(&part)]))
        }
        Ask::Parts { name, upload, after, max_parts } => {
            let parts = engine.parts(&upload_of(&name, upload)?, after, max_parts as usize).await?;
            Ok(Answer::Parts(parts.iter().map(wire_part).collect()))
        }
        Ask::Complete { name, upload, parts, attributes, condition } => {
            let part = |(number, opseq): (u16, Opseq)| CompletePart { number, order: opseq.order() };
            let parts = parts.into_iter().map(part).collect();
            let (upload, condition) = (upload_of(&name, upload)?, condition_in(&condition)?);
            committed(engine.complete(&upload, parts, unpack(&attributes)?, condition).await?)
        }
        Ask::Abort { name, upload } => {
            engine.abort(&upload_of(&name, upload)?).await?;
            Ok(Answer::Done)
        }
        _ => Err(odd()),
    }
}

fn odd() -> EngineError {
    EngineError::Invalid { reason: "no question of this kind".to_owned() }
}

fn payload(bytes: Vec<u8>) -> Payload {
    smallvec::smallvec![Bytes::from(bytes)]
}

fn pack(attributes: &Attributes) -> Box<[u8]> {
    attributes.to_bytes().to_vec().into()
}

fn unpack(attributes: &[u8]) -> Result<Attributes, EngineError> {
    decode_attributes(attributes).map_err(|error| EngineError::Invalid { reason: error.to_string() })
}

fn condition_in(condition: &WireCondition) -> Result<::engine::Condition, EngineError> {
    condition_of(condition).ok_or_else(odd)
}

fn key_of(name: &Name) -> Result<ObjectKey, EngineError> {
    if !name.is_sane() {
        return Err(odd());
    }
    ObjectKey::new(name.bucket(), Bytes::copy_from_slice(name.key())).map_err(|_| odd())
}

fn upload_of(name: &Name, upload: UploadId) -> Result<UploadRef, EngineError> {
    Ok(UploadRef { key: key_of(name)?, upload })
}

fn wire_part(part: &::engine::PartInfo) -> WirePart {
    let (attributes, opseq) = (pack(&part.attributes), Opseq::of_order(part.order));
    WirePart { number: part.number, length: part.length, attributes, opseq }
}

fn committed(committed: Committed) -> Result<Answer, EngineError> {
    let Committed { etag, order, modified_ms } = committed;
    let attributes = pack(&Attributes { etag, modified_ms, ..Attributes::default() });
    Ok(Answer::Committed { attributes, opseq: Opseq::of_order(order) })
}
