//! A hold on a target whose appends a test stops.

use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, Appended, Device, LogVector, PieceOfFrame, Usage, ZoneInfo, ZoneStream};
use format::frame::FrameView;
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;
use target::{
    FrameRead, LocalTarget, LogAppend, LogTarget, LogWalk, PieceRead, ReadFailure, TargetFailure, WalkRange, append_wait,
};
use types::{Activation, DeviceId, ErrorKind, GatewayId, Place, ZoneIndex};

/// How often a read that is held looks whether it may go on.
const HOLD_LOOK: Duration = Duration::from_millis(1);

/// What becomes of a gateway's appends to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Said to be of unknown outcome while they are on their way: [`Gates::land`] lands them.
    Straggle,
    /// On their way, and nothing is said: [`Gates::land`] lands them and tells.
    Hold,
    /// They land, and nothing is said before [`Gates::land`].
    Mute,
    /// The device has no room for them.
    Full,
    /// Nothing reaches the device, and it can't be asked.
    Away,
    /// The same, and who reads or asks is not even told that there is no answer.
    Silent,
}

/// All gates of a cell.
#[derive(Default)]
pub struct Gates {
    rules: Mutex<BTreeMap<(GatewayId, DeviceId), Rule>>,
    waiting: Mutex<Vec<Waiting>>,
    walks: Mutex<Vec<(GatewayId, DeviceId, WalkRange)>>,
    /// Whose reads wait.
    reads: Mutex<BTreeSet<(GatewayId, DeviceId)>>,
}

enum Waiting {
    Append { way: (GatewayId, DeviceId), local: Arc<LocalTarget>, class: AppendClass, frame: Bytes, tell: Option<Tell> },
    Answer { way: (GatewayId, DeviceId), tell: Tell, outcome: Result<Appended, AppendError> },
}

struct Tell {
    done: Arc<dyn AppendDone>,
    tag: u64,
}

impl Waiting {
    fn way(&self) -> (GatewayId, DeviceId) {
        match self {
            Waiting::Append { way, .. } | Waiting::Answer { way, .. } => *way,
        }
    }
}

impl Gates {
    /// Sets a rule for what this gateway appends to this device; none: it goes on its way.
    pub fn set(&self, gateway: &crate::LogStore, device: DeviceId, rule: Option<Rule>) {
        let way = (gateway.inner.me, device);
        match rule {
            Some(rule) => drop(self.rules.lock().insert(way, rule)),
            None => drop(self.rules.lock().remove(&way)),
        }
    }

    /// From here on this gateway's reads of records on this device wait on their way there, or go on.
    pub fn hold_reads(&self, gateway: &crate::LogStore, device: DeviceId, is_held: bool) {
        let way = (gateway.inner.me, device);
        let mut reads = self.reads.lock();
        if is_held {
            reads.insert(way)
        } else {
            reads.remove(&way)
        };
    }

    /// Where this gateway's walks of whole logs began since this was asked last.
    pub fn take_walks(&self, gateway: GatewayId) -> Vec<(DeviceId, LogVector)> {
        let walks = std::mem::take(&mut *self.walks.lock()).into_iter().filter(|(by, ..)| *by == gateway);
        walks
            .filter_map(|(_, device, range)| if let WalkRange::From(from) = range { Some((device, from)) } else { None })
            .collect()
    }

    /// Lands and tells what waits of this gateway; the outcomes.
    pub async fn land(&self, gateway: GatewayId) -> Vec<Result<Appended, AppendError>> {
        let landing: Vec<Waiting> = self.waiting.lock().extract_if(.., |waiting| waiting.way().0 == gateway).collect();
        let mut outcomes = Vec::new();
        for waiting in landing {
            let (outcome, tell) = match waiting {
                Waiting::Append { local, class, frame, tell, .. } => {
                    let appended = append_wait(&*local, class, frame.len(), &mut |slot| slot.copy_from_slice(&frame));
                    (appended.await, tell)
                }
                Waiting::Answer { tell, outcome, .. } => (outcome, Some(tell)),
            };
            outcomes.push(outcome.clone());
            if let Some(Tell { done, tag }) = tell {
                done.appended(tag, outcome);
            }
        }
        outcomes
    }
}

/// The hold.
pub struct Gate {
    gateway: GatewayId,
    local: Arc<LocalTarget>,
    gates: Arc<Gates>,
}

impl Gate {
    pub fn new(gateway: GatewayId, local: LocalTarget, gates: &Arc<Gates>) -> Gate {
        Gate { gateway, local: Arc::new(local), gates: gates.clone() }
    }

    fn way(&self) -> (GatewayId, DeviceId) {
        (self.gateway, self.local.id())
    }

    fn rule(&self) -> Option<Rule> {
        self.gates.rules.lock().get(&self.way()).copied()
    }

    fn holds_reads(&self) -> bool {
        self.gates.reads.lock().contains(&self.way())
    }

    async fn reads_go_on(&self) {
        while self.holds_reads() {
            tokio::time::sleep(HOLD_LOOK).await;
        }
    }

    fn stop(&self, class: AppendClass, frame: Bytes, tell: Option<Tell>) {
        let (way, local) = (self.way(), self.local.clone());
        self.gates.waiting.lock().push(Waiting::Append { way, local, class, frame, tell });
    }
}

/// Keeps an answer back.
struct Muted {
    gates: Arc<Gates>,
    way: (GatewayId, DeviceId),
    done: Arc<dyn AppendDone>,
}

impl AppendDone for Muted {
    fn appended(&self, tag: u64, outcome: Result<Appended, AppendError>) {
        let tell = Tell { done: self.done.clone(), tag };
        self.gates.waiting.lock().push(Waiting::Answer { way: self.way, tell, outcome });
    }
}

fn unanswered() -> TargetFailure {
    TargetFailure { kind: ErrorKind::Unavailable, reason: "the target does not answer".to_owned() }
}

impl LogTarget for Gate {
    fn id(&self) -> DeviceId {
        self.local.id()
    }

    fn local(&self) -> Option<&Arc<Device>> {
        self.local.local()
    }

    fn append(&self, append: LogAppend, compose: &mut dyn FnMut(&mut [u8])) -> Result<(), AppendError> {
        let Some(rule) = self.rule() else { return self.local.append(append, compose) };
        let LogAppend { class, frame_bytes, done, tag } = append;
        if rule == Rule::Mute {
            let done = Arc::new(Muted { gates: self.gates.clone(), way: self.way(), done });
            return self.local.append(LogAppend { class, frame_bytes, done, tag }, compose);
        }
        let mut frame = vec![0u8; frame_bytes];
        compose(&mut frame);
        match rule {
            Rule::Hold => self.stop(class, frame.into(), Some(Tell { done, tag })),
            Rule::Straggle => self.stop(class, frame.into(), None),
            Rule::Mute | Rule::Full | Rule::Away | Rule::Silent => {}
        }
        match rule {
            Rule::Hold => Ok(()),
            Rule::Full => Err(AppendError::Full { device: self.id(), class }),
            _ => Err(AppendError::Unanswered { device: self.id(), reason: "the target does not answer".into() }),
        }
    }

    /// As over the network: the target can't be asked while a rule stops what goes there, and what comes behind the question is refused.
    fn settle(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        if self.rule().is_some() {
            return Box::pin(ready(Err(unanswered())));
        }
        self.gates.waiting.lock().retain(|waiting| waiting.way() != self.way());
        self.local.settle()
    }

    fn try_read(&self, place: Place, buf: &mut [u8]) -> Option<FrameView> {
        (!self.holds_reads()).then(|| self.local.try_read(place, buf)).flatten()
    }

    fn read(&self, place: Place, expected_bytes: usize) -> BoxFuture<'_, Result<FrameRead, ReadFailure>> {
        if self.rule() == Some(Rule::Silent) {
            return Box::pin(pending());
        }
        Box::pin(async move {
            self.reads_go_on().await;
            self.local.read(place, expected_bytes).await
        })
    }

    fn read_piece(&self, place: Place, wanted: PieceOfFrame) -> BoxFuture<'_, Result<PieceRead, ReadFailure>> {
        Box::pin(async move {
            self.reads_go_on().await;
            self.local.read_piece(place, wanted).await
        })
    }

    fn walk(&self, range: WalkRange, verify_payload: bool) -> LogWalk {
        self.gates.walks.lock().push((self.gateway, self.local.id(), range));
        self.local.walk(range, verify_payload)
    }

    fn log_floor(&self) -> BoxFuture<'_, Result<LogVector, TargetFailure>> {
        match self.rule() {
            Some(Rule::Away) => Box::pin(ready(Err(unanswered()))),
            Some(Rule::Silent) => Box::pin(pending()),
            _ => self.local.log_floor(),
        }
    }

    fn zones(&self) -> Vec<ZoneInfo> {
        self.local.zones()
    }

    fn usage(&self) -> Usage {
        self.local.usage()
    }

    fn open_room(&self, stream: ZoneStream) -> u64 {
        self.local.open_room(stream)
    }

    fn is_writable(&self) -> bool {
        self.local.is_writable()
    }

    fn reset(&self, zone: ZoneIndex, activation: Activation) -> BoxFuture<'_, Result<(), TargetFailure>> {
        if self.rule() == Some(Rule::Away) {
            return Box::pin(ready(Err(unanswered())));
        }
        self.local.reset(zone, activation)
    }

    fn finish_reserved_zone(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        self.local.finish_reserved_zone()
    }

    fn finish_open_zones(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        self.local.finish_open_zones()
    }
}
