//! What a node with blocks is asked.

use bytes::{BufMut, BytesMut};
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::field::{put_address, put_content, put_flag, take_address, take_content};
use super::limits::MAX_GAPS;
use super::{Input, Wire, WireError};
use crate::message::{Change, Mark, NodeRequest, Resolved, ToNode};
use crate::protocol::{BlockRequest, Gaps, ReplyTo};

impl Wire for BlockRequest {
    fn put(&self, out: &mut BytesMut) {
        match self {
            BlockRequest::Direct(to) => {
                out.put_u8(1);
                to.put(out);
            }
            BlockRequest::Forwarded { to, places, reply } => {
                out.put_u8(2);
                places.put(out);
                reply.put(out);
                to.put(out);
            }
            BlockRequest::Condemn(place) => {
                out.put_u8(3);
                place.put(out);
            }
            BlockRequest::Gaps { device, blocks } => {
                out.put_u8(4);
                device.put(out);
                put_numbers(blocks, out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("kind")? {
            1 => Ok(BlockRequest::Direct(ToNode::take(input)?)),
            2 => {
                let (places, reply) = (ChunkPlaces::take(input)?, ReplyTo::take(input)?);
                Ok(BlockRequest::Forwarded { to: ToNode::take(input)?, places, reply })
            }
            3 => Ok(BlockRequest::Condemn(BlockPlace::take(input)?)),
            4 => Ok(BlockRequest::Gaps { device: DeviceId::take(input)?, blocks: take_numbers("blocks", input)? }),
            found => Err(input.unknown("kind", found)),
        }
    }
}

impl Wire for Gaps {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(1);
        put_numbers(&self.0, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("kind")? {
            1 => Ok(Gaps(take_numbers("gaps", input)?)),
            found => Err(input.unknown("kind", found)),
        }
    }
}

/// One for each block of a question.
fn put_numbers(numbers: &[u32], out: &mut BytesMut) {
    assert!(numbers.len() <= MAX_GAPS, "a question is about {MAX_GAPS} blocks at most");
    out.put_u32_le(numbers.len() as u32);
    numbers.iter().for_each(|number| out.put_u32_le(*number));
}

fn take_numbers(field: &'static str, input: &mut Input<'_>) -> Result<Vec<u32>, WireError> {
    input.list(field, (size_of::<u32>(), MAX_GAPS), |input| input.u32(field))
}

impl Wire for ReplyTo {
    fn put(&self, out: &mut BytesMut) {
        put_address(&self.address, out);
        out.put_u64_le(self.token);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(ReplyTo { address: take_address(input)?, token: input.u64("token")? })
    }
}

impl Wire for ToNode {
    fn put(&self, out: &mut BytesMut) {
        self.place.put(out);
        self.id.put(out);
        self.request.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (place, id) = (BlockPlace::take(input)?, ChunkId::take(input)?);
        Ok(ToNode { place, id, request: NodeRequest::take(input)? })
    }
}

impl Wire for NodeRequest {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(number(self));
        match self {
            NodeRequest::Put { era, capacity, content } => {
                era.put(out);
                out.put_u32_le(*capacity);
                put_content(content, out);
            }
            NodeRequest::Read | NodeRequest::Query => {}
            NodeRequest::Write { era, change } => {
                era.put(out);
                change.put(out);
            }
            NodeRequest::Settle(mark) => mark.put(out),
            NodeRequest::Erase { era, moves } | NodeRequest::Discard { era, moves } => {
                era.put(out);
                out.put_u64_le(*moves);
            }
            NodeRequest::Forget { era, resolved } => {
                era.put(out);
                resolved.put(out);
            }
            NodeRequest::Depart { era } | NodeRequest::Raise { era } | NodeRequest::Take { era } => era.put(out),
            NodeRequest::Bring { relocation, era, capacity, version, is_settled, content } => {
                out.put_u64_le(*relocation);
                era.put(out);
                out.put_u32_le(*capacity);
                version.put(out);
                put_flag(*is_settled, out);
                put_content(content, out);
            }
            NodeRequest::Mend { era, version, is_compared, content } => {
                era.put(out);
                version.put(out);
                put_flag(*is_compared, out);
                put_content(content, out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("request")? {
            1 => {
                let (era, capacity) = (Era::take(input)?, input.u32("capacity")?);
                NodeRequest::Put { era, capacity, content: take_content(input)? }
            }
            2 => NodeRequest::Read,
            3 => NodeRequest::Query,
            4 => NodeRequest::Write { era: Era::take(input)?, change: Change::take(input)? },
            5 => NodeRequest::Settle(Mark::take(input)?),
            6 => NodeRequest::Erase { era: Era::take(input)?, moves: input.u64("moves")? },
            7 => NodeRequest::Forget { era: Era::take(input)?, resolved: Resolved::take(input)? },
            8 => NodeRequest::Depart { era: Era::take(input)? },
            9 => NodeRequest::Raise { era: Era::take(input)? },
            10 => NodeRequest::Take { era: Era::take(input)? },
            11 => take_bring(input)?,
            12 => {
                let (era, version, is_compared) = (Era::take(input)?, ChunkVersion::take(input)?, input.flag("is_compared")?);
                NodeRequest::Mend { era, version, is_compared, content: take_content(input)? }
            }
            13 => NodeRequest::Discard { era: Era::take(input)?, moves: input.u64("moves")? },
            found => return Err(input.unknown("request", found)),
        })
    }
}

fn number(request: &NodeRequest) -> u8 {
    match request {
        NodeRequest::Put { .. } => 1,
        NodeRequest::Read => 2,
        NodeRequest::Query => 3,
        NodeRequest::Write { .. } => 4,
        NodeRequest::Settle(_) => 5,
        NodeRequest::Erase { .. } => 6,
        NodeRequest::Forget { .. } => 7,
        NodeRequest::Depart { .. } => 8,
        NodeRequest::Raise { .. } => 9,
        NodeRequest::Take { .. } => 10,
        NodeRequest::Bring { .. } => 11,
        NodeRequest::Mend { .. } => 12,
        NodeRequest::Discard { .. } => 13,
    }
}

fn take_bring(input: &mut Input<'_>) -> Result<NodeRequest, WireError> {
    Ok(NodeRequest::Bring {
        relocation: input.u64("relocation")?,
        era: Era::take(input)?,
        capacity: input.u32("capacity")?,
        version: ChunkVersion::take(input)?,
        is_settled: input.flag("is_settled")?,
        content: take_content(input)?,
    })
}

impl Wire for Change {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Change::Content { version, content } => {
                out.put_u8(1);
                version.put(out);
                put_content(content, out);
            }
            Change::End => out.put_u8(2),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("change")? {
            1 => Ok(Change::Content { version: ChunkVersion::take(input)?, content: take_content(input)? }),
            2 => Ok(Change::End),
            found => Err(input.unknown("change", found)),
        }
    }
}

impl Wire for Resolved {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.puts.0);
        out.put_u64_le(self.moves);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(Resolved { puts: ChunkNumber(input.u64("puts")?), moves: input.u64("moves")? })
    }
}
