//! The target in this process: direct calls.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use device::{AppendError, Device, LogVector, PieceOfFrame, ReadError, Tried, Usage, ZoneInfo, ZoneStream};
use env::Env;
use format::frame::FrameView;
use net::BoxFuture;
use types::{Activation, DeviceId, ErrorKind, Place, ZoneIndex};

use crate::limits::{CALL_DEADLINE, OWN_APPEND_DEADLINE, READ_DEADLINE};
use crate::log::{FrameRead, LogAppend, LogTarget, LogWalk, PieceRead, ReadFailure, TargetFailure, WalkRange, Writer};
use crate::{AppendCall, AppendRefused, Target};

/// One writer's hold on a target of this process.
pub struct LocalTarget {
    target: Arc<Target>,
    writer: Writer,
    /// What a disk does not answer is waited for: no other device takes writes meanwhile, and no other process answers.
    is_patient: bool,
}

impl LocalTarget {
    /// What a disk does not answer is given up after a while: the cell goes on with other devices.
    pub fn new(target: Arc<Target>, writer: Writer) -> LocalTarget {
        LocalTarget { target, writer, is_patient: false }
    }

    /// For the only device of a cell: what its disk does not answer is waited for.
    pub fn patient(target: Arc<Target>, writer: Writer) -> LocalTarget {
        LocalTarget { target, writer, is_patient: true }
    }

    /// For a process that is the only one that ever writes to this device.
    pub fn alone(device: Arc<Device>, env: &Env) -> LocalTarget {
        LocalTarget::patient(Arc::new(Target::unfenced(device, env)), Writer::ALONE)
    }

    fn device(&self) -> &Arc<Device> {
        self.target.device()
    }

    /// [`Target::append`], given up when the disk hangs ([`Target::give_up_own_appends`]).
    fn append_in_time(&self, call: AppendCall, compose: impl FnOnce(&mut [u8])) -> Result<(), AppendRefused> {
        let own = &self.target.own_appends;
        let deadline = self.target.env.now() + OWN_APPEND_DEADLINE;
        let number = own.begin(deadline, call.done, call.tag);
        let call = AppendCall { deadline: Some(deadline), done: own.clone(), tag: number, ..call };
        let appended = self.target.append(call, compose);
        if appended.is_err() {
            own.forget(number);
        }
        appended
    }

    /// What ends in any case, when nobody waits for it any more too: a reset that is on its way is not taken back. Waited for as long as at another node's
    /// target.
    async fn apart(&self, work: impl Future<Output = Result<(), TargetFailure>> + Send + 'static) -> Result<(), TargetFailure> {
        if self.is_patient {
            return work.await;
        }
        let working = self.target.env.spawn(work);
        tokio::select! {
            biased;
            ended = working => ended.unwrap_or_else(|error| Err(TargetFailure::new(ErrorKind::Internal, error))),
            () = self.target.env.sleep(CALL_DEADLINE) => {
                let (device, seconds) = (self.id(), CALL_DEADLINE.as_secs());
                Err(TargetFailure::new(ErrorKind::Unavailable, format!("device {device} has not answered for {seconds} s")))
            }
        }
    }

    /// A read that takes no longer than one from another node may. What the page cache has is there at the first look, and no timer is set for it.
    async fn in_time<T>(&self, reading: impl Future<Output = Result<T, ReadError>>) -> Result<T, ReadFailure> {
        if self.is_patient {
            return Ok(reading.await?);
        }
        tokio::select! {
            biased;
            read = reading => Ok(read?),
            () = self.target.env.sleep(READ_DEADLINE) => {
                let (device, seconds) = (self.id(), READ_DEADLINE.as_secs());
                Err(ReadFailure::Unavailable(format!("device {device} has not answered for {seconds} s")))
            }
        }
    }
}

impl LogTarget for LocalTarget {
    fn id(&self) -> DeviceId {
        self.device().id()
    }

    fn local(&self) -> Option<&Arc<Device>> {
        Some(self.device())
    }

    fn append(&self, append: LogAppend, compose: &mut dyn FnMut(&mut [u8])) -> Result<(), AppendError> {
        let LogAppend { class, frame_bytes, done, tag } = append;
        let Writer { key, token } = self.writer;
        let call = AppendCall { class, frame_bytes, writer: key, token, deadline: None, done, tag };
        let appended = if self.is_patient { self.target.append(call, compose) } else { self.append_in_time(call, compose) };
        appended.map_err(|refused| match refused {
            AppendRefused::Device(error) => error,
            refused => AppendError::Refused { device: self.id(), kind: refused.kind(), reason: refused.to_string().into() },
        })
    }

    fn try_read(&self, place: Place, buf: &mut [u8]) -> Option<FrameView> {
        match self.target.try_read(place, buf) {
            Ok(Tried::Frame(view)) => Some(view),
            Ok(Tried::Longer { .. } | Tried::MustWait) | Err(_) => None,
        }
    }

    fn read(&self, place: Place, expected_bytes: usize) -> BoxFuture<'_, Result<FrameRead, ReadFailure>> {
        Box::pin(async move {
            let frame = self.in_time(self.target.read(place, expected_bytes)).await?;
            let engine_header = Bytes::copy_from_slice(frame.engine_header());
            Ok(FrameRead { engine_header, payload: frame.into_payload() })
        })
    }

    fn read_piece(&self, place: Place, wanted: PieceOfFrame) -> BoxFuture<'_, Result<PieceRead, ReadFailure>> {
        Box::pin(async move {
            let piece = self.in_time(self.device().read_piece(place, &wanted)).await?;
            let engine_header = Bytes::copy_from_slice(piece.engine_header());
            Ok(PieceRead { engine_header, payload_bytes: piece.view().payload().len(), piece: piece.into_payload() })
        })
    }

    fn walk(&self, range: WalkRange, verify_payload: bool) -> LogWalk {
        let walk = range.start(self.device(), verify_payload);
        if self.is_patient { LogWalk::local(walk) } else { LogWalk::local_in_time(walk, &self.target) }
    }

    fn log_floor(&self) -> BoxFuture<'_, Result<LogVector, TargetFailure>> {
        Box::pin(ready(Ok(self.device().log_floor())))
    }

    fn zones(&self) -> Vec<ZoneInfo> {
        self.device().zones()
    }

    fn usage(&self) -> Usage {
        self.device().usage()
    }

    fn open_room(&self, stream: ZoneStream) -> u64 {
        self.device().open_room(stream)
    }

    fn is_writable(&self) -> bool {
        self.device().poisoned_by().is_none() && (self.is_patient || !self.device().hangs())
    }

    fn reset(&self, zone: ZoneIndex, activation: Activation) -> BoxFuture<'_, Result<(), TargetFailure>> {
        let (target, writer) = (self.target.clone(), self.writer);
        Box::pin(self.apart(async move { target.reset(writer, zone, activation).await }))
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        let target = self.target.clone();
        let drained = async move {
            target.drain().await;
            Ok(())
        };
        Box::pin(self.apart(drained))
    }

    fn finish_reserved_zone(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        let (target, writer) = (self.target.clone(), self.writer);
        Box::pin(self.apart(async move { target.finish_reserved_zone(writer).await }))
    }

    fn finish_open_zones(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        let (target, writer) = (self.target.clone(), self.writer);
        Box::pin(self.apart(async move { target.finish_open_zones(writer).await }))
    }
}
