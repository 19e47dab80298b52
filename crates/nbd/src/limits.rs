//! The limits that the server keeps, and what an operator can set of them.
//!
//! A connection has an allowance of its own, so that no other connection can keep it from making progress with small
//! requests. What it needs beyond the allowance comes from a pool that all connections share, first come first served.
//!
//! The worst case of all buffers together is [`MAX_CONNECTIONS`] × ([`ALLOWANCE_BYTES`] + twice [`READ_BUFFER_BYTES`]) +
//! [`MAX_SHARED_BYTES`] = 1024 × 384 KiB + 256 MiB = 640 MiB.

use std::time::Duration;

/// Requests start and end at multiples of this.
pub const MINIMUM_BLOCK_BYTES: u32 = 512;
/// Aligned to this, a write needs no read before it.
pub const PREFERRED_BLOCK_BYTES: u32 = 4096;
/// Longest payload of a write, and longest read.
pub const MAX_PAYLOAD_BYTES: u32 = 32 * 1024 * 1024;
/// Longest payload of a refused write that is skipped; after a longer one the connection ends.
pub const MAX_SKIPPED_BYTES: u32 = 2 * MAX_PAYLOAD_BYTES;
/// A longer write is handed to the export in pieces, each as soon as it is there. So is a longer read, where the client
/// accepts several replies. A power of two: pieces end at its multiples.
pub const PIECE_BYTES: u32 = 1024 * 1024;
/// Longest string of the protocol: names, messages.
pub const MAX_STRING_BYTES: usize = 4096;
/// Most descriptors of one reply to a block status request.
pub const MAX_EXTENTS: usize = 4096;

/// Longest data of an option that is looked at.
pub const MAX_OPTION_BYTES: u32 = 64 * 1024;
/// Longest data of an option that is skipped and refused; after longer ones the connection ends.
pub const MAX_SKIPPED_OPTION_BYTES: u32 = 1024 * 1024;
/// Most options of one connection.
pub const MAX_OPTIONS: u32 = 1024;
/// Longest list of exports; a longer one is refused as too big.
pub const MAX_LIST_REPLY_BYTES: usize = 4 * 1024 * 1024;

/// Most connections of a server; further ones are closed as soon as they are accepted.
pub const MAX_CONNECTIONS: usize = 1024;
/// Connections that may wait to be accepted.
pub const ACCEPT_BACKLOG: i32 = 128;
/// Pause after the system refused to accept a connection (no file descriptor left, for example).
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Most requests in flight of one connection.
pub const MAX_REQUESTS_PER_CONNECTION: usize = 128;
/// Most bytes of payload in flight of one connection: of writes until they are done, of reads until they are sent.
pub const MAX_BYTES_PER_CONNECTION: usize = 64 * 1024 * 1024;
/// Requests that a connection may have in flight without the shared pool.
pub const ALLOWANCE_REQUESTS: usize = 32;
/// Bytes of payload that a connection may have in flight without the shared pool.
pub const ALLOWANCE_BYTES: usize = 256 * 1024;
/// Requests in flight of all connections beyond their allowances.
pub const MAX_SHARED_REQUESTS: usize = 16 * 1024;
/// Bytes of payload in flight of all connections beyond their allowances.
pub const MAX_SHARED_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that are read from a socket at a time. Sixteen writes of 4 KiB with their headers fit.
pub const READ_BUFFER_BYTES: usize = 72 * 1024;
/// A longer payload gets a buffer of its own and is read into its place.
pub const INLINE_PAYLOAD_BYTES: u32 = 32 * 1024;
/// Alignment of such a buffer, so that it can be written to a device as it is.
pub const PAYLOAD_ALIGNMENT_BYTES: usize = 4096;
/// No request is taken while more reply bytes than this wait for the socket.
pub const MAX_WAITING_OUTPUT_BYTES: usize = 1024 * 1024;
/// Read data up to this length is copied behind its header; longer data is sent from where it is.
pub const COPIED_DATA_BYTES: usize = 512;
/// Pieces of memory in one vectored write.
pub const MAX_SLICES: usize = 64;

/// How often a connection looks at what it waits for.
pub const TICK: Duration = Duration::from_secs(1);
/// A client that owes bytes, or has to take some, moves at least this much in [`Timeouts::stall`], or all of it.
pub const PACE_BYTES: usize = 64 * 1024;
/// TCP asks after a silent client from then on.
pub const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
/// How often it asks.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// After how many questions without an answer the client is gone.
pub const KEEPALIVE_RETRIES: u32 = 3;

/// What an operator can set.
#[derive(Clone, Debug, Default)]
pub struct NbdConfig {
    pub limits: Limits,
    pub timeouts: Timeouts,
}

/// How much is in flight at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    pub requests_per_connection: usize,
    /// At least [`MAX_PAYLOAD_BYTES`] are taken, whatever is set: a request of that length has to fit.
    pub bytes_per_connection: usize,
    pub shared_requests: usize,
    /// At least [`MAX_PAYLOAD_BYTES`], as above.
    pub shared_bytes: usize,
}

/// How long the server waits.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the greeting to the choice of an export, apart from the time that the server needs itself.
    pub negotiation: Duration,
    /// While a client owes the rest of a request, or has to take a reply ([`PACE_BYTES`]).
    pub stall: Duration,
    /// From the order to stop until operations are given up.
    pub drain: Duration,
    /// After a stop, when all requests are answered: how long further ones are still refused before the connection ends.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: MAX_CONNECTIONS,
            requests_per_connection: MAX_REQUESTS_PER_CONNECTION,
            bytes_per_connection: MAX_BYTES_PER_CONNECTION,
            shared_requests: MAX_SHARED_REQUESTS,
            shared_bytes: MAX_SHARED_BYTES,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            negotiation: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(20),
            grace: Duration::from_millis(500),
        }
    }
}

const _: () = assert!(PIECE_BYTES.is_power_of_two() && PIECE_BYTES <= MAX_PAYLOAD_BYTES);
const _: () =
    assert!(PIECE_BYTES.is_multiple_of(PREFERRED_BLOCK_BYTES) && PREFERRED_BLOCK_BYTES.is_multiple_of(MINIMUM_BLOCK_BYTES));
const _: () = assert!(MAX_SHARED_BYTES >= MAX_PAYLOAD_BYTES as usize);
const _: () = assert!(MAX_BYTES_PER_CONNECTION >= MAX_PAYLOAD_BYTES as usize);
const _: () = assert!(INLINE_PAYLOAD_BYTES as usize <= READ_BUFFER_BYTES / 2);
