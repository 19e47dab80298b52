//! Dumps: all rows go to the volume, and the log is cut.
//!
//! Requests go on meanwhile: what they change may be in the dump or not. The log is kept from the first mutation on that was not resolved when the dump began.
//!
//! Invariant: blocks of the former dump are free only when the superblock names the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::engine::EngineError;

use super::Inner;
use super::founding::FIRST_OPSEQ;
use crate::content::Extent;
use crate::dump::{ChunkPlace, chunk_room, encode_chunk};
use crate::limits::{CHUNK_BLOCKS, DUMP_RETRY, HOLD_AT_PARTS};
use crate::name::Opseq;
use crate::pg::Cursor;
use crate::superblock::Superblock;

/// A dump that is being written. Dropped before its end, its blocks are free.
struct Dump {
    inner: Arc<Inner>,
    number: u64,
    rows: Vec<u8>,
    written: u64,
    last_chunk: Option<ChunkPlace>,
    /// Reserved.
    extents: Vec<Extent>,
}

impl Drop for Dump {
    fn drop(&mut self) {
        if !self.extents.is_empty() {
            self.inner.state.lock().pg.give_up(&self.extents);
        }
    }
}

impl Inner {
    /// Has a dump made, if none is under way.
    pub(super) fn begin_dump(self: &Arc<Self>) {
        if self.is_dump_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        let work = async move {
            if let Err(error) = inner.dump().await {
                tracing::warn!(%error, "a dump of the names of volume buckets was not made");
            }
            if inner.seat.full_parts() >= HOLD_AT_PARTS {
                inner.env.sleep(DUMP_RETRY).await;
            }
            inner.is_dump_due.store(false, Ordering::Release);
            inner.changed.notify_waiters();
        };
        drop(self.env.spawn(work));
    }

    /// The first record that is needed behind it.
    pub(super) async fn dump(self: &Arc<Self>) -> Result<Opseq, EngineError> {
        let _turn = self.dumping.lock().await;
        let (keep_from, former) = {
            let state = self.state.lock();
            state.check_writable()?;
            // A group without a mutation has no names.
            let Some(superblock) = state.superblock.clone() else { return Ok(FIRST_OPSEQ) };
            (state.pg.floor(), superblock)
        };
        let number = former.dump + 1;
        let inner = self.clone();
        let mut dump = Dump { inner, number, rows: Vec::new(), written: 0, last_chunk: None, extents: Vec::new() };
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.state.lock().pg.dump_slice(&from, &mut dump.rows);
            while dump.rows.len() >= chunk_room(CHUNK_BLOCKS) {
                self.write_chunk(&mut dump).await?;
            }
        }
        while !dump.rows.is_empty() {
            self.write_chunk(&mut dump).await?;
        }
        // What the dump has, and what it was taken from, stands on the medium before it counts.
        self.medium.settle().await.map_err(|error| self.fail(&error))?;
        let superblock = Superblock {
            sequence: former.sequence + 1,
            keep_from: keep_from.0,
            dump_bytes: dump.written,
            last_chunk: dump.last_chunk,
            dump: number,
        };
        self.medium.put_superblock(&superblock).await.map_err(|error| self.fail(&error))?;
        {
            let mut state = self.state.lock();
            state.superblock = Some(superblock);
            state.pg.replace_dump(std::mem::take(&mut dump.extents));
        }
        self.seat.release_before(keep_from).await;
        self.counters.dumps.fetch_add(1, Ordering::Relaxed);
        self.counters.dump_bytes.fetch_add(dump.written, Ordering::Relaxed);
        self.changed.notify_waiters();
        Ok(keep_from)
    }

    /// Writes as many rows as one chunk takes.
    async fn write_chunk(self: &Arc<Self>, dump: &mut Dump) -> Result<(), EngineError> {
        let volume = &self.medium.volume;
        let wanted = (1..CHUNK_BLOCKS).find(|blocks| chunk_room(*blocks) >= dump.rows.len()).unwrap_or(CHUNK_BLOCKS);
        let extents = self.allocate_for_dump(u64::from(wanted)).await?;
        dump.extents.extend(&extents);
        for extent in extents {
            let taken = dump.rows.len().min(chunk_room(extent.count));
            let rows: Vec<u8> = dump.rows.drain(..taken).collect();
            let uuid = volume.uuid().0;
            let chunk = encode_chunk(extent.count, &rows, dump.last_chunk, &uuid, dump.number);
            volume.write(extent.offset(), chunk).await.map_err(|error| self.fail(&error))?;
            dump.written += taken as u64;
            dump.last_chunk = Some(ChunkPlace { first: extent.first, count: extent.count });
        }
        Ok(())
    }
}
