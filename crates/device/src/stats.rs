//! Counters of one device, and the counter that owners of its space use too. They only count up, and order nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a device has done since it was opened.
#[derive(Debug, Default)]
pub struct DeviceStats {
    /// Frames acknowledged.
    pub appends: Counter,
    /// Bytes of those frames.
    pub appended_bytes: Counter,
    /// Appends that ended in an error, refused ones included.
    pub append_errors: Counter,
    /// Write requests for frames; appends / batches is what group commit saves.
    pub batches: Counter,
    /// Bytes of those writes, padding included; divided by `appended_bytes` it is the cost of alignment.
    pub written_bytes: Counter,
    /// Flushes of the mode that flushes by time.
    pub flushes: Counter,
    /// Zones activated, finished, reset.
    pub activations: Counter,
    pub finishes: Counter,
    pub resets: Counter,
    /// Times that a batch had to wait for its zone to be activated.
    pub zone_waits: Counter,
    /// Bytes of zeros written ahead of the head.
    pub prewritten_bytes: Counter,
    /// Frames read, whole or a piece, and how many came whole from the page cache on the caller's thread.
    pub reads: Counter,
    pub cached_reads: Counter,
    /// Reads whose first answer was wrong and whose second, from the medium, was right.
    pub repeated_reads: Counter,
    /// Reads that found a damaged frame also on the medium.
    pub corrupt_reads: Counter,
    /// Zones that volumes got, and those that they gave back.
    pub lent: Counter,
    pub returned: Counter,
    /// Writes of volumes and their bytes; reads of them and theirs.
    pub volume_writes: Counter,
    pub volume_written_bytes: Counter,
    pub volume_reads: Counter,
    pub volume_read_bytes: Counter,
    /// Bytes read by scrubs, and damaged frames found.
    pub scrubbed_bytes: Counter,
    pub scrub_damage: Counter,
}
