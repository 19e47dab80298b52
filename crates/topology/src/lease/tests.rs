use super::{ClockReading, GrantedLeases, HeldLease, LeaseTerms, WRITES_AFTER_LEASE_MS};
use crate::view::View;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;
use types::{GatewayId, ViewNumber};

const VIEW: ViewNumber = ViewNumber(4);
const HOLDER: GatewayId = GatewayId(1);

fn at(nanos: u64) -> ClockReading {
    ClockReading { nanos }
}

fn view() -> View {
    View::new(VIEW, vec![HOLDER, GatewayId(2)]).unwrap()
}

/// What a clock shows at a moment of true time, if it runs `drift_ppm` off and was started at some other time.
fn reading(true_nanos: u64, drift_ppm: i64, offset: u64) -> ClockReading {
    at(offset + (u128::from(true_nanos) * (1_000_000 + drift_ppm) as u128 / 1_000_000) as u64)
}

/// Whether the granter takes the lease for held at `moment` of true time, and whether the holder reads under it.
fn both(terms: LeaseTerms, drifts: (i64, i64), (sent, received, moment): (u64, u64, u64)) -> (bool, bool) {
    let holder = |time| reading(time, drifts.0, 77);
    let granter = |time| reading(time, drifts.1, 123_456);
    let lease = HeldLease::granted(&terms, VIEW, holder(sent));
    let mut granted = GrantedLeases { terms, ends: Default::default() };
    granted.grant(HOLDER, granter(received));
    (granted.may_be_held(HOLDER, granter(moment)), lease.permits(VIEW, holder(moment)))
}

proptest! {
    /// The one property that matters: nobody goes on without a holder that still answers.
    #[test]
    fn a_lease_that_permits_reads_is_taken_for_held(
        duration in 1u64..10_000_000_000,
        drift in 0i64..200_000,
        (holder_slow, granter_fast) in any::<(bool, bool)>(),
        sent in 0u64..1 << 40,
        delay in 0u64..5_000_000_000,
        after in -1_000i64..1_000,
    ) {
        let terms = LeaseTerms::new(Duration::from_nanos(duration), drift as u64);
        let drifts = (if holder_slow { -drift } else { drift }, if granter_fast { drift } else { -drift });
        // Look around the moment at which the slowest holder's lease ends: that is where it is decided.
        let end = sent + (u128::from(duration) * 1_000_000 / (1_000_000 - drift as u128)) as u64;
        let moment = end.saturating_add_signed(after).max(sent + delay);
        let (held, permits) = both(terms, drifts, (sent, sent + delay, moment));
        prop_assert!(held || !permits);
    }

    /// A granter that restarts waits as long as for a lease granted the moment before.
    #[test]
    fn a_restarted_granter_forgets_nobody(duration in 1u64..10_000_000_000, granted_before in 0u64..1_000, now in any::<u32>()) {
        let terms = LeaseTerms::new(Duration::from_nanos(duration), 500);
        let start = at(u64::from(now) + granted_before);
        let lease = HeldLease::granted(&terms, VIEW, at(u64::from(now)));
        let granted = GrantedLeases::starting(terms, &view(), start);
        prop_assert!(granted.may_be_held(HOLDER, at(lease.ends().nanos)));
        prop_assert_eq!(granted.all_ended_at([HOLDER].into_iter(), start).is_some(), true);
    }
}

/// Without the stretch the property does not hold: the test above can fail.
#[test]
fn drift_matters() {
    let duration = 1_000_000_000;
    let honest = LeaseTerms::new(Duration::from_nanos(duration), 1_000);
    let careless = LeaseTerms::new(Duration::from_nanos(duration), 0);
    let just_before_the_slow_end = duration + 500_000;
    let times = (0, 0, just_before_the_slow_end);
    assert_eq!(both(honest, (-1_000, 1_000), times), (true, true));
    assert_eq!(both(careless, (-1_000, 1_000), times), (false, true));
}

#[test]
fn a_lease_permits_reads_of_its_view_until_it_ends() {
    let terms = LeaseTerms::new(Duration::from_nanos(100), 0);
    let lease = HeldLease::granted(&terms, VIEW, at(1000));
    assert!(lease.permits(VIEW, at(1099)));
    assert!(!lease.permits(VIEW, at(1100)));
    assert!(!lease.permits(ViewNumber(5), at(1050)));
    assert!(!lease.permits(ViewNumber(3), at(1050)));
}

#[test]
fn renewals_may_arrive_in_any_order() {
    let terms = LeaseTerms::new(Duration::from_nanos(100), 0);
    let mut lease = HeldLease::granted(&terms, VIEW, at(1000));
    lease.renew(HeldLease::granted(&terms, VIEW, at(1050)));
    lease.renew(HeldLease::granted(&terms, VIEW, at(1020)));
    assert_eq!(lease.ends(), at(1150));
    lease.renew(HeldLease::granted(&terms, ViewNumber(3), at(9000)));
    assert_eq!((lease.view(), lease.ends()), (VIEW, at(1150)));
    lease.renew(HeldLease::granted(&terms, ViewNumber(5), at(1010)));
    assert_eq!((lease.view(), lease.ends()), (ViewNumber(5), at(1110)));
}

#[test]
fn a_shrinking_view_waits_for_those_who_leave_and_only_for_them() {
    let terms = LeaseTerms::new(Duration::from_nanos(100), 0);
    let old = View::new(VIEW, vec![GatewayId(1), GatewayId(2), GatewayId(3)]).unwrap();
    let next = old.next(vec![GatewayId(1)]).unwrap();
    let mut granted = GrantedLeases::starting(terms, &old, at(0));
    granted.grant(GatewayId(1), at(500));
    granted.grant(GatewayId(2), at(200));
    granted.grant(GatewayId(3), at(150));
    granted.grant(GatewayId(2), at(120));
    let end = granted.all_ended_at(old.leaving(&next), at(210)).unwrap();
    assert_eq!(end, at(301), "gateway 2's, which is later than gateway 3's; gateway 1 stays");
    assert_eq!(granted.all_ended_at(old.leaving(&next), end), None);
    granted.forget_ended(end);
    assert!(granted.may_be_held(GatewayId(1), end) && !granted.may_be_held(GatewayId(2), at(210)));
}

#[test]
fn the_default_terms_wait_a_fifth_of_a_percent_longer() {
    assert_eq!(LeaseTerms::default().granter_nanos(), 2_004_004_006);
}

#[test]
fn writes_go_on_for_a_while_whatever_the_view() {
    let lease = HeldLease::granted(&LeaseTerms::new(Duration::from_nanos(100), 0), VIEW, at(1000));
    let over = at(1100 + WRITES_AFTER_LEASE_MS * 1_000_000);
    assert!(lease.permits_writes(at(1100)) && !lease.permits(VIEW, at(1100)));
    assert!(lease.permits_writes(ClockReading { nanos: over.nanos - 1 }) && !lease.permits_writes(over));
}
