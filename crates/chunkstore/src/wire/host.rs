//! What a lookup host is asked, and answers.

use bytes::{BufMut, BytesMut};
use format::chunk_id::ChunkId;
use format::chunk_place::ChunkPlaces;
use format::chunk_update::{LookupUpdate, Stream};

use super::field::{put_flag, put_part};
use super::limits::{MAX_PIECE_BYTES, MAX_SNAPSHOT_BYTES, MAX_UPDATE_BYTES};
use super::{Input, Wire, WireError};
use crate::lookup::Received;
use crate::message::Located;
use crate::protocol::{HostAnswer, HostRequest, ReplyTo, SnapshotPiece};

impl Wire for HostRequest {
    fn put(&self, out: &mut BytesMut) {
        match self {
            HostRequest::Update(update) => {
                out.put_u8(1);
                put_part(&update.encode(), MAX_UPDATE_BYTES, out);
            }
            HostRequest::Piece(piece) => {
                out.put_u8(2);
                piece.put(out);
            }
            HostRequest::Route { id, has_content, reply } => {
                out.put_u8(3);
                id.put(out);
                put_flag(*has_content, out);
                reply.put(out);
            }
            HostRequest::Locate(id) => {
                out.put_u8(4);
                id.put(out);
            }
        }
    }

    /// What is wrong in an update is said with offsets in the update.
    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("kind")? {
            1 => HostRequest::Update(LookupUpdate::decode(&input.part("update", MAX_UPDATE_BYTES)?)?),
            2 => HostRequest::Piece(SnapshotPiece::take(input)?),
            3 => {
                let (id, has_content) = (ChunkId::take(input)?, input.flag("has_content")?);
                HostRequest::Route { id, has_content, reply: ReplyTo::take(input)? }
            }
            4 => HostRequest::Locate(ChunkId::take(input)?),
            found => return Err(input.unknown("kind", found)),
        })
    }
}

impl Wire for SnapshotPiece {
    fn put(&self, out: &mut BytesMut) {
        self.stream.put(out);
        out.put_u64_le(self.number);
        out.put_u32_le(self.total_bytes);
        out.put_u32_le(self.offset);
        put_part(&self.bytes, MAX_PIECE_BYTES, out);
    }

    /// A piece lies in its snapshot, and the snapshot is no longer than one may be.
    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (stream, number) = (Stream::take(input)?, input.u64("number")?);
        let at = input.offset();
        let total_bytes = input.u32("total_bytes")?;
        input.check(at, "total_bytes", total_bytes as usize, MAX_SNAPSHOT_BYTES)?;
        let at = input.offset();
        let offset = input.u32("offset")?;
        input.check(at, "offset", offset as usize, total_bytes as usize)?;
        let most = MAX_PIECE_BYTES.min((total_bytes - offset) as usize);
        let bytes = input.part("piece", most)?.to_vec();
        Ok(SnapshotPiece { stream, number, total_bytes, offset, bytes })
    }
}

impl Wire for HostAnswer {
    fn put(&self, out: &mut BytesMut) {
        match self {
            HostAnswer::Received(received) => {
                out.put_u8(1);
                received.put(out);
            }
            HostAnswer::Gathering => out.put_u8(2),
            HostAnswer::Forwarded => out.put_u8(3),
            HostAnswer::NotRouted => out.put_u8(4),
            HostAnswer::Located(located) => {
                out.put_u8(5);
                located.put(out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("kind")? {
            1 => HostAnswer::Received(Received::take(input)?),
            2 => HostAnswer::Gathering,
            3 => HostAnswer::Forwarded,
            4 => HostAnswer::NotRouted,
            5 => HostAnswer::Located(Located::take(input)?),
            found => return Err(input.unknown("kind", found)),
        })
    }
}

impl Wire for Located {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Located::At(places) => {
                out.put_u8(1);
                places.put(out);
            }
            Located::Behind => out.put_u8(2),
            Located::Nowhere => out.put_u8(3),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("located")? {
            1 => Ok(Located::At(ChunkPlaces::take(input)?)),
            2 => Ok(Located::Behind),
            3 => Ok(Located::Nowhere),
            found => Err(input.unknown("located", found)),
        }
    }
}
