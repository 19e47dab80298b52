//! The limits of the chunk store.

/// Copies of registrations that may be pending in one unit. A put takes milliseconds, so these are far more than clients write at a time.
pub const MAX_PENDING_COPIES: usize = 3 * 65_536;
/// Relocations of one unit that may be under way.
pub const MAX_MOVING: usize = 1_024;
/// Blocks of one grant: a bulk of 1 GiB.
pub const MAX_GRANT_BLOCKS: u32 = 256;
/// How long a registration lasts. A client that needs longer for one chunk has died, or will do as well with another registration.
pub const PENDING_MS: u64 = 60_000;
/// Requests that may wait for one block of a node.
pub const MAX_WAITING_PER_BLOCK: usize = 64;
/// Tries of one call before the client is told that nothing answers.
pub const MAX_TRIES: u32 = 16;
/// How often a write is sent again to the same places before the client asks for them anew.
pub const MAX_RESENDS: u32 = 3;
