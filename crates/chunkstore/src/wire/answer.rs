//! What a node with blocks answers, to whoever asked or to the client for whom a host asked.

use bytes::{BufMut, BytesMut};
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::field::{put_content, put_flag, put_mark, take_content, take_mark};
use super::{Input, Wire, WireError};
use crate::message::{LiveCopy, NodeAnswer, NodeRefusal};
use crate::protocol::Delivery;

/// There is one kind of delivery.
const DELIVERY: u8 = 1;

impl Wire for Delivery {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(DELIVERY);
        out.put_u64_le(self.token);
        self.places.put(out);
        self.place.put(out);
        self.answer.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("kind")? {
            DELIVERY => {
                let (token, places) = (input.u64("token")?, ChunkPlaces::take(input)?);
                Ok(Delivery { token, places, place: BlockPlace::take(input)?, answer: NodeAnswer::take(input)? })
            }
            found => Err(input.unknown("kind", found)),
        }
    }
}

impl Wire for NodeAnswer {
    fn put(&self, out: &mut BytesMut) {
        match self {
            NodeAnswer::Live(copy) => {
                out.put_u8(1);
                copy.put(out);
            }
            NodeAnswer::Dead { era, is_settled } => {
                out.put_u8(2);
                era.put(out);
                put_flag(*is_settled, out);
            }
            NodeAnswer::Absent => out.put_u8(3),
            NodeAnswer::Departed => out.put_u8(4),
            NodeAnswer::Damaged => out.put_u8(5),
            NodeAnswer::Done(mark) => {
                out.put_u8(6);
                put_mark(*mark, out);
            }
            NodeAnswer::OtherEra => out.put_u8(7),
            NodeAnswer::Refused(refusal) => {
                out.put_u8(8);
                refusal.put(out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("answer")? {
            1 => NodeAnswer::Live(LiveCopy::take(input)?),
            2 => NodeAnswer::Dead { era: Era::take(input)?, is_settled: input.flag("is_settled")? },
            3 => NodeAnswer::Absent,
            4 => NodeAnswer::Departed,
            5 => NodeAnswer::Damaged,
            6 => NodeAnswer::Done(take_mark(input)?),
            7 => NodeAnswer::OtherEra,
            8 => NodeAnswer::Refused(NodeRefusal::take(input)?),
            found => return Err(input.unknown("answer", found)),
        })
    }
}

impl Wire for LiveCopy {
    fn put(&self, out: &mut BytesMut) {
        self.version.put(out);
        self.era.put(out);
        out.put_u32_le(self.capacity);
        put_flag(self.is_settled, out);
        put_flag(self.content.is_some(), out);
        if let Some(content) = &self.content {
            put_content(content, out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(LiveCopy {
            version: ChunkVersion::take(input)?,
            era: Era::take(input)?,
            capacity: input.u32("capacity")?,
            is_settled: input.flag("is_settled")?,
            content: input.option("has_content", take_content)?,
        })
    }
}

impl Wire for NodeRefusal {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(match self {
            NodeRefusal::Full => 1,
            NodeRefusal::TooLong => 2,
            NodeRefusal::Resolved => 3,
            NodeRefusal::Dead => 4,
            NodeRefusal::InUse => 5,
            NodeRefusal::Busy => 6,
            NodeRefusal::Failed => 7,
        });
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("refusal")? {
            1 => NodeRefusal::Full,
            2 => NodeRefusal::TooLong,
            3 => NodeRefusal::Resolved,
            4 => NodeRefusal::Dead,
            5 => NodeRefusal::InUse,
            6 => NodeRefusal::Busy,
            7 => NodeRefusal::Failed,
            found => return Err(input.unknown("refusal", found)),
        })
    }
}
