//! Serve leases: the right to answer reads under a view, for a while (RFD 2, decision 4).
//!
//! A gateway that is cut off must stop answering before the others go on without it. Clocks of two machines are never compared; both
//! sides measure a duration on their own clock, and they start measuring at moments whose order is known:
//!
//! ```text
//!   holder   ──ask──┬────────── duration ──────────┤ ends here at the latest
//!                    ╲
//!   granter           └─┬────────── duration, stretched by the drift bound ──────────┤ takes it for ended from here on
//! ```
//!
//! The holder counts from the sending of its request, the granter from receiving it, which is later. What is left is that the holder's clock may
//! run slow and the granter's fast. With a drift of at most `d` each way, `duration` on the slow clock takes up to `duration / (1 - d)`;
//! the granter waits `duration * (1 + d) / (1 - d)` on its own clock, which takes at least that long.
//!
//! Invariants:
//! - As long as a holder's lease permits reads, its granter takes it for held.
//! - A granter that restarted knows of no lease; it takes every member's for granted at the moment of its start.

use crate::view::View;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{GatewayId, ViewNumber};

/// How long a serve lease lasts by default. It is also how long writes wait for a member that can't be reached.
pub const DEFAULT_LEASE_DURATION_MS: u64 = 2_000;
/// For so long after its lease a gateway acknowledges writes: a manager that is away for a moment stops none. A view is founded beside devices that can't be
/// fenced only when this is over for everybody of the view before: who of that view still reaches each other, and such devices, would write on.
pub const WRITES_AFTER_LEASE_MS: u64 = 6_000;
/// How far a clock may be off, in parts per million. Quartz is specified at 100 or better; NTP slews by at most 500.
pub const MAX_CLOCK_DRIFT_PPM: u64 = 1_000;

const MILLION: u128 = 1_000_000;
const NANOS_PER_MS: u64 = 1_000_000;

/// A reading of one machine's own clock that counts on through suspends. Meaningless on any other machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockReading {
    pub nanos: u64,
}

impl ClockReading {
    fn after(self, nanos: u64) -> ClockReading {
        ClockReading { nanos: self.nanos.saturating_add(nanos) }
    }
}

/// What both sides agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    duration_nanos: u64,
    drift_ppm: u64,
}

impl LeaseTerms {
    /// Each clock runs at most `drift_ppm` parts per million fast or slow.
    pub fn new(duration: Duration, drift_ppm: u64) -> Self {
        let duration_nanos = u64::try_from(duration.as_nanos()).expect("a lease does not last 584 years");
        assert!(duration_nanos > 0, "a lease lasts for a while");
        assert!(u128::from(drift_ppm) < MILLION, "a clock that stands still bounds nothing");
        LeaseTerms { duration_nanos, drift_ppm }
    }

    /// How long the granter waits, in nanoseconds of its own clock.
    fn granter_nanos(&self) -> u64 {
        let drift = u128::from(self.drift_ppm);
        let stretched = (u128::from(self.duration_nanos) * (MILLION + drift)).div_ceil(MILLION - drift);
        // One more, because a reading is a moment that was rounded down.
        u64::try_from(stretched + 1).unwrap_or(u64::MAX)
    }
}

impl Default for LeaseTerms {
    fn default() -> Self {
        LeaseTerms::new(Duration::from_millis(DEFAULT_LEASE_DURATION_MS), MAX_CLOCK_DRIFT_PPM)
    }
}

/// The holder's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    view: ViewNumber,
    ends: ClockReading,
}

impl HeldLease {
    /// A request that was sent at `asked_at` has been granted.
    pub fn granted(terms: &LeaseTerms, view: ViewNumber, asked_at: ClockReading) -> Self {
        HeldLease { view, ends: asked_at.after(terms.duration_nanos) }
    }

    /// Takes in a later grant. Grants may arrive in another order than they were asked for; a lease never becomes shorter, and an older
    /// view's never replaces it.
    pub fn renew(&mut self, other: HeldLease) {
        if other.view > self.view || (other.view == self.view && other.ends > self.ends) {
            *self = other;
        }
    }

    /// Whether reads under `view` may be answered. Asked before the answer leaves, not only when the request came.
    pub fn permits(&self, view: ViewNumber, now: ClockReading) -> bool {
        self.view == view && now < self.ends
    }

    /// Whether a write may be acknowledged, whatever the view: while it is in force nobody founds another one. Asked before the acknowledgement leaves.
    pub fn permits_writes(&self, now: ClockReading) -> bool {
        now < self.ends.after(WRITES_AFTER_LEASE_MS * NANOS_PER_MS)
    }

    pub fn view(&self) -> ViewNumber {
        self.view
    }

    /// When it is over.
    pub fn ends(&self) -> ClockReading {
        self.ends
    }
}

/// The granter's side: who may still be answering reads.
#[derive(Clone, Debug)]
pub struct GrantedLeases {
    terms: LeaseTerms,
    ends: BTreeMap<GatewayId, ClockReading>,
}

impl GrantedLeases {
    /// A granter that starts at `now`: it does not know what it granted before, so it takes every member's lease for granted now.
    pub fn starting(terms: LeaseTerms, view: &View, now: ClockReading) -> Self {
        let end = now.after(terms.granter_nanos());
        GrantedLeases { terms, ends: view.members().iter().map(|member| (*member, end)).collect() }
    }

    /// Grants a request that was received at `received_at`. Only for members of the current view; the caller checks that.
    pub fn grant(&mut self, holder: GatewayId, received_at: ClockReading) {
        let end = received_at.after(self.terms.granter_nanos());
        let known = self.ends.entry(holder).or_insert(end);
        *known = end.max(*known);
    }

    /// Whether a gateway may still be answering reads.
    pub fn may_be_held(&self, holder: GatewayId, now: ClockReading) -> bool {
        self.ends.get(&holder).is_some_and(|end| now < *end)
    }

    /// From when on nobody of these can be answering reads; nothing if nobody can now. A view that leaves them out begins then.
    pub fn all_ended_at(&self, leaving: impl Iterator<Item = GatewayId>, now: ClockReading) -> Option<ClockReading> {
        leaving.filter_map(|holder| self.ends.get(&holder).copied()).filter(|end| now < *end).max()
    }

    /// Forgets leases that have ended.
    pub fn forget_ended(&mut self, now: ClockReading) {
        self.ends.retain(|_, end| now < *end);
    }
}

#[cfg(test)]
mod tests;
