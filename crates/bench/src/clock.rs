//! The one place where experiments read the machine's clocks.
//!
//! A load generator measures the real machine, so it has no simulated twin; still, every reading goes through here, so
//! that what is measured from when stays easy to check.
#![expect(clippy::disallowed_methods, reason = "experiments measure real time; all readings are in this file")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Now, on the monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Whole seconds since 1970 in UTC: what a signature carries.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// Nanoseconds since 1970, used only to name what one run creates.
pub fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}
