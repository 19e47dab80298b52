//! One request on its way: which system call comes next, and what its result means. The ring and the pool only carry it out.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::medium::Medium;
use crate::BLOCK_BYTES;
use crate::error::{DiskError, DiskErrorKind};
use crate::request::{Completion, Done, Durability, ReadMode, Request};

/// How often one request may be interrupted (EINTR, EAGAIN, a transfer of nothing whole) before it fails.
pub(crate) const INTERRUPTION_LIMIT: u32 = 100;

/// A request, how far it is, and whom to tell.
pub(crate) struct Job {
    medium: Arc<Medium>,
    request: Request,
    /// Bytes of the buffer that are done.
    progress: usize,
    interruptions: u32,
    /// Zeros are written: neither file system nor device makes them at once.
    is_by_hand: bool,
    done: Done,
}

/// Tells the disks of jobs that are under way from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskKey(usize);

/// The next system call of a job.
pub(crate) enum Call<'a> {
    Read { file: BorrowedFd<'a>, buf: &'a mut [u8], offset: u64 },
    Write { file: BorrowedFd<'a>, buf: &'a [u8], offset: u64, durable: bool },
    Sync { file: BorrowedFd<'a> },
    Allocate { file: BorrowedFd<'a>, offset: u64, len: u64 },
    WriteZeros { file: BorrowedFd<'a>, offset: u64, len: u64 },
    Discard { file: BorrowedFd<'a>, offset: u64, len: u64 },
}

/// What to do after a system call.
pub(crate) enum Step {
    Again,
    Finished(Result<(), DiskError>),
}

impl Job {
    pub(super) fn new(medium: Arc<Medium>, request: Request, done: Done) -> Job {
        Job { medium, request, progress: 0, interruptions: 0, is_by_hand: false, done }
    }

    /// Gives the job to a thread of its disk.
    pub(super) fn go_to_pool(self) {
        let medium = self.medium.clone();
        medium.pool.submit(self);
    }

    /// Ends a job that a ring has carried out.
    pub(crate) fn finish_from_ring(mut self, result: Result<(), DiskError>) {
        let (offset, len) = self.request.range();
        let is_write = matches!(self.request, Request::Write { .. });
        if is_write && result.is_ok() && self.medium.may_be_stale(offset, len) {
            // Written once more, the same bytes by a call that waits: that one drops the range from the cache after it.
            self.progress = 0;
            let medium = self.medium.clone();
            return medium.pool.submit_beyond_limit(self);
        }
        self.finish(result);
    }

    /// Whose it is. No other disk has this key while the job lives.
    pub(crate) fn disk(&self) -> DiskKey {
        DiskKey(Arc::as_ptr(&self.medium) as usize)
    }

    /// Whether a full queue refuses it.
    pub(crate) fn may_be_refused(&self) -> bool {
        !self.request.is_write()
    }

    /// Why the job must not start any more, if so: the disk was poisoned while it waited.
    pub(crate) fn refusal(&self) -> Option<DiskError> {
        self.medium.refusal(&self.request)
    }

    /// The system call to make now. The buffer in it stays valid, at its address, as long as the job lives and no other
    /// method takes it mutably.
    pub(crate) fn next_call(&mut self) -> Call<'_> {
        let (writer, reader) = (self.medium.writer.as_fd(), self.medium.reader.as_fd());
        match &mut self.request {
            Request::Read { offset, buf, mode } => Call::Read {
                file: if *mode == ReadMode::Cached { reader } else { writer },
                buf: &mut buf[self.progress..],
                offset: *offset + self.progress as u64,
            },
            // Through the page cache the flag's meaning is the file system's affair, fdatasync's is not.
            Request::Write { buf, .. } if self.progress == buf.len() => Call::Sync { file: writer },
            Request::Write { offset, buf, durability } => Call::Write {
                file: writer,
                buf: &buf[self.progress..],
                offset: *offset + self.progress as u64,
                durable: *durability == Durability::Durable && self.medium.direct,
            },
            Request::Flush => Call::Sync { file: writer },
            Request::Allocate { offset, len } => Call::Allocate { file: writer, offset: *offset, len: *len },
            Request::WriteZeros { offset, len } if self.is_by_hand => {
                let left = *len as usize - self.progress;
                let buf = &ZEROS.0[..left.min(ZEROS.0.len())];
                Call::Write { file: writer, buf, offset: *offset + self.progress as u64, durable: false }
            }
            Request::WriteZeros { offset, len } => Call::WriteZeros { file: writer, offset: *offset, len: *len },
            Request::Discard { offset, len } => Call::Discard { file: writer, offset: *offset, len: *len },
        }
    }

    pub(super) fn medium(&self) -> Arc<Medium> {
        self.medium.clone()
    }

    /// Whether the next call brings the page cache to the medium.
    pub(super) fn syncs_page_cache(&mut self) -> bool {
        !self.medium.direct && matches!(self.next_call(), Call::Sync { .. })
    }

    /// Takes the result of the call: how many bytes went over (0 for a sync or an allocation). What it means for the disk, that has learnt when
    /// this returns.
    pub(crate) fn advance(&mut self, outcome: io::Result<usize>) -> Step {
        let step = self.step_after(outcome);
        match &step {
            Step::Finished(Err(error)) if poisons(&self.request, error.kind, self.medium.direct) => {
                self.medium.poison.set(error)
            }
            // Another sync may have heard of what this one was to bring to the medium: the kernel tells of a page that it could not write once,
            // and so does a drive of a sector in its cache, whoever wrote it. A durable write to a drive without FUA is a write and such a flush.
            Step::Finished(Ok(())) if self.request.promises_durability() => {
                let (offset, len) = self.request.range();
                if let Some(refusal) = self.medium.poison.refusal(self.request.operation(), offset, len) {
                    return Step::Finished(Err(refusal));
                }
            }
            _ => {}
        }
        step
    }

    fn step_after(&mut self, outcome: io::Result<usize>) -> Step {
        let count = match outcome {
            Ok(count) => count,
            Err(cause) if is_interruption(&cause) && self.may_go_on() => return Step::Again,
            Err(cause) if is_unknown_call(&cause) && !self.is_by_hand => match &self.request {
                Request::WriteZeros { .. } => {
                    self.is_by_hand = true;
                    return Step::Again;
                }
                // Space that can't be given back is kept.
                Request::Discard { .. } => return Step::Finished(Ok(())),
                _ => return Step::Finished(Err(self.failure(DiskErrorKind::of(&cause), cause))),
            },
            Err(cause) => return Step::Finished(Err(self.failure(DiskErrorKind::of(&cause), cause))),
        };
        let whole_blocks = self.medium.direct && !matches!(self.request, Request::Read { mode: ReadMode::Cached, .. });
        match &self.request {
            Request::WriteZeros { len, .. } if self.is_by_hand => {
                // A direct transfer goes on at a block's start.
                let moved = count - count % BLOCK_BYTES;
                self.progress += moved;
                if self.progress as u64 >= *len {
                    return Step::Finished(Ok(()));
                }
                if moved > 0 || self.may_go_on() { Step::Again } else { Step::Finished(Err(self.ended_early())) }
            }
            Request::Flush | Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => {
                Step::Finished(Ok(()))
            }
            Request::Write { buf, .. } if self.progress == buf.len() => Step::Finished(Ok(())),
            Request::Read { buf, .. } | Request::Write { buf, .. } => {
                let end = self.progress + count;
                let is_whole = end == buf.len();
                // A direct transfer goes on at a block's start, so a part of a block is done again.
                let progress = if whole_blocks && !is_whole { end - end % BLOCK_BYTES } else { end };
                let moved = progress > self.progress;
                self.progress = progress;
                if is_whole {
                    return if self.needs_sync() { Step::Again } else { Step::Finished(Ok(())) };
                }
                if moved || self.may_go_on() { Step::Again } else { Step::Finished(Err(self.ended_early())) }
            }
        }
    }

    /// Tells whoever asked.
    pub(crate) fn finish(self, result: Result<(), DiskError>) {
        let Job { medium, request, done, .. } = self;
        let (offset, len) = request.range();
        match &result {
            Ok(()) if request.is_write() && !matches!(request, Request::Discard { .. }) => {
                medium.size.fetch_max(offset + len, Ordering::AcqRel);
            }
            Ok(()) => {}
            Err(_) => medium.counters.count_failure(),
        }
        // Before the callback, so that a disk whose last answer has come, and whose handle is gone, can be opened anew.
        drop(medium);
        done(Completion { result, buf: request.into_buf() });
    }

    /// Finishes a read that found every queue full.
    pub(crate) fn finish_overloaded(self) {
        let (offset, len) = self.request.range();
        self.medium.counters.count_failure();
        let error = self.medium.error(DiskErrorKind::Overloaded, self.request.operation(), offset, len, None);
        let Job { medium, request, done, .. } = self;
        drop(medium);
        done(Completion { result: Err(error), buf: request.into_buf() });
    }

    /// The error of this job for a call that failed.
    pub(crate) fn failure(&self, kind: DiskErrorKind, cause: io::Error) -> DiskError {
        let (offset, len) = self.request.range();
        self.medium.error(kind, self.request.operation(), offset, len, Some(cause))
    }

    fn needs_sync(&self) -> bool {
        !self.medium.direct && matches!(self.request, Request::Write { durability: Durability::Durable, .. })
    }

    fn may_go_on(&mut self) -> bool {
        self.interruptions += 1;
        self.interruptions <= INTERRUPTION_LIMIT
    }

    fn ended_early(&self) -> DiskError {
        let (kind, cause) = match self.request {
            Request::Read { .. } => (DiskErrorKind::OutOfRange, io::ErrorKind::UnexpectedEof),
            _ => (DiskErrorKind::Failed, io::ErrorKind::WriteZero),
        };
        self.failure(kind, cause.into())
    }
}

/// Zeros that are written where they can't be made at once.
static ZEROS: Zeros = Zeros([0; 1 << 20]);

#[repr(align(4096))]
struct Zeros([u8; 1 << 20]);

fn is_unknown_call(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV))
}

fn is_interruption(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

/// Whether a failed request leaves it unknown what the medium holds. Running out of space does not, if the write went
/// straight to the file; through the page cache the kernel may have taken the bytes and found out later.
fn poisons(request: &Request, kind: DiskErrorKind, direct: bool) -> bool {
    let refused_whole = direct && kind == DiskErrorKind::NoSpace && !matches!(request, Request::Flush);
    request.promises_durability() && !refused_whole
}

#[cfg(test)]
mod tests;
