//! Writes that the kernel of an exclusive client has buffered. It sends many of one file at once: those that wait for the file are carried out together,
//! so that one command gives the file the keys of all of them.
//!
//! ```text
//!  a write ──► queued ──► the file is free, or another write has seen to this one
//!                              │
//!                              ▼
//!            in place: all at once   then appends, by offset   then one command
//! ```
//!
//! A write that fails is gone from the kernel's cache. So one that finds a partition away is tried again for a while, before it fails.
//!
//! Each of them says its offset, and the kernel has none of a block twice under way. So a write that is sent again, because the process that carried it out
//! for another one has died, changes nothing.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::content::{Filling, What, WriteAt, Written};
use super::pieces::{add_key, block_end, block_start, end_of};
use super::plan::{OpenExtent, Plan, blocks_of, plan};
use super::{Client, ClientError};
use crate::data::DataError;
use crate::ids::{ExtentKey, Ino};
use crate::meta::Attributes;
use crate::meta::limits::MAX_FILE_BYTES;

/// Most bytes and writes that are carried out together: what reads of the file wait for.
const MAX_BYTES: usize = 8 << 20;
const MAX_WRITES: usize = 64;

/// How long a write is tried again while a partition is away. `fsync` waits for as long.
const PATIENCE: Duration = Duration::from_secs(120);
const REST: Duration = Duration::from_secs(1);

type Told = Result<Written, ClientError>;

/// Writes of one file that wait. The requests that a kernel has under way bound them.
#[derive(Debug, Default)]
pub struct Queue(Mutex<Vec<Queued>>);

#[derive(Debug)]
struct Queued {
    offset: u64,
    data: Bytes,
    tell: oneshot::Sender<Told>,
}

impl Queued {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.data.len() as u64)
    }

    /// All blocks that it has a part of.
    fn blocks(&self) -> Range<u64> {
        let Range { start, end } = self.range();
        block_start(start)..block_end(end)
    }

    fn filling(&self) -> Filling<'_> {
        Filling { what: What::Data(&self.data), least_size: self.range().end, appends: false, end_is_ours: false }
    }

    fn tell(self, told: Told) {
        // The mount is gone where none waits for it.
        drop(self.tell.send(told));
    }
}

impl Queue {
    fn push(&self, offset: u64, data: Bytes) -> oneshot::Receiver<Told> {
        let (tell, told) = oneshot::channel();
        self.0.lock().push(Queued { offset, data, tell });
        told
    }

    /// The first, and others that share no block with those before, by their offsets.
    fn take(&self) -> Vec<Queued> {
        let mut waiting = self.0.lock();
        let (mut taken, mut left, mut bytes): (Vec<Queued>, Vec<Queued>, usize) = (Vec::new(), Vec::new(), 0);
        for queued in waiting.drain(..) {
            let blocks = queued.blocks();
            let is_apart = |other: &Queued| other.blocks().end <= blocks.start || blocks.end <= other.blocks().start;
            let has_room = taken.is_empty() || (taken.len() < MAX_WRITES && bytes + queued.data.len() <= MAX_BYTES);
            if has_room && taken.iter().all(is_apart) {
                bytes += queued.data.len();
                taken.push(queued);
            } else {
                left.push(queued);
            }
        }
        *waiting = left;
        taken.sort_by_key(|queued| queued.offset);
        taken
    }
}

impl Client {
    /// Writes back what a kernel has buffered.
    pub(super) async fn write_buffered(&self, ino: Ino, offset: u64, data: Bytes) -> Told {
        let until = self.env().now() + PATIENCE;
        loop {
            match self.write_in_turn(ino, offset, data.clone()).await {
                Err(error) if is_away(&error) && self.env().now() < until => {
                    tracing::warn!(%error, "what the kernel has buffered is written later");
                }
                told => return told,
            }
            self.env().sleep(REST).await;
        }
    }

    async fn write_in_turn(&self, ino: Ino, offset: u64, data: Bytes) -> Told {
        let state = self.files.state(ino);
        let mut told = state.buffered.push(offset, data);
        loop {
            let mut open = tokio::select! {
                biased;
                told = &mut told => return told.unwrap_or_else(|gone| Err(ClientError::unexpected(&gone))),
                open = state.content.write() => open,
            };
            let writes = state.buffered.take();
            self.write_all(ino, writes, &mut open).await;
        }
    }

    /// Carries writes out and tells each its own outcome. What can't be done together is tried alone: there may be room for some of it.
    async fn write_all(&self, ino: Ino, writes: Vec<Queued>, open: &mut Option<OpenExtent>) {
        let (is_many, together) = (writes.len() > 1, self.write_together(ino, &writes, open).await);
        let (count, inode, error) = match together {
            Ok((count, inode, error)) => (count, Some(inode), error),
            Err(error) => (0, None, Some(error)),
        };
        for (at, queued) in writes.into_iter().enumerate() {
            let (len, offset) = (queued.data.len(), queued.offset);
            let done = inode.filter(|_| at < count).map(|inode| Written { len, offset, inode });
            let told = match (done, &error) {
                (Some(written), _) => Ok(written),
                (None, Some(error)) if !is_many => Err(error.clone()),
                _ => {
                    self.write_alone(ino, WriteAt { offset, from_cache: true, ..WriteAt::default() }, &queued.data, open).await
                }
            };
            queued.tell(told);
        }
    }

    /// How many writes were carried out, from the first on, the file as it is then, and why the next one was not.
    async fn write_together(
        &self,
        ino: Ino,
        writes: &[Queued],
        open: &mut Option<OpenExtent>,
    ) -> Result<(usize, Attributes, Option<ClientError>), ClientError> {
        self.check_locks(ino, true).await?;
        let inode = self.commands.inode(ino).await?;
        if writes.iter().any(|queued| queued.range().end > MAX_FILE_BYTES) {
            return Err(crate::meta::MetaError::FileTooLong.into());
        }
        let planned = writes.iter().map(async |queued| {
            let range = queued.range();
            let keys = self.keys(ino, blocks_of(&range, inode.size)).await?;
            Ok::<Plan, ClientError>(plan(&keys, &range, inode.size))
        });
        let plans = try_join_all(planned).await?;
        let in_place = writes.iter().zip(&plans).flat_map(|(queued, plan)| plan.in_place.iter().map(move |key| (queued, key)));
        let overwritten = in_place.map(|(queued, key)| self.overwrite(queued, key));
        join_all(overwritten).await.into_iter().collect::<Result<Vec<()>, ClientError>>()?;
        let (mut keys, mut count, mut error) = (Vec::new(), 0, None);
        for (queued, plan) in writes.iter().zip(&plans) {
            match self.append_runs(&inode, &queued.range(), &plan.runs, queued.filling(), open).await {
                Ok(more) => more.into_iter().for_each(|key| add_key(&mut keys, key)),
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
            count += 1;
        }
        let end = writes[..count].last().map_or(0, |queued| queued.range().end);
        let inode = match keys.is_empty() && end <= inode.size {
            true => inode,
            false => self.commit(&inode, keys, end, None, open).await?,
        };
        Ok((count, inode, error))
    }

    async fn overwrite(&self, queued: &Queued, key: &ExtentKey) -> Result<(), ClientError> {
        let part = queued.filling().part(&queued.range(), key.file_offset..end_of(key));
        Ok(self.data.overwrite(key.extent, key.extent_offset, part).await?)
    }
}

/// Whether it may go well later.
fn is_away(error: &ClientError) -> bool {
    matches!(error, ClientError::MetaCall(_) | ClientError::LeaseOver | ClientError::Data(DataError::Unavailable(_)))
}

#[cfg(test)]
mod tests;
