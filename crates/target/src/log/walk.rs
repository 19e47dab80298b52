//! Walking a log, wherever it is.

use device::{Device, LogVector, Walk, WalkEvent};
use types::{Place, Position, ZoneIndex};

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
    Local(Box<Walk>),
    Remote(Box<RemoteWalk>),
}

impl LogWalk {
    pub(crate) fn local(walk: Walk) -> LogWalk {
        LogWalk(Way::Local(Box::new(walk)))
    }

    pub(crate) fn remote(walk: RemoteWalk) -> LogWalk {
        LogWalk(Way::Remote(Box::new(walk)))
    }

    /// The next thing found; none at the end. After an error the walk is over, and what it has not found is not known.
    pub async fn next(&mut self) -> Result<Option<LogEvent<'_>>, TargetFailure> {
        match &mut self.0 {
            Way::Local(walk) => Ok(walk.next().await.map(LogEvent::from)),
            Way::Remote(walk) => walk.next().await,
        }
    }
}
