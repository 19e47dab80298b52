//! What happened: counts, latencies and failures, per worker and then merged.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::content::Mismatch;
use super::mix::Op;
use super::response::ResponseError;

/// Distinct kinds of failure that are told apart; the rest is counted together.
pub const FAILURE_KINDS_LIMIT: usize = 64;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Sending or receiving failed.
    #[error("connection: {0}")]
    Connection(io::ErrorKind),
    /// The answer is not HTTP.
    #[error("{0}")]
    Response(#[from] ResponseError),
    /// The server sent bytes that nothing asked for.
    #[error("bytes after the response")]
    Excess,
    /// No complete answer within the time limit.
    #[error("timeout")]
    Timeout,
    /// An unexpected status, with S3's code if the body carried one.
    #[error("{status} {code}")]
    Status {
        /// HTTP status.
        status: u16,
        /// S3 error code, or empty.
        code: String,
    },
    /// A body that is not what the key implies.
    #[error("verify: wrong byte")]
    WrongByte(Mismatch),
    /// A body of the wrong length.
    #[error("verify: wrong length")]
    WrongLength {
        /// What the key implies.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// A listing that is not one, is too long or is out of order.
    #[error("verify: bad listing")]
    BadListing,
}

impl Failure {
    /// Whether a server that claimed success gave wrong data.
    pub fn is_wrong_data(&self) -> bool {
        matches!(self, Failure::WrongByte(_) | Failure::WrongLength { .. } | Failure::BadListing)
    }
}

/// Successes of one operation.
#[derive(Debug, Clone)]
pub struct OpTally {
    /// Requests that did what was expected of them.
    pub requests: u64,
    /// Requests that did not.
    pub errors: u64,
    /// Body bytes, sent or received.
    pub bytes: u64,
    /// Keys listed.
    pub names: u64,
    /// Nanoseconds from the intended start to the last byte of the answer, of successes.
    pub latency_ns: Histogram<u64>,
}

impl OpTally {
    fn new() -> Self {
        // Three digits: 0.1% of the value; the range grows as needed.
        let latency_ns = Histogram::new(3).expect("three significant digits are supported");
        OpTally { requests: 0, errors: 0, bytes: 0, names: 0, latency_ns }
    }

    /// All of them together.
    pub fn sum(tallies: &[OpTally]) -> Self {
        let mut sum = OpTally::new();
        for tally in tallies {
            sum.merge(tally);
        }
        sum
    }

    fn merge(&mut self, other: &OpTally) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.names += other.names;
        self.latency_ns.add(&other.latency_ns).expect("a histogram that grows takes any other");
    }
}

/// What one worker, or all of them, saw within the measured window.
#[derive(Debug, Clone)]
pub struct Tally {
    /// By [`Op::index`].
    pub ops: Vec<OpTally>,
    /// By operation and kind.
    pub failures: BTreeMap<String, u64>,
    /// The first wrong data seen, with its key.
    pub wrong_data: Vec<String>,
    /// Requests of the open loop whose time came before the end but that no connection was free to send.
    pub unsent: u64,
    /// Connections opened after the first ones.
    pub reconnects: u64,
    /// Attempts to open one that failed.
    pub connect_errors: u64,
    /// Processor time of the workers.
    pub cpu: Duration,
}

/// Most examples of wrong data that a report names.
pub const WRONG_DATA_EXAMPLES_LIMIT: usize = 10;

impl Default for Tally {
    fn default() -> Self {
        Tally::new()
    }
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Tally {
            ops: Op::ALL.iter().map(|_| OpTally::new()).collect(),
            failures: BTreeMap::new(),
            wrong_data: Vec::new(),
            unsent: 0,
            reconnects: 0,
            connect_errors: 0,
            cpu: Duration::ZERO,
        }
    }

    /// Counts a success.
    pub fn success(&mut self, op: Op, latency: Duration, bytes: u64, names: u64) {
        let tally = &mut self.ops[op.index()];
        tally.requests += 1;
        tally.bytes += bytes;
        tally.names += names;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX >> 2).max(1);
        tally.latency_ns.record(nanoseconds).expect("a histogram that grows takes any latency");
    }

    /// Counts a failure.
    pub fn failure(&mut self, op: Op, failure: &Failure, key: impl FnOnce() -> String) {
        self.ops[op.index()].errors += 1;
        self.count_kind(format!("{op}: {failure}"));
        if failure.is_wrong_data() && self.wrong_data.len() < WRONG_DATA_EXAMPLES_LIMIT {
            let detail = match failure {
                Failure::WrongByte(mismatch) => mismatch.to_string(),
                Failure::WrongLength { expected, found } => format!("{found} bytes, expected {expected}"),
                other => other.to_string(),
            };
            self.wrong_data.push(format!("{op} {}: {detail}", key()));
        }
    }

    /// Counts an attempt to connect that failed.
    pub fn connect_failure(&mut self, kind: io::ErrorKind) {
        self.connect_errors += 1;
        self.count_kind(format!("connect: {kind}"));
    }

    fn count_kind(&mut self, mut kind: String) {
        if !self.failures.contains_key(&kind) && self.failures.len() >= FAILURE_KINDS_LIMIT {
            kind = "others".to_owned();
        }
        *self.failures.entry(kind).or_default() += 1;
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Tally) {
        for (mine, theirs) in self.ops.iter_mut().zip(&other.ops) {
            mine.merge(theirs);
        }
        for (kind, count) in &other.failures {
            *self.failures.entry(kind.clone()).or_default() += count;
        }
        let room = WRONG_DATA_EXAMPLES_LIMIT - self.wrong_data.len();
        self.wrong_data.extend(other.wrong_data.iter().take(room).cloned());
        self.unsent += other.unsent;
        self.reconnects += other.reconnects;
        self.connect_errors += other.connect_errors;
        self.cpu += other.cpu;
    }

    /// Failures of all operations and of attempts to connect.
    pub fn errors(&self) -> u64 {
        self.ops.iter().map(|op| op.errors).sum::<u64>() + self.connect_errors
    }

    /// Successes of all operations.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }
}
