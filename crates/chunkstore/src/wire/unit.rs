//! What a unit's members are asked, and answer.

use bytes::{BufMut, BytesMut};
use format::chunk_command::{ClientCall, CopyOf};
use format::chunk_id::{CHUNK_ID_BYTES, ChunkId, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::{DeviceId, NodeId};

use super::field::{put_flag, put_list, put_option, put_received, take_received};
use super::limits::{MAX_DAMAGED, MAX_FREED, MAX_MAP_DEVICES, MAX_ROTTEN, MAX_STUCK};
use super::{Input, Wire, WireError};
use crate::limits::MAX_AVOIDED;
use crate::maintenance::Refusal;
use crate::message::Found;
use crate::protocol::{DamagedBlock, DeviceRoom, NodeReport, UnitAnswer, UnitRequest};

/// Bytes of a copy, and of a damaged block.
const COPY_BYTES: usize = CHUNK_ID_BYTES + 8;
const DAMAGED_BYTES: usize = 8 + 1;

impl Wire for UnitRequest {
    fn put(&self, out: &mut BytesMut) {
        match self {
            UnitRequest::Register { shard, call, bytes, copies, avoid } => {
                out.put_u8(1);
                [shard.0, call.session, call.request, *bytes].iter().for_each(|number| out.put_u32_le(*number));
                out.put_u8(*copies);
                put_list(avoid, MAX_AVOIDED, out);
            }
            UnitRequest::Commit(id) => put_id(2, id, out),
            UnitRequest::Revoke(id) => put_id(3, id, out),
            UnitRequest::Find(id) => put_id(4, id, out),
            UnitRequest::Relocate { id, from, to } => {
                put_id(5, id, out);
                from.put(out);
                put_option(to.as_ref(), out);
            }
            UnitRequest::Report(report) => {
                out.put_u8(6);
                report.put(out);
            }
            UnitRequest::LastCopies { shard, devices } => {
                out.put_u8(7);
                shard.put(out);
                put_list(devices, MAX_MAP_DEVICES, out);
            }
            UnitRequest::Suspect(copy) => {
                out.put_u8(8);
                copy.put(out);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("kind")? {
            1 => {
                let shard = ShardId::take(input)?;
                let call = ClientCall { session: input.u32("session")?, request: input.u32("request")? };
                let (bytes, copies) = (input.u32("bytes")?, input.u8("copies")?);
                let avoid = input.list("avoid", (size_of::<u32>(), MAX_AVOIDED), NodeId::take)?;
                UnitRequest::Register { shard, call, bytes, copies, avoid }
            }
            2 => UnitRequest::Commit(ChunkId::take(input)?),
            3 => UnitRequest::Revoke(ChunkId::take(input)?),
            4 => UnitRequest::Find(ChunkId::take(input)?),
            5 => {
                let (id, from) = (ChunkId::take(input)?, DeviceId::take(input)?);
                UnitRequest::Relocate { id, from, to: input.option("has_target", DeviceId::take)? }
            }
            6 => UnitRequest::Report(NodeReport::take(input)?),
            7 => {
                let shard = ShardId::take(input)?;
                let devices = input.list("devices", (size_of::<u32>(), MAX_MAP_DEVICES), DeviceId::take)?;
                UnitRequest::LastCopies { shard, devices }
            }
            8 => UnitRequest::Suspect(CopyOf::take(input)?),
            found => return Err(input.unknown("kind", found)),
        })
    }
}

fn put_id(kind: u8, id: &ChunkId, out: &mut BytesMut) {
    out.put_u8(kind);
    id.put(out);
}

impl Wire for NodeReport {
    fn put(&self, out: &mut BytesMut) {
        self.node.put(out);
        self.shard.put(out);
        put_received(self.host, out);
        put_list(&self.freed, MAX_FREED, out);
        put_list(&self.rotten, MAX_ROTTEN, out);
        put_list(&self.damaged, MAX_DAMAGED, out);
        put_list(&self.stuck, MAX_STUCK, out);
        put_list(&self.rooms, MAX_STUCK, out);
        self.machine.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (node, shard, host) = (NodeId::take(input)?, ShardId::take(input)?, take_received(input)?);
        let freed = input.list("freed", (CHUNK_ID_BYTES, MAX_FREED), ChunkId::take)?;
        let rotten = input.list("rotten", (COPY_BYTES, MAX_ROTTEN), Wire::take)?;
        let damaged = input.list("damaged", (DAMAGED_BYTES, MAX_DAMAGED), Wire::take)?;
        let stuck = input.list("stuck", (size_of::<u32>(), MAX_STUCK), DeviceId::take)?;
        let rooms = input.list("rooms", (ROOM_BYTES, MAX_STUCK), Wire::take)?;
        Ok(NodeReport { node, shard, host, freed, rotten, damaged, stuck, rooms, machine: Wire::take(input)? })
    }
}

/// Bytes of a device with its room.
const ROOM_BYTES: usize = 4 + 4 + 8;

impl Wire for DeviceRoom {
    fn put(&self, out: &mut BytesMut) {
        self.device.put(out);
        out.put_u32_le(self.blocks);
        out.put_u64_le(self.span_bytes);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (device, blocks) = (DeviceId::take(input)?, input.u32("blocks")?);
        Ok(DeviceRoom { device, blocks, span_bytes: input.u64("span_bytes")? })
    }
}

impl Wire for CopyOf {
    fn put(&self, out: &mut BytesMut) {
        self.id.put(out);
        self.place.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(CopyOf { id: ChunkId::take(input)?, place: BlockPlace::take(input)? })
    }
}

impl Wire for DamagedBlock {
    fn put(&self, out: &mut BytesMut) {
        self.place.put(out);
        put_flag(self.is_condemned, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(DamagedBlock { place: BlockPlace::take(input)?, is_condemned: input.flag("is_condemned")? })
    }
}

impl Wire for UnitAnswer {
    fn put(&self, out: &mut BytesMut) {
        match self {
            UnitAnswer::Registered { id, places } => {
                put_id(1, id, out);
                places.put(out);
            }
            UnitAnswer::Done => out.put_u8(2),
            UnitAnswer::Found(found) => {
                out.put_u8(3);
                found.put(out);
            }
            UnitAnswer::Refused(refusal) => {
                out.put_u8(4);
                refusal.put(out);
            }
            UnitAnswer::NotLeader(leader) => {
                out.put_u8(5);
                put_option(leader.as_ref(), out);
            }
            UnitAnswer::Unknown => out.put_u8(6),
            UnitAnswer::Counted(count) => {
                out.put_u8(7);
                out.put_u64_le(*count);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("kind")? {
            1 => UnitAnswer::Registered { id: ChunkId::take(input)?, places: ChunkPlaces::take(input)? },
            2 => UnitAnswer::Done,
            3 => UnitAnswer::Found(Found::take(input)?),
            4 => UnitAnswer::Refused(Refusal::take(input)?),
            5 => UnitAnswer::NotLeader(input.option("has_leader", NodeId::take)?),
            6 => UnitAnswer::Unknown,
            7 => UnitAnswer::Counted(input.u64("count")?),
            found => return Err(input.unknown("kind", found)),
        })
    }
}

impl Wire for Found {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Found::Unknown => out.put_u8(1),
            Found::Pending(places) => {
                out.put_u8(2);
                places.put(out);
            }
            Found::Known { places, wanted } => {
                out.put_u8(3);
                places.put(out);
                out.put_u8(*wanted);
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("found")? {
            1 => Ok(Found::Unknown),
            2 => Ok(Found::Pending(ChunkPlaces::take(input)?)),
            3 => Ok(Found::Known { places: ChunkPlaces::take(input)?, wanted: input.u8("wanted")? }),
            found => Err(input.unknown("found", found)),
        }
    }
}

impl Wire for Refusal {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Refusal::Sealed => out.put_u8(1),
            Refusal::Size { limit } => {
                out.put_u8(2);
                out.put_u32_le(*limit);
            }
            Refusal::NoRoom { place } => {
                out.put_u8(3);
                place.put(out);
            }
            Refusal::Busy => out.put_u8(4),
            Refusal::Unknown => out.put_u8(5),
            Refusal::NotPending => out.put_u8(6),
            Refusal::UnderWay => out.put_u8(7),
            Refusal::Places => out.put_u8(8),
            Refusal::Grant => out.put_u8(9),
            Refusal::NoPlaces => out.put_u8(10),
            Refusal::Archived => out.put_u8(11),
            Refusal::Page => out.put_u8(12),
            Refusal::NoPlacesYet => out.put_u8(13),
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(match input.u8("refusal")? {
            1 => Refusal::Sealed,
            2 => Refusal::Size { limit: input.u32("limit")? },
            3 => Refusal::NoRoom { place: BlockPlace::take(input)? },
            4 => Refusal::Busy,
            5 => Refusal::Unknown,
            6 => Refusal::NotPending,
            7 => Refusal::UnderWay,
            8 => Refusal::Places,
            9 => Refusal::Grant,
            10 => Refusal::NoPlaces,
            11 => Refusal::Archived,
            12 => Refusal::Page,
            13 => Refusal::NoPlacesYet,
            found => return Err(input.unknown("refusal", found)),
        })
    }
}
