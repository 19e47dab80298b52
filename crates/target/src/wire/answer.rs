//! Answers.

use bytes::{BufMut, Bytes, BytesMut};
use device::{Appended, Usage, ZoneInfo};
use format::zone_header::{ZoneState, ZoneStream};
use types::{Activation, DeviceId, ErrorKind, Place, Position, ZoneIndex};

use crate::limits::MAX_REASON_BYTES;
use crate::wire::codec::{Reader, Wire, WireError, put_bytes};
use crate::{FrameRead, PieceRead};

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was done, for this reason.
    Refused(ErrorKind),
    /// The append belongs to a session that has ended. Nothing was done.
    OtherSession,
    /// The device failed meanwhile: it may have been done.
    Unknown,
}

/// A bad answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    pub fault: Fault,
    pub reason: String,
}

impl Failure {
    pub(crate) fn refused(kind: ErrorKind, reason: impl ToString) -> Failure {
        Failure { fault: Fault::Refused(kind), reason: reason.to_string() }
    }
}

/// The numbers of faults; 0 is a good answer.
const OTHER_SESSION: u8 = 100;
const UNKNOWN: u8 = 101;

fn fault_number(fault: Fault) -> u8 {
    match fault {
        Fault::Refused(kind) => match kind {
            ErrorKind::NotFound => 1,
            ErrorKind::Conflict => 2,
            ErrorKind::PreconditionFailed => 3,
            ErrorKind::Invalid => 4,
            ErrorKind::Denied => 5,
            ErrorKind::Full => 6,
            ErrorKind::Unavailable => 7,
            ErrorKind::Corrupt => 8,
            ErrorKind::Busy => 9,
            ErrorKind::Timeout => 10,
            ErrorKind::Internal => 11,
        },
        Fault::OtherSession => OTHER_SESSION,
        Fault::Unknown => UNKNOWN,
    }
}

fn fault_of(number: u8) -> Option<Fault> {
    let kind = match number {
        1 => ErrorKind::NotFound,
        2 => ErrorKind::Conflict,
        3 => ErrorKind::PreconditionFailed,
        4 => ErrorKind::Invalid,
        5 => ErrorKind::Denied,
        6 => ErrorKind::Full,
        7 => ErrorKind::Unavailable,
        8 => ErrorKind::Corrupt,
        9 => ErrorKind::Busy,
        10 => ErrorKind::Timeout,
        11 => ErrorKind::Internal,
        OTHER_SESSION => return Some(Fault::OtherSession),
        UNKNOWN => return Some(Fault::Unknown),
        _ => return None,
    };
    Some(Fault::Refused(kind))
}

/// Writes an answer.
pub fn encode_answer<T: Wire>(answer: &Result<T, Failure>) -> Bytes {
    let mut out = BytesMut::new();
    put_result(answer, &mut out);
    out.freeze()
}

/// Reads the answer to a request of which it is known what it answers.
pub fn decode_answer<T: Wire>(bytes: Bytes) -> Result<Result<T, Failure>, WireError> {
    let mut reader = Reader::new(bytes);
    let answer = take_result(&mut reader)?;
    reader.end()?;
    Ok(answer)
}

pub(super) fn put_result<T: Wire>(answer: &Result<T, Failure>, out: &mut BytesMut) {
    match answer {
        Ok(answer) => {
            out.put_u8(0);
            answer.put(out);
        }
        Err(failure) => {
            out.put_u8(fault_number(failure.fault));
            let reason = failure.reason.as_bytes();
            put_bytes(out, &reason[..reason.len().min(MAX_REASON_BYTES)]);
        }
    }
}

pub(super) fn take_result<T: Wire>(reader: &mut Reader) -> Result<Result<T, Failure>, WireError> {
    Ok(match reader.u8("fault")? {
        0 => Ok(T::take(reader)?),
        number => {
            let fault = fault_of(number).ok_or_else(|| reader.unknown("fault", number))?;
            Err(Failure { fault, reason: reader.text("reason")? })
        }
    })
}

/// Where an append landed, and what has changed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendAnswer {
    pub appended: Appended,
    /// Whether the device takes writes.
    pub is_writable: bool,
    /// Bytes that the open zone of the append's stream still takes.
    pub open_room: u64,
}

impl Wire for AppendAnswer {
    fn put(&self, out: &mut BytesMut) {
        let Appended { place, position, frame_bytes } = self.appended;
        place.device.put(out);
        place.zone.put(out);
        position.put(out);
        out.put_u32_le(frame_bytes as u32);
        out.put_u8(u8::from(self.is_writable));
        out.put_u64_le(self.open_room);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let (device, zone, position) = (DeviceId::take(reader)?, ZoneIndex::take(reader)?, Position::take(reader)?);
        let place = Place { device, zone, offset: position.offset };
        let appended = Appended { place, position, frame_bytes: reader.u32("frame bytes")? as usize };
        Ok(AppendAnswer { appended, is_writable: reader.flag("writable")?, open_room: reader.u64("open room")? })
    }
}

impl Wire for FrameRead {
    fn put(&self, out: &mut BytesMut) {
        out.reserve(4 + self.engine_header.len() + self.payload.len());
        put_bytes(out, &self.engine_header);
        out.put_slice(&self.payload);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        Ok(FrameRead { engine_header: reader.bytes("engine header")?, payload: reader.rest() })
    }
}

impl Wire for PieceRead {
    fn put(&self, out: &mut BytesMut) {
        out.reserve(8 + self.engine_header.len() + self.piece.len());
        put_bytes(out, &self.engine_header);
        out.put_u32_le(self.payload_bytes as u32);
        out.put_slice(&self.piece);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let engine_header = reader.bytes("engine header")?;
        Ok(PieceRead { engine_header, payload_bytes: reader.u32("payload bytes")? as usize, piece: reader.rest() })
    }
}

/// What a target tells about its device; a hint by the time it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetState {
    pub is_writable: bool,
    pub usage: Usage,
    /// Bytes that the open zones of the ordered, the relocated and the meta stream still take.
    pub open_room: [u64; 3],
    /// All zones, in their order.
    pub zones: Vec<ZoneInfo>,
}

/// Bytes of a zone.
const ZONE_BYTES: usize = 1 + 1 + 8 + 8;

impl Wire for TargetState {
    fn put(&self, out: &mut BytesMut) {
        out.reserve(64 + self.zones.len() * ZONE_BYTES);
        let Usage {
            zones,
            zone_bytes,
            capacity_bytes,
            written_bytes,
            free_zones,
            free_data_zones,
            lent_zones,
            lendable_zones,
            is_lending_refused,
        } = self.usage;
        out.put_u8(u8::from(self.is_writable));
        out.put_u32_le(zones);
        [zone_bytes, capacity_bytes, written_bytes].iter().for_each(|bytes| out.put_u64_le(*bytes));
        [free_zones, free_data_zones, lent_zones, lendable_zones].iter().for_each(|zones| out.put_u32_le(*zones));
        out.put_u8(u8::from(is_lending_refused));
        self.open_room.iter().for_each(|bytes| out.put_u64_le(*bytes));
        out.put_u32_le(self.zones.len() as u32);
        for zone in &self.zones {
            out.put_u8(state_number(zone.state));
            out.put_u8(stream_number(zone.stream));
            out.put_u64_le(zone.activation.0);
            out.put_u64_le(zone.written_bytes);
        }
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let is_writable = reader.flag("writable")?;
        let usage = Usage {
            zones: reader.u32("zones")?,
            zone_bytes: reader.u64("zone bytes")?,
            capacity_bytes: reader.u64("capacity")?,
            written_bytes: reader.u64("written bytes")?,
            free_zones: reader.u32("free zones")?,
            free_data_zones: reader.u32("free data zones")?,
            lent_zones: reader.u32("lent zones")?,
            lendable_zones: reader.u32("lendable zones")?,
            is_lending_refused: reader.flag("lending refused")?,
        };
        let mut open_room = [0; 3];
        for room in &mut open_room {
            *room = reader.u64("open room")?;
        }
        let count = reader.count(ZONE_BYTES, "zones")?;
        let zones = (0..count as u32).map(|index| take_zone(ZoneIndex(index), reader)).collect::<Result<_, _>>()?;
        Ok(TargetState { is_writable, usage, open_room, zones })
    }
}

fn take_zone(zone: ZoneIndex, reader: &mut Reader) -> Result<ZoneInfo, WireError> {
    let state = match reader.u8("zone's state")? {
        0 => None,
        1 => Some(ZoneState::Free),
        2 => Some(ZoneState::Open),
        3 => Some(ZoneState::Finished),
        4 => Some(ZoneState::Lent),
        found => return Err(reader.unknown("zone's state", found)),
    };
    let stream = match reader.u8("zone's stream")? {
        0 => None,
        1 => Some(ZoneStream::Ordered),
        2 => Some(ZoneStream::Relocated),
        3 => Some(ZoneStream::Meta),
        found => return Err(reader.unknown("zone's stream", found)),
    };
    let activation = Activation(reader.u64("activation")?);
    Ok(ZoneInfo { zone, state, stream, activation, written_bytes: reader.u64("written bytes")? })
}

fn state_number(state: Option<ZoneState>) -> u8 {
    match state {
        None | Some(ZoneState::Returned) => 0,
        Some(ZoneState::Free) => 1,
        Some(ZoneState::Open) => 2,
        Some(ZoneState::Finished) => 3,
        Some(ZoneState::Lent) => 4,
    }
}

fn stream_number(stream: Option<ZoneStream>) -> u8 {
    match stream {
        None => 0,
        Some(ZoneStream::Ordered) => 1,
        Some(ZoneStream::Relocated) => 2,
        Some(ZoneStream::Meta) => 3,
    }
}
