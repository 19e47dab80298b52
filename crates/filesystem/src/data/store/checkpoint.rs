//! Checkpoints: the table goes to the volume, and the journal is cut.
//!
//! Pages that have changed are written to fresh blocks, a slice of the table at a time; then the directory, which names all pages; then the superblock.
//! Requests go on meanwhile: what they change may be in the checkpoint or not. The journal is kept from the first record on that was not in the
//! table when the checkpoint began, and records are absolute.
//!
//! Invariant: blocks that the former checkpoint names are free only when the superblock names the next one.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::AlignedBuf;
use futures_util::future::join_all;
use wal::Lsn;

use super::directory::{Entry, chunk_room, encode_chunk};
use super::layout::{BLOCK, Span, blocks_of};
use super::limits::{CHECKPOINT_RETRY, CHUNK_BLOCKS, HOLD_AT_SEGMENTS, MOVED_PAGES, SLICE_EXTENTS, SLICE_PAGES};
use super::rooming::Purpose;
use super::superblock::Superblock;
use super::{Inner, State, segments};
use crate::data::DataError;
use crate::ids::ExtentId;

/// Where the next slice begins: with a page of an extent.
type Cursor = (ExtentId, u32);

/// Part of the table.
struct Slice {
    entries: Vec<Entry>,
    /// Pages that have changed.
    pages: Vec<(u32, AlignedBuf)>,
    /// None if nothing follows.
    cursor: Option<Cursor>,
}

/// A directory that is being written.
#[derive(Default)]
struct Directory {
    bytes: Vec<u8>,
    written: u64,
    last_chunk: Option<Span>,
    /// All blocks that the checkpoint names.
    blocks: HashSet<u32>,
}

impl Inner {
    /// Has a checkpoint made, if none is under way.
    pub(super) fn begin_checkpoint(self: &Arc<Self>) {
        if self.is_checkpoint_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        let work = async move {
            if let Err(error) = inner.checkpoint().await {
                tracing::warn!(device = inner.volume.device().0, %error, "a checkpoint of files was not made");
            }
            if inner.journal().live_segment_count() >= HOLD_AT_SEGMENTS {
                inner.env.sleep(CHECKPOINT_RETRY).await;
            }
            inner.is_checkpoint_due.store(false, Ordering::Release);
            inner.changed.notify_waiters();
        };
        drop(self.env.spawn(work));
    }

    pub(super) async fn checkpoint(self: &Arc<Self>) -> Result<(), DataError> {
        let _turn = self.checkpointing.lock().await;
        let (keep_from, former, mut moves_left) = {
            let mut state = self.state.lock();
            if let Some(failure) = &state.failure {
                return Err(DataError::Unavailable(failure.clone()));
            }
            let superblock = state.superblock.expect("a store that has a journal has a superblock");
            state.freed_blocks = 0;
            (state.done_below(), superblock, state.spare_blocks().min(MOVED_PAGES))
        };
        let checkpoint = former.checkpoint + 1;
        let mut directory = Directory::default();
        let mut cursor = None;
        loop {
            let slice = self.take_slice(cursor, &mut moves_left).await?;
            self.write_pages(slice.pages).await?;
            for entry in slice.entries {
                directory.blocks.extend(entry.pages.iter().map(|(_, place)| *place));
                entry.encode(&mut directory.bytes);
            }
            while directory.bytes.len() >= chunk_room(CHUNK_BLOCKS) {
                self.write_chunk(&mut directory, checkpoint).await?;
            }
            cursor = slice.cursor;
            if cursor.is_none() {
                break;
            }
        }
        while !directory.bytes.is_empty() {
            self.write_chunk(&mut directory, checkpoint).await?;
        }
        segments::flush(&self.volume, &self.settling).await.map_err(|error| self.fail(&error))?;
        let (directory_bytes, last_chunk) = (directory.written, directory.last_chunk);
        let superblock =
            Superblock { sequence: former.sequence + 1, keep_from, directory_bytes, last_chunk, checkpoint, ..former };
        self.put_superblock(&superblock).await?;
        {
            let mut state = self.state.lock();
            state.superblock = Some(superblock);
            state.replace_saved(directory.blocks);
        }
        self.journal().truncate_before(Lsn(keep_from));
        self.counters.checkpoints.add(1);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Copies the next part of the table, with fresh blocks for the pages that have changed.
    async fn take_slice(self: &Arc<Self>, cursor: Option<Cursor>, moves_left: &mut u64) -> Result<Slice, DataError> {
        let spans = self.allocate(SLICE_PAGES as u64, None, Purpose::Checkpoint).await?;
        let mut state = self.state.lock();
        // The lowest are used first.
        let mut fresh: Vec<u32> = blocks_of(&spans).collect();
        fresh.sort_unstable_by(|one, other| other.cmp(one));
        let slice = state.take_slice(cursor, &mut fresh, moves_left, self);
        fresh.iter().for_each(|place| state.space.give(&[Span { place: *place, count: 1 }]));
        Ok(slice)
    }

    async fn write_pages(&self, pages: Vec<(u32, AlignedBuf)>) -> Result<(), DataError> {
        self.counters.checkpoint_pages.add(pages.len() as u64);
        let writing = pages.into_iter().map(|(place, page)| self.volume.write(u64::from(place) * BLOCK, page));
        join_all(writing).await.into_iter().collect::<Result<(), _>>().map_err(|error| self.fail(&error))
    }

    /// Writes as much of the directory as one chunk takes.
    async fn write_chunk(self: &Arc<Self>, directory: &mut Directory, checkpoint: u64) -> Result<(), DataError> {
        let wanted = (1..CHUNK_BLOCKS).find(|blocks| chunk_room(*blocks) >= directory.bytes.len()).unwrap_or(CHUNK_BLOCKS);
        let mut spans = self.allocate(u64::from(wanted), None, Purpose::Checkpoint).await?;
        let span = spans.remove(0);
        {
            let mut state = self.state.lock();
            state.space.give(&spans);
            state.saved.extend(span.place..span.end());
        }
        directory.blocks.extend(span.place..span.end());
        let taken = directory.bytes.len().min(chunk_room(span.count));
        let uuid = self.volume.device_uuid().0;
        let chunk = encode_chunk(span.count, &directory.bytes[..taken], directory.last_chunk, &uuid, checkpoint);
        self.volume.write(span.offset(), chunk).await.map_err(|error| self.fail(&error))?;
        directory.bytes.drain(..taken);
        directory.written += taken as u64;
        directory.last_chunk = Some(span);
        Ok(())
    }
}

impl State {
    fn take_slice(&mut self, cursor: Option<Cursor>, fresh: &mut Vec<u32>, moves_left: &mut u64, of: &Inner) -> Slice {
        let device_uuid = &of.volume.device_uuid().0;
        let unit_of = |place: u32| u64::from(place) / of.layout.unit_blocks;
        let mut slice = Slice { entries: Vec::new(), pages: Vec::new(), cursor: None };
        let mut saves: Vec<(ExtentId, u32, u32)> = Vec::new();
        let mut room = SLICE_PAGES;
        let first = cursor.map_or(Bound::Unbounded, |(extent, _)| Bound::Included(extent));
        for (id, extent) in self.table.extents().range((first, Bound::Unbounded)) {
            let from = cursor.filter(|(extent, _)| extent == id).map_or(0, |(_, page)| page);
            if slice.entries.len() == SLICE_EXTENTS {
                slice.cursor = Some((*id, from));
                break;
            }
            let mut entry = Entry { extent: *id, len: extent.len, pages: Vec::new() };
            for (index, page) in extent.pages.range(from..) {
                if room == 0 {
                    slice.cursor = Some((*id, *index));
                    break;
                }
                room -= 1;
                let lowest = fresh.last().map(|place| unit_of(*place));
                let is_high = |saved: u32| *moves_left > 0 && lowest.is_some_and(|lowest| lowest < unit_of(saved));
                let moves = !page.is_dirty && page.saved.is_some_and(is_high);
                *moves_left -= u64::from(moves);
                let place = page.saved.filter(|_| !page.is_dirty && !moves).unwrap_or_else(|| {
                    let place = fresh.pop().expect("a slice has no more pages");
                    slice.pages.push((place, page.encode(*id, *index, device_uuid)));
                    saves.push((*id, *index, place));
                    place
                });
                entry.pages.push((*index, place));
            }
            slice.entries.push(entry);
            if slice.cursor.is_some() {
                break;
            }
        }
        for (id, index, place) in saves {
            self.table.save(id, index, place);
            self.saved.insert(place);
        }
        slice
    }

    /// The superblock names other blocks.
    fn replace_saved(&mut self, blocks: HashSet<u32>) {
        let former = std::mem::replace(&mut self.saved, blocks);
        let unused: Vec<u32> = former.into_iter().filter(|place| !self.saved.contains(place)).collect();
        unused.iter().for_each(|place| self.space.give(&[Span { place: *place, count: 1 }]));
    }
}
