//! Blocks of this node's copies, for the primaries of their groups.

use std::sync::Arc;

use allack::OpSeq;
use bytes::Bytes;
use device::VolumeError;
use disk::AlignedBuf;
use net::{BoxFuture, Refusal, Request, Service};
use types::ErrorKind;

use crate::blocks::{Way, is_bad_block};
use crate::limits::LOGICAL_UNIT_BYTES;
use crate::members::{Group, Members};
use crate::mirror::{keep_units, units_of};
use crate::place::Place;
use crate::wire::{BlockAnswer, BlockAsk, BlockQuestion};

/// Answers questions about blocks.
pub struct BlockService(pub Place);

impl Service for BlockService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let question = BlockQuestion::decode(request.payload).ok_or_else(|| Refusal::new("no question about blocks"))?;
            let members = self.0.members().ok_or_else(|| Refusal::early("this node is no member of a placement group yet"))?;
            let early = || Refusal::early(format!("this node has no copy of placement group {} yet", question.group));
            let group = members.group(question.group).ok_or_else(early)?;
            // It is carried out to its end, whether the primary waits or not: so the ticket outlives all writing.
            let (members, env) = (members.clone(), members.env.clone());
            let work = async move { answer(&members, &group, question).await };
            device::Finishing::new(&env, work).await.map(|answer| answer.encode())
        })
    }
}

async fn answer(members: &Arc<Members>, group: &Arc<Group>, question: BlockQuestion) -> Result<BlockAnswer, Refusal> {
    let BlockQuestion { group: number, view, ask, .. } = question;
    let another = || Refusal::new(format!("placement group {number} is not under view {view} here"));
    let _ticket = group.admit(view).ok_or_else(another)?;
    let volume = &group.volume;
    let done = match ask {
        BlockAsk::Units => return Ok(BlockAnswer::Units(units_of(volume))),
        BlockAsk::Read { offset, len, is_from_medium } => {
            let way = if is_from_medium { Way::Medium } else { Way::Cached };
            return match group.copy.read(offset, len as usize, way).await {
                Ok(blocks) => Ok(BlockAnswer::Bytes(Bytes::copy_from_slice(&blocks))),
                Err(error) if is_bad_block(&error) => Ok(BlockAnswer::Unreadable),
                Err(error) => Err(Refusal::new(error)),
            };
        }
        BlockAsk::Released { through } => {
            members.release(group, OpSeq(through));
            Ok(())
        }
        // Another copy stands on a larger device.
        BlockAsk::Reserve { offset, len } if offset.saturating_add(len) > volume.byte_count() => return Ok(BlockAnswer::Full),
        BlockAsk::Reserve { offset, len } => volume.reserve(offset, len).await,
        BlockAsk::KeepUnits { units } => keep_units(volume, &units).await,
        BlockAsk::Write { offset, bytes } => write(group, offset, &bytes).await,
        BlockAsk::Flush => volume.flush().await,
    };
    match done {
        Ok(()) => Ok(BlockAnswer::Done),
        Err(error) if is_full(&error) => Ok(BlockAnswer::Full),
        Err(error) => Err(Refusal::new(error)),
    }
}

/// A learner gets its space with what is written there.
async fn write(group: &Group, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
    let (first, end) = (offset / LOGICAL_UNIT_BYTES, (offset + bytes.len() as u64).div_ceil(LOGICAL_UNIT_BYTES));
    group.volume.reserve(first * LOGICAL_UNIT_BYTES, (end - first) * LOGICAL_UNIT_BYTES).await?;
    group.copy.write(offset, AlignedBuf::copy_of(bytes)).await
}

fn is_full(error: &VolumeError) -> bool {
    error.kind() == ErrorKind::Full
}
