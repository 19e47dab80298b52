//! Counts of what was asked and answered, for whoever shows them.
//!
//! Each core counts for itself, so that counting moves no cache line between cores; a reader adds up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::core_index;
use http::StatusCode;

use crate::direct::Direct;

/// Sets of counters; cores beyond share them.
const SHARDS: usize = 64;

/// Kinds of requests that are counted apart.
pub const OPERATIONS: [&str; 8] = ["get", "head", "put", "delete", "list", "part", "other", "refused"];

const OTHER: usize = 6;
const REFUSED: usize = 7;

/// The live counters.
#[derive(Debug)]
pub struct Counters {
    shards: Vec<Shard>,
}

/// Two cache lines for each kind, so that no two cores write the same.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    operations: [OperationCounters; OPERATIONS.len()],
    connections_opened: AtomicU64,
    connections_closed: AtomicU64,
}

#[derive(Debug, Default)]
struct OperationCounters {
    requests: AtomicU64,
    client_errors: AtomicU64,
    server_errors: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    answer_time_us: AtomicU64,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct S3Stats {
    /// In the order of [`OPERATIONS`].
    pub operations: [OperationStats; OPERATIONS.len()],
    pub open_connections: u64,
    pub accepted_connections: u64,
}

/// Counts of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationStats {
    /// All that were answered.
    pub requests: u64,
    /// Those answered with 4xx.
    pub client_errors: u64,
    /// Those answered with 5xx.
    pub server_errors: u64,
    /// Announced bytes of request bodies.
    pub received_bytes: u64,
    /// Bytes of answers' bodies.
    pub sent_bytes: u64,
    /// From the end of the headers to the answer, the sending of its body not included; of all requests together.
    pub answer_time_us: u64,
}

/// One request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// `None` for what the library did.
    pub direct: Option<Direct>,
    /// By the guard, before it was known what was asked.
    pub was_refused: bool,
    pub status: StatusCode,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub took: Duration,
}

impl Counters {
    pub fn new() -> Counters {
        Counters { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    pub fn count(&self, answered: &Answered) {
        let counters = &self.shard().operations[index_of(answered)];
        add(&counters.requests, 1);
        add(&counters.answer_time_us, answered.took.as_micros() as u64);
        if answered.received_bytes > 0 {
            add(&counters.received_bytes, answered.received_bytes);
        }
        if answered.sent_bytes > 0 {
            add(&counters.sent_bytes, answered.sent_bytes);
        }
        if answered.status.is_client_error() {
            add(&counters.client_errors, 1);
        } else if answered.status.is_server_error() {
            add(&counters.server_errors, 1);
        }
    }

    pub fn connection_opened(&self) {
        add(&self.shard().connections_opened, 1);
    }

    pub fn connection_closed(&self) {
        add(&self.shard().connections_closed, 1);
    }

    /// Sums of all cores.
    pub fn stats(&self) -> S3Stats {
        let mut stats = S3Stats::default();
        let mut closed = 0;
        for shard in &self.shards {
            for (sum, counters) in stats.operations.iter_mut().zip(&shard.operations) {
                sum.requests += get(&counters.requests);
                sum.client_errors += get(&counters.client_errors);
                sum.server_errors += get(&counters.server_errors);
                sum.received_bytes += get(&counters.received_bytes);
                sum.sent_bytes += get(&counters.sent_bytes);
                sum.answer_time_us += get(&counters.answer_time_us);
            }
            closed += get(&shard.connections_closed);
            stats.accepted_connections += get(&shard.connections_opened);
        }
        stats.open_connections = stats.accepted_connections.saturating_sub(closed);
        stats
    }

    fn shard(&self) -> &Shard {
        &self.shards[core_index() % SHARDS]
    }
}

fn index_of(answered: &Answered) -> usize {
    match answered.direct {
        Some(Direct::GetObject) => 0,
        Some(Direct::HeadObject) => 1,
        Some(Direct::PutObject) => 2,
        Some(Direct::DeleteObject) => 3,
        Some(Direct::ListObjects | Direct::ListObjectsV2) => 4,
        Some(Direct::UploadPart) => 5,
        None if answered.was_refused => REFUSED,
        None | Some(Direct::CopyObject | Direct::UploadPartCopy) => OTHER,
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
