//! Every limit of this crate.

use std::time::Duration;

/// Longest entry. Above 4 MiB an object is split, and its metadata with it, so that entries are far shorter.
pub const MAX_ENTRY_BYTES: usize = 256 * 1024;
/// Entries of a group's log that are not trimmed.
pub const MAX_LOG_ENTRIES: usize = 16 * 1024;
/// Their bytes.
pub const MAX_LOG_BYTES: usize = 4 * 1024 * 1024;
/// What an entry counts besides its bytes.
pub const ENTRY_OVERHEAD_BYTES: usize = 32;
/// Entries in one message or record.
pub const MAX_BATCH_ENTRIES: usize = 1024;
/// Their bytes; a single entry may be longer.
pub const MAX_BATCH_BYTES: usize = 512 * 1024;
/// Members of a view, learners included.
pub const MAX_MEMBERS: usize = 8;
/// Longest chunk of a dump.
pub const MAX_DUMP_CHUNK_BYTES: usize = 1024 * 1024;
/// Effects of a member's records that are on their way to its medium. More appends are refused.
pub const MAX_UNPERSISTED: usize = 4096;

/// After so much rest a commit mark or a trim mark is sent alone.
pub const MARK_REST: Duration = Duration::from_millis(20);
/// After so long without progress a primary sends to a member again.
pub const RESEND_AFTER: Duration = Duration::from_millis(250);
/// After so long without an answer a report, a request for entries, for a chunk or for the manager's record is sent again.
pub const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A dump that nobody has asked for in this time is given up.
pub const DUMP_IDLE_LIMIT: Duration = Duration::from_secs(10);

const _: () = assert!(MAX_ENTRY_BYTES <= MAX_BATCH_BYTES);
const _: () = assert!(MAX_ENTRY_BYTES * 4 <= MAX_LOG_BYTES);

/// The bounds of a group's log. All members of a group have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    pub entries: usize,
    pub bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        LogLimits { entries: MAX_LOG_ENTRIES, bytes: MAX_LOG_BYTES }
    }
}
