//! Reads. What a read has found in the table is not used for anything else before it has ended.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use device::VolumeError;
use disk::{AlignedBuf, BLOCK_BYTES, DiskErrorKind};
use futures_util::future::join_all;

use super::Inner;
use super::layout::{BLOCK, Span};
use super::limits::PIECE_BYTES;
use super::page::Mapped;
use super::sums::crc;
use super::table::Gap;
use crate::data::DataError;
use crate::ids::ExtentId;

/// A read under way.
struct Reading<'a> {
    inner: &'a Inner,
    generation: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        state.space.leave(self.generation);
        if state.space.limbo_blocks() > 0 {
            state.space.release(self.inner.settling.settled_below());
            drop(state);
            self.inner.changed.notify_waiters();
        }
    }
}

impl Gap {
    /// What a request about bytes from `offset` on is told.
    pub fn refusal(self, extent: ExtentId, offset: u64) -> DataError {
        let offset = offset.max(self.block * BLOCK);
        if self.is_lost { DataError::Damaged { extent, offset } } else { DataError::Punched { extent, offset } }
    }
}

/// Blocks that follow one another on the volume, and which one of the range is the first.
struct Run {
    span: Span,
    first: usize,
}

impl Inner {
    pub(super) async fn read(self: Arc<Self>, extent: ExtentId, offset: u64, len: usize) -> Result<Bytes, DataError> {
        let (end, found) = (offset.saturating_add(len as u64), self.len_of(extent)?);
        if end > found {
            return Err(DataError::Beyond { extent, end, len: found });
        }
        let piece_end = |at: u64| ((at / PIECE_BYTES as u64 + 1) * PIECE_BYTES as u64).min(end);
        if len == 0 || piece_end(offset) == end {
            return self.read_piece(extent, offset, len).await;
        }
        let mut whole = BytesMut::with_capacity(len);
        while whole.len() < len {
            let at = offset + whole.len() as u64;
            whole.extend_from_slice(&self.read_piece(extent, at, (piece_end(at) - at) as usize).await?);
        }
        Ok(whole.freeze())
    }

    async fn read_piece(&self, extent: ExtentId, offset: u64, len: usize) -> Result<Bytes, DataError> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let first = offset / BLOCK;
        let blocks = first..(offset + len as u64).div_ceil(BLOCK);
        let (mapped, _reading) = {
            let mut state = self.state.lock();
            let found = state.table.get(extent).ok_or(DataError::NoExtent(extent))?;
            let mapped = found.look(blocks).map_err(|gap| gap.refusal(extent, offset))?;
            (mapped, Reading { inner: self, generation: state.space.enter() })
        };
        let damaged = |block: usize| {
            self.counters.damaged_blocks.add(1);
            DataError::Damaged { extent, offset: offset.max((first + block as u64) * BLOCK) }
        };
        let runs = runs_of(&mapped);
        let bufs = join_all(runs.iter().map(|run| self.read_run(run, &mapped, damaged))).await;
        self.counters.reads.add(1);
        self.counters.read_bytes.add(mapped.len() as u64 * BLOCK);
        let start = (offset % BLOCK) as usize;
        let mut bufs = bufs.into_iter().collect::<Result<Vec<_>, _>>()?;
        if bufs.len() == 1 {
            return Ok(Bytes::from_owner(bufs.remove(0)).slice(start..start + len));
        }
        let mut whole = BytesMut::with_capacity(mapped.len() * BLOCK_BYTES);
        bufs.iter().for_each(|buf| whole.extend_from_slice(buf));
        Ok(whole.freeze().slice(start..start + len))
    }

    /// Reads blocks. If one is not what was written, it is read again from the medium, past the page cache.
    async fn read_run(
        &self,
        run: &Run,
        mapped: &[Mapped],
        damaged: impl Fn(usize) -> DataError,
    ) -> Result<AlignedBuf, DataError> {
        let sums = &mapped[run.first..run.first + run.span.count as usize];
        let cached = self.volume.read(run.span.offset(), run.span.bytes()).await;
        if let Ok(buf) = cached
            && wrong_block(&buf, sums).is_none()
        {
            return Ok(buf);
        }
        let buf = match self.volume.read_medium(run.span.offset(), run.span.bytes()).await {
            Ok(buf) => buf,
            Err(VolumeError::Disk { cause, .. }) if cause.kind == DiskErrorKind::Failed => return Err(damaged(run.first)),
            Err(error) => return Err(super::refusal(&error)),
        };
        let Some(wrong) = wrong_block(&buf, sums) else { return Ok(buf) };
        let (device, place) = (self.volume.device().0, u64::from(run.span.place) + wrong as u64);
        tracing::error!(device, place, "a block of a file is not what was written");
        Err(damaged(run.first + wrong))
    }
}

fn wrong_block(buf: &[u8], mapped: &[Mapped]) -> Option<usize> {
    buf.chunks_exact(BLOCK_BYTES).zip(mapped).position(|(block, mapped)| crc(block) != mapped.sum)
}

fn runs_of(mapped: &[Mapped]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (first, mapped) in mapped.iter().enumerate() {
        match runs.last_mut().filter(|last| last.span.end() == mapped.place) {
            Some(last) => last.span.count += 1,
            None => runs.push(Run { span: Span { place: mapped.place, count: 1 }, first }),
        }
    }
    runs
}
