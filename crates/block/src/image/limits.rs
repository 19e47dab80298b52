//! Limits of a holder.

use std::time::Duration;

/// Requests of one image that are under way or wait for a range at once. More wait at the door, in the order of arrival; the export
/// bounds how many these are.
pub const MAX_REQUESTS: u32 = 4096;

/// Largest image: parts have numbers of 32 bits.
pub const MAX_BYTES: u64 = (u32::MAX as u64) * types::BLOB_BYTES as u64;

/// What a request begins and ends at multiples of.
pub const SECTOR_BYTES: u64 = 512;

/// The unit in which stores read and write.
pub(crate) const BLOCK_BYTES: u32 = types::limits::BLOCK_BYTES as u32;

/// For how long a request is sent again to a store that is silent or does not know the token.
pub const COPY_PATIENCE: Duration = Duration::from_secs(30);
/// The same, where other copies go on without it: then the device is taken out.
pub const LOSE_PATIENCE: Duration = Duration::from_millis(500);

/// The same, of a device that is out and comes back, or is new.
pub const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);

/// The same, when an image is opened.
pub const OPEN_PATIENCE: Duration = Duration::from_secs(4);

/// Between two such attempts.
pub const COPY_PAUSE: Duration = Duration::from_millis(100);

/// For how long a write waits for space before it fails.
pub const SPACE_PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to find space.
pub const SPACE_PAUSE: Duration = Duration::from_millis(500);

/// For how long a command that switches the layer is sent again to a registry that does not answer. Writes wait meanwhile.
pub const REGISTRY_PATIENCE: Duration = Duration::from_secs(30);
/// Between two such attempts.
pub const REGISTRY_PAUSE: Duration = Duration::from_millis(200);

/// Images below a clone: its parent, the parent's parent, and so on.
pub const MAX_CLONE_DEPTH: usize = manager::modules::images::limits::MAX_CLONE_DEPTH;

/// How often a read of a parent loads the parent's rows again before it fails.
pub const MAX_RELOADS: usize = 3;

/// Content that is copied between layers under one lock. It bounds for how long a request waits for a copy.
pub const FILL_BYTES: u32 = 256 << 10;
/// Parts that are tidied at the same time.
pub const TIDY_PARTS_AT_ONCE: usize = 4;

/// Between two looks at what an image lacks.
pub const KEEP_PAUSE: Duration = Duration::from_secs(1);

/// How long a device may be out before its blobs get copies on other devices.
pub const HEAL_DELAY: Duration = Duration::from_secs(600);

/// Content that is brought to another copy in one change.
pub const BRING_BYTES: u32 = 1 << 20;

/// For how long a read waits for the manager to confirm that the image is still this holder's.
pub const TENURE_PATIENCE: Duration = Duration::from_secs(30);
