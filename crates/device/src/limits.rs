//! The limits of a device. Every queue, buffer and retry has its name here.

use std::time::Duration;

use types::limits::BLOCK_BYTES;

/// Most bytes of one batch: what one combiner writes with one request.
pub const BATCH_BYTES: usize = 1024 * 1024;

/// Frames longer than this are written alone, from a buffer of their own, in parallel with the batches.
pub const LARGE_FRAME_BYTES: usize = 256 * 1024;

/// Most full batches that wait for one combiner's write to end; then appends are refused as busy.
pub const MAX_QUEUED_BATCHES: usize = 32;

/// Most large frames of a device that are being written at once.
pub const MAX_LARGE_IN_FLIGHT: usize = 16;

/// Most large frames of a device that wait; then they are refused as busy.
pub const MAX_LARGE_QUEUED: usize = 64;

/// Free zones that data leaves for relocation (RFD 2, decision 22): without them a full device could not be collected.
pub const RESERVE_RELOCATION_ZONES: usize = 2;
/// Of those, the ones that tombstones and meta appends leave too: to copy into. Tombstones may have the other one, because what they
/// fill is free again after a checkpoint, without a copy.
pub const RESERVE_COPY_ZONES: usize = 1;
/// Free zones that data and tombstones leave for meta appends: without one a full device could not be checkpointed.
pub const RESERVE_META_ZONES: usize = 1;
/// Free zones that data leaves for tombstones: without one a full device could not delete.
pub const RESERVE_TOMBSTONE_ZONES: usize = 1;
/// Where the file can't grow, data leaves one part in so many of the ordered stream's zone for tombstones.
pub const TOMBSTONE_SHARE: u64 = 8;
/// Fewest zones of a device: the reserves, one open zone for each stream and one to spare.
pub const MIN_ZONES: u32 = (RESERVE_RELOCATION_ZONES + RESERVE_META_ZONES + RESERVE_TOMBSTONE_ZONES + 4) as u32;

/// Zones beyond the reserve that lending to volumes leaves the log, so that objects can be written and collection has room to choose.
pub const LENDING_LEAVES_ZONES: usize = 2;
/// For how long a refused loan counts as a wish, for which collection frees zones.
pub const LENDING_WISH_TIME: Duration = Duration::from_secs(30);

/// Smallest zone: its header and a few blocks. Real devices have [`DEFAULT_ZONE_BYTES`] or more; tests have small ones.
pub const MIN_ZONE_BYTES: u64 = 16 * BLOCK_BYTES as u64;

/// Zone size where the caller names none.
pub const DEFAULT_ZONE_BYTES: u64 = 64 * 1024 * 1024;

/// On small devices the default zone size halves until there are this many zones, so that the reserve is a small share of them,
/// or until zones are as small as [`LEAST_DEFAULT_ZONE_BYTES`].
pub const WANTED_ZONES: u32 = 128;

/// Smallest zone that is chosen by default: a few chunks.
pub const LEAST_DEFAULT_ZONE_BYTES: u64 = 8 * 1024 * 1024;

/// Most zones of a device; the default zone size doubles until the zones are no more than this.
pub const MAX_ZONES: u32 = 64 * 1024;

/// Activations that may have been handed out above every one that a start finds, in zones of which it can't tell the last one. A zone is activated
/// again after all that were free before it: only one that was the last free one, over and over, had more.
pub const LOST_ACTIVATIONS: u64 = MAX_ZONES as u64;

/// The next zone of the ordered stream is made ready when the present one has less room than this, or than half a zone.
pub const NEXT_ZONE_ROOM_BYTES: u64 = 32 * 1024 * 1024;

/// Zones that the background writes with zeros ahead of their use.
pub const PREWRITE_ZONES: usize = 2;

/// Bytes of one background write of zeros; one is in flight at a time.
pub const PREWRITE_CHUNK_BYTES: usize = 512 * 1024;

/// A device whose file could not grow is tried again after this, when an append wants a zone.
pub const ALLOCATION_RETRY: Duration = Duration::from_secs(2);

/// Zone headers read at once when a device is opened.
pub const OPEN_READS: usize = 32;

/// Bytes of one read of a walk.
pub const WALK_CHUNK_BYTES: usize = 2 * 1024 * 1024;

/// How often a walk halves what it could not read, to find the blocks that are bad: each time costs two reads, and one that fails may take seconds.
pub const WALK_SPLITS: usize = 128;

/// Reads of a walk that are in flight while another is being looked through.
pub const WALK_READS: usize = 2;

/// How long a walk waits before it reads again what the disk refused because too many reads wait. As often as it takes: handed on, the refusal would
/// pass for damage, and a queue that never moves is a disk that would not have answered either.
pub const WALK_PAUSE: Duration = Duration::from_millis(5);

/// A disk that has owed an answer for so long hangs. Appends of others are given up after 2 s (`target`), and a disk that has to spin up first, or tries
/// a bad sector again and again, is not waited for either.
pub const HANG_TIME: Duration = Duration::from_secs(3);

/// How often whoever waits for a disk to hang looks whether it does.
pub(crate) const HANG_LOOK: Duration = Duration::from_millis(50);

/// Writes of one disk whose age is known. More than are under way at once, so that mostly the first place tried is free.
pub const MAX_WATCHED_WRITES: usize = 256;
/// Places that a write tries.
pub const WATCH_TRIES: usize = 4;

/// Damage that one scrub report lists; the rest is counted.
pub const MAX_SCRUB_FINDINGS: usize = 256;

/// A unit table names every zone.
const _: () = assert!(MAX_ZONES as usize <= format::unit_table::MAX_UNITS);
const _: () = assert!(RESERVE_COPY_ZONES <= RESERVE_RELOCATION_ZONES);
const _: () = assert!(BATCH_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(WALK_CHUNK_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(LARGE_FRAME_BYTES <= BATCH_BYTES);
const _: () = assert!(MIN_ZONE_BYTES.is_multiple_of(BLOCK_BYTES as u64));
