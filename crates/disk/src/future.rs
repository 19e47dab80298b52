//! Requests as futures, for code that is not on a hot path.

use std::future::Future;

use tokio::sync::oneshot;

use crate::Disk;
use crate::aligned::AlignedBuf;
use crate::error::{DiskError, DiskErrorKind};
use crate::request::{Completion, Durability, ReadMode, Request};

/// Waiting for a request's answer. The request is submitted at the first poll. Dropping a future gives up the answer, not
/// the operation: that runs to its end, and its buffer is freed then.
pub trait DiskExt: Disk {
    /// Reads `len` bytes at `offset`.
    fn read(&self, offset: u64, len: usize, mode: ReadMode) -> impl Future<Output = Result<AlignedBuf, DiskError>> + Send {
        async move {
            let buf = self.ask(Request::Read { offset, buf: AlignedBuf::for_read(len), mode }).await?;
            Ok(buf.expect("a read returns its buffer"))
        }
    }

    /// Reads `len` bytes at `offset`, at any alignment: from the page cache if they are there, else from the device.
    fn read_cached(&self, offset: u64, len: usize) -> impl Future<Output = Result<AlignedBuf, DiskError>> + Send {
        async move {
            let mut buf = AlignedBuf::for_read(len);
            if self.try_read_cached(offset, &mut buf)? {
                return Ok(buf);
            }
            let buf = self.ask(Request::Read { offset, buf, mode: ReadMode::Cached }).await?;
            Ok(buf.expect("a read returns its buffer"))
        }
    }

    /// Writes all of `buf` at `offset` and gives the buffer back.
    fn write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        durability: Durability,
    ) -> impl Future<Output = Result<AlignedBuf, DiskError>> + Send {
        async move {
            let buf = self.ask(Request::Write { offset, buf, durability }).await?;
            Ok(buf.expect("a write returns its buffer"))
        }
    }

    /// Makes every write that has completed durable.
    fn flush(&self) -> impl Future<Output = Result<(), DiskError>> + Send {
        async move { self.ask(Request::Flush).await.map(|_| ()) }
    }

    /// Reserves space and grows a file to cover it.
    fn allocate(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DiskError>> + Send {
        async move { self.ask(Request::Allocate { offset, len }).await.map(|_| ()) }
    }

    /// Makes a range zeros, with space reserved for it.
    fn write_zeros(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DiskError>> + Send {
        async move { self.ask(Request::WriteZeros { offset, len }).await.map(|_| ()) }
    }

    /// Gives a range's space back.
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DiskError>> + Send {
        async move { self.ask(Request::Discard { offset, len }).await.map(|_| ()) }
    }

    /// The answer to `request`: its buffer, if it had one.
    fn ask(&self, request: Request) -> impl Future<Output = Result<Option<AlignedBuf>, DiskError>> + Send {
        async move {
            let operation = request.operation();
            let (offset, len) = request.range();
            let (answer, receiver) = oneshot::channel::<Completion>();
            // The asker may have gone by then; nobody wants to know.
            self.submit(request, Box::new(move |completion| drop(answer.send(completion))));
            let Ok(completion) = receiver.await else {
                let (kind, device) = (DiskErrorKind::Abandoned, self.describe().into());
                return Err(DiskError { kind, device, operation, offset, len, cause: None });
            };
            completion.result.map(|()| completion.buf)
        }
    }
}

impl<D: Disk + ?Sized> DiskExt for D {}
