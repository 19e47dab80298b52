//! Requests that change extents.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use disk::{AlignedBuf, BLOCK_BYTES};

use super::Inner;
use super::layout::{BLOCK, Span};
use super::limits::PIECE_BYTES;
use super::record::{Change, Write};
use super::rooming::Purpose;
use super::sums::crc;
use super::table::Gap;
use crate::data::DataError;
use crate::ids::ExtentId;

impl Inner {
    pub(super) async fn create(self: Arc<Self>, data: Bytes) -> Result<ExtentId, DataError> {
        self.found().await?;
        let extent = {
            let mut state = self.state.lock();
            let term = state.superblock.as_ref().expect("the store was founded").term;
            let number = state.next_number;
            state.next_number += 1;
            ExtentId { partition: self.volume.device().0, term, number }
        };
        self.create_as(extent, data).await?;
        Ok(extent)
    }

    pub(super) async fn create_as(self: Arc<Self>, extent: ExtentId, data: Bytes) -> Result<(), DataError> {
        self.found().await?;
        let _latch = self.latches.take(extent, 0..u64::MAX).await;
        if self.len_of(extent).is_ok() {
            return self.append_latched(extent, 0, data).await;
        }
        match data.is_empty() {
            true => self.create_empty(extent).await,
            false => self.put(extent, 0, data, Purpose::Create).await,
        }
    }

    async fn create_empty(self: &Arc<Self>, extent: ExtentId) -> Result<(), DataError> {
        self.journal_turn().await?;
        // Each extent makes the next checkpoint longer: a full device takes none.
        let probe = self.allocate(1, None, Purpose::Append).await?;
        {
            let mut state = self.state.lock();
            state.space.give(&probe);
            state.promised_blocks -= 1;
        }
        self.commit(Change::Create(extent), Vec::new()).await
    }

    pub(super) async fn append(self: Arc<Self>, extent: ExtentId, offset: u64, data: Bytes) -> Result<(), DataError> {
        let _latch = self.latches.take(extent, offset / BLOCK..u64::MAX).await;
        self.append_latched(extent, offset, data).await
    }

    async fn append_latched(self: &Arc<Self>, extent: ExtentId, offset: u64, data: Bytes) -> Result<(), DataError> {
        let len = self.len_of(extent)?;
        let not_at_end = DataError::NotAtEnd { extent, offset, len };
        let Some(known) = len.checked_sub(offset) else { return Err(not_at_end) };
        let known = known.min(data.len() as u64) as usize;
        if known > 0 {
            match self.clone().read(extent, offset, known).await {
                Ok(found) if found == data[..known] => {}
                Ok(_) | Err(DataError::Punched { .. }) => return Err(not_at_end),
                Err(error) => return Err(error),
            }
        }
        self.put(extent, offset + known as u64, data.slice(known..), Purpose::Append).await
    }

    pub(super) async fn overwrite(self: Arc<Self>, extent: ExtentId, offset: u64, data: Bytes) -> Result<(), DataError> {
        let end = offset.saturating_add(data.len() as u64);
        let _latch = self.latches.take(extent, offset / BLOCK..end.div_ceil(BLOCK)).await;
        let len = self.len_of(extent)?;
        if end > len {
            return Err(DataError::Beyond { extent, end, len });
        }
        self.check_present(extent, offset..end)?;
        self.put(extent, offset, data, Purpose::Overwrite).await
    }

    pub(super) async fn punch(self: Arc<Self>, extent: ExtentId, offset: u64, len: u64) -> Result<(), DataError> {
        let wanted = offset.saturating_add(len);
        let _latch = self.latches.take(extent, offset / BLOCK..wanted.div_ceil(BLOCK)).await;
        let blocks = {
            let state = self.state.lock();
            let Some(found) = state.table.get(extent) else { return Ok(()) };
            let end = wanted.min(found.len);
            // The last block is whole where the range reaches the extent's end.
            let end_block = if end == found.len { end.div_ceil(BLOCK) } else { end / BLOCK };
            let whole = offset.div_ceil(BLOCK)..end_block;
            match whole.clone().find(|block| found.get(*block).is_some()) {
                Some(first) => first..whole.end,
                None => return Ok(()),
            }
        };
        let (first_block, count) = (blocks.start, blocks.end - blocks.start);
        self.commit(Change::Punch { extent, first_block, count }, Vec::new()).await
    }

    pub(super) async fn remove(self: Arc<Self>, extent: ExtentId) -> Result<(), DataError> {
        let _latch = self.latches.take(extent, 0..u64::MAX).await;
        if self.state.lock().table.get(extent).is_none() {
            return Ok(());
        }
        self.commit(Change::Remove(extent), Vec::new()).await
    }

    pub(super) async fn cut(self: Arc<Self>, extent: ExtentId, len: u64) -> Result<(), DataError> {
        let _latch = self.latches.take(extent, len / BLOCK..u64::MAX).await;
        match self.len_of(extent)? > len {
            true => self.commit(Change::Cut { extent, len }, Vec::new()).await,
            false => Ok(()),
        }
    }

    pub(super) fn len_of(&self, extent: ExtentId) -> Result<u64, DataError> {
        self.state.lock().table.get(extent).map(|found| found.len).ok_or(DataError::NoExtent(extent))
    }

    /// Refuses a range of which something was given back. What was lost is refused where bytes of it would have to stay.
    fn check_present(&self, extent: ExtentId, bytes: Range<u64>) -> Result<(), DataError> {
        let state = self.state.lock();
        let found = state.table.get(extent).ok_or(DataError::NoExtent(extent))?;
        let is_whole = |block: u64| block * BLOCK >= bytes.start && ((block + 1) * BLOCK).min(found.len) <= bytes.end;
        let refused = |gap: &Gap| !(gap.is_lost && is_whole(gap.block));
        let mut gaps = (bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)).filter_map(|block| found.gap(block));
        gaps.find(refused).map_or(Ok(()), |gap| Err(gap.refusal(extent, bytes.start)))
    }

    /// Writes bytes, a piece at a time. The caller has the latch.
    async fn put(self: &Arc<Self>, extent: ExtentId, offset: u64, data: Bytes, purpose: Purpose) -> Result<(), DataError> {
        let mut at = 0;
        while at < data.len() {
            let room = PIECE_BYTES - ((offset + at as u64) % PIECE_BYTES as u64) as usize;
            let piece = data.slice(at..data.len().min(at + room));
            let next = at + piece.len();
            self.put_piece(extent, offset + at as u64, piece, purpose).await?;
            at = next;
        }
        Ok(())
    }

    async fn put_piece(
        self: &Arc<Self>,
        extent: ExtentId,
        offset: u64,
        data: Bytes,
        purpose: Purpose,
    ) -> Result<(), DataError> {
        let _room = self.pieces.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.journal_turn().await?;
        let end = offset + data.len() as u64;
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let makes_extent = purpose == Purpose::Create && offset == 0;
        let len = if makes_extent { 0 } else { self.len_of(extent)? };
        let buf = self.whole_blocks(extent, len, offset, &data).await?;
        let sums = buf.chunks_exact(BLOCK_BYTES).map(crc).collect();
        let near = self.block_behind(extent, blocks.start);
        let places = self.allocate(blocks.end - blocks.start, near, purpose).await?;
        let content = content_of(&places, buf);
        let write = Write { extent, makes_extent, first_block: blocks.start, len: end, places, sums };
        self.commit(Change::Write(write), content).await
    }

    /// Bytes with what stands beside them in their first and last block, of an extent of `len` bytes.
    async fn whole_blocks(
        self: &Arc<Self>,
        extent: ExtentId,
        len: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<AlignedBuf, DataError> {
        let (start, end) = (offset / BLOCK * BLOCK, offset + data.len() as u64);
        let whole_end = end.div_ceil(BLOCK) * BLOCK;
        let last = whole_end - BLOCK;
        let is_last_partial = end < len.min(whole_end);
        let is_first_partial = offset > start || (last == start && is_last_partial);
        if !is_first_partial && !is_last_partial {
            let mut buf = AlignedBuf::copy_of(data);
            buf.pad_to_block();
            return Ok(buf);
        }
        let mut buf = AlignedBuf::zeroed((whole_end - start) as usize);
        let is_another = last > start && is_last_partial;
        for block in [is_first_partial.then_some(start), is_another.then_some(last)].into_iter().flatten() {
            self.counters.partial_reads.add(1);
            let taken = (len - block).min(BLOCK) as usize;
            let former = self.clone().read(extent, block, taken).await?;
            buf[(block - start) as usize..][..taken].copy_from_slice(&former);
        }
        buf[(offset - start) as usize..][..data.len()].copy_from_slice(data);
        Ok(buf)
    }

    /// Where a block would stand behind the one before it.
    fn block_behind(&self, extent: ExtentId, block: u64) -> Option<u32> {
        let state = self.state.lock();
        let before = state.table.get(extent)?.get(block.checked_sub(1)?)?;
        before.place.checked_add(1)
    }
}

/// Bytes for each of the places.
fn content_of(places: &[Span], buf: AlignedBuf) -> Vec<(Span, AlignedBuf)> {
    if let [place] = places {
        return vec![(*place, buf)];
    }
    let mut left: &[u8] = &buf;
    places
        .iter()
        .map(|place| {
            let (part, rest) = left.split_at(place.bytes());
            left = rest;
            (*place, AlignedBuf::copy_of(part))
        })
        .collect()
}
