//! Walking a log, wherever it is.

use std::future::pending;
use std::sync::Arc;

use device::{Device, LogVector, Walk, WalkEvent};
use types::{ErrorKind, Place, Position, ZoneIndex};

use crate::Target;
use crate::limits::{WALK_DEADLINE, WALK_TRIES};
use crate::log::TargetFailure;
use crate::remote::RemoteWalk;

/// What to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkRange {
    /// All zones that hold frames, from a vector on, in the order of their activations.
    From(LogVector),
    /// One zone, from its beginning.
    Zone(ZoneIndex),
}

impl WalkRange {
    pub(crate) fn start(&self, device: &Device, verify_payload: bool) -> Walk {
        match self {
            WalkRange::From(vector) => device.walk(vector, verify_payload),
            WalkRange::Zone(zone) => device.walk_zone(*zone, verify_payload),
        }
    }
}

/// What a walk finds: see [`WalkEvent`]. Bytes are borrowed until the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent<'a> {
    Frame(LogFrame<'a>),
    Damaged { place: Place, position: Position, damage: String },
    Unreadable { place: Place, position: Position, bytes: u64, reason: String },
}

/// A frame found by a walk: without its payload, which few who walk want, and which would cross the network for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFrame<'a> {
    pub place: Place,
    pub position: Position,
    /// Length of the whole frame, padded.
    pub frame_bytes: usize,
    pub engine_header: &'a [u8],
}

impl<'a> From<WalkEvent<'a>> for LogEvent<'a> {
    fn from(event: WalkEvent<'a>) -> Self {
        match event {
            WalkEvent::Frame(frame) => LogEvent::Frame(LogFrame {
                place: frame.place,
                position: frame.position,
                frame_bytes: frame.view.frame_bytes(),
                engine_header: frame.engine_header(),
            }),
            WalkEvent::Damaged { place, position, damage } => LogEvent::Damaged { place, position, damage: damage.to_string() },
            WalkEvent::Unreadable { place, position, bytes, error } => {
                LogEvent::Unreadable { place, position, bytes, reason: error.to_string() }
            }
        }
    }
}

/// A walk under way.
pub struct LogWalk(Way);

enum Way {
    Local {
        walk: Box<Walk>,
        /// None: what the disk does not answer is waited for.
        in_time: Option<Arc<Target>>,
    },
    Remote(Box<RemoteWalk>),
}

impl LogWalk {
    pub(crate) fn local(walk: Walk) -> LogWalk {
        LogWalk(Way::Local { walk: Box::new(walk), in_time: None })
    }

    /// A walk that ends when the disk under this target does not answer.
    pub(crate) fn local_in_time(walk: Walk, target: &Arc<Target>) -> LogWalk {
        LogWalk(Way::Local { walk: Box::new(walk), in_time: Some(target.clone()) })
    }

    pub(crate) fn remote(walk: RemoteWalk) -> LogWalk {
        LogWalk(Way::Remote(Box::new(walk)))
    }

    /// The next thing found; none at the end. After an error the walk is over, and what it has not found is not known.
    pub async fn next(&mut self) -> Result<Option<LogEvent<'_>>, TargetFailure> {
        match &mut self.0 {
            Way::Local { walk, in_time } => tokio::select! {
                biased;
                event = walk.next() => Ok(event.map(LogEvent::from)),
                failure = lasts_too_long(in_time.as_deref()) => Err(failure),
            },
            Way::Remote(walk) => walk.next().await,
        }
    }
}

/// Returns when one step of a walk has taken so long that it is given up. A disk may need long to get through what holds no frame, and is busy with other
/// reads meanwhile: it is given less time only if it hangs.
async fn lasts_too_long(target: Option<&Target>) -> TargetFailure {
    let Some(target) = target else { return pending().await };
    let mut waited = 0;
    while waited == 0 || (waited < WALK_TRIES as u32 && !target.device().hangs()) {
        target.env.sleep(WALK_DEADLINE).await;
        waited += 1;
    }
    let (device, seconds) = (target.device().id(), (WALK_DEADLINE * waited).as_secs());
    TargetFailure::new(ErrorKind::Unavailable, format!("device {device} has not answered a walk for {seconds} s"))
}
