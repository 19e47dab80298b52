//! The limits of the volume engine.

use std::time::Duration;

/// Most mutations and reads that are under way at once; further ones wait.
pub const MAX_REQUESTS: usize = 1024;
/// Latches of names. Two names may share one, which costs waits and nothing else.
pub const LATCHES: usize = 1024;

/// A piece of content is at most so long: the log engine's chunk.
pub const PIECE_BYTES: usize = types::limits::CHUNK_BYTES;
/// Content that one checksum covers.
pub const SUM_BYTES: usize = 64 * 1024;

/// The log has one part in so many of the home volume's addresses, within the limits of a segment.
pub const LOG_SHARE: u64 = 256;
/// The log's segments.
pub const LOG_SEGMENTS: usize = 8;
pub const MIN_LOG_SEGMENT_BYTES: u64 = 512 * 1024;
pub const MAX_LOG_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// A dump begins when so many segments hold records that are needed.
pub const DUMP_AT_SEGMENTS: usize = 4;
/// What needs space waits for a dump when so many do. What gives space back uses the others.
pub const HOLD_AT_SEGMENTS: usize = 6;
/// How long requests wait after a dump that has left the log nearly full, before the next one.
pub const DUMP_RETRY: Duration = Duration::from_millis(20);

/// Rows of a dump that are copied under one hold of the lock.
pub const SLICE_ROWS: usize = 512;
/// Blocks of one chunk of a dump.
pub const CHUNK_BLOCKS: u32 = 64;
/// Free blocks that puts leave for the next dump, beside what its rows are known to need.
pub const DUMP_BLOCKS: u64 = 2 * CHUNK_BLOCKS as u64;

/// Outcomes of completed uploads that are remembered, the newest.
pub const MAX_OUTCOMES: usize = 10_000;

/// The next unit gets its space when less than one part in so many of a unit is free.
pub const AHEAD_SHARE: u64 = 4;
/// Runs of free blocks that one search looks at.
pub const RUNS_LOOKED_AT: usize = 64;
/// Reads under way while a store is opened.
pub const LOAD_READS: usize = 32;
/// How often the store looks whether there is something to settle or to give back.
pub const MAINTAIN_INTERVAL: Duration = Duration::from_secs(1);
/// Most devices that a store's superblock can name.
pub const MAX_VOLUMES: usize = 200;
