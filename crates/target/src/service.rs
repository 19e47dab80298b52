//! Serves the targets of this node to others.
//!
//! Invariants:
//! - An append of a session that is not its writer's present one is refused, and a session begins only when nothing of an earlier one
//!   is under way. So an append whose answer was lost lands before its writer's next one, or never.
//! - What must not end half-way, because the connection breaks, runs on its own: fences, drains, resets.

mod gathering;
mod sessions;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use device::{AppendDone, AppendError, Appended, LogVector, PieceOfFrame};
use env::{Env, Instant};
use format::frame;
use format::zone_header::ZoneStream;
use net::{BoxFuture, MAX_PAYLOAD_BYTES, Refusal};
use types::{DeviceId, ErrorKind, Place, ZoneIndex, ZoneOffset};

use crate::limits::WALK_PAGE_BYTES;
use crate::service::gathering::Gathering;
use crate::service::sessions::Sessions;
use crate::wire::{AppendAnswer, AppendAnswers, AppendPart, Ask, Failure, Fault, Request, TargetState, Wire, encode_answer};
use crate::{AppendCall, AppendRefused, FenceError, FrameRead, NOWHERE, PieceRead, ReadFailure, Target, TargetFailure, Writer};

/// Carries out what others ask of the targets of this node.
pub struct TargetService {
    env: Env,
    targets: BTreeMap<DeviceId, Arc<Served>>,
    /// A page of a walk ends when it is this long.
    page_bytes: usize,
}

struct Served {
    target: Arc<Target>,
    sessions: Sessions,
}

impl TargetService {
    pub fn new(env: &Env, targets: Vec<Arc<Target>>) -> TargetService {
        let serve = |target: Arc<Target>| (target.device().id(), Arc::new(Served { sessions: Sessions::new(env), target }));
        TargetService { env: env.clone(), targets: targets.into_iter().map(serve).collect(), page_bytes: WALK_PAGE_BYTES }
    }

    /// Walks go in pages of this many bytes, or a little more.
    #[cfg(test)]
    pub(crate) fn with_pages_of(self, page_bytes: usize) -> TargetService {
        TargetService { page_bytes, ..self }
    }

    async fn carry_out(&self, request: net::Request) -> Result<Bytes, Refusal> {
        let deadline = request.deadline;
        let Request { device, ask } = Request::decode(request.payload).map_err(Refusal::new)?;
        let Some(served) = self.targets.get(&device) else {
            return Err(Refusal::new(format!("device {device} is not served here")));
        };
        let answer = self.answer(served, ask, deadline).await;
        match answer.len() > MAX_PAYLOAD_BYTES {
            true => Err(Refusal::new(format!("an answer of {} bytes; a frame holds {MAX_PAYLOAD_BYTES}", answer.len()))),
            false => Ok(answer),
        }
    }

    async fn answer(&self, served: &Arc<Served>, ask: Ask, deadline: Instant) -> Bytes {
        let target = served.target.clone();
        match ask {
            Ask::Append { writer, session, parts } => encode_answer(&served.append((writer, session), &parts, deadline).await),
            Ask::OpenSession { writer } => {
                let served = served.clone();
                self.apart(async move { served.open_session(writer).await }).await
            }
            Ask::Read { zone, offset, expected_bytes } => {
                encode_answer(&served.read(zone, offset, expected_bytes as usize).await)
            }
            Ask::ReadPiece { zone, offset, wanted } => encode_answer(&served.read_piece(zone, offset, &wanted).await),
            Ask::Walk { range, until, verify_payload } => {
                encode_answer(&Ok(walk::page(target.device(), (range, until), verify_payload, self.page_bytes).await))
            }
            Ask::Floor => encode_answer::<LogVector>(&Ok(target.device().log_floor())),
            Ask::State => encode_answer(&Ok(served.state())),
            Ask::Reset { writer, zone, activation } => {
                self.apart(async move { failure_of(target.reset(writer, zone, activation).await) }).await
            }
            Ask::FinishReserved { writer } => {
                self.apart(async move { failure_of(target.finish_reserved_zone(writer).await) }).await
            }
            Ask::FinishOpen { writer } => self.apart(async move { failure_of(target.finish_open_zones(writer).await) }).await,
            Ask::RaiseFence { writer } => {
                self.apart(async move { target.raise_fence(writer.key, writer.token).await.map_err(refused_fence) }).await
            }
            Ask::LoadFences { fences } => {
                let fences: Vec<_> = fences.iter().map(|fence| (fence.key, fence.token)).collect();
                self.apart(async move { target.load_fences(&fences).await.map_err(refused_fence) }).await
            }
            Ask::Drain => {
                let drained = async move {
                    target.drain().await;
                    Ok(())
                };
                self.apart(drained).await
            }
        }
    }

    /// Work that goes on if nobody waits for it any more.
    async fn apart<T: Wire + Send + 'static>(&self, work: impl Future<Output = Result<T, Failure>> + Send + 'static) -> Bytes {
        let ended = self.env.spawn(work).await;
        encode_answer(&ended.unwrap_or_else(|error| Err(Failure::refused(ErrorKind::Internal, error))))
    }
}

impl net::Service for TargetService {
    fn handle(&self, request: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(self.carry_out(request))
    }
}

impl Served {
    async fn append(
        &self,
        (writer, session): (Writer, u64),
        parts: &[AppendPart],
        deadline: Instant,
    ) -> Result<AppendAnswers, Failure> {
        let (gathering, told) = Gathering::new(parts.len());
        let begin = || {
            for (tag, part) in parts.iter().enumerate() {
                if let Err(failure) = self.begin(writer, part, deadline, gathering.clone(), tag as u64) {
                    gathering.note(tag, Err(failure));
                }
            }
        };
        self.sessions.within(writer, session, || self.target.device().append_together(begin))?;
        // The device answers every append, also when it is closed; its last answer hands over all.
        let answers =
            told.await.map_err(|_| Failure { fault: Fault::Unknown, reason: "the device was closed first".to_owned() })?;
        let device = self.target.device();
        let is_writable = device.poisoned_by().is_none();
        let hint = |(appended, part): (Result<Appended, Failure>, &AppendPart)| {
            appended.map(|appended| AppendAnswer { appended, is_writable, open_room: device.open_room(part.class.stream()) })
        };
        Ok(answers.into_iter().zip(parts).map(hint).collect())
    }

    fn begin(
        &self,
        writer: Writer,
        part: &AppendPart,
        deadline: Instant,
        done: Arc<dyn AppendDone>,
        tag: u64,
    ) -> Result<(), Failure> {
        let AppendPart { class, frame } = part;
        check_frame(frame)?;
        let call = AppendCall {
            class: *class,
            frame_bytes: frame.len(),
            writer: writer.key,
            token: writer.token,
            deadline: Some(deadline),
            done,
            tag,
        };
        self.target.append(call, |slot| slot.copy_from_slice(frame)).map_err(|refused| refused_append(&refused))
    }

    async fn open_session(&self, writer: Writer) -> Result<u64, Failure> {
        drop(self.target.admit(writer).map_err(|failure| Failure::refused(failure.kind, failure.reason))?);
        let session = self.sessions.begin(writer)?;
        self.target.drain().await;
        Ok(session)
    }

    async fn read(&self, zone: ZoneIndex, offset: ZoneOffset, expected_bytes: usize) -> Result<FrameRead, Failure> {
        let place = Place { device: self.target.device().id(), zone, offset };
        let frame = self.target.read(place, expected_bytes).await.map_err(failed_read)?;
        let engine_header = Bytes::copy_from_slice(frame.engine_header());
        Ok(FrameRead { engine_header, payload: frame.into_payload() })
    }

    async fn read_piece(&self, zone: ZoneIndex, offset: ZoneOffset, wanted: &PieceOfFrame) -> Result<PieceRead, Failure> {
        let place = Place { device: self.target.device().id(), zone, offset };
        let piece = self.target.device().read_piece(place, wanted).await.map_err(failed_read)?;
        let engine_header = Bytes::copy_from_slice(piece.engine_header());
        Ok(PieceRead { engine_header, payload_bytes: piece.view().payload().len(), piece: piece.into_payload() })
    }

    fn state(&self) -> TargetState {
        let device = self.target.device();
        TargetState {
            // Copies are not made on a disk that hangs, and those on it are read last.
            is_writable: device.poisoned_by().is_none() && !device.hangs(),
            usage: device.usage(),
            open_room: [ZoneStream::Ordered, ZoneStream::Relocated, ZoneStream::Meta].map(|stream| device.open_room(stream)),
            zones: device.zones(),
        }
    }
}

/// A frame from another node is one that its sender has composed and sealed for no place; else it would not be found again, or
/// something else in its stead.
fn check_frame(bytes: &[u8]) -> Result<(), Failure> {
    let invalid = |reason: String| Failure::refused(ErrorKind::Invalid, reason);
    let view = frame::open(bytes, &NOWHERE).map_err(|error| invalid(error.to_string()))?;
    match view.frame_bytes() == bytes.len() {
        true => Ok(()),
        false => Err(invalid(format!("{} bytes for a frame of {}", bytes.len(), view.frame_bytes()))),
    }
}

fn refused_append(refused: &AppendRefused) -> Failure {
    match refused {
        AppendRefused::Device(error) => failed_append(error),
        refused => Failure::refused(refused.kind(), refused),
    }
}

pub(super) fn failed_append(error: &AppendError) -> Failure {
    match error.is_certain() {
        true => Failure::refused(error.kind(), error),
        false => Failure { fault: Fault::Unknown, reason: error.to_string() },
    }
}

fn failed_read(error: device::ReadError) -> Failure {
    match ReadFailure::from(error) {
        failure @ ReadFailure::Moved => Failure::refused(ErrorKind::NotFound, failure),
        ReadFailure::Corrupt(reason) => Failure::refused(ErrorKind::Corrupt, reason),
        ReadFailure::Unreadable(reason) => Failure::refused(ErrorKind::Unavailable, reason),
        ReadFailure::Unavailable(reason) => Failure::refused(ErrorKind::Busy, reason),
    }
}

fn failure_of(outcome: Result<(), TargetFailure>) -> Result<(), Failure> {
    outcome.map_err(|failure| Failure::refused(failure.kind, failure.reason))
}

fn refused_fence(error: FenceError) -> Failure {
    let kind = match &error {
        FenceError::Older { .. } => ErrorKind::Denied,
        FenceError::TooMany { .. } => ErrorKind::Busy,
        FenceError::Notes(_) => ErrorKind::Unavailable,
    };
    Failure::refused(kind, error)
}
