//! What an operator can set of the S3 interface, and the limits that it keeps whatever is set.

use std::net::SocketAddr;
use std::time::Duration;

/// Most bytes of a request line and its headers together; S3 allows 8 KiB, gateways and browsers add their own.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Most lines of headers. Bytes are what is limited: 8 KiB, as many as S3 takes, hold 512 lines of 16 bytes, and `x-amz-meta-a: b` has 17. The HTTP
/// library makes room for all lines with every request, which takes 2% of the processor time of a GET of 4 KiB.
pub const MAX_HEADER_LINES: usize = 512;

/// Most bytes that one connection buffers between the socket and the reader of a body, and of heads of answers. It begins with 8 KiB and
/// grows only under a client that sends fast.
pub const MAX_CONNECTION_BUFFER_BYTES: usize = 64 * 1024;

/// Most connections open on one core; the next ones wait in the kernel's queue until one ends.
pub const MAX_CONNECTIONS_PER_CORE: usize = 8192;

/// Most bytes that the connections of one core buffer together, beside the memory of uploads.
pub const MAX_CONNECTION_BUFFERS_BYTES_PER_CORE: usize = MAX_CONNECTIONS_PER_CORE * MAX_CONNECTION_BUFFER_BYTES;

/// Connections that may wait to be accepted, per core.
pub const ACCEPT_BACKLOG: i32 = 1024;

/// Pause after the system refused to accept a connection (no file descriptor left, for example).
pub const ACCEPT_RETRY_MS: u64 = 100;

/// Most bytes of a request body that is XML (a DeleteObjects of 1,000 keys of 1,024 bytes stays below it, escaped).
pub const MAX_XML_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes of one from somebody who is not known, or that does not say how long it is.
pub const MAX_UNVERIFIED_DOCUMENT_BYTES: usize = 64 * 1024;

/// Most bytes of all larger ones together; the next ones wait.
pub const MAX_DOCUMENTS_BYTES: usize = 64 * 1024 * 1024;

/// Longest time for a larger one from its first byte to its last, while others may be waiting (140 KB/s for the largest).
pub const MAX_DOCUMENT_MS: u64 = 60_000;

/// Most tags of one: 10,000 parts with all of their 7 elements have 160,002. Read, `<Part/>` takes 200 bytes.
pub const MAX_DOCUMENT_TAGS: usize = 1 << 18;

/// Most bytes of a rejected request's body that are read and thrown away so that the connection can go on.
pub const MAX_DISCARD_BYTES: u64 = 256 * 1024;

/// Most bytes that are read and thrown away after the last answer, so that the client reads it before it sees the connection end.
pub const MAX_LINGER_BYTES: u64 = 64 * 1024 * 1024;

/// Longest time for that.
pub const MAX_LINGER_MS: u64 = 2_000;

/// Fewest bytes per second that a client must send of a body that is due, or take of an answer.
pub const MIN_BYTES_PER_SECOND: u64 = 1024;

/// Over how much waiting on the client its pace is judged; also its grace, since nothing is judged before the first window ends.
pub const PACE_WINDOW_MS: u64 = 30_000;

/// How far a signature's time may be from ours (S3: 15 minutes).
pub const MAX_CLOCK_SKEW_SECONDS: u64 = 15 * 60;

/// Longest life of a presigned URL (S3: 7 days).
pub const MAX_PRESIGNED_SECONDS: u64 = 7 * 24 * 3600;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// Where to listen.
    pub address: SocketAddr,
    /// Region of every bucket; a signature for another one is refused.
    pub region: String,
    /// Base domain of virtual-host style requests (`bucket.domain`), without a port; path style works always.
    pub domain: Option<String>,
    pub timeouts: Timeouts,
}

/// How long a connection may be silent, and how slow. Checked once per [`Timeouts::TICK`].
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its headers.
    pub head: Duration,
    /// Without a request.
    pub idle: Duration,
    /// Without a byte of a body that is due, or without the client taking a byte of an answer.
    pub stall: Duration,
    /// The slowest pace of a body that is due and of an answer that is being taken.
    pub pace: MinimumPace,
    /// From the order to stop until connections are cut.
    pub drain: Duration,
}

/// The slowest pace at which a client may send or take bytes. Only time in which we wait for the client counts.
#[derive(Clone, Copy, Debug)]
pub struct MinimumPace {
    pub bytes_per_second: u64,
    /// How much such time is judged at once.
    pub window: Duration,
}

impl S3Config {
    /// The defaults, on this address.
    pub fn new(address: SocketAddr) -> S3Config {
        S3Config { address, region: String::from("us-east-1"), domain: None, timeouts: Timeouts::default() }
    }
}

impl Timeouts {
    /// How often connections are looked at.
    pub const TICK: Duration = Duration::from_millis(250);
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            head: Duration::from_secs(20),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(30),
            pace: MinimumPace { bytes_per_second: MIN_BYTES_PER_SECOND, window: Duration::from_millis(PACE_WINDOW_MS) },
            drain: Duration::from_secs(20),
        }
    }
}
