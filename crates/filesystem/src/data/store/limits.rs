//! The limits of a store of extents.

use std::time::Duration;

/// Most requests that are under way at once; further ones wait.
pub const MAX_REQUESTS: usize = 256;
/// Most bytes of them, in whole pieces begun.
pub const MAX_REQUEST_BYTES: usize = 64 << 20;
/// A request is carried out in pieces that end at multiples of this: one write, one record of the journal.
pub const PIECE_BYTES: usize = 1 << 20;

/// The journal has one part in so many of the volume's addresses, within the next two limits.
pub const JOURNAL_SHARE: u64 = 256;
pub const MAX_JOURNAL_BYTES: u64 = 64 << 20;
/// The journal's segments; each has at least [`wal::MIN_SEGMENT_BYTES`].
pub const JOURNAL_SEGMENTS: usize = 16;
/// A checkpoint begins when so many segments hold records that are needed.
pub const CHECKPOINT_AT_SEGMENTS: usize = 6;
/// Appends and overwrites wait for a checkpoint when so many do. What gives space back uses the others.
pub const HOLD_AT_SEGMENTS: usize = 12;
/// How long requests wait after a checkpoint that has left the journal nearly full, before the next one.
pub const CHECKPOINT_RETRY: Duration = Duration::from_millis(20);

/// Pages of a checkpoint that are copied under one hold of the lock, and extents.
pub const SLICE_PAGES: usize = 64;
pub const SLICE_EXTENTS: usize = 1024;
/// Pages that one checkpoint moves to lower places, so that units get empty.
pub const MOVED_PAGES: u64 = 1024;
/// Blocks of one chunk of a directory.
pub const CHUNK_BLOCKS: u32 = 64;

/// Free blocks that appends leave for overwrites, which need new blocks before the old ones are free: two pieces.
pub const OVERWRITE_BLOCKS: u64 = 2 * (PIECE_BYTES / disk::BLOCK_BYTES) as u64;
/// Free blocks that all other requests leave for the next checkpoint, beside what it is known to need.
pub const CHECKPOINT_BLOCKS: u64 = 64;

/// The next unit gets its space when appends have less left than one part in so many of a unit.
pub const AHEAD_SHARE: u64 = 4;

/// Runs of free blocks that one search looks at.
pub const RUNS_LOOKED_AT: usize = 64;
/// Reads under way while a store is opened.
pub const LOAD_READS: usize = 32;
/// How often [`super::ExtentStore::maintain`] looks.
pub const MAINTAIN_INTERVAL: Duration = Duration::from_secs(1);
