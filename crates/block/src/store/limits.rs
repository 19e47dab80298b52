//! The limits of a device's blob store.

use std::time::Duration;

/// Blocks whose headers are read at once when a store is opened.
pub const LOAD_READS: usize = 64;
/// Requests about blobs under way; others wait.
pub const MAX_REQUESTS: usize = 4_096;
/// Bytes that those write or read together. A request has up to 4 MiB.
pub const MAX_REQUEST_BYTES: usize = 256 << 20;
/// How often a store looks for units in which nothing is any more, to give their space back.
pub const RETURN_INTERVAL: Duration = Duration::from_secs(5);

/// Every request finds room at last.
const _: () = assert!(MAX_REQUEST_BYTES >= types::BLOB_BYTES as usize);
