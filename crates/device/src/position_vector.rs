//! A point in a device's log: one position for each stream.
//!
//! One position would not do. Streams advance at their own pace: the ordered stream may have filled a thousand zones since the
//! relocated one opened its own, whose activation is therefore a thousand lower. The least of all positions is a correct lower
//! bound and useless to start a walk from, so a floor names one position for each stream.

use format::zone_header::{ZONE_DATA_START, ZoneStream};
use types::{Activation, Position};

/// One position for each stream of zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogVector {
    pub ordered: Position,
    pub relocated: Position,
    pub meta: Position,
}

impl LogVector {
    /// The start of everything.
    pub const START: LogVector = LogVector::uniform(Position { activation: Activation(0), offset: types::ZoneOffset(0) });

    /// The same position for all streams.
    pub const fn uniform(position: Position) -> LogVector {
        LogVector { ordered: position, relocated: position, meta: position }
    }

    /// The position for one stream; for frames of zones whose stream is not known, the least.
    pub fn of(&self, stream: Option<ZoneStream>) -> Position {
        match stream {
            Some(ZoneStream::Ordered) => self.ordered,
            Some(ZoneStream::Relocated) => self.relocated,
            Some(ZoneStream::Meta) => self.meta,
            None => self.ordered.min(self.relocated).min(self.meta),
        }
    }

    /// For each stream the lower of two positions.
    pub fn lower(&self, other: &LogVector) -> LogVector {
        LogVector {
            ordered: self.ordered.min(other.ordered),
            relocated: self.relocated.min(other.relocated),
            meta: self.meta.min(other.meta),
        }
    }

    /// Where to start in a zone of one activation; none when all of it lies before.
    pub(crate) fn start_in(&self, stream: Option<ZoneStream>, activation: Activation) -> Option<u64> {
        let from = self.of(stream);
        if activation < from.activation {
            return None;
        }
        let start = if activation == from.activation { from.offset.bytes() } else { 0 };
        Some(start.max(ZONE_DATA_START))
    }
}
