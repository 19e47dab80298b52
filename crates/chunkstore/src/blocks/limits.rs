//! The limits of a device's block store.

use std::time::Duration;

/// Blocks whose headers are read at once when a store is opened.
pub const LOAD_READS: usize = 64;
/// Requests under way that write, waiting ones included; then they are refused as busy.
pub const MAX_REQUESTS: usize = 4_096;
/// Bytes of content that those may hold together.
pub const MAX_REQUEST_BYTES: usize = 256 << 20;
/// Contents that are read at once; others wait. A content has up to 4 MiB.
pub const MAX_READS: usize = 64;
/// How often a store looks for units in which nothing is any more, to give their space back.
pub const RETURN_INTERVAL: Duration = Duration::from_secs(5);
/// Rotten contents that a store remembers for the units that own them.
pub const MAX_ROTTEN: usize = 4_096;
/// Least pause between two rounds of a scrub.
pub const SCRUB_PAUSE: Duration = Duration::from_secs(1);
/// How fast a scrub reads that was asked for.
pub const SCRUB_MIB_PER_S: u64 = 64;
/// How long a scrub that was asked for waits until what it found is made again, and how often it looks.
pub const HEAL_PATIENCE: Duration = Duration::from_secs(60);
pub const HEAL_LOOK: Duration = Duration::from_millis(500);
/// How often a content is read before it is called damaged: the first time perhaps from the page cache, then from the medium. More than one of
/// those, since the chunk may be written elsewhere meanwhile.
pub const READ_TRIES: usize = 4;
