//! A point on a machine's own time line.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since a machine's boot. Meaningless on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant `nanos` after boot.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is before.
    pub const fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long after `earlier` this is; none if it is before.
    pub fn checked_duration_since(self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }

    /// This instant moved `duration` towards the boot; the boot itself if that lies nearer.
    pub fn saturating_sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos_of(duration)))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates: 2^64 ns are 584 years, so the end of the line is "never".
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos_of(duration)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    /// Saturates at zero, as [`Instant::saturating_duration_since`].
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
