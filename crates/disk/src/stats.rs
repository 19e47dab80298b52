//! Counters of one disk: what was asked of it and what failed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Operation;
use crate::request::Request;

/// A disk's counters at one moment. Requests count when they are accepted, failures when they are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Read requests, of both modes, and their bytes; hits of the cache are not among them.
    pub reads: u64,
    pub read_bytes: u64,
    /// Calls of `try_read_cached` that were served, and those that were not.
    pub cache_hits: u64,
    pub cache_misses: u64,
    /// All write requests and their bytes, and how many of them were durable.
    pub writes: u64,
    pub write_bytes: u64,
    pub durable_writes: u64,
    pub flushes: u64,
    pub allocates: u64,
    /// Requests for zeros and for discards.
    pub zeroings: u64,
    pub discards: u64,
    /// Requests answered with an error, refused ones included.
    pub failures: u64,
}

/// The live counters. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    cache_hits: AtomicU64,
    cache_misses: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    durable_writes: AtomicU64,
    flushes: AtomicU64,
    allocates: AtomicU64,
    zeroings: AtomicU64,
    discards: AtomicU64,
    failures: AtomicU64,
}

impl Counters {
    pub(crate) fn count_request(&self, request: &Request) {
        let (_, len) = request.range();
        match request.operation() {
            Operation::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, len);
            }
            Operation::Write => {
                add(&self.writes, 1);
                add(&self.write_bytes, len);
                if request.promises_durability() {
                    add(&self.durable_writes, 1);
                }
            }
            Operation::Flush => add(&self.flushes, 1),
            Operation::Allocate => add(&self.allocates, 1),
            Operation::WriteZeros => add(&self.zeroings, 1),
            Operation::Discard => add(&self.discards, 1),
        }
    }

    pub(crate) fn count_cached(&self, served: bool) {
        add(if served { &self.cache_hits } else { &self.cache_misses }, 1);
    }

    pub(crate) fn count_failure(&self) {
        add(&self.failures, 1);
    }

    pub(crate) fn snapshot(&self) -> DiskStats {
        DiskStats {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            cache_hits: self.cache_hits.load(Ordering::Relaxed),
            cache_misses: self.cache_misses.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            write_bytes: self.write_bytes.load(Ordering::Relaxed),
            durable_writes: self.durable_writes.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            allocates: self.allocates.load(Ordering::Relaxed),
            zeroings: self.zeroings.load(Ordering::Relaxed),
            discards: self.discards.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
