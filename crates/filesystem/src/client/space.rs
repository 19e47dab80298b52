//! Space of files: allocation, holes, where data and holes are, and copies of ranges.

use std::ops::Range;

use bytes::Bytes;

use super::content::{Filling, What, WriteAt};
use super::pieces::{block_start, end_of};
use super::plan::{OpenExtent, blocks_of, keys_within, missing_bytes, plan, punched};
use super::{Client, ClientError};
use crate::data::DataError;
use crate::ids::Ino;
use crate::meta::limits::MAX_FILE_BYTES;
use crate::meta::{Attributes, Command, Expected, MetaError};

/// The most bytes that are allocated, zeroed or copied under one hold of an inode's lock.
const STEP_BYTES: u64 = 1 << 20;

/// A search for data or a hole asks for the keys of so many bytes first, and of twice as many each time that it finds none.
const SEEK_WINDOW_BYTES: u64 = 16 << 20;

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Holes get space, which reads as zeros.
    Plain,
    /// The range reads as zeros and has no space, but for parts of blocks at its ends.
    PunchHole,
    /// The range reads as zeros and has space.
    ZeroRange,
}

/// Where a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub ino: Ino,
    pub offset: u64,
}

impl Client {
    /// Allocates, zeroes or punches a range. Allocation makes the file longer, unless `keep_size`.
    pub async fn fallocate(
        &self,
        ino: Ino,
        offset: u64,
        len: u64,
        how: Allocation,
        keep_size: bool,
    ) -> Result<(), ClientError> {
        let end = offset.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES).ok_or(MetaError::FileTooLong)?;
        if len == 0 {
            return Err(ClientError::Invalid("an allocation of no bytes"));
        }
        self.check_locks(ino, true).await?;
        let state = self.files.state(ino);
        let mut tries = self.tries();
        if how == Allocation::PunchHole {
            let mut open = state.content.write().await;
            while let Err(error) = self.punch(ino, offset..end, &mut open).await {
                if error != ClientError::Meta(MetaError::Changed) {
                    return Err(error);
                }
                tries.again(self).await?;
            }
            return Ok(());
        }
        self.check_room(ino, offset..end).await?;
        let mut at = offset;
        while at < end {
            let next = end.min(block_start(at + STEP_BYTES));
            let mut open = state.content.write().await;
            let inode = self.commands.inode(ino).await?;
            let least_size = if keep_size { 0 } else { next };
            let filling = Filling { what: What::Zeros, least_size, appends: false, end_is_ours: false };
            let filled = match how {
                Allocation::ZeroRange => self.fill(&inode, at..next, filling, &mut open).await,
                _ => self.allocate(&inode, at..next, filling, &mut open).await,
            };
            match filled {
                Ok(_) => at = next,
                Err(ClientError::Meta(MetaError::Changed)) => tries.again(self).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives holes of a range space.
    async fn allocate(
        &self,
        inode: &Attributes,
        range: Range<u64>,
        filling: Filling<'_>,
        open: &mut Option<OpenExtent>,
    ) -> Result<Attributes, ClientError> {
        let keys = self.keys(inode.ino, blocks_of(&range, inode.size)).await?;
        let runs = plan(&keys, &range, inode.size).runs;
        let keys = self.append_runs(inode, &range, &runs, filling, open).await?;
        self.commit(inode, keys, filling.least_size, None, open).await
    }

    /// An allocation for which there is no room is refused before any of it is made.
    async fn check_room(&self, ino: Ino, range: Range<u64>) -> Result<(), ClientError> {
        let free = self.data.room().free_bytes;
        if range.end - range.start <= free {
            return Ok(());
        }
        let keys = self.keys(ino, range.clone()).await?;
        if missing_bytes(&keys, &range) > free { Err(DataError::Full.into()) } else { Ok(()) }
    }

    async fn punch(&self, ino: Ino, range: Range<u64>, open: &mut Option<OpenExtent>) -> Result<(), ClientError> {
        let inode = self.commands.inode(ino).await?;
        let (blocks, edges) = punched(&range, inode.size);
        for edge in edges {
            for key in keys_within(&self.keys(ino, edge.clone()).await?, &edge) {
                let zeros = Bytes::from(vec![0; key.len as usize]);
                if let Err(error) = self.data.overwrite(key.extent, key.extent_offset, zeros).await {
                    return Err(if self.was_cut(&inode).await? { MetaError::Changed.into() } else { error.into() });
                }
            }
        }
        let (offset, len) = (blocks.start, blocks.end - blocks.start);
        if len == 0 {
            // Only bytes within blocks have changed.
            return self.commit(&inode, Vec::new(), 0, None, open).await.map(drop);
        }
        // What others append meanwhile may lie in what was rounded up.
        let size = (blocks.end > range.end).then_some(inode.size);
        let expects = Expected { cuts: inode.cuts, size };
        let punched = self.commands.send_for_inode(Command::Punch { ino, offset, len, expects }).await;
        match &punched {
            Ok(attributes) => self.files.state(ino).changed_here(attributes),
            Err(ClientError::Meta(MetaError::LocksLost)) => self.learn_of_loss(ino).await,
            Err(_) => {}
        }
        punched.map(drop)
    }

    /// Where the next data, or the next hole, is: at `offset` or after it. The end of the file is a hole.
    pub async fn seek(&self, ino: Ino, offset: u64, data: bool) -> Result<u64, ClientError> {
        let state = self.files.state(ino);
        let _reading = state.content.read().await;
        let size = self.commands.inode(ino).await?.size;
        if offset >= size {
            return Err(ClientError::BeyondTheEnd);
        }
        let (mut at, mut window) = (offset, SEEK_WINDOW_BYTES);
        while at < size {
            let end = at.saturating_add(window).min(size);
            for key in keys_within(&self.keys(ino, at..end).await?, &(at..end)) {
                if data {
                    return Ok(key.file_offset);
                }
                if at < key.file_offset {
                    return Ok(at);
                }
                at = end_of(&key);
            }
            if at < end && !data {
                return Ok(at);
            }
            (at, window) = (end, window.saturating_mul(2));
        }
        if data { Err(ClientError::BeyondTheEnd) } else { Ok(size) }
    }

    /// Copies a range from file to file, as much as one step takes; returns how many bytes.
    pub async fn copy(&self, from: Place, to: Place, len: u64) -> Result<u64, ClientError> {
        let data = self.read(from.ino, from.offset, len.min(STEP_BYTES) as usize).await?;
        if data.is_empty() {
            return Ok(0);
        }
        let write = WriteAt { offset: to.offset, kills_set_ids: true, ..WriteAt::default() };
        let written = self.write(to.ino, write, data).await?;
        Ok(written.len as u64)
    }
}
