//! A disk that looks at what is written: it tells frames of logs (METAX) from all else, counts them, can note them, and can leave some out.

use crate::clock;
use disk::{Completion, Disk, DiskError, DiskStats, Done, Request};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// What the first bytes of a frame of crate `wal` are, and where its number of records stands (its module `layout`).
const FRAME_MAGIC: &[u8] = b"WFRM";
const FRAME_RECORDS_AT: usize = 24;
/// Frames that are left out go into memory of so many bytes, the same again and again.
const MEMORY_BYTES: usize = 4 << 20;

/// Writes that are acknowledged at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveOut {
    Nothing,
    /// Frames of logs are copied to memory: a RAM disk for METAX.
    Frames,
    /// Frames as before, and all else to nowhere: null targets. Only for a disk from which nothing is read any more.
    Everything,
}

const LEAVE_OUT: [LeaveOut; 3] = [LeaveOut::Nothing, LeaveOut::Frames, LeaveOut::Everything];

/// A write that was noted.
pub struct Noted {
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub is_frame: bool,
    pub sent: Instant,
    pub durable: Instant,
}

/// Frames and their records since the disk was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames {
    pub frames: u64,
    pub records: u64,
}

/// The disk.
pub struct Tap {
    inner: Arc<dyn Disk>,
    left_out: AtomicU8,
    frames: AtomicU64,
    records: AtomicU64,
    memory: Mutex<Vec<u8>>,
    /// None: writes are not noted.
    noted: Arc<Mutex<Option<Vec<Noted>>>>,
}

impl Tap {
    pub fn over(inner: Arc<dyn Disk>, leave_out: LeaveOut) -> Arc<Tap> {
        let (left_out, memory) = (AtomicU8::new(leave_out as u8), Mutex::new(Vec::new()));
        Arc::new(Tap { inner, left_out, frames: AtomicU64::new(0), records: AtomicU64::new(0), memory, noted: Arc::default() })
    }

    pub fn leave_out(&self, what: LeaveOut) {
        self.left_out.store(what as u8, Ordering::Release);
    }

    pub fn frames(&self) -> Frames {
        Frames { frames: self.frames.load(Ordering::Relaxed), records: self.records.load(Ordering::Relaxed) }
    }

    /// Notes writes from now on.
    pub fn begin_notes(&self) {
        *self.noted.lock() = Some(Vec::new());
    }

    /// The writes that have ended since then.
    pub fn take_notes(&self) -> Vec<Noted> {
        self.noted.lock().take().unwrap_or_default()
    }

    fn count(&self, frame: &[u8]) {
        let records = frame[FRAME_RECORDS_AT..].first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(u64::from(records), Ordering::Relaxed);
    }

    fn keep_in_memory(&self, frame: &[u8]) {
        let mut memory = self.memory.lock();
        memory.resize(MEMORY_BYTES, 0);
        let taken = frame.len().min(MEMORY_BYTES);
        memory[..taken].copy_from_slice(&frame[..taken]);
    }

    /// Has a write noted when it has ended.
    fn note(&self, offset: u64, bytes: &[u8], is_frame: bool, done: Done) -> Done {
        let (noted, bytes, sent) = (self.noted.clone(), bytes.to_vec(), clock::now());
        Box::new(move |completion| {
            if let Some(noted) = &mut *noted.lock() {
                noted.push(Noted { offset, bytes, is_frame, sent, durable: clock::now() });
            }
            done(completion);
        })
    }
}

impl Disk for Tap {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.inner.capacity_bytes()
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        self.inner.try_read_cached(offset, buf)
    }

    fn submit(&self, request: Request, mut done: Done) {
        let leaves_out = LEAVE_OUT[usize::from(self.left_out.load(Ordering::Acquire))];
        if let Request::Write { offset, buf, .. } = &request {
            let is_frame = buf.starts_with(FRAME_MAGIC);
            if is_frame {
                self.count(buf);
            }
            if self.noted.lock().is_some() {
                done = self.note(*offset, buf, is_frame, done);
            }
            if is_frame && leaves_out != LeaveOut::Nothing {
                self.keep_in_memory(buf);
            }
            let is_left_out = leaves_out == LeaveOut::Everything || (is_frame && leaves_out == LeaveOut::Frames);
            if is_left_out {
                let Request::Write { buf, .. } = request else { unreachable!("it was matched") };
                return done(Completion { result: Ok(()), buf: Some(buf) });
            }
        }
        if matches!(request, Request::Flush) && leaves_out == LeaveOut::Everything {
            return done(Completion { result: Ok(()), buf: None });
        }
        self.inner.submit(request, done);
    }

    fn stats(&self) -> DiskStats {
        self.inner.stats()
    }
}
