//! A target on another node.
//!
//! ```text
//!   append ─► queue ─► session ─► call ─► answers    one task sends: few requests at a time, in order, under the present session
//!   others ───────────────────► call ─► answer       and what is known of the device is asked for anew every so often
//! ```
//!
//! Invariants:
//! - Every append that was taken is answered exactly once: also if it is still queued, or on its way, when the target is dropped.
//! - Of the connection that it shares with other devices of its node, its reads take no more than their part ([`MAX_READS_IN_FLIGHT`]).
//! - After an append whose answer was lost nothing is sent before the target has begun a new session ([`crate::wire::Ask`]).

mod lane;
mod link;
mod walk;

use std::sync::Arc;

use device::{AppendError, Device, LogVector, PieceOfFrame, Usage, ZoneInfo, ZoneStream};
use env::Env;
use format::frame::{self, FrameView};
use net::{BoxFuture, Caller};
use parking_lot::RwLock;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use types::{Activation, DeviceId, ErrorKind, Place, ZoneIndex};

use crate::limits::{CALL_DEADLINE, MAX_READS_IN_FLIGHT, READ_DEADLINE, STATE_INTERVAL, STATE_PAUSE};
use crate::log::{FrameRead, LogAppend, LogTarget, LogWalk, PieceRead, ReadFailure, TargetFailure, WalkRange, Writer};
use crate::remote::lane::Lane;
use crate::wire::{AppendAnswer, Ask, Request, TargetState, Wire};
use crate::{NOWHERE, remote::walk::PagedWalk};

pub(crate) use crate::remote::link::{AskError, Link};
pub(crate) use crate::remote::walk::PagedWalk as RemoteWalk;

/// One writer's hold on a target of another node. There is one at a time for a writer and a target: each ends the other's session.
pub struct RemoteTarget {
    far: Arc<Far>,
    lane: Arc<Lane>,
    tasks: [JoinHandle<()>; 2],
}

/// The far end, and what is known of it.
pub(crate) struct Far {
    link: Link,
    writer: Writer,
    state: RwLock<TargetState>,
    is_state_wanted: Notify,
    reads: Semaphore,
}

impl RemoteTarget {
    /// A hold on `device`, whose target `caller` reaches. Asks it for its state first: a target that can't be reached is missing.
    pub fn connect(
        env: &Env,
        caller: Arc<dyn Caller>,
        device: DeviceId,
        writer: Writer,
    ) -> BoxFuture<'_, Result<RemoteTarget, TargetFailure>> {
        Box::pin(async move {
            let link = Link::new(env, caller, device);
            let state: TargetState = link.ask(Ask::State, CALL_DEADLINE).await?;
            if let Err(reason) = check(&state, state.zones.len()) {
                return Err(TargetFailure::new(ErrorKind::Internal, format!("device {device}: {reason}")));
            }
            let reads = Semaphore::new(MAX_READS_IN_FLIGHT);
            let far = Arc::new(Far { link, writer, state: RwLock::new(state), is_state_wanted: Notify::new(), reads });
            let lane = Arc::new(Lane::new(far.clone()));
            let tasks = [env.spawn(lane::send(lane.clone())), env.spawn(keep_state(far.clone()))];
            Ok(RemoteTarget { far, lane, tasks })
        })
    }

    /// Does what changes zones, and sees to it that it becomes known here.
    async fn change(&self, ask: Ask) -> Result<(), TargetFailure> {
        let outcome = self.far.link.ask(ask, CALL_DEADLINE).await;
        // The caller looks at the zones next.
        if self.far.refresh().await.is_err() {
            self.far.is_state_wanted.notify_one();
        }
        Ok(outcome?)
    }
}

impl Drop for RemoteTarget {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl LogTarget for RemoteTarget {
    fn id(&self) -> DeviceId {
        self.far.link.device
    }

    fn local(&self) -> Option<&Arc<Device>> {
        None
    }

    fn append(&self, append: LogAppend, compose: &mut dyn FnMut(&mut [u8])) -> Result<(), AppendError> {
        self.lane.push(append, |slot| {
            compose(slot);
            frame::seal(slot, &NOWHERE);
        })
    }

    fn try_read(&self, _place: Place, _buf: &mut [u8]) -> Option<FrameView> {
        None
    }

    fn read(&self, place: Place, expected_bytes: usize) -> BoxFuture<'_, Result<FrameRead, ReadFailure>> {
        let expected_bytes = u32::try_from(expected_bytes).unwrap_or(u32::MAX);
        let ask = Ask::Read { zone: place.zone, offset: place.offset, expected_bytes };
        Box::pin(self.far.read(ask))
    }

    fn read_piece(&self, place: Place, wanted: PieceOfFrame) -> BoxFuture<'_, Result<PieceRead, ReadFailure>> {
        let ask = Ask::ReadPiece { zone: place.zone, offset: place.offset, wanted };
        Box::pin(self.far.read(ask))
    }

    fn walk(&self, range: WalkRange, verify_payload: bool) -> LogWalk {
        LogWalk::remote(PagedWalk::new(self.far.link.clone(), range, verify_payload))
    }

    fn log_floor(&self) -> BoxFuture<'_, Result<LogVector, TargetFailure>> {
        Box::pin(async move { Ok(self.far.link.ask(Ask::Floor, CALL_DEADLINE).await?) })
    }

    fn zones(&self) -> Vec<ZoneInfo> {
        self.far.state.read().zones.clone()
    }

    fn usage(&self) -> Usage {
        self.far.state.read().usage
    }

    fn open_room(&self, stream: ZoneStream) -> u64 {
        self.far.state.read().open_room[stream_index(stream)]
    }

    fn is_writable(&self) -> bool {
        self.far.state.read().is_writable
    }

    fn reset(&self, zone: ZoneIndex, activation: Activation) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(self.change(Ask::Reset { writer: self.far.writer, zone, activation }))
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        // Another session: what is queued under the present one finds out, and is sent again under the next.
        let ask = Ask::OpenSession { writer: self.far.writer };
        Box::pin(async move { Ok(self.far.link.ask::<u64>(ask, CALL_DEADLINE).await.map(drop)?) })
    }

    fn finish_reserved_zone(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(self.change(Ask::FinishReserved { writer: self.far.writer }))
    }

    fn finish_open_zones(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(self.change(Ask::FinishOpen { writer: self.far.writer }))
    }
}

impl Far {
    /// Asks for a frame, or for a piece of one, as soon as it is its turn.
    async fn read<T: Wire>(&self, ask: Ask) -> Result<T, ReadFailure> {
        let Link { env, device, .. } = &self.link;
        let deadline = env.now() + READ_DEADLINE;
        let _turn = tokio::select! {
            biased;
            turn = self.reads.acquire() => turn.expect("the semaphore is never closed"),
            () = env.sleep_until(deadline) => {
                let reason = format!("device {device}: {MAX_READS_IN_FLIGHT} reads of it wait for answers");
                return Err(ReadFailure::Unavailable(reason));
            }
        };
        let request = Request { device: *device, ask }.encode();
        Ok(self.link.send(request, deadline).await?)
    }

    /// Asks for the present state.
    async fn refresh(&self) -> Result<(), AskError> {
        let next: TargetState = self.link.ask(Ask::State, CALL_DEADLINE).await?;
        let mut state = self.state.write();
        match check(&next, state.zones.len()) {
            Ok(()) => *state = next,
            Err(reason) => tracing::warn!(device = self.link.device.0, reason, "a target's state is not believed"),
        }
        Ok(())
    }

    /// What an append's answer tells about its device.
    fn note(&self, answer: &AppendAnswer, stream: ZoneStream) {
        let AppendAnswer { appended, is_writable, open_room } = answer;
        let mut state = self.state.write();
        state.is_writable = *is_writable;
        state.open_room[stream_index(stream)] = *open_room;
        let known = state.zones.get(appended.place.zone.0 as usize);
        if known.is_some_and(|zone| zone.activation != appended.position.activation) {
            // A zone was opened.
            drop(state);
            self.is_state_wanted.notify_one();
        }
    }
}

/// Whether a state can be that of a device with so many zones.
fn check(state: &TargetState, zones: usize) -> Result<(), &'static str> {
    let usage = &state.usage;
    if zones == 0 || state.zones.len() != zones || usage.zones as usize != zones {
        return Err("its number of zones is not the device's");
    }
    match usage.capacity_bytes < u64::from(usage.zones) {
        true => Err("its zones hold nothing"),
        false => Ok(()),
    }
}

fn stream_index(stream: ZoneStream) -> usize {
    match stream {
        ZoneStream::Ordered => 0,
        ZoneStream::Relocated => 1,
        ZoneStream::Meta => 2,
    }
}

/// Keeps what is known of the device young.
async fn keep_state(far: Arc<Far>) {
    loop {
        tokio::select! {
            biased;
            () = far.link.env.sleep(STATE_INTERVAL) => {}
            () = far.is_state_wanted.notified() => {}
        }
        // Who can't be reached is asked again: what is known stays.
        if let Err(error) = far.refresh().await {
            tracing::debug!(device = far.link.device.0, error = %TargetFailure::from(error), "a target's state is not known");
        }
        far.link.env.sleep(STATE_PAUSE).await;
    }
}
