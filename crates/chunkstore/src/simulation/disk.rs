//! A device's medium, and what a crash leaves of writes that were under way.

use std::collections::BTreeMap;

use bytes::Bytes;
use crc_fast::crc32_iscsi;
use format::chunk_block::{BLOCK_DATA_BYTES, BlockHeader};
use format::chunk_id::ShardId;
use model::choice::{Choose, Seeded};

use crate::message::Resolved;
use crate::storage_node::{DiskWrite, JobId};

#[derive(Default)]
pub struct Disk {
    headers: BTreeMap<(u32, u64), Vec<u8>>,
    data: BTreeMap<u32, Vec<u8>>,
    fences: BTreeMap<ShardId, Resolved>,
    under_way: BTreeMap<JobId, DiskWrite>,
}

impl Disk {
    pub fn begin(&mut self, job: JobId, write: DiskWrite) {
        assert!(self.under_way.insert(job, write).is_none(), "a job writes one thing after the other");
    }

    pub fn finish(&mut self, job: JobId) {
        let write = self.under_way.remove(&job).expect("under way");
        self.store(write, usize::MAX);
    }

    /// Each write under way is lost, whole, or torn.
    pub fn crash(&mut self, choose: &mut Seeded) {
        for (_, write) in std::mem::take(&mut self.under_way) {
            match choose.below(3) {
                0 => {}
                1 => self.store(write, usize::MAX),
                _ => self.store(write, choose.below(200)),
            }
        }
    }

    /// Stores at most the first bytes of a write.
    fn store(&mut self, write: DiskWrite, most: usize) {
        match write {
            DiskWrite::Data { block, offset, content } => {
                let medium = self.data.entry(block).or_insert_with(|| vec![0; BLOCK_DATA_BYTES as usize]);
                // Contents here are short, so the half of one is what is torn.
                let stored = if most < usize::MAX { content.len() / 2 } else { content.len() };
                medium[offset as usize..offset as usize + stored].copy_from_slice(&content[..stored]);
            }
            DiskWrite::Header { block, slot, bytes } => {
                let medium = self.headers.entry((block, slot)).or_default();
                let stored = bytes.len().min(most);
                medium.resize(medium.len().max(bytes.len()), 0);
                medium[..stored].copy_from_slice(&bytes[..stored]);
            }
            DiskWrite::Fence { shard, resolved } => {
                // A small record of its own: it is there or not.
                if most == usize::MAX {
                    let known = self.fences.entry(shard).or_default();
                    *known = known.raised(resolved);
                }
            }
        }
    }

    /// The newest believed header of each block.
    pub fn headers(&self) -> Vec<BlockHeader> {
        let blocks: std::collections::BTreeSet<u32> = self.headers.keys().map(|(block, _)| *block).collect();
        let slot = |block: u32, slot: u64| self.headers.get(&(block, slot)).map_or(&[][..], Vec::as_slice);
        // A block whose first header was torn has none, and nothing in it was ever durable.
        blocks.into_iter().filter_map(|block| BlockHeader::decode_newest([slot(block, 0), slot(block, 1)]).ok()).collect()
    }

    pub fn fences(&self) -> BTreeMap<ShardId, Resolved> {
        self.fences.clone()
    }

    /// The content, if it has the checksum.
    pub fn read(&self, block: u32, offset: u32, length: u32, checksum: u32) -> Option<Bytes> {
        let medium = self.data.get(&block)?;
        let content = &medium[offset as usize..(offset + length) as usize];
        (crc32_iscsi(content) == checksum).then(|| Bytes::copy_from_slice(content))
    }
}
