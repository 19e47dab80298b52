//! Reading and writing the content of files.
//!
//! A write holds the inode's lock here: in place first, then appends, then one command gives the file its keys, size and times. What fails before the command has not made the file
//! longer; bytes in place may have changed.
//!
//! Other clients don't see that lock. The command says what the client has seen of the file, and is refused where another client has changed what counts:
//! the write begins anew.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::pieces::{Piece, add_key, end_of, pieces};
use super::plan::{OpenExtent, Plan, blocks_of, plan};
use super::{Client, ClientError};
use crate::data::DataError;
use crate::ids::{BLOCK_BYTES, ExtentId, ExtentKey, Ino};
use crate::meta::limits::{MAX_ANSWER, MAX_FILE_BYTES};
use crate::meta::{AttributeChange, Attributes, Command, Done, Expected, Found, MetaError, Query};

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

/// What a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub len: usize,
    /// Of an append: where the end was.
    pub offset: u64,
    /// The file as it is then.
    pub inode: Attributes,
}

/// What is put into a range of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling<'a> {
    pub what: What<'a>,
    pub least_size: u64,
    /// The range must begin at the end of the file.
    pub appends: bool,
    /// No other client appends meanwhile.
    pub end_is_ours: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What<'a> {
    Data(&'a Bytes),
    Zeros,
}

impl Client {
    /// Bytes of a file, fewer than asked for only at its end. Holes are zeros.
    pub async fn read(&self, ino: Ino, offset: u64, len: usize) -> Result<Bytes, ClientError> {
        self.check_locks(ino, false).await?;
        let state = self.files.state(ino);
        let _reading = state.content.read().await;
        let mut tries = self.tries();
        loop {
            let inode = self.commands.inode(ino).await?;
            let end = offset.saturating_add(len as u64).min(inode.size);
            if offset >= end {
                return Ok(Bytes::new());
            }
            let read = self.read_pieces(ino, offset..end).await;
            // Keys that were cut while it was read: what they named may be gone, or look like a hole.
            let is_sure = matches!(read, Ok((_, false)));
            if is_sure || !self.was_cut(&inode).await? {
                return read.map(|(bytes, _)| bytes);
            }
            tries.again(self).await?;
        }
    }

    /// What keys of a range name, with zeros for its holes; whether there are some.
    async fn read_pieces(&self, ino: Ino, range: Range<u64>) -> Result<(Bytes, bool), ClientError> {
        let keys = self.keys(ino, range.clone()).await?;
        let len = range.end - range.start;
        let mut bytes = BytesMut::new();
        let mut has_holes = false;
        for piece in pieces(&keys, range) {
            match piece {
                Piece::Hole { start, end } => {
                    has_holes = true;
                    bytes.resize(bytes.len() + (end - start) as usize, 0);
                }
                Piece::Data(key) => {
                    let content = self.data.read(key.extent, key.extent_offset, key.len as usize).await?;
                    if content.len() as u64 != key.len {
                        return Err(ClientError::Short { ino, key, got: content.len() as u64 });
                    }
                    if key.len == len {
                        return Ok((content, false));
                    }
                    bytes.extend_from_slice(&content);
                }
            }
        }
        Ok((bytes.freeze(), has_holes))
    }

    /// Puts bytes into a file.
    pub async fn write(&self, ino: Ino, write: WriteAt, data: Bytes) -> Result<Written, ClientError> {
        let is_buffered = write.from_cache && self.is_exclusive();
        if is_buffered && !self.commands.is_again() {
            return self.write_buffered(ino, write.offset, data).await;
        }
        self.check_locks(ino, true).await?;
        let state = self.files.state(ino);
        let mut open = state.content.write().await;
        // The wait for other writes may have been long.
        self.check_locks(ino, true).await?;
        let is_again = self.commands.is_again();
        if is_again && let Some(written) = self.was_written(ino, write, data.len()).await? {
            self.unlock_end(ino).await;
            return Ok(written);
        }
        // A kernel that buffers writes drops the capability before it does, and tells by itself which of them failed.
        let dropped = if is_buffered { Ok(()) } else { self.drop_capability(ino, &state).await };
        let written = match dropped {
            Ok(()) => self.write_alone(ino, write, &data, &mut open).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &written
            && (write.from_cache || error.is_failure())
            && !is_buffered
        {
            state.record_failure(error);
        }
        if is_again {
            // An earlier process may have had it for this write.
            self.unlock_end(ino).await;
        }
        written
    }

    /// What an earlier process has done that carried out the write of the call at hand. It must not begin anew: an append would go to another place.
    async fn was_written(&self, ino: Ino, write: WriteAt, len: usize) -> Result<Option<Written>, ClientError> {
        let expects = Expected { cuts: 0, size: None };
        let commit = Command::Commit { ino, keys: Vec::new(), least_size: 0, kills_set_ids: false, expects };
        match self.commands.earlier_reply(&commit).await? {
            None => Ok(None),
            Some(Done::Inode(inode)) => {
                let offset = if write.append { inode.size.saturating_sub(len as u64) } else { write.offset };
                Ok(Some(Written { len, offset, inode }))
            }
            Some(other) => Err(ClientError::unexpected(&other)),
        }
    }

    pub(super) async fn write_alone(
        &self,
        ino: Ino,
        write: WriteAt,
        data: &Bytes,
        open: &mut Option<OpenExtent>,
    ) -> Result<Written, ClientError> {
        if write.kills_set_ids {
            let change = AttributeChange { kills_set_ids: true, ..AttributeChange::default() };
            self.commands.send_for_inode(Command::SetAttributes { ino, change }).await?;
        }
        let mut tries = self.tries();
        let mut has_end = false;
        let written = loop {
            let written = self.write_once(ino, write, data, has_end, open).await;
            let needs_end = written == Err(ClientError::Meta(MetaError::Locked));
            if !needs_end && written != Err(ClientError::Meta(MetaError::Changed)) {
                break written;
            }
            // The other case: another client appends too, and is faster.
            if needs_end || (write.append && !has_end && tries.are_many()) {
                let locked = self.lock_end(ino).await;
                // Without an answer it may have it.
                has_end = !matches!(locked, Ok(false));
                if let Err(error) = locked {
                    break Err(error);
                }
            }
            if let Err(error) = tries.again(self).await {
                break Err(error);
            }
        };
        if has_end {
            self.unlock_end(ino).await;
        }
        written
    }

    /// Refused with [`MetaError::Changed`] where another client was faster, and with [`MetaError::Locked`] where it takes the end of the file.
    async fn write_once(
        &self,
        ino: Ino,
        write: WriteAt,
        data: &Bytes,
        has_end: bool,
        open: &mut Option<OpenExtent>,
    ) -> Result<Written, ClientError> {
        let inode = self.commands.inode(ino).await?;
        let offset = if write.append { inode.size } else { write.offset };
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE_BYTES).ok_or(MetaError::FileTooLong)?;
        if offset == end {
            return Ok(Written { len: 0, offset, inode });
        }
        // Bytes at the end may have a place: allocated space, or what another client has appended just now. They are written by one client alone.
        let filling = Filling { what: What::Data(data), least_size: end, appends: write.append, end_is_ours: has_end };
        let inode = self.fill(&inode, offset..end, filling, open).await?;
        Ok(Written { len: data.len(), offset, inode })
    }

    /// Puts bytes or zeros into a range that is not empty, in place and by appends, and commits it. Refused with [`MetaError::Changed`] where another
    /// client has changed the file since it was looked at.
    pub(super) async fn fill(
        &self,
        inode: &Attributes,
        range: Range<u64>,
        filling: Filling<'_>,
        open: &mut Option<OpenExtent>,
    ) -> Result<Attributes, ClientError> {
        let begun = self.env().now();
        let keys = self.keys(inode.ino, blocks_of(&range, inode.size)).await?;
        let Plan { in_place, runs } = plan(&keys, &range, inode.size);
        if filling.appends && !filling.end_is_ours && !in_place.is_empty() {
            return Err(MetaError::Locked.into());
        }
        if !in_place.is_empty() {
            self.check_locks(inode.ino, true).await?;
        }
        for key in in_place {
            let part = filling.part(&range, key.file_offset..end_of(&key));
            if let Err(error) = self.data.overwrite(key.extent, key.extent_offset, part).await {
                return Err(if self.was_cut(inode).await? { MetaError::Changed.into() } else { error.into() });
            }
        }
        let keys = self.append_runs(inode, &range, &runs, filling, open).await?;
        if keys.is_empty() && filling.least_size <= inode.size && self.is_alone(inode, begun) {
            // The kernel of an exclusive client tells of times by itself.
            if !self.is_exclusive() {
                self.untold.add(inode.ino);
            }
            return Ok(*inode);
        }
        let size = filling.appends.then_some(inode.size);
        self.commit(inode, keys, filling.least_size, size, open).await
    }

    /// Gives a file its keys, if it is as it was when it was looked at.
    pub(super) async fn commit(
        &self,
        inode: &Attributes,
        keys: Vec<ExtentKey>,
        least_size: u64,
        size: Option<u64>,
        open: &mut Option<OpenExtent>,
    ) -> Result<Attributes, ClientError> {
        let (ino, expects) = (inode.ino, Expected { cuts: inode.cuts, size });
        let commit = Command::Commit { ino, keys, least_size, kills_set_ids: false, expects };
        let done = self.commands.send_for_inode(commit).await;
        match &done {
            Ok(inode) => self.files.state(ino).changed_here(inode),
            // What was appended is given back.
            Err(_) => open.iter_mut().for_each(OpenExtent::begin_block),
        }
        if done == Err(ClientError::Meta(MetaError::LocksLost)) {
            self.learn_of_loss(ino).await;
        }
        done
    }

    /// Whether content was cut out of a file since it was looked at.
    pub(super) async fn was_cut(&self, inode: &Attributes) -> Result<bool, ClientError> {
        Ok(self.commands.inode(inode.ino).await?.cuts != inode.cuts)
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

    /// Appends runs and returns their keys. Where one finds no place, the file gets no key, and extents that were made for it are gone.
    pub(super) async fn append_runs(
        &self,
        inode: &Attributes,
        range: &Range<u64>,
        runs: &[Range<u64>],
        filling: Filling<'_>,
        open: &mut Option<OpenExtent>,
    ) -> Result<Vec<ExtentKey>, ClientError> {
        let mut keys = Vec::new();
        open.iter_mut().for_each(|open| open.file_was_cut(inode.cuts));
        let before = open.as_ref().map(|open| open.id);
        for run in runs {
            match self.append_run(inode, open, run, &filling.run(range, run)).await {
                Ok(key) => add_key(&mut keys, key),
                Err(error) => {
                    let made = keys.iter().map(|key| key.extent).filter(|extent| Some(*extent) != before);
                    self.remove_made(made.collect(), open).await;
                    return Err(error);
                }
            }
        }
        Ok(keys)
    }

    /// Removes extents that no key names. One that can't be removed stays.
    async fn remove_made(&self, made: BTreeSet<ExtentId>, open: &mut Option<OpenExtent>) {
        open.take_if(|open| made.contains(&open.id));
        for extent in made {
            if let Err(error) = self.data.remove(extent).await {
                tracing::debug!(?extent, %error, "an extent stays that no file names");
            }
        }
    }

    /// Appends to the extent that the file grows in, and where that takes nothing more, to a new one. One that has no room, or does not answer, is
    /// followed by one of another data partition. What it may have taken has no key.
    async fn append_run(
        &self,
        inode: &Attributes,
        open: &mut Option<OpenExtent>,
        run: &Range<u64>,
        content: &Bytes,
    ) -> Result<ExtentKey, ClientError> {
        let len = run.end - run.start;
        let (mut refused, mut outcome) = (Vec::new(), Ok(()));
        if let Some((mut extent, at)) = open.take().and_then(|extent| extent.place(run.start, len).map(|at| (extent, at))) {
            let content = padded((at - extent.len) as usize, content.clone(), 0);
            outcome = self.data.append(extent.id, extent.len, content).await;
            match &outcome {
                Ok(()) => {
                    extent.grew(at + len);
                    *open = Some(extent);
                    return Ok(ExtentKey { file_offset: run.start, extent: extent.id, extent_offset: at, len });
                }
                Err(error) if !seals(error) => refused.push(extent.id.partition),
                Err(_) => {}
            }
        }
        let at = run.start % BLOCK_BYTES;
        let made = self.data.create_beside(&refused, padded(at as usize, content.clone(), 0)).await;
        let id = made.unwrap_or_else(|| Err(outcome.err().unwrap_or(DataError::Full)))?;
        let mut extent = OpenExtent::new(id, inode.cuts);
        extent.grew(at + len);
        *open = Some(extent);
        Ok(ExtentKey { file_offset: run.start, extent: id, extent_offset: at, len })
    }
}

impl Filling<'_> {
    /// What goes to `part` of the file, which lies in `range`, that the filling is for.
    pub(super) fn part(&self, range: &Range<u64>, part: Range<u64>) -> Bytes {
        match self.what {
            What::Data(data) => data.slice((part.start - range.start) as usize..(part.end - range.start) as usize),
            What::Zeros => Bytes::from(vec![0; (part.end - part.start) as usize]),
        }
    }

    /// What goes to a run, which may begin before `range` and end after it.
    fn run(&self, range: &Range<u64>, run: &Range<u64>) -> Bytes {
        let part = run.start.max(range.start)..run.end.min(range.end);
        let (before, after) = (part.start - run.start, run.end - part.end);
        padded(before as usize, self.part(range, part), after as usize)
    }
}

fn padded(before: usize, content: Bytes, after: usize) -> Bytes {
    if before == 0 && after == 0 {
        return content;
    }
    let mut bytes = BytesMut::zeroed(before + content.len() + after);
    bytes[before..before + content.len()].copy_from_slice(&content);
    bytes.freeze()
}

/// Whether another extent of the same data partition may take what this one did not.
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
