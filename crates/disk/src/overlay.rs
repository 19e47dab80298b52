//! A disk whose writes stay in memory: whoever looks at a disk through it, and opens, recovers and repairs what is on it, changes
//! nothing.
//!
//! Invariants
//! - The disk below gets reads, and nothing else.
//! - A read sees the newest bytes written through the overlay, and what is below everywhere else; zeros beyond its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::aligned::AlignedBuf;
use crate::error::{DiskError, DiskErrorKind, Operation};
use crate::request::{Completion, Done, ReadMode, Request};
use crate::stats::DiskStats;
use crate::{BLOCK_BYTES, Disk};

/// A disk that can be written without being changed. Its memory grows with what is written.
pub struct OverlayDisk {
    below: Arc<dyn Disk>,
    written: Arc<Mutex<Written>>,
}

struct Written {
    /// By number of the block.
    blocks: BTreeMap<u64, Box<[u8]>>,
    size_bytes: u64,
}

impl OverlayDisk {
    pub fn new(below: Arc<dyn Disk>) -> OverlayDisk {
        let written = Written { blocks: BTreeMap::new(), size_bytes: below.size_bytes() };
        OverlayDisk { below, written: Arc::new(Mutex::new(written)) }
    }

    /// Bytes that were written and stayed in memory.
    pub fn written_bytes(&self) -> u64 {
        (self.written.lock().blocks.len() * BLOCK_BYTES) as u64
    }

    fn error(&self, kind: DiskErrorKind, operation: Operation, (offset, len): (u64, u64)) -> DiskError {
        DiskError { kind, device: self.describe().into(), operation, offset, len, cause: None }
    }

    fn start_read(&self, offset: u64, mut buf: AlignedBuf, mode: ReadMode, done: Done) {
        let wanted = buf.len();
        let written = self.written.clone();
        let finish = move |mut buf: AlignedBuf| {
            buf.resize(wanted);
            written.lock().patch(offset, &mut buf);
            buf
        };
        let there = self.below.size_bytes().saturating_sub(offset).min(wanted as u64) as usize;
        // What is below may end within a block; the rest of that block is read as zeros.
        let there = if mode == ReadMode::Direct { there / BLOCK_BYTES * BLOCK_BYTES } else { there };
        buf.truncate(there);
        if there == 0 {
            return done(Completion { result: Ok(()), buf: Some(finish(buf)) });
        }
        let finished = move |Completion { result, buf }: Completion| {
            let buf = if result.is_ok() { buf.map(finish) } else { buf };
            done(Completion { result, buf });
        };
        self.below.submit(Request::Read { offset, buf, mode }, Box::new(finished));
    }
}

impl Written {
    /// Puts what was written over what was read from `offset` on.
    fn patch(&self, offset: u64, buf: &mut [u8]) {
        let block_bytes = BLOCK_BYTES as u64;
        let end = offset + buf.len() as u64;
        for (number, block) in self.blocks.range(offset / block_bytes..end.div_ceil(block_bytes)) {
            let at = number * block_bytes;
            let (from, to) = (at.max(offset), (at + block_bytes).min(end));
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - at) as usize..(to - at) as usize]);
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / BLOCK_BYTES as u64;
        self.blocks.extend((first..).zip(bytes.chunks(BLOCK_BYTES).map(Box::from)));
        self.size_bytes = self.size_bytes.max(offset + bytes.len() as u64);
    }

    fn touches(&self, offset: u64, len: usize) -> bool {
        let end = offset + len as u64;
        self.blocks.range(offset / BLOCK_BYTES as u64..end.div_ceil(BLOCK_BYTES as u64)).next().is_some()
    }
}

impl Disk for OverlayDisk {
    fn describe(&self) -> String {
        self.below.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.written.lock().size_bytes
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.below.capacity_bytes()
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        if self.written.lock().touches(offset, buf.len()) {
            return Ok(false);
        }
        self.below.try_read_cached(offset, buf)
    }

    fn submit(&self, request: Request, done: Done) {
        if let Some(kind) = request.fault(self.size_bytes(), self.capacity_bytes()) {
            let error = self.error(kind, request.operation(), request.range());
            return done(Completion { result: Err(error), buf: request.into_buf() });
        }
        match request {
            Request::Read { offset, buf, mode } => self.start_read(offset, buf, mode, done),
            Request::Write { offset, buf, .. } => {
                self.written.lock().write(offset, &buf);
                done(Completion { result: Ok(()), buf: Some(buf) });
            }
            Request::Flush | Request::Discard { .. } => done(Completion { result: Ok(()), buf: None }),
            Request::WriteZeros { offset, len } => {
                self.written.lock().write(offset, &vec![0; len as usize]);
                done(Completion { result: Ok(()), buf: None });
            }
            Request::Allocate { offset, len } => {
                let mut written = self.written.lock();
                written.size_bytes = written.size_bytes.max(offset + len);
                drop(written);
                done(Completion { result: Ok(()), buf: None });
            }
        }
    }

    fn stats(&self) -> DiskStats {
        self.below.stats()
    }
}

#[cfg(test)]
mod tests;
