//! Requests.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use device::{LogVector, PieceOfFrame};
use types::{Activation, DeviceId, ZoneIndex, ZoneOffset};

use crate::wire::append::{AppendPart, AppendRequest, take_parts};
use crate::wire::codec::{Reader, WRITER_BYTES, Wire, WireError};
use crate::{WalkRange, Writer};

/// What is asked of one device's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub device: DeviceId,
    pub ask: Ask,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// All under one session: none of them is begun if it is not the writer's present one ([`crate::wire::AppendRequest`]).
    Append {
        writer: Writer,
        session: u64,
        parts: Vec<AppendPart>,
    },
    /// From the answer on, no append of an earlier session of this writer lands.
    OpenSession {
        writer: Writer,
    },
    Read {
        zone: ZoneIndex,
        offset: ZoneOffset,
        expected_bytes: u32,
    },
    ReadPiece {
        zone: ZoneIndex,
        offset: ZoneOffset,
        wanted: PieceOfFrame,
    },
    /// One page. Zones of later activations than `until` are not walked.
    Walk {
        range: WalkRange,
        until: Activation,
        verify_payload: bool,
    },
    Floor,
    State,
    Reset {
        writer: Writer,
        zone: ZoneIndex,
        activation: Activation,
    },
    FinishReserved {
        writer: Writer,
    },
    FinishOpen {
        writer: Writer,
    },
    RaiseFence {
        writer: Writer,
    },
    LoadFences {
        fences: Vec<Writer>,
    },
    Drain,
}

/// The number of [`Ask::Append`].
pub(super) const APPEND: u8 = 1;

impl Request {
    pub fn encode(&self) -> Bytes {
        if let Ask::Append { writer, session, parts } = &self.ask {
            let mut request = AppendRequest::new(self.device, *writer, 0);
            for AppendPart { class, frame } in parts {
                request.add(*class, frame.len(), |slot| slot.copy_from_slice(frame));
            }
            return request.under(*session);
        }
        let mut out = BytesMut::new();
        self.device.put(&mut out);
        out.put_u8(self.ask.number());
        self.ask.put_fields(&mut out);
        out.freeze()
    }

    pub fn decode(bytes: Bytes) -> Result<Request, WireError> {
        let mut reader = Reader::new(bytes);
        let device = DeviceId::take(&mut reader)?;
        let number = reader.u8("ask")?;
        let ask = Ask::take_fields(number, &mut reader)?;
        reader.end()?;
        Ok(Request { device, ask })
    }
}

impl Ask {
    fn number(&self) -> u8 {
        match self {
            Ask::Append { .. } => APPEND,
            Ask::OpenSession { .. } => 2,
            Ask::Read { .. } => 3,
            Ask::ReadPiece { .. } => 4,
            Ask::Walk { .. } => 5,
            Ask::Floor => 6,
            Ask::State => 7,
            Ask::Reset { .. } => 8,
            Ask::FinishReserved { .. } => 9,
            Ask::FinishOpen { .. } => 10,
            Ask::RaiseFence { .. } => 11,
            Ask::LoadFences { .. } => 12,
            Ask::Drain => 13,
        }
    }

    fn put_fields(&self, out: &mut BytesMut) {
        match self {
            Ask::Append { .. } => unreachable!("appends have an encoder of their own"),
            Ask::OpenSession { writer }
            | Ask::FinishReserved { writer }
            | Ask::FinishOpen { writer }
            | Ask::RaiseFence { writer } => writer.put(out),
            Ask::Read { zone, offset, expected_bytes } => {
                zone.put(out);
                [offset.0, *expected_bytes].iter().for_each(|number| out.put_u32_le(*number));
            }
            Ask::ReadPiece { zone, offset, wanted } => {
                zone.put(out);
                out.put_u32_le(offset.0);
                let lengths = [wanted.engine_header_bytes, wanted.payload_bytes, wanted.range.start, wanted.range.end];
                lengths.iter().for_each(|length| out.put_u32_le((*length).min(MAX_LENGTH) as u32));
            }
            Ask::Walk { range, until, verify_payload } => {
                range.put(out);
                out.put_u64_le(until.0);
                out.put_u8(u8::from(*verify_payload));
            }
            Ask::Floor | Ask::State | Ask::Drain => {}
            Ask::Reset { writer, zone, activation } => {
                writer.put(out);
                zone.put(out);
                out.put_u64_le(activation.0);
            }
            Ask::LoadFences { fences } => {
                out.put_u32_le(fences.len() as u32);
                fences.iter().for_each(|fence| fence.put(out));
            }
        }
    }

    fn take_fields(number: u8, reader: &mut Reader) -> Result<Ask, WireError> {
        Ok(match number {
            APPEND => {
                let (writer, session) = (Writer::take(reader)?, reader.u64("session")?);
                Ask::Append { writer, session, parts: take_parts(reader)? }
            }
            2 => Ask::OpenSession { writer: Writer::take(reader)? },
            3 => {
                let (zone, offset) = (ZoneIndex::take(reader)?, ZoneOffset(reader.u32("offset")?));
                Ask::Read { zone, offset, expected_bytes: reader.u32("expected bytes")? }
            }
            4 => {
                let (zone, offset) = (ZoneIndex::take(reader)?, ZoneOffset(reader.u32("offset")?));
                let engine_header_bytes = length(reader, "header bytes")?;
                let payload_bytes = length(reader, "payload bytes")?;
                let range = Range { start: length(reader, "from")?, end: length(reader, "to")? };
                Ask::ReadPiece { zone, offset, wanted: PieceOfFrame { engine_header_bytes, payload_bytes, range } }
            }
            5 => {
                let (range, until) = (WalkRange::take(reader)?, Activation(reader.u64("until")?));
                Ask::Walk { range, until, verify_payload: reader.flag("verify")? }
            }
            6 => Ask::Floor,
            7 => Ask::State,
            8 => {
                let (writer, zone) = (Writer::take(reader)?, ZoneIndex::take(reader)?);
                Ask::Reset { writer, zone, activation: Activation(reader.u64("activation")?) }
            }
            9 => Ask::FinishReserved { writer: Writer::take(reader)? },
            10 => Ask::FinishOpen { writer: Writer::take(reader)? },
            11 => Ask::RaiseFence { writer: Writer::take(reader)? },
            12 => {
                let count = reader.count(WRITER_BYTES, "fences")?;
                Ask::LoadFences { fences: (0..count).map(|_| Writer::take(reader)).collect::<Result<_, _>>()? }
            }
            13 => Ask::Drain,
            found => return Err(reader.unknown("ask", found)),
        })
    }
}

/// Longest length of a part of a frame: arithmetic on longer ones might overflow.
const MAX_LENGTH: usize = format::frame::MAX_FRAME_BYTES;

fn length(reader: &mut Reader, field: &'static str) -> Result<usize, WireError> {
    let found = reader.u32(field)?;
    if found as usize > MAX_LENGTH {
        return Err(reader.unknown(field, found));
    }
    Ok(found as usize)
}

impl Wire for WalkRange {
    fn put(&self, out: &mut BytesMut) {
        match self {
            WalkRange::From(vector) => {
                out.put_u8(0);
                vector.put(out);
            }
            WalkRange::Zone(zone) => {
                out.put_u8(1);
                zone.put(out);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        match reader.u8("range")? {
            0 => Ok(WalkRange::From(LogVector::take(reader)?)),
            1 => Ok(WalkRange::Zone(ZoneIndex::take(reader)?)),
            found => Err(reader.unknown("range", found)),
        }
    }
}
