use super::Lease;
use topology::{ClockReading, HeldLease, LeaseTerms};
use types::ViewNumber;

/// The answer to a heartbeat came after the gateway had ended, on a slow link: it went on answering by a view that nobody waited for.
#[test]
fn a_lease_that_comes_late_does_not_revive_a_gateway_that_has_ended() {
    let (lease, view, now) = (Lease::default(), ViewNumber(3), ClockReading { nanos: 1_000_000_000 });
    let granted = HeldLease::granted(&LeaseTerms::default(), view, now);
    lease.renew(granted);
    assert!(lease.permits(view, now));
    lease.end();
    assert!(!lease.permits(view, now));
    lease.renew(granted);
    assert!(!lease.permits(view, now));
}
