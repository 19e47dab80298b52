//! What nodes tell the monitor.

use bytes::{BufMut, BytesMut};
use env::MachineUse;
use format::chunk_id::{CHUNK_ID_BYTES, ChunkId};
use format::chunk_place::BlockPlace;
use types::NodeId;

use super::field::put_list;
use super::{Input, Wire, WireError};
use crate::limits::MAX_HOT;
use crate::protocol::{HotCopy, LoadReport};

const HOT_COPY_BYTES: usize = CHUNK_ID_BYTES + 8 + 8;

impl Wire for LoadReport {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(1);
        self.node.put(out);
        out.put_u64_le(self.heat);
        self.machine.put(out);
        put_list(&self.hot, MAX_HOT, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("kind")? {
            1 => {
                let (node, heat, machine) = (NodeId::take(input)?, input.u64("heat")?, Wire::take(input)?);
                Ok(LoadReport { node, heat, machine, hot: input.list("hot", (HOT_COPY_BYTES, MAX_HOT), Wire::take)? })
            }
            found => Err(input.unknown("kind", found)),
        }
    }
}

impl Wire for MachineUse {
    fn put(&self, out: &mut BytesMut) {
        [self.cpu, self.memory, self.network].iter().for_each(|share| out.put_u16_le(*share));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(MachineUse { cpu: input.u16("cpu")?, memory: input.u16("memory")?, network: input.u16("network")? })
    }
}

impl Wire for HotCopy {
    fn put(&self, out: &mut BytesMut) {
        self.id.put(out);
        self.place.put(out);
        out.put_u64_le(self.heat);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(HotCopy { id: ChunkId::take(input)?, place: BlockPlace::take(input)?, heat: input.u64("heat")? })
    }
}
