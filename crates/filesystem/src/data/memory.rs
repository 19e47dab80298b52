//! A data partition in memory, for tests and checks: the same answers as one on a device, and nothing survives it.

use std::collections::BTreeMap;

use bytes::Bytes;
use net::BoxFuture;
use parking_lot::Mutex;
use types::DeviceId;

use super::copies::{self, BlockSum, ExtentSums};
use super::{DataError, DataPartition, DataRoom, Extents, PartitionRoom, PartitionUse};
use crate::asking::contents::Partition;
use crate::ids::{BLOCK_BYTES, ExtentId};

const BLOCK: usize = BLOCK_BYTES as usize;

/// Extents in memory, with a bound of their space.
#[derive(Debug)]
pub struct MemoryPartition {
    number: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    capacity_blocks: u64,
    used_blocks: u64,
    next: u64,
    extents: BTreeMap<ExtentId, Extent>,
    failure: Option<DataError>,
    is_open: bool,
}

/// None stands for a block that was given back.
#[derive(Debug, Default)]
struct Extent {
    len: u64,
    blocks: Vec<Option<Box<[u8]>>>,
}

impl MemoryPartition {
    /// An empty partition with room for so many bytes, in whole blocks.
    pub fn new(capacity_bytes: u64) -> Self {
        MemoryPartition::numbered(0, capacity_bytes)
    }

    /// The same, with a number in the ids of its extents.
    pub fn numbered(number: u32, capacity_bytes: u64) -> Self {
        let state = State {
            capacity_blocks: capacity_bytes / BLOCK_BYTES,
            used_blocks: 0,
            next: 1,
            extents: BTreeMap::new(),
            failure: None,
            is_open: true,
        };
        MemoryPartition { number, state: Mutex::new(state) }
    }

    /// Whether it is below its thresholds, as it says.
    pub fn set_open(&self, is_open: bool) {
        self.state.lock().is_open = is_open;
    }

    /// From now on every request fails with this error; None ends it.
    pub fn fail(&self, failure: Option<DataError>) {
        self.state.lock().failure = failure;
    }

    /// Forgets all extents, as a disk does that was exchanged.
    pub fn lose_everything(&self) {
        let mut state = self.state.lock();
        (state.extents, state.used_blocks) = (BTreeMap::new(), 0);
    }

    /// The extents that there are.
    pub fn extents(&self) -> Vec<ExtentId> {
        self.state.lock().extents.keys().copied().collect()
    }
}

impl State {
    fn check(&self) -> Result<(), DataError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn create(&mut self, partition: u32, data: &[u8]) -> Result<ExtentId, DataError> {
        let id = ExtentId { partition, term: 1, number: self.next };
        self.next += 1;
        self.create_as(id, data)?;
        Ok(id)
    }

    fn create_as(&mut self, id: ExtentId, data: &[u8]) -> Result<(), DataError> {
        self.check()?;
        self.extents.entry(id).or_default();
        self.append(id, 0, data)
    }

    fn cut(&mut self, id: ExtentId, len: u64) -> Result<(), DataError> {
        self.check()?;
        let extent = self.extents.get_mut(&id).ok_or(DataError::NoExtent(id))?;
        if len < extent.len {
            extent.len = len;
            let gone = extent.blocks.split_off(len.div_ceil(BLOCK_BYTES) as usize);
            self.used_blocks -= gone.iter().flatten().count() as u64;
        }
        Ok(())
    }

    fn sums(&self, id: ExtentId, first_block: u64, most: usize) -> Option<ExtentSums> {
        let extent = self.extents.get(&id)?;
        let sum = |(block, content): (usize, &Option<Box<[u8]>>)| match content {
            // What lies behind the end is no content.
            Some(content) => {
                let end = (extent.len - block as u64 * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
                BlockSum::Has(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &content[..end]) as u32)
            }
            None => BlockSum::Absent,
        };
        let blocks = extent.blocks.iter().enumerate().skip(first_block as usize).take(most).map(sum).collect();
        Some(ExtentSums { len: extent.len, blocks })
    }

    fn append(&mut self, id: ExtentId, offset: u64, data: &[u8]) -> Result<(), DataError> {
        self.check()?;
        let free = self.capacity_blocks - self.used_blocks;
        let extent = self.extents.get_mut(&id).ok_or(DataError::NoExtent(id))?;
        let not_at_end = DataError::NotAtEnd { extent: id, offset, len: extent.len };
        let Some(known) = extent.len.checked_sub(offset) else { return Err(not_at_end) };
        let known = (known as usize).min(data.len());
        if known > 0 && extent.read(id, offset, known).ok().as_deref() != Some(&data[..known]) {
            return Err(not_at_end);
        }
        let end = offset + data.len() as u64;
        let adds = end.div_ceil(BLOCK_BYTES).saturating_sub(extent.blocks.len() as u64);
        if adds > free {
            return Err(DataError::Full);
        }
        for _block in 0..adds {
            extent.blocks.push(Some(vec![0; BLOCK].into_boxed_slice()));
        }
        self.used_blocks += adds;
        extent.len = extent.len.max(end);
        extent.put(id, offset + known as u64, &data[known..])
    }

    fn overwrite(&mut self, id: ExtentId, offset: u64, data: &[u8]) -> Result<(), DataError> {
        self.check()?;
        let extent = self.extents.get_mut(&id).ok_or(DataError::NoExtent(id))?;
        extent.check_range(id, offset, data.len())?;
        extent.put(id, offset, data)
    }

    fn read(&self, id: ExtentId, offset: u64, len: usize) -> Result<Bytes, DataError> {
        self.check()?;
        let extent = self.extents.get(&id).ok_or(DataError::NoExtent(id))?;
        extent.check_range(id, offset, len)?;
        extent.read(id, offset, len).map(Bytes::from)
    }

    fn punch(&mut self, id: ExtentId, offset: u64, len: u64) -> Result<(), DataError> {
        self.check()?;
        let Some(extent) = self.extents.get_mut(&id) else { return Ok(()) };
        let end = offset.saturating_add(len).min(extent.len);
        // The last block is whole where the range reaches the extent's end.
        let end_block = if end == extent.len { end.div_ceil(BLOCK_BYTES) } else { end / BLOCK_BYTES };
        for block in offset.div_ceil(BLOCK_BYTES)..end_block {
            self.used_blocks -= u64::from(extent.blocks[block as usize].take().is_some());
        }
        Ok(())
    }

    fn remove(&mut self, id: ExtentId) -> Result<(), DataError> {
        self.check()?;
        let extent = self.extents.remove(&id).unwrap_or_default();
        self.used_blocks -= extent.blocks.iter().flatten().count() as u64;
        Ok(())
    }

    fn room(&self) -> DataRoom {
        DataRoom {
            total_bytes: self.capacity_blocks * BLOCK_BYTES,
            free_bytes: (self.capacity_blocks - self.used_blocks) * BLOCK_BYTES,
        }
    }
}

impl Extent {
    fn check_range(&self, extent: ExtentId, offset: u64, len: usize) -> Result<(), DataError> {
        let end = offset.saturating_add(len as u64);
        if end > self.len { Err(DataError::Beyond { extent, end, len: self.len }) } else { Ok(()) }
    }

    /// Bytes of a range that lies in the extent.
    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            let (block, start) = ((at / BLOCK_BYTES) as usize, (at % BLOCK_BYTES) as usize);
            let end = BLOCK.min(start + len - bytes.len());
            let content = self.blocks[block].as_ref().ok_or(DataError::Punched { extent, offset: at })?;
            bytes.extend_from_slice(&content[start..end]);
        }
        Ok(bytes)
    }

    /// Changes bytes of a range that lies in the extent.
    fn put(&mut self, extent: ExtentId, offset: u64, data: &[u8]) -> Result<(), DataError> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (block, start) = ((at / BLOCK_BYTES) as usize, (at % BLOCK_BYTES) as usize);
            let taken = (BLOCK - start).min(data.len() - done);
            let content = self.blocks[block].as_mut().ok_or(DataError::Punched { extent, offset: at })?;
            content[start..start + taken].copy_from_slice(&data[done..done + taken]);
            done += taken;
        }
        Ok(())
    }
}

impl copies::CopyStore for MemoryPartition {
    fn create_as(&self, extent: ExtentId, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().create_as(extent, &data) })
    }

    fn cut(&self, extent: ExtentId, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().cut(extent, len) })
    }

    fn sums(&self, extent: ExtentId, first_block: u64, most: usize) -> Option<ExtentSums> {
        self.state.lock().sums(extent, first_block, most)
    }

    fn list(&self, partition: u32, after: Option<ExtentId>, most: usize) -> Vec<ExtentId> {
        let first = after.unwrap_or(ExtentId { partition, term: 0, number: 0 });
        let state = self.state.lock();
        let behind = state.extents.range((std::ops::Bound::Excluded(first), std::ops::Bound::Unbounded));
        behind.map(|(id, _)| *id).take_while(|id| id.partition == partition).take(most).collect()
    }

    fn used(&self, partition: u32) -> PartitionUse {
        let state = self.state.lock();
        let mut used = PartitionUse::default();
        for (_, extent) in state.extents.iter().filter(|(id, _)| id.partition == partition) {
            used.extents += 1;
            used.bytes += extent.blocks.iter().flatten().count() as u64 * BLOCK_BYTES;
        }
        used
    }

    fn is_stuck(&self) -> bool {
        false
    }
}

impl Extents for MemoryPartition {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().append(extent, offset, &data) })
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().overwrite(extent, offset, &data) })
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(async move { self.state.lock().read(extent, offset, len) })
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().punch(extent, offset, len) })
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move { self.state.lock().remove(extent) })
    }

    fn room(&self) -> DataRoom {
        self.state.lock().room()
    }
}

impl Partition for MemoryPartition {
    /// On a device of its own, with its number.
    fn state(&self) -> Option<PartitionRoom> {
        let (used, is_open) = (copies::CopyStore::used(self, self.number), self.state.lock().is_open);
        Some(PartitionRoom { is_open, used, devices: vec![(DeviceId(self.number), self.room())] })
    }

    fn learn(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.state.lock().check().is_ok() })
    }
}

impl DataPartition for MemoryPartition {
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        Box::pin(async move { self.state.lock().create(self.number, &data) })
    }
}

#[cfg(test)]
mod tests;
