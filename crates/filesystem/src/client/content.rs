//! Reading and writing the content of files.
//!
//! A write holds the inode's lock: in place first, then appends, then one command gives the file its keys, size and times. What fails before the command has not made the file
//! longer; bytes in place may have changed.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::pieces::{Piece, add_key, end_of, pieces};
use super::plan::{OpenExtent, Plan, blocks_of, plan};
use super::{Client, ClientError};
use crate::data::DataError;
use crate::ids::{BLOCK_BYTES, ExtentKey, Ino};
use crate::meta::limits::{MAX_ANSWER, MAX_FILE_BYTES};
use crate::meta::{AttributeChange, Attributes, Command, Found, MetaError, Query};

/// How a write is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteAt {
    pub offset: u64,
    /// At the end, wherever that is: `offset` does not count.
    pub append: bool,
    /// A cache writes back; no call waits for the answer.
    pub from_cache: bool,
    /// Clears set-user-id, and set-group-id where the group may execute, before the write.
    pub kills_set_ids: bool,
}

/// What is put into a range of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filling<'a> {
    Data(&'a Bytes),
    Zeros,
}

impl Client {
    /// Bytes of a file, fewer than asked for only at its end. Holes are zeros.
    pub async fn read(&self, ino: Ino, offset: u64, len: usize) -> Result<Vec<u8>, ClientError> {
        let state = self.files.state(ino);
        let _reading = state.content.read().await;
        let size = self.commands.inode(ino).await?.size;
        let end = offset.saturating_add(len as u64).min(size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let keys = self.keys(ino, offset..end).await?;
        let mut bytes = Vec::with_capacity((end - offset) as usize);
        for piece in pieces(&keys, offset..end) {
            match piece {
                Piece::Hole { start, end } => bytes.resize(bytes.len() + (end - start) as usize, 0),
                Piece::Data(key) => {
                    let content = self.data.read(key.extent, key.extent_offset, key.len as usize).await?;
                    if content.len() as u64 != key.len {
                        return Err(ClientError::Short { ino, key, got: content.len() as u64 });
                    }
                    bytes.extend_from_slice(&content);
                }
            }
        }
        Ok(bytes)
    }

    /// Puts bytes into a file; returns how many.
    pub async fn write(&self, ino: Ino, write: WriteAt, data: Bytes) -> Result<usize, ClientError> {
        let state = self.files.state(ino);
        let mut open = state.content.write().await;
        let written = match self.drop_capability(ino, &state).await {
            Ok(()) => self.write_alone(ino, write, &data, &mut open).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &written
            && (write.from_cache || error.is_failure())
        {
            state.record_failure(error);
        }
        written
    }

    async fn write_alone(
        &self,
        ino: Ino,
        write: WriteAt,
        data: &Bytes,
        open: &mut Option<OpenExtent>,
    ) -> Result<usize, ClientError> {
        let attributes = if write.kills_set_ids {
            let change = AttributeChange { kills_set_ids: true, ..AttributeChange::default() };
            self.commands.send_for_inode(Command::SetAttributes { ino, change }).await?
        } else {
            self.commands.inode(ino).await?
        };
        let offset = if write.append { attributes.size } else { write.offset };
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE_BYTES).ok_or(MetaError::FileTooLong)?;
        if offset < end {
            self.fill(&attributes, offset..end, Filling::Data(data), end, open).await?;
        }
        Ok(data.len())
    }

    /// Puts bytes or zeros into a range that is not empty, in place and by appends, and commits it.
    pub(super) async fn fill(
        &self,
        inode: &Attributes,
        range: Range<u64>,
        filling: Filling<'_>,
        least_size: u64,
        open: &mut Option<OpenExtent>,
    ) -> Result<(), ClientError> {
        let keys = self.keys(inode.ino, blocks_of(&range, inode.size)).await?;
        let Plan { in_place, runs } = plan(&keys, &range, inode.size);
        for key in in_place {
            let part = filling.part(&range, key.file_offset..end_of(&key));
            self.data.overwrite(key.extent, key.extent_offset, part).await?;
        }
        let keys = self.append_runs(&range, &runs, filling, open).await?;
        self.commit(inode.ino, keys, least_size).await
    }

    pub(super) async fn commit(&self, ino: Ino, keys: Vec<ExtentKey>, least_size: u64) -> Result<(), ClientError> {
        self.commands.send(Command::Commit { ino, keys, least_size, kills_set_ids: false }).await.map(drop)
    }

    /// All keys that overlap a range.
    pub(super) async fn keys(&self, ino: Ino, range: Range<u64>) -> Result<Vec<ExtentKey>, ClientError> {
        let mut keys = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let more = match self.commands.ask(Query::Keys { ino, offset: at, len: range.end - at }).await? {
                Found::Keys(more) => more,
                other => return Err(ClientError::unexpected(&other)),
            };
            // An answer that is not full has all that there is.
            at = if more.len() < MAX_ANSWER { range.end } else { more.last().map_or(range.end, end_of) };
            keys.extend(more);
        }
        Ok(keys)
    }

    /// Appends runs and returns their keys.
    pub(super) async fn append_runs(
        &self,
        range: &Range<u64>,
        runs: &[Range<u64>],
        filling: Filling<'_>,
        open: &mut Option<OpenExtent>,
    ) -> Result<Vec<ExtentKey>, ClientError> {
        let mut keys = Vec::new();
        for run in runs {
            let content = filling.run(range, run);
            // An extent that takes nothing more is given up; a new one is tried once.
            let placed = match self.append_to(open, run, content.clone()).await {
                Err(ClientError::Data(error)) if seals(&error) && open.take().is_some() => {
                    self.append_to(open, run, content).await
                }
                other => other,
            };
            if placed.is_err() {
                *open = None;
            }
            add_key(&mut keys, placed?);
        }
        Ok(keys)
    }

    async fn append_to(
        &self,
        open: &mut Option<OpenExtent>,
        run: &Range<u64>,
        content: Bytes,
    ) -> Result<ExtentKey, ClientError> {
        let len = run.end - run.start;
        let (mut extent, at) = match open.and_then(|extent| extent.place(run.start, len).map(|at| (extent, at))) {
            Some(found) => found,
            None => (OpenExtent::new(self.data.create().await?), run.start % BLOCK_BYTES),
        };
        *open = Some(extent);
        let content = if at == extent.len { content } else { padded((at - extent.len) as usize, &content, 0) };
        self.data.append(extent.id, extent.len, content).await?;
        extent.grew(at + len);
        *open = Some(extent);
        Ok(ExtentKey { file_offset: run.start, extent: extent.id, extent_offset: at, len })
    }
}

impl Filling<'_> {
    /// What goes to `part` of the file, which lies in `range`, that the filling is for.
    fn part(&self, range: &Range<u64>, part: Range<u64>) -> Bytes {
        match self {
            Filling::Data(data) => data.slice((part.start - range.start) as usize..(part.end - range.start) as usize),
            Filling::Zeros => Bytes::from(vec![0; (part.end - part.start) as usize]),
        }
    }

    /// What goes to a run, which may begin before `range` and end after it.
    fn run(&self, range: &Range<u64>, run: &Range<u64>) -> Bytes {
        let part = run.start.max(range.start)..run.end.min(range.end);
        if part == *run {
            return self.part(range, part);
        }
        let (before, after) = (part.start - run.start, run.end - part.end);
        padded(before as usize, &self.part(range, part), after as usize)
    }
}

fn padded(before: usize, content: &[u8], after: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(before + content.len() + after);
    bytes[before..before + content.len()].copy_from_slice(content);
    bytes.freeze()
}

/// Whether another extent may take what this one did not.
fn seals(error: &DataError) -> bool {
    match error {
        DataError::NoExtent(_)
        | DataError::NotAtEnd { .. }
        | DataError::Beyond { .. }
        | DataError::Punched { .. }
        | DataError::Damaged { .. } => true,
        DataError::Full | DataError::Unavailable(_) => false,
    }
}
