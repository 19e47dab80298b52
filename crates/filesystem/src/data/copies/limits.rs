//! The limits of copies.

use std::time::Duration;

/// Extents of older reigns that may be unsettled at a time.
pub const MAX_OPEN: usize = 512;
/// Extents are settled when so many are open, or were made since the last time.
pub const SETTLE_AT: usize = 256;
/// How long a copy may take for a change, or for an enter, before it is entered anew, and then leaves.
pub const SILENCE: Duration = Duration::from_millis(1000);
/// How long a copy may take for a question of an alignment.
pub const ALIGN_PATIENCE: Duration = Duration::from_secs(5);
/// A copy in sync that has given no answer for so long does not hold up the making of others: what it alone may have is given up there.
pub const LOST_PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries of what must come to an end: a copy that can't leave, a command without an answer.
pub const REST: Duration = Duration::from_millis(100);
/// Changes of content that a primary has begun, or is about to, at a time; others wait until their callers give them up.
pub const MAX_WORKS: usize = 256;
/// KiB that these have in all.
pub const MAX_WORK_KIB: usize = 64 << 10;
/// The same of changes that give something back. They have no bytes, and end what others wait for: a full copy takes changes again.
pub const MAX_RETURNS: usize = 64;
/// How often a primary looks for copies to rebuild and extents to settle.
pub const LOOK: Duration = Duration::from_millis(250);
/// A copy whose rebuild has failed is tried again after so long.
pub const REBUILD_REST: Duration = Duration::from_secs(2);
/// Blocks whose sums are compared at once.
pub const SUMS: usize = 4096;
/// Bytes that one request of an alignment carries.
pub const PIECE: u64 = 1 << 20;
/// Extents that one listing has.
pub const LISTED: usize = 256;
/// Appends leave so much free on each copy in sync: what is under way may need it.
pub const ROOM_LEFT: u64 = 16 << 20;
