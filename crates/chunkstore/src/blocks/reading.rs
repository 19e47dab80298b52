//! Requests that write nothing: answered by the machine, and content read and compared with its checksum.

use bytes::Bytes;
use crc_fast::crc32_iscsi;
use disk::BLOCK_BYTES;
use format::chunk_id::ChunkId;

use super::Inner;
use super::ailing::Rotten;
use super::layout::data_start;
use super::limits::READ_TRIES;
use crate::message::{LiveCopy, NodeAnswer, NodeRequest};
use crate::storage_node::Step;

/// A content that is to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub block: u32,
    pub offset: u32,
    pub length: u32,
    pub checksum: u32,
}

impl Inner {
    /// A request that writes nothing.
    pub(super) async fn read(&self, block: u32, id: ChunkId, request: &NodeRequest) -> NodeAnswer {
        let mut before = None;
        for tries in 0..READ_TRIES {
            let (extent, copy) = match self.step(block, id, request) {
                Ok(found) => found,
                Err(answer) => return answer,
            };
            // What was wrong on the medium stays wrong, unless the content stands elsewhere by now.
            if tries > 1 && before == Some(extent) {
                break;
            }
            before = Some(extent);
            if let Some(content) = self.content(extent, tries > 0).await {
                self.counters.repeated_reads.add(u64::from(tries > 0));
                self.counters.reads.add(1);
                self.counters.read_bytes.add(content.len() as u64);
                return NodeAnswer::Live(LiveCopy { content: Some(content), ..copy });
            }
        }
        tracing::error!(device = self.volume.device().0, block, %id, "a chunk's content is not what was written");
        if let Some(extent) = before {
            self.ailing.note_rotten(Rotten::new(id, extent));
        }
        NodeAnswer::Damaged
    }

    /// What to read for a request, or its answer.
    fn step(&self, block: u32, id: ChunkId, request: &NodeRequest) -> Result<(Extent, LiveCopy), NodeAnswer> {
        let mut work = self.work.lock();
        let tag = work.next_tag();
        let step = work.machine.handle(tag, block, id, request.clone()).pop();
        match step.expect("a request that writes nothing has one step") {
            Step::Answer { answer, .. } => Err(answer),
            Step::Read { block, offset, length, checksum, copy, .. } => Ok((Extent { block, offset, length, checksum }, copy)),
            Step::Write { .. } => unreachable!("nothing is written for it"),
        }
    }

    /// The content, if it is what was written.
    pub(super) async fn content(&self, extent: Extent, is_from_medium: bool) -> Option<Bytes> {
        let Extent { block, offset, length, checksum } = extent;
        if length == 0 {
            return (crc32_iscsi(&[]) == checksum).then(Bytes::new);
        }
        let _turn = self.reads.acquire().await.ok()?;
        // Contents begin at whole blocks; a header that says otherwise is read as well.
        let skipped = offset as usize % BLOCK_BYTES;
        let start = data_start(block, offset - skipped as u32);
        let len = (skipped + length as usize).next_multiple_of(BLOCK_BYTES);
        let read = match is_from_medium {
            true => self.volume.read_medium(start, len).await,
            false => self.volume.read(start, len).await,
        };
        match read {
            Ok(buf) => {
                let content = Bytes::from_owner(buf).slice(skipped..skipped + length as usize);
                (crc32_iscsi(&content) == checksum).then_some(content)
            }
            Err(error) => {
                tracing::warn!(%error, block, "a chunk's content can't be read");
                None
            }
        }
    }
}
