//! Parts that several messages have.

use bytes::{BufMut, Bytes, BytesMut};
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_id::{CHUNK_ID_BYTES, ChunkId, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::Stream;
use format::decode::Fault;
use types::{DeviceId, NodeId};

use super::limits::{MAX_ADDRESS_BYTES, MAX_CONTENT_BYTES};
use super::{Input, Wire, WireError};
use crate::lookup::{Progress, Received};
use crate::message::Mark;

impl Wire for ChunkId {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(&self.to_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(ChunkId::from_bytes(input.array::<CHUNK_ID_BYTES>("id")?))
    }
}

impl Wire for ShardId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(ShardId(input.u32("shard")?))
    }
}

impl Wire for NodeId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(NodeId(input.u32("node")?))
    }
}

impl Wire for DeviceId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(DeviceId(input.u32("device")?))
    }
}

impl Wire for Era {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(Era(input.u32("era")?))
    }
}

impl Wire for ChunkVersion {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.counter);
        out.put_u64_le(self.writer);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(ChunkVersion { counter: input.u64("counter")?, writer: input.u64("writer")? })
    }
}

impl Wire for BlockPlace {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.to_bits());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let at = input.offset();
        let bits = input.u64("place")?;
        BlockPlace::from_bits(bits).ok_or(input.reader().error_at(at, "place", Fault::Unknown { found: bits }))
    }
}

impl Wire for ChunkPlaces {
    fn put(&self, out: &mut BytesMut) {
        out.put_u128_le(self.to_value());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        ChunkPlaces::read(input.reader())
    }
}

impl Wire for Stream {
    fn put(&self, out: &mut BytesMut) {
        self.shard.put(out);
        out.put_u64_le(self.term);
        out.put_u64_le(self.generation);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(Stream { shard: ShardId::take(input)?, term: input.u64("term")?, generation: input.u64("generation")? })
    }
}

impl Wire for Mark {
    fn put(&self, out: &mut BytesMut) {
        put_mark(Some(*self), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        take_mark(input)?.ok_or_else(|| input.unknown("mark", 0))
    }
}

/// One byte says which it is, so none takes no other.
pub(super) fn put_mark(mark: Option<Mark>, out: &mut BytesMut) {
    match mark {
        None => out.put_u8(0),
        Some(Mark::Live(version)) => {
            out.put_u8(1);
            version.put(out);
        }
        Some(Mark::Dead) => out.put_u8(2),
    }
}

pub(super) fn take_mark(input: &mut Input<'_>) -> Result<Option<Mark>, WireError> {
    match input.u8("mark")? {
        0 => Ok(None),
        1 => Ok(Some(Mark::Live(ChunkVersion::take(input)?))),
        2 => Ok(Some(Mark::Dead)),
        found => Err(input.unknown("mark", found)),
    }
}

impl Wire for Received {
    fn put(&self, out: &mut BytesMut) {
        put_received(Some(*self), out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        take_received(input)?.ok_or_else(|| input.unknown("received", 0))
    }
}

/// As [`put_mark`].
pub(super) fn put_received(received: Option<Received>, out: &mut BytesMut) {
    match received {
        None => out.put_u8(0),
        Some(Received::Held(Progress { stream, number, horizon })) => {
            out.put_u8(1);
            stream.put(out);
            out.put_u64_le(number);
            out.put_u64_le(horizon.0);
        }
        Some(Received::NeedsSnapshot(shard)) => {
            out.put_u8(2);
            shard.put(out);
        }
    }
}

pub(super) fn take_received(input: &mut Input<'_>) -> Result<Option<Received>, WireError> {
    Ok(match input.u8("received")? {
        0 => None,
        1 => {
            let (stream, number) = (Stream::take(input)?, input.u64("number")?);
            Some(Received::Held(Progress { stream, number, horizon: ChunkNumber(input.u64("horizon")?) }))
        }
        2 => Some(Received::NeedsSnapshot(ShardId::take(input)?)),
        found => return Err(input.unknown("received", found)),
    })
}

/// Something, behind a byte that says that it is there.
pub(super) fn put_option<T: Wire>(value: Option<&T>, out: &mut BytesMut) {
    out.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        value.put(out);
    }
}

pub(super) fn put_flag(flag: bool, out: &mut BytesMut) {
    out.put_u8(u8::from(flag));
}

/// A list's count, or the length of bytes.
pub(super) fn put_count(count: usize, most: usize, out: &mut BytesMut) {
    assert!(count <= most, "{count} of at most {most}");
    out.put_u32_le(count as u32);
}

pub(super) fn put_part(bytes: &[u8], most: usize, out: &mut BytesMut) {
    put_count(bytes.len(), most, out);
    out.put_slice(bytes);
}

pub(super) fn put_list<T: Wire>(items: &[T], most: usize, out: &mut BytesMut) {
    put_count(items.len(), most, out);
    items.iter().for_each(|item| item.put(out));
}

pub(super) fn put_address(address: &str, out: &mut BytesMut) {
    assert!(address.len() <= MAX_ADDRESS_BYTES, "an address of {} bytes", address.len());
    out.put_u16_le(address.len() as u16);
    out.put_slice(address.as_bytes());
}

pub(super) fn take_address(input: &mut Input<'_>) -> Result<String, WireError> {
    input.text("address", MAX_ADDRESS_BYTES)
}

pub(super) fn put_content(content: &[u8], out: &mut BytesMut) {
    put_part(content, MAX_CONTENT_BYTES, out);
}

pub(super) fn take_content(input: &mut Input<'_>) -> Result<Bytes, WireError> {
    input.part("content", MAX_CONTENT_BYTES)
}
