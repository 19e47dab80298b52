//! A page of a walk.

use bytes::{BufMut, Bytes, BytesMut};
use device::LogVector;
use types::{Activation, DeviceId, Place, Position, ZoneIndex};

use crate::log::{LogEvent, LogFrame};
use crate::wire::codec::{Reader, Wire, WireError, put_bytes};

/// What a page holds, in the order of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageEvent {
    Frame { zone: ZoneIndex, position: Position, frame_bytes: u32, engine_header: Bytes },
    Damaged { zone: ZoneIndex, position: Position, damage: String },
    Unreadable { zone: ZoneIndex, position: Position, bytes: u64, reason: String },
}

impl PageEvent {
    pub(crate) fn of(event: &LogEvent<'_>) -> PageEvent {
        match event {
            LogEvent::Frame(frame) => PageEvent::Frame {
                zone: frame.place.zone,
                position: frame.position,
                frame_bytes: frame.frame_bytes as u32,
                engine_header: Bytes::copy_from_slice(frame.engine_header),
            },
            LogEvent::Damaged { place, position, damage } => {
                PageEvent::Damaged { zone: place.zone, position: *position, damage: damage.clone() }
            }
            LogEvent::Unreadable { place, position, bytes, reason } => {
                PageEvent::Unreadable { zone: place.zone, position: *position, bytes: *bytes, reason: reason.clone() }
            }
        }
    }

    pub(crate) fn event(&self, device: DeviceId) -> LogEvent<'_> {
        let place = |zone: &ZoneIndex, position: &Position| Place { device, zone: *zone, offset: position.offset };
        match self {
            PageEvent::Frame { zone, position, frame_bytes, engine_header } => LogEvent::Frame(LogFrame {
                place: place(zone, position),
                position: *position,
                frame_bytes: *frame_bytes as usize,
                engine_header,
            }),
            PageEvent::Damaged { zone, position, damage } => {
                LogEvent::Damaged { place: place(zone, position), position: *position, damage: damage.clone() }
            }
            PageEvent::Unreadable { zone, position, bytes, reason } => LogEvent::Unreadable {
                place: place(zone, position),
                position: *position,
                bytes: *bytes,
                reason: reason.clone(),
            },
        }
    }

    /// About how many bytes it takes on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        32 + match self {
            PageEvent::Frame { engine_header, .. } => engine_header.len(),
            PageEvent::Damaged { damage: text, .. } | PageEvent::Unreadable { reason: text, .. } => text.len(),
        }
    }
}

/// Where a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkRest {
    pub from: LogVector,
    /// The last activation that there was when the walk began.
    pub until: Activation,
}

/// A page of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkPage {
    pub events: Vec<PageEvent>,
    /// None: this was the last page.
    pub rest: Option<WalkRest>,
}

/// The least bytes of an event.
const LEAST_EVENT_BYTES: usize = 1 + 4 + 12 + 4;

impl Wire for WalkPage {
    fn put(&self, out: &mut BytesMut) {
        match &self.rest {
            None => out.put_u8(0),
            Some(rest) => {
                out.put_u8(1);
                rest.from.put(out);
                out.put_u64_le(rest.until.0);
            }
        }
        out.put_u32_le(self.events.len() as u32);
        self.events.iter().for_each(|event| event.put(out));
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let rest = match reader.flag("rest")? {
            false => None,
            true => Some(WalkRest { from: LogVector::take(reader)?, until: Activation(reader.u64("until")?) }),
        };
        let count = reader.count(LEAST_EVENT_BYTES, "events")?;
        let events = (0..count).map(|_| PageEvent::take(reader)).collect::<Result<_, _>>()?;
        Ok(WalkPage { events, rest })
    }
}

impl Wire for PageEvent {
    fn put(&self, out: &mut BytesMut) {
        let (number, zone, position) = match self {
            PageEvent::Frame { zone, position, .. } => (0, zone, position),
            PageEvent::Damaged { zone, position, .. } => (1, zone, position),
            PageEvent::Unreadable { zone, position, .. } => (2, zone, position),
        };
        out.put_u8(number);
        zone.put(out);
        position.put(out);
        match self {
            PageEvent::Frame { frame_bytes, engine_header, .. } => {
                out.put_u32_le(*frame_bytes);
                put_bytes(out, engine_header);
            }
            PageEvent::Damaged { damage, .. } => put_bytes(out, damage.as_bytes()),
            PageEvent::Unreadable { bytes, reason, .. } => {
                out.put_u64_le(*bytes);
                put_bytes(out, reason.as_bytes());
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let number = reader.u8("event")?;
        let (zone, position) = (ZoneIndex::take(reader)?, Position::take(reader)?);
        match number {
            0 => {
                let frame_bytes = reader.u32("frame bytes")?;
                Ok(PageEvent::Frame { zone, position, frame_bytes, engine_header: reader.bytes("engine header")? })
            }
            1 => Ok(PageEvent::Damaged { zone, position, damage: reader.text("damage")? }),
            2 => {
                let bytes = reader.u64("bytes")?;
                Ok(PageEvent::Unreadable { zone, position, bytes, reason: reader.text("reason")? })
            }
            found => Err(reader.unknown("event", found)),
        }
    }
}
